//! Following a run to its end while its local tools are executed here.

use std::time::Instant;

use futures_util::StreamExt as _;
use serde_json::Value;
use tokio::task::JoinSet;
use windlass_core::ids::{CallId, RunId};

use crate::{Client, Error, Event, EventBody, Outcome, RunSpec, Tools, Update, stream::pauses, tools::CallResult};

impl Client {
    /// Starts a run, executes its local tools and waits for its answer.
    pub async fn run(&self, spec: &RunSpec, tools: &Tools) -> Result<Outcome, Error> {
        self.run_watched(spec, tools, |_| {}).await
    }

    /// The same, while somebody watches.
    pub async fn run_watched(
        &self,
        spec: &RunSpec,
        tools: &Tools,
        watch: impl FnMut(&Update<Event>),
    ) -> Result<Outcome, Error> {
        let run = self.start(spec, tools).await?;
        let schema = spec.agent.settings.output_schema.as_ref().map(|schema| schema.schema.clone());
        let outcome = self.drive(&run, tools, 0, watch).await?;
        Ok(Outcome { schema, ..outcome })
    }

    /// Follows a run that was started elsewhere, or by this process before, and executes what it still wants executed.
    pub async fn attach(
        &self,
        run: &RunId,
        tools: &Tools,
        watch: impl FnMut(&Update<Event>),
    ) -> Result<Outcome, Error> {
        let past = self.get(run).await?.last_seq.unwrap_or(0);
        self.drive(run, tools, past, watch).await
    }

    /// Calls of the past (up to this event) are only made if the past does not answer them.
    pub(crate) async fn drive(
        &self,
        run: &RunId,
        tools: &Tools,
        past: u64,
        mut watch: impl FnMut(&Update<Event>),
    ) -> Result<Outcome, Error> {
        let mut updates = self.stream(run, 0);
        let mut wanted: Vec<(CallId, String, Value)> = Vec::new();
        // What is still at work when the run has ended is no longer needed, and stops.
        let mut at_work = JoinSet::new();
        while let Some(update) = updates.next().await {
            let update = update?;
            watch(&update);
            let Update::Event(event) = update else { continue };
            match &event.body {
                EventBody::LocalToolCall { tool_use_id, name, args, .. } => {
                    wanted.push((tool_use_id.clone(), name.clone(), args.clone()));
                }
                EventBody::LocalToolResultIn { tool_use_id } | EventBody::ToolResult { tool_use_id, .. } => {
                    wanted.retain(|(call, ..)| call != tool_use_id);
                }
                _ if event.is_terminal() => {
                    tools.forget(run);
                    return Outcome::of(run, event);
                }
                _ => {}
            }
            if event.seq >= past {
                for (call, name, args) in wanted.drain(..).filter(|(call, ..)| tools.begin(run, call)) {
                    let (client, run, result) = (self.clone(), run.clone(), tools.call(&name, args));
                    at_work.spawn(async move { client.deliver(&run, &call, result.await).await });
                }
            }
            while at_work.try_join_next().is_some() {}
        }
        let reason = "its events ended without a terminal one".to_owned();
        Err(Error::Unintelligible { url: run.to_string(), reason })
    }

    /// Brings a result to the run, through restarts of its server. One that is no longer wanted is let go.
    async fn deliver(&self, run: &RunId, call: &CallId, result: CallResult) {
        let began = Instant::now();
        let mut pauses = pauses(self.options());
        let result = result.as_deref().map_err(String::as_str);
        while let Err(error) = self.tool_result(run, call, result).await {
            let pause = pauses.next().filter(|_| error.may_pass() && began.elapsed() < self.options().give_up_after);
            let Some(pause) = pause else { return };
            tokio::time::sleep(pause).await;
        }
    }
}
