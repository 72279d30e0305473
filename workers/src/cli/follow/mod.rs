//! Following a run until it ends or the user stops.
//!
//! Following does not affect the run. Only a line typed as an answer is sent to it.

mod prompt;
mod screen;
mod view;

use std::{
    collections::VecDeque,
    io::{self, IsTerminal as _},
    process::ExitCode,
    time::Duration,
};

use serde::Serialize;
use serde_json::json;
use windlass_client::Lost;
use windlass_core::{
    envelope::{Actor, Answer, AnswerReply, AnswerStatus},
    event::{Event, EventBody},
    ids::RunId,
};
use windlass_ops::RunEnd;

use self::{
    prompt::{Keyboard, Prompter, Typed},
    view::View,
};
use super::{
    Failure, Stop, exit,
    reach::{News, Reach, RunEvent},
};

/// If there is no event for this long, the command checks whether a worker polls the task queue.
const SILENCE: Duration = Duration::from_secs(3);
/// The pause before answers that were not delivered are sent again.
const RETRY: Duration = Duration::from_secs(1);

/// How to follow.
#[derive(Debug, Clone)]
pub(crate) struct Options {
    /// The person at the keyboard.
    pub(crate) actor: Actor,
    /// Whether to stop when the run waits for an answer.
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
    /// The run continues.
    Left,
}

/// Shows a run until it ends. The final answer is data: it is printed on stdout, unless stdout is the terminal that already
/// shows it.
pub(crate) async fn follow(reach: &Reach, run: &RunId, options: &Options) -> Result<ExitCode, Failure> {
    let (out, hint) = (reach.out(), reach.hint());
    let json = out.json;
    let mut follower = Follower {
        reach,
        run,
        options,
        // With JSON output there are no prompts.
        view: (!json).then(|| View::new(run, hint.clone(), Prompter::at_terminal(&options.actor))),
        waits: 0,
        away: false,
        kept: VecDeque::new(),
    };
    let ending = follower.until_its_end().await;
    if let Some(view) = &mut follower.view {
        view.close();
    }
    for (_, answer) in &follower.kept {
        out.note(format!("your answer to {} was not sent: the server did not respond", answer.await_id));
    }
    Ok(match ending? {
        Ending::Completed { text } => {
            let shown = io::stdout().is_terminal() && io::stderr().is_terminal();
            if !json && !shown {
                out.line(text);
            }
            ExitCode::SUCCESS
        }
        Ending::Failed => ExitCode::from(exit::FAILED),
        Ending::Cancelled => ExitCode::from(exit::CANCELLED),
        Ending::Left => {
            let goes_on = if reach.serves_here() { "is stopped until the next command" } else { "continues" };
            out.note(format!(
                "{run} {goes_on}\n  follow it:  {}\n  cancel it:  {}",
                hint.command(&format!("runs attach {run}")),
                hint.command(&format!("runs cancel {run}")),
            ));
            ExitCode::from(exit::DETACHED)
        }
    })
}

struct Follower<'a> {
    reach: &'a Reach,
    run: &'a RunId,
    options: &'a Options,
    view: Option<View>,
    /// How many awaits are open.
    waits: usize,
    /// Whether the server does not respond, and this was shown.
    away: bool,
    /// Answers that were typed and not delivered yet. Sending an answer again is safe: it is accepted once.
    kept: VecDeque<(RunId, Answer)>,
}

/// Why the follower woke up.
enum Wake {
    News,
    Ended(Option<RunEnd>),
    Leave,
    Silence,
    Line(Option<String>),
    SendAgain,
}

