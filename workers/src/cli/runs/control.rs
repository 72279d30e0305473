//! `windlass runs pause | resume | steer | cancel`: durable requests, and the run's reaction in its log.

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

/// How long to wait for the run's reaction. The request itself is already durable.
const REACTION_TIMEOUT: Duration = Duration::from_secs(3);

#[derive(Debug, Args)]
pub struct PauseArgs {
    #[command(flatten)]
    run: RunArg,
    /// Reason, for the log
    #[arg(long, value_name = "TEXT", default_value = "")]
    reason: String,
    #[command(flatten)]
    pub(super) person: Person,
}

#[derive(Debug, Args)]
pub struct ResumeArgs {
    #[command(flatten)]
    run: RunArg,
    /// User message for the model
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
    /// User message for the model
    text: String,
    #[command(flatten)]
    pub(super) person: Person,
}

#[derive(Debug, Args)]
pub struct CancelArgs {
    #[command(flatten)]
    run: RunArg,
    /// Reason, for the log
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
}

pub(super) async fn pause(reach: &Reach, args: PauseArgs) -> Result<ExitCode, Failure> {
    let run = args.run.run;
    let reader = ReactionReader::before(reach, &run).await?;
    let request = PauseRequest { reason: args.reason, requested_by: args.person.actor(), ..PauseRequest::default() };
    reach.pause(&run, request).await?;
    reader.report("pause", "paused").await
}

pub(super) async fn resume(reach: &Reach, args: ResumeArgs) -> Result<ExitCode, Failure> {
    let run = args.run.run;
    let reader = ReactionReader::before(reach, &run).await?;
    let request = ResumeRequest { notes: args.notes, requested_by: args.person.actor(), ..ResumeRequest::default() };
    reach.resume(&run, request, args.message).await?;
    reader.report("resume", "resumed").await
}

pub(super) async fn steer(reach: &Reach, args: SteerArgs) -> Result<ExitCode, Failure> {
    let run = args.run.run;
    let reader = ReactionReader::before(reach, &run).await?;
    let request = SteerRequest { text: args.text, requested_by: args.person.actor(), ..SteerRequest::default() };
    reach.steer(&run, request).await?;
    reader.report("steer", "steered").await
}

pub(super) async fn cancel(reach: &Reach, args: CancelArgs) -> Result<ExitCode, Failure> {
    let run = args.run.run;
    let reader = ReactionReader::before(reach, &run).await?;
    reach.cancel(&run, args.reason.as_deref()).await?;
    reader.report("cancel", "cancelled").await
}

/// Reads a run's log for its reaction to a request.
struct ReactionReader<'a> {
    reach: &'a Reach,
    run: RunId,
    after: u64,
}

/// The run's reaction to a request.
#[derive(Debug, PartialEq, Eq)]
enum Reaction {
    Done,
    Rejected(String),
    /// The run ended first.
    Ended(String),
}

impl<'a> ReactionReader<'a> {
    /// Called before the request is sent, so that the reaction cannot be missed.
    async fn before(reach: &'a Reach, run: &RunId) -> Result<Self, Failure> {
        let row = reach.row(run).await?;
        if let Some(row) = row.as_ref().filter(|row| row.status.is_terminal()) {
            return Err(refused(format!("{run} is already {}; the request was not sent", row.status.as_str())));
        }
        Ok(Self { reach, run: run.clone(), after: row.map_or(0, |row| row.last_seq) })
    }

    async fn report(self, request: &str, obeyed: &str) -> Result<ExitCode, Failure> {
        let run = &self.run;
        let reaction = tokio::time::timeout(REACTION_TIMEOUT, self.reaction(request, obeyed)).await;
        let (state, text, code) = match reaction.ok().transpose()? {
            Some(Reaction::Done) => (obeyed, format!("{run} {obeyed}"), 0),
            Some(Reaction::Rejected(why)) => ("refused", format!("{run} rejected the request: {why}"), exit::REFUSED),
            Some(Reaction::Ended(how)) => {
                ("ended", format!("{run} ended before the request took effect ({how})"), exit::REFUSED)
            }
            None => (
                "sent",
                format!("{request} sent to {run}; it takes effect when a worker has completed the current step"),
                0,
            ),
        };
        let document = json!({"runId": run, "request": request, "state": state, "message": text});
        self.reach.out().print(&document, || text.clone())?;
        Ok(ExitCode::from(code))
    }

    async fn reaction(&self, request: &str, obeyed: &str) -> Result<Reaction, Failure> {
        let mut log = self.reach.log(&self.run, self.after);
        while let Some(update) = log.next().await {
            if let Update::Event(event) = update?
                && let Some(reaction) = reaction_in(&event, request, obeyed)
            {
                return Ok(reaction);
            }
        }
        // The log ended without a reaction or a terminal event.
        std::future::pending().await
    }
}

fn reaction_in(event: &Event, request: &str, obeyed: &str) -> Option<Reaction> {
    match event.body() {
        _ if event.kind == obeyed => Some(Reaction::Done),
        Ok(EventBody::SignalRejected { signal, message }) if signal.ends_with(request) => {
            Some(Reaction::Rejected(message))
        }
        _ if event.is_terminal() => Some(Reaction::Ended(event.kind.clone())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use windlass_core::time::Timestamp;

    use super::*;

    #[test]
    fn the_log_has_the_reaction_to_a_request() {
        let reaction = |kind: &str, data: Value| {
            let event = Event { seq: 1, at: Timestamp(0), key: "k".into(), kind: kind.into(), data };
            reaction_in(&event, "pause", "paused")
        };
        let rejected = |signal: &str| json!({"signal": signal, "message": "no"});
        assert_eq!(reaction("paused", json!({"reason": "", "requestedBy": ""})), Some(Reaction::Done));
        assert_eq!(reaction("signal_rejected", rejected("pause")), Some(Reaction::Rejected("no".into())));
        assert_eq!(reaction("signal_rejected", rejected("windlass.pause")), Some(Reaction::Rejected("no".into())));
        assert_eq!(reaction("signal_rejected", rejected("steer")), None);
        assert_eq!(reaction("result", json!({})), Some(Reaction::Ended("result".into())));
        assert_eq!(reaction("usage", json!({})), None);
    }
}
