//! Following a run to its end and executing its local tools in this process.

use std::{collections::HashSet, time::Instant};

use futures_util::StreamExt as _;
use tokio::task::JoinSet;
use windlass_core::ids::{CallId, RunId};

use crate::{Client, Error, Event, EventBody, Outcome, RunSpec, Tools, Update, stream::pauses, tools::CallResult};

impl Client {
    /// Starts a run, executes its local tools and waits for its answer.
    pub async fn run(&self, spec: &RunSpec, tools: &Tools) -> Result<Outcome, Error> {
        self.run_watched(spec, tools, |_| {}).await
    }

    /// [`Client::run`] that calls `watch` with every update of the run's stream.
    pub async fn run_watched(
        &self,
        spec: &RunSpec,
        tools: &Tools,
        watch: impl FnMut(&Update<Event>),
    ) -> Result<Outcome, Error> {
        let run = self.start(spec, tools).await?;
        let schema = spec.agent.settings.output_schema.as_ref().map(|schema| schema.schema.clone());
        let outcome = self.drive(&run, tools, &HashSet::new(), watch).await?;
        Ok(Outcome { schema, ..outcome })
    }

    /// Follows a run that was started elsewhere, or earlier by this process, and executes those of its local calls that
    /// have no result yet.
    pub async fn attach(
        &self,
        run: &RunId,
        tools: &Tools,
        watch: impl FnMut(&Update<Event>),
    ) -> Result<Outcome, Error> {
        let mut answered = HashSet::new();
        // The log has the result of every call; the stream leaves out some.
        for event in self.log_so_far(run, 0).await? {
            if matches!(event.kind.as_str(), "local_tool_result_in" | "tool_result") {
                answered.extend(event.data["toolUseId"].as_str().map(CallId::from));
            }
        }
        self.drive(run, tools, &answered, watch).await
    }

    /// Follows a run from its first event. Calls in `answered` are not executed.
    pub(crate) async fn drive(
        &self,
        run: &RunId,
        tools: &Tools,
        answered: &HashSet<CallId>,
        mut watch: impl FnMut(&Update<Event>),
    ) -> Result<Outcome, Error> {
        let mut updates = self.stream(run, 0);
        // Dropped when the run has ended, which stops the calls that are still being executed.
        let mut calls = JoinSet::new();
        loop {
            let update = tokio::select! {
                update = updates.next() => update,
                Some(delivered) = calls.join_next() => {
                    // A handler's panic is caught where it is called, and no call is aborted while the set lives.
                    delivered.unwrap_or(Ok(()))?;
                    continue;
                }
            };
            let Some(update) = update else { break };
            let update = update?;
            watch(&update);
            let Update::Event(event) = update else { continue };
            match &event.body {
                EventBody::LocalToolCall { tool_use_id: call, name, args, .. }
                    if !answered.contains(call) && tools.begin(run, call) =>
                {
                    let (client, run, call) = (self.clone(), run.clone(), call.clone());
                    let result = tools.call(name, args.clone());
                    calls.spawn(async move { client.deliver(&run, &call, result.await).await });
                }
                _ if event.is_terminal() => {
                    tools.forget(run);
                    return Outcome::of(run, event);
                }
                _ => {}
            }
        }
        let reason = "the stream ended without a terminal event".to_owned();
        Err(Error::InvalidResponse { url: run.to_string(), reason })
    }

    /// Sends a result to the run, also while its server restarts. If the call no longer waits for a result, nothing is
    /// sent and that is no error.
    async fn deliver(&self, run: &RunId, call: &CallId, result: CallResult) -> Result<(), Error> {
        let began = Instant::now();
        let mut pauses = pauses(self.options());
        let result = result.as_deref().map_err(String::as_str);
        while let Err(error) = self.tool_result(run, call, result).await {
            // The call has a result already, or the run has ended.
            if matches!(error.status(), Some(404 | 409)) {
                return Ok(());
            }
            let pause =
                pauses.next().filter(|_| error.is_transient() && began.elapsed() < self.options().give_up_after);
            let Some(pause) = pause else {
                return Err(Error::ToolResult { run: run.clone(), call: call.clone(), reason: Box::new(error) });
            };
            tokio::time::sleep(pause).await;
        }
        Ok(())
    }
}