impl Follower<'_> {
    async fn until_its_end(&mut self) -> Result<Ending, Failure> {
        let mut stop = Stop::listen()?;
        let mut keyboard = Keyboard::new();
        let mut feed = self.reach.feed(self.run).await?;
        let mut end = std::pin::pin!(self.reach.ended(self.run));
        let mut silence = std::pin::pin!(tokio::time::sleep(SILENCE));
        let (mut heard, mut silent, mut ended) = (false, false, None);
        loop {
            for news in feed.news().await? {
                heard = true;
                match news {
                    News::Event(event) => {
                        if let Some(ending) = self.show(event)? {
                            return Ok(ending);
                        }
                    }
                    News::ServerLost(lost) => self.server_gone(&lost)?,
                    News::ServerBack => {
                        self.server_back()?;
                        self.send_kept().await;
                    }
                    News::GaveUp(why) => {
                        self.reach.out().note(why);
                        return Ok(Ending::Left);
                    }
                }
            }
            if let Some(end) = ended.take() {
                return self.without_terminal_event(end);
            }
            if self.options.until_waiting && self.waits > 0 {
                return Ok(Ending::Left);
            }
            let asking = self.view.as_mut().is_some_and(View::ask);
            let wake = tokio::select! {
                () = feed.changed() => Wake::News,
                end = &mut end => Wake::Ended(end),
                () = stop.asked() => Wake::Leave,
                () = &mut silence, if !heard && !silent => Wake::Silence,
                line = keyboard.line(), if asking => Wake::Line(line),
                () = tokio::time::sleep(RETRY), if !self.kept.is_empty() && !self.away => Wake::SendAgain,
            };
            match wake {
                Wake::News => {}
                // The terminal event is written before the workflow ends, so it can be read now.
                Wake::Ended(end) => ended = Some(end),
                Wake::Leave | Wake::Line(None) => return Ok(Ending::Left),
                Wake::Silence => {
                    silent = true;
                    self.look_for_worker().await;
                }
                Wake::Line(Some(line)) => self.typed(&line).await,
                Wake::SendAgain => self.send_kept().await,
            }
        }
    }

    fn show(&mut self, event: RunEvent) -> Result<Option<Ending>, Failure> {
        let RunEvent { run, depth, event } = event;
        let body = event.body();
        match &body {
            Ok(EventBody::AwaitOpened { .. }) => self.waits += 1,
            Ok(EventBody::AwaitClosed { .. }) => self.waits = self.waits.saturating_sub(1),
            _ => {}
        }
        match &mut self.view {
            Some(view) => view.show_event(&run, depth, &event),
            None => self.reach.out().document(&JsonEvent { run_id: &run, event: &event })?,
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

    /// The run ended without a terminal event: it failed before it was opened, or it was terminated.
    fn without_terminal_event(&mut self, end: Option<RunEnd>) -> Result<Ending, Failure> {
        let message = end.as_ref().map_or_else(|| "its log has no terminal event".to_owned(), ToString::to_string);
        match &mut self.view {
            Some(view) => view.failed(&message),
            None => {
                let code = match &end {
                    Some(RunEnd::Failed { code, .. }) => code.as_str(),
                    _ => "",
                };
                let data = json!({"code": code, "error": message});
                self.reach.out().document(&json!({"runId": self.run, "type": "error", "data": data}))?;
            }
        }
        Ok(if end == Some(RunEnd::Cancelled) { Ending::Cancelled } else { Ending::Failed })
    }

    /// Shown once, however many attempts fail.
    fn server_gone(&mut self, lost: &Lost) -> Result<(), Failure> {
        if std::mem::replace(&mut self.away, true) {
            return Ok(());
        }
        match &mut self.view {
            Some(view) => view.server_gone(),
            None => {
                let data = json!({"reason": lost.reason});
                self.reach.out().document(&json!({"runId": self.run, "type": "server_gone", "data": data}))?;
            }
        }
        Ok(())
    }

    fn server_back(&mut self) -> Result<(), Failure> {
        if !std::mem::take(&mut self.away) {
            return Ok(());
        }
        match &mut self.view {
            Some(view) => view.server_back(),
            None => self.reach.out().document(&json!({"runId": self.run, "type": "server_back", "data": {}}))?,
        }
        Ok(())
    }

    async fn look_for_worker(&mut self) {
        let Some(view) = &mut self.view else { return };
        if let Some(task_queue) = self.reach.unpolled_task_queue().await {
            let command = self.reach.hint().command("worker");
            view.note(&format!("no worker polls task queue {task_queue}; the run starts when one does: {command}"));
        }
    }

    async fn typed(&mut self, line: &str) {
        let Some(view) = &mut self.view else { return };
        match view.typed(line) {
            Typed::Send(run, answer) if self.away => self.keep(run, *answer),
            Typed::Send(run, answer) => match self.reach.send(&run, (*answer).clone()).await {
                Ok(reply) => view.replied(&run, &answer.await_id, &reply),
                Err(failure) if failure.is_temporary() => self.keep(run, *answer),
                Err(failure) => {
                    view.note(&failure.to_string());
                    view.ask_again(&run, &answer.await_id);
                }
            },
            Typed::Later(run, item) => view.left_open(&run, &item),
            Typed::Again(hint) => hint.into_iter().for_each(|hint| view.note(hint)),
        }
    }

    fn keep(&mut self, run: RunId, answer: Answer) {
        if let Some(view) = &mut self.view {
            view.note(&format!(
                "the server does not respond; the answer to {} will be sent when it does",
                answer.await_id
            ));
        }
        self.kept.push_back((run, answer));
    }

    /// Sends the kept answers in the order in which they were typed, until an attempt fails.
    async fn send_kept(&mut self) {
        while let (Some((run, answer)), Some(view)) = (self.kept.front(), &mut self.view) {
            let (run, id) = (run.clone(), answer.await_id.clone());
            match self.reach.send(&run, (*answer).clone()).await {
                Err(failure) if failure.is_temporary() => return,
                Err(failure) => {
                    view.note(&failure.to_string());
                    view.ask_again(&run, &id);
                }
                // The first attempt was delivered; only its reply was lost.
                Ok(reply) if reply.status == AnswerStatus::Duplicate => {
                    view.replied(&run, &id, &AnswerReply::new(AnswerStatus::Accepted, reply.message));
                }
                Ok(reply) => view.replied(&run, &id, &reply),
            }
            self.kept.pop_front();
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
