//! `windlass runs pause | resume | steer | cancel`: durable requests, and what the run made of them.

use std::{process::ExitCode, time::Duration};

use clap::Args;
use futures_util::StreamExt as _;
use serde_json::json;
use windlass_client::Update;
use windlass_core::{
    envelope::{PauseRequest, ResumeRequest, SteerRequest},
    event::{Event, EventBody},
    ids::RunId,
};

use super::RunArg;
use crate::cli::{Failure, exit, person::Person, reach::Reach, refused};

/// How long to wait for the run's own word. The request itself is durable and needs no waiting.
const PATIENCE: Duration = Duration::from_secs(3);

#[derive(Debug, Args)]
pub struct PauseArgs {
    #[command(flatten)]
    run: RunArg,
    /// Why, for the log
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    pub(super) person: Person,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    run: RunArg,
    /// Say this to the model before it goes on
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,
    /// Note for the log
    #[arg(long, value_name = "TEXT", default_value = "")]
    notes: String,
    #[command(flatten)]
    pub(super) person: Person,
}

#[derive(Debug, Args)]
pub struct SteerArgs {
    #[command(flatten)]
    run: RunArg,
    /// What the model must hear
    text: String,
    #[command(flatten)]
    pub(super) person: Person,
}

#[derive(Debug, Args)]
pub struct CancelArgs {
    #[command(flatten)]
    run: RunArg,
    /// Why, for the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(super) async fn pause(reach: &Reach, args: PauseArgs) -> Result<ExitCode, Failure> {
    let run = args.run.run;
    let echo = Echo::listen(reach, &run).await?;
    let request = PauseRequest { reason: args.reason, requested_by: args.person.actor(), ..PauseRequest::default() };
    reach.pause(&run, request).await?;
    echo.report("pause", "paused").await
}

pub(super) async fn resume(reach: &Reach, args: ResumeArgs) -> Result<ExitCode, Failure> {
    let run = args.run.run;
    let echo = Echo::listen(reach, &run).await?;
    let request = ResumeRequest { notes: args.notes, requested_by: args.person.actor(), ..ResumeRequest::default() };
    reach.resume(&run, request, args.message).await?;
    echo.report("resume", "resumed").await
}

pub(super) async fn steer(reach: &Reach, args: SteerArgs) -> Result<ExitCode, Failure> {
    let run = args.run.run;
    let echo = Echo::listen(reach, &run).await?;
    let request = SteerRequest { text: args.text, requested_by: args.person.actor(), ..SteerRequest::default() };
    reach.steer(&run, request).await?;
    echo.report("steer", "steered").await
}

pub(super) async fn cancel(reach: &Reach, args: CancelArgs) -> Result<ExitCode, Failure> {
    let run = args.run.run;
    let echo = Echo::listen(reach, &run).await?;
    reach.cancel(&run, args.reason.as_deref()).await?;
    echo.report("cancel", "cancelled").await
}

/// Listens to a run's log for its word on a request.
struct Echo<'a> {
    reach: &'a Reach,
    run: RunId,
    after: u64,
}

/// What the run made of a request.
#[derive(Debug, PartialEq, Eq)]
enum Word {
    Obeyed,
    Refused(String),
    /// It ended before.
    Ended(String),
}

impl<'a> Echo<'a> {
    /// From before the request is sent, so that the word on it cannot be missed.
    async fn listen(reach: &'a Reach, run: &RunId) -> Result<Self, Failure> {
        let row = reach.row(run).await?;
        if let Some(row) = row.as_ref().filter(|row| row.status.is_terminal()) {
            return Err(refused(format!("{run} is {} already; nothing was sent", row.status.as_str())));
        }
        Ok(Self { reach, run: run.clone(), after: row.map_or(0, |row| row.last_seq) })
    }

    async fn report(self, request: &str, obeyed: &str) -> Result<ExitCode, Failure> {
        let run = &self.run;
        let word = tokio::time::timeout(PATIENCE, self.word(request, obeyed)).await;
        let (state, text, code) = match word.ok().transpose()? {
            Some(Word::Obeyed) => (obeyed, format!("{run} {obeyed}"), 0),
            Some(Word::Refused(why)) => ("refused", format!("{run} refused: {why}"), exit::REFUSED),
            Some(Word::Ended(how)) => ("ended", format!("{run} ended first ({how})"), exit::REFUSED),
            None => (
                "sent",
                format!("{request} sent to {run}; it takes effect once a worker has ended the step under way"),
                0,
            ),
        };
        let document = json!({"runId": run, "request": request, "state": state, "message": text});
        self.reach.out().print(&document, || text.clone())?;
        Ok(ExitCode::from(code))
    }

    async fn word(&self, request: &str, obeyed: &str) -> Result<Word, Failure> {
        let mut log = self.reach.log(&self.run, self.after);
        while let Some(update) = log.next().await {
            if let Update::Event(event) = update?
                && let Some(word) = word_in(&event, request, obeyed)
            {
                return Ok(word);
            }
        }
        // A log without a last word.
        std::future::pending().await
    }
}

fn word_in(event: &Event, request: &str, obeyed: &str) -> Option<Word> {
    match event.body() {
        _ if event.kind == obeyed => Some(Word::Obeyed),
        Ok(EventBody::SignalRejected { signal, message }) if signal.ends_with(request) => Some(Word::Refused(message)),
        _ if event.is_terminal() => Some(Word::Ended(event.kind.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_core::time::Timestamp;

    use super::*;

    #[test]
    fn the_log_says_what_became_of_a_request() {
        let word = |kind: &str, data: Value| {
            let event = Event { seq: 1, at: Timestamp(0), key: "k".into(), kind: kind.into(), data };
            word_in(&event, "pause", "paused")
        };
        let rejected = |signal: &str| json!({"signal": signal, "message": "no"});
        assert_eq!(word("paused", json!({"reason": "", "requestedBy": ""})), Some(Word::Obeyed));
        assert_eq!(word("signal_rejected", rejected("pause")), Some(Word::Refused("no".into())));
        assert_eq!(word("signal_rejected", rejected("windlass.pause")), Some(Word::Refused("no".into())));
        assert_eq!(word("signal_rejected", rejected("steer")), None);
        assert_eq!(word("result", json!({})), Some(Word::Ended("result".into())));
        assert_eq!(word("usage", json!({})), None);
    }
}
