//! Following a run until it ends, or until whoever follows has seen enough.
//!
//! Following never changes a run: leaving goes unnoticed by it. Only a line typed in answer to a question is sent.

mod logs;
mod prompt;
mod screen;
mod view;

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    time::Duration,
};

use serde::Serialize;
use serde_json::json;
use windlass_core::{
    event::{Event, EventBody},
    ids::RunId,
};
use windlass_ops::{RunEnd, RunOps};

use self::{
    logs::{Logs, Told},
    prompt::{Keyboard, Prompter, Typed},
    view::View,
};
use super::{Failure, Stop, context::Context, exit};
use crate::temporal::pollers;

/// After this long without a sign of life somebody should look for a worker.
const PATIENCE: Duration = Duration::from_secs(3);
/// Between two questions to a server that does not answer.
const RETRY: Duration = Duration::from_secs(1);

/// How to follow.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// Who answers at the keyboard.
    pub(crate) actor: String,
    /// Whether to leave when the run waits for somebody.
    pub(crate) until_waiting: bool,
}

/// Why following ended.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Ending {
    Completed {
        text: String,
    },
    Failed,
    Cancelled,
    /// The run goes on.
    Left,
}

/// Shows a run until it ends. The answer is data and goes to stdout, unless it has just been shown to the same person.
pub(crate) async fn follow(context: &Context, run: &RunId, options: &Options) -> Result<ExitCode, Failure> {
    let json = context.out.json;
    let mut follower = Follower {
        context,
        run,
        options,
        // JSON is for programs, and they do not type.
        view: (!json).then(|| View::new(run, context.hint.clone(), Prompter::at_terminal(&options.actor))),
        waits: 0,
    };
    let ending = follower.until_its_end().await;
    if let Some(view) = &mut follower.view {
        view.close();
    }
    Ok(match ending? {
        Ending::Completed { text } => {
            let shown = io::stdout().is_terminal() && io::stderr().is_terminal();
            if !json && !shown {
                context.out.line(text);
            }
            ExitCode::SUCCESS
        }
        Ending::Failed => ExitCode::from(exit::FAILED),
        Ending::Cancelled => ExitCode::from(exit::CANCELLED),
        Ending::Left => {
            context.out.note(format!(
                "{run} goes on without you\n  follow it:  {}\n  cancel it:  {}",
                context.hint.command(&format!("runs attach {run}")),
                context.hint.command(&format!("runs cancel {run}")),
            ));
            ExitCode::from(exit::DETACHED)
        }
    })
}

struct Follower<'a> {
    context: &'a Context,
    run: &'a RunId,
    options: &'a Options,
    view: Option<View>,
    /// How many awaits are open.
    waits: usize,
}

/// What woke the follower.
enum Wake {
    News,
    Ended(Option<RunEnd>),
    Leave,
    Silence,
    Line(Option<String>),
}

