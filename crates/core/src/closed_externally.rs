//! The terminal event of a run whose workflow was closed externally.
//!
//! A workflow that is terminated, timed out or deleted gets no task in which it could write its terminal event. The API
//! server that finds such a run writes the missing events, so that readers see the end and awaits do not stay open.

use crate::{
    awaits::{AwaitView, pending_in},
    event::{AwaitClosure, Event, EventBody, NewEvent},
    failure::RunFailureKind,
    run::RunStatus,
    run_usage::RunUsage,
    time::Millis,
};

/// How a run's workflow was closed without the workflow's own code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExternalClosure {
    Terminated {
        /// The identity that the server recorded; empty if there is none.
        by: String,
        /// The reason that the caller gave; empty if none.
        reason: String,
    },
    TimedOut,
    /// The workflow failed and could not write its terminal event, in most cases because the store rejected it.
    Failed {
        code: String,
        message: String,
    },
    /// The workflow no longer exists on the server.
    Deleted,
    /// The workflow was never started and cannot be started.
    NotStarted {
        reason: String,
    },
    /// The run was cancelled before its workflow was started.
    Cancelled {
        reason: String,
    },
}

const START_AGAIN: &str = "Start it again if it is still wanted.";
/// Characters of a text from the server that an event quotes.
const MAX_QUOTED: usize = 500;

/// The server's text on one line, shortened, after `separator`; empty if there is no text.
fn quoted_after(separator: &str, quoted: &str) -> String {
    let quoted = quoted.trim().trim_end_matches('.');
    if quoted.is_empty() {
        return String::new();
    }
    let line = quoted.chars().map(|c| if c.is_control() { ' ' } else { c });
    let cut = if quoted.chars().count() > MAX_QUOTED { "…" } else { "" };
    format!("{separator}{}{cut}", line.take(MAX_QUOTED).collect::<String>())
}

impl ExternalClosure {
    /// The status in the run's row.
    pub fn status(&self) -> RunStatus {
        match self {
            Self::Cancelled { .. } => RunStatus::Cancelled,
            _ => RunStatus::Failed,
        }
    }

    /// The failure's code and message.
    fn reason(&self) -> (&str, String) {
        let code = RunFailureKind::ClosedExternally.code();
        match self {
            Self::Terminated { by, reason } => {
                let by = quoted_after(" by ", by);
                let why = quoted_after(": ", reason);
                let message = format!("The run was terminated on the Temporal server{by}{why}. {START_AGAIN}");
                (code, message)
            }
            Self::TimedOut => (code, format!("The run timed out on the Temporal server. {START_AGAIN}")),
            Self::Failed { code: own, message } => {
                let bare = message.strip_prefix(own.as_str()).and_then(|message| message.strip_prefix(": "));
                (if own.is_empty() { code } else { own }, bare.unwrap_or(message).to_owned())
            }
            Self::Deleted => (code, format!("The run was deleted on the Temporal server. {START_AGAIN}")),
            Self::NotStarted { reason } => (RunFailureKind::NotStarted.code(), reason.clone()),
            Self::Cancelled { reason } => ("", reason.clone()),
        }
    }
}

/// The events that close a log. They depend on the log and the closure only, so every process writes the same ones.
pub fn last_events(log: &[Event], how: &ExternalClosure) -> Vec<NewEvent> {
    let closed = pending_in(log).into_iter().map(|AwaitView { id, .. }| {
        let key = format!("overruled/{id}");
        NewEvent::new(
            key,
            EventBody::AwaitClosed { await_id: id, outcome: AwaitClosure::Abandoned, actor: None, answer: None },
        )
    });
    closed.chain([NewEvent::new("overruled", terminal_event(log, how))]).collect()
}

/// The terminal event. The log holds all its figures except the working time.
fn terminal_event(log: &[Event], how: &ExternalClosure) -> EventBody {
    let RunUsage { turns, tool_calls, usage, .. } = RunUsage::of(log);
    let last_model = log.iter().rev().find_map(|event| match event.body() {
        Ok(EventBody::AssistantMessage { model, .. }) => Some(model),
        _ => None,
    });
    let (code, message) = how.reason();
    if matches!(how, ExternalClosure::Cancelled { .. }) {
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
    fn an_externally_closed_log_gets_closed_awaits_and_a_terminal_event() {
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

    fn terminated(by: &str, reason: &str) -> ExternalClosure {
        ExternalClosure::Terminated { by: by.into(), reason: reason.into() }
    }

    #[test]
    fn a_termination_names_the_identity_and_the_reason_if_the_server_has_them() {
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
    fn a_failure_that_the_workflow_could_not_write_keeps_its_code_and_message() {
        let failed = |code: &str, message: &str| ExternalClosure::Failed { code: code.into(), message: message.into() };
        let cases = [
            (failed("RUN0007", "RUN0007: STO0004: no"), ("RUN0007", "STO0004: no")),
            (failed("", "panicked"), ("RUN0012", "panicked")),
            (ExternalClosure::NotStarted { reason: "no".into() }, ("RUN0013", "no")),
            (
                ExternalClosure::Deleted,
                ("RUN0012", "The run was deleted on the Temporal server. Start it again if it is still wanted."),
            ),
        ];
        for (how, (expected_code, expected_error)) in cases {
            // Also for an empty log.
            let [end] = last_events(&[], &how).try_into().unwrap();
            let EventBody::Error { code, error, failure, .. } = end.body else { panic!("{end:?}") };
            assert_eq!((code.as_str(), error.as_str()), (expected_code, expected_error));
            assert_eq!((failure, how.status()), (Some(code), RunStatus::Failed));
        }
    }

    #[test]
    fn a_run_cancelled_before_its_start_ends_as_cancelled() {
        let how = ExternalClosure::Cancelled { reason: "enough".into() };
        let [end] = last_events(&[], &how).try_into().unwrap();
        let EventBody::Cancelled { reason, turns, tool_calls, .. } = end.body else { panic!("{end:?}") };
        assert_eq!((reason.as_str(), turns, tool_calls, how.status()), ("enough", 0, 0, RunStatus::Cancelled));
    }
}
