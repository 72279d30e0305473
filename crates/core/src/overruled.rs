//! The end of a log whose run could not write it.
//!
//! A run that is terminated, or whose time on the server is up, is given no turn to say so. Whoever finds it closed over
//! an open log writes these events in its place, so that readers learn of the end and awaits do not stay open.

use crate::{
    awaits::{AwaitView, pending_in},
    event::{AwaitClosure, Event, EventBody, NewEvent},
    failure::RunFailureKind,
    run::RunStatus,
    spent::Spent,
    time::Millis,
};

/// How a run was closed over its head.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Overruled {
    Terminated {
        /// As the server knows them; empty if there is no name.
        by: String,
        /// As it was given; empty if none was.
        reason: String,
    },
    TimedOut,
    /// Its workflow failed without having been able to write why, mostly because the store refused it.
    Failed {
        code: String,
        message: String,
    },
    /// The server does not know its workflow any more.
    Deleted,
    /// Its workflow was never started, and never can be.
    NotStarted {
        reason: String,
    },
    /// It was cancelled before its workflow was started.
    Cancelled {
        reason: String,
    },
}

const AGAIN: &str = "Start it again if it is still wanted.";
/// Of a word from the server; a log entry is no place for bodies.
const MAX_QUOTED: usize = 500;

/// What the server has, on one line and cut short, after `joint`; nothing if it has nothing.
fn preceded(joint: &str, quoted: &str) -> String {
    let quoted = quoted.trim().trim_end_matches('.');
    if quoted.is_empty() {
        return String::new();
    }
    let line = quoted.chars().map(|c| if c.is_control() { ' ' } else { c });
    let cut = if quoted.chars().count() > MAX_QUOTED { "…" } else { "" };
    format!("{joint}{}{cut}", line.take(MAX_QUOTED).collect::<String>())
}

impl Overruled {
    /// How the run's row shows it.
    pub fn status(&self) -> RunStatus {
        match self {
            Self::Cancelled { .. } => RunStatus::Cancelled,
            _ => RunStatus::Failed,
        }
    }

    /// The failure's code and what is said about it.
    fn reason(&self) -> (&str, String) {
        let code = RunFailureKind::Overruled.code();
        match self {
            Self::Terminated { by, reason } => {
                let by = preceded(" by ", by);
                let why = preceded(": ", reason);
                let said = format!("The run was terminated on the Temporal server{by}{why}. {AGAIN}");
                (code, said)
            }
            Self::TimedOut => (code, format!("The run's time on the Temporal server was up. {AGAIN}")),
            Self::Failed { code: own, message } => {
                let bare = message.strip_prefix(own.as_str()).and_then(|message| message.strip_prefix(": "));
                (if own.is_empty() { code } else { own }, bare.unwrap_or(message).to_owned())
            }
            Self::Deleted => (code, format!("The run was deleted on the Temporal server. {AGAIN}")),
            Self::NotStarted { reason } => (RunFailureKind::NotStarted.code(), reason.clone()),
            Self::Cancelled { reason } => ("", reason.clone()),
        }
    }
}

/// What the log has to say after all that it says already. The same log always gets the same end.
pub fn last_events(log: &[Event], how: &Overruled) -> Vec<NewEvent> {
    let closed = pending_in(log).into_iter().map(|AwaitView { id, .. }| {
        let key = format!("overruled/{id}");
        NewEvent::new(
            key,
            EventBody::AwaitClosed { await_id: id, outcome: AwaitClosure::Abandoned, actor: None, answer: None },
        )
    });
    closed.chain([NewEvent::new("overruled", ending(log, how))]).collect()
}