impl Follower<'_> {
    async fn until_its_end(&mut self) -> Result<Ending, Failure> {
        let mut stop = Stop::listen()?;
        let mut keyboard = Keyboard::new();
        let mut logs = Logs::of(self.context.store().clone(), self.run.clone(), 0);
        let mut end = std::pin::pin!(end_of(&self.context.ops, self.run));
        let mut silence = std::pin::pin!(tokio::time::sleep(PATIENCE));
        let (mut heard, mut silent, mut ended) = (false, false, None);
        loop {
            for told in logs.news().await? {
                heard = true;
                if let Some(ending) = self.tell(told).await? {
                    return Ok(ending);
                }
            }
            if let Some(end) = ended.take() {
                return self.without_last_word(end);
            }
            if self.options.until_waiting && self.waits > 0 {
                return Ok(Ending::Left);
            }
            let asking = self.view.as_mut().is_some_and(View::ask);
            let wake = tokio::select! {
                () = logs.changed() => Wake::News,
                end = &mut end => Wake::Ended(end),
                () = stop.asked() => Wake::Leave,
                () = &mut silence, if !heard && !silent => Wake::Silence,
                line = keyboard.line(), if asking => Wake::Line(line),
            };
            match wake {
                Wake::News => {}
                // The log gets its last event before the workflow ends: it is there now or never.
                Wake::Ended(end) => ended = Some(end),
                Wake::Leave | Wake::Line(None) => return Ok(Ending::Left),
                Wake::Silence => {
                    silent = true;
                    self.look_for_worker().await;
                }
                Wake::Line(Some(line)) => self.typed(&line).await?,
            }
        }
    }

    async fn tell(&mut self, told: Told) -> Result<Option<Ending>, Failure> {
        let Told { run, depth, mut event } = told;
        let body = event.body();
        match &body {
            Ok(EventBody::AwaitOpened { item }) => {
                self.waits += 1;
                let mut item = item.clone();
                self.context.complete(&mut item).await?;
                event.data = EventBody::AwaitOpened { item }.split()?.1;
            }
            Ok(EventBody::AwaitClosed { .. }) => self.waits = self.waits.saturating_sub(1),
            _ => {}
        }
        match &mut self.view {
            Some(view) => view.tell(&run, depth, &event),
            None => self.context.out.document(&JsonEvent { run_id: &run, event: &event })?,
        }
        if depth > 0 {
            return Ok(None);
        }
        Ok(match body {
            Ok(EventBody::Result { text, error: None, .. }) => Some(Ending::Completed { text }),
            Ok(EventBody::Result { .. } | EventBody::Error { .. }) => Some(Ending::Failed),
            Ok(EventBody::Cancelled { .. }) => Some(Ending::Cancelled),
            _ => None,
        })
    }

    /// The run ended without a last event: it never got as far as its log, or was terminated.
    fn without_last_word(&mut self, end: Option<RunEnd>) -> Result<Ending, Failure> {
        let message = end.as_ref().map_or_else(|| "its log has no last event".to_owned(), ToString::to_string);
        match &mut self.view {
            Some(view) => view.failed(&message),
            None => {
                let code = match &end {
                    Some(RunEnd::Failed { code, .. }) => code.as_str(),
                    _ => "",
                };
                let data = json!({"code": code, "error": message});
                self.context.out.document(&json!({"runId": self.run, "type": "error", "data": data}))?;
            }
        }
        Ok(if end == Some(RunEnd::Cancelled) { Ending::Cancelled } else { Ending::Failed })
    }

    async fn look_for_worker(&mut self) {
        let Some(view) = &mut self.view else { return };
        let ops = &self.context.ops;
        let found = pollers(ops.client(), ops.task_queue()).await;
        if found.is_ok_and(|found| found.workflows.is_empty()) {
            view.note(&format!(
                "no worker polls task queue {}; the run starts when one does: {}",
                ops.task_queue(),
                self.context.hint.command("worker")
            ));
        }
    }

    async fn typed(&mut self, line: &str) -> Result<(), Failure> {
        let Some(view) = &mut self.view else { return Ok(()) };
        let Typed::Send(run, answer) = view.typed(line) else { return Ok(()) };
        match super::runs::send(self.context, &run, &answer).await {
            Ok(reply) => view.replied(&run, &answer.await_id, &reply),
            // The question stays open; it will be put again.
            Err(failure) => view.note(&failure.to_string()),
        }
        Ok(())
    }
}

/// How the run ended, as the server says; `None` for a good end. A server that is away is waited for.
async fn end_of(ops: &RunOps, run: &RunId) -> Option<RunEnd> {
    loop {
        match ops.result(run).await {
            Err(RunEnd::Unknown { message }) => {
                tracing::debug!(message, "the server did not say how the run ended");
                tokio::time::sleep(RETRY).await;
            }
            ended => return ended.err(),
        }
    }
}

/// An event of one of several runs.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct JsonEvent<'a> {
    run_id: &'a RunId,
    #[serde(flatten)]
    event: &'a Event,
}