/// Of what the run did, the log knows all but the time it was at work.
fn ending(log: &[Event], how: &Overruled) -> EventBody {
    let Spent { turns, tool_calls, usage, .. } = Spent::of(log);
    let last_model = log.iter().rev().find_map(|event| match event.body() {
        Ok(EventBody::AssistantMessage { model, .. }) => Some(model),
        _ => None,
    });
    let (code, message) = how.reason();
    if matches!(how, Overruled::Cancelled { .. }) {
        return EventBody::Cancelled {
            reason: message,
            turns,
            tool_calls,
            active_ms: Millis::ZERO,
            usage,
            model: last_model,
            structured_output: None,
        };
    }
    EventBody::Error {
        code: code.to_owned(),
        error: message,
        error_class: None,
        failure: Some(code.to_owned()),
        retryable: false,
        api_status: None,
        api_code: None,
        finish_reason: None,
        partial_text: None,
        turns,
        tool_calls,
        active_ms: Millis::ZERO,
        usage,
        model: last_model,
        structured_output: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{ids::AwaitId, time::Timestamp};

    fn log(events: &[(&str, Value)]) -> Vec<Event> {
        let numbered = (1..).zip(events);
        let event = |(seq, (kind, data)): (u64, &(&str, Value))| Event {
            seq,
            at: Timestamp(0),
            key: seq.to_string(),
            kind: (*kind).to_owned(),
            data: data.clone(),
        };
        numbered.map(event).collect()
    }

    fn opened(id: &str) -> (&'static str, Value) {
        let item = json!({"id": id, "kind": "clarification", "prompt": "?", "openedAt": 0, "onExpiry": "replan"});
        ("await_opened", json!({ "item": item }))
    }

    #[test]
    fn a_log_gets_the_end_its_run_could_not_write() {
        let log = log(&[
            ("assistant_message", json!({"text": "", "turn": 1, "finishReason": null, "model": "script:a"})),
            ("usage", json!({"turn": 1, "usage": {"inputTokens": 3, "outputTokens": 2, "totalTokens": 5}})),
            ("tool_call", json!({"toolUseId": "c1", "name": "echo", "input": {}, "digest": "0".repeat(64), "turn": 1})),
            opened("await-1"),
            ("await_closed", json!({"awaitId": "await-1", "outcome": "answered"})),
            opened("await-2"),
            ("hologram", json!({})),
        ]);
        let [closed, end] = last_events(&log, &terminated("ann@host", "enough")).try_into().unwrap();
        let abandoned = EventBody::AwaitClosed {
            await_id: AwaitId::new("await-2"),
            outcome: AwaitClosure::Abandoned,
            actor: None,
            answer: None,
        };
        assert_eq!(closed, NewEvent::new("overruled/await-2", abandoned));
        assert_eq!(end.key, "overruled");
        let (kind, data) = end.body.split().unwrap();
        let expected = json!({
            "code": "RUN0012",
            "error": "The run was terminated on the Temporal server by ann@host: enough. Start it again if it is still wanted.",
            "failure": "RUN0012",
            "retryable": false,
            "turns": 1,
            "toolCalls": 1,
            "activeMs": 0,
            "usage": data["usage"],
            "model": "script:a",
        });
        assert_eq!((kind, &data), ("error", &expected));
        assert_eq!(data["usage"]["totalTokens"], 5);
    }

    fn terminated(by: &str, reason: &str) -> Overruled {
        Overruled::Terminated { by: by.into(), reason: reason.into() }
    }

    #[test]
    fn a_termination_is_told_with_its_reason_as_far_as_there_is_one() {
        let end = "Start it again if it is still wanted.";
        let cases = [
            (terminated("", ""), format!("The run was terminated on the Temporal server. {end}")),
            (terminated("ann", " "), format!("The run was terminated on the Temporal server by ann. {end}")),
            (terminated("", "too\nlarge."), format!("The run was terminated on the Temporal server: too large. {end}")),
            (
                terminated("", &"x".repeat(501)),
                format!("The run was terminated on the Temporal server: {}…. {end}", "x".repeat(500)),
            ),
        ];
        for (how, expected) in cases {
            assert_eq!(how.reason().1, expected);
        }
    }

    #[test]
    fn a_failure_that_could_not_be_written_is_told_in_its_own_words() {
        let failed = |code: &str, message: &str| Overruled::Failed { code: code.into(), message: message.into() };
        let cases = [
            (failed("RUN0007", "RUN0007: STO0004: no"), ("RUN0007", "STO0004: no")),
            (failed("", "panicked"), ("RUN0012", "panicked")),
            (Overruled::NotStarted { reason: "no".into() }, ("RUN0013", "no")),
            (
                Overruled::Deleted,
                ("RUN0012", "The run was deleted on the Temporal server. Start it again if it is still wanted."),
            ),
        ];
        for (how, (expected_code, expected_error)) in cases {
            // Even of a run that never got to its log.
            let [end] = last_events(&[], &how).try_into().unwrap();
            let EventBody::Error { code, error, failure, .. } = end.body else { panic!("{end:?}") };
            assert_eq!((code.as_str(), error.as_str()), (expected_code, expected_error));
            assert_eq!((failure, how.status()), (Some(code), RunStatus::Failed));
        }
    }

    #[test]
    fn a_run_that_was_cancelled_before_it_began_says_so() {
        let how = Overruled::Cancelled { reason: "enough".into() };
        let [end] = last_events(&[], &how).try_into().unwrap();
        let EventBody::Cancelled { reason, turns, tool_calls, .. } = end.body else { panic!("{end:?}") };
        assert_eq!((reason.as_str(), turns, tool_calls, how.status()), ("enough", 0, 0, RunStatus::Cancelled));
    }
}
