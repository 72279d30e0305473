//! One line per event, for `runs events`.

use serde_json::Value;
use windlass_core::{
    canonical::CanonicalJson,
    envelope::{Actor, TokenUsage, ToolError},
    event::{AwaitClosure, Event, EventBody},
};

use super::{Paint, await_summary, duration, json_line, moment, one_line};

const TEXT: usize = 160;
/// How much of an actor's name is shown.
pub(super) const WHO: usize = 120;

/// `seq  time  type  what`.
pub fn event_line(event: &Event, paint: Paint) -> String {
    let (seq, at, kind) = (format!("{:>5}", event.seq), moment(event.at), format!("{:<18}", one_line(&event.kind, 40)));
    format!("{seq}  {}  {}  {}", paint.dim(&at), paint.bold(&kind), event_summary(event)).trim_end().to_owned()
}

/// The content of an event, without its type.
pub fn event_summary(event: &Event) -> String {
    match event.body() {
        Ok(body) => said(&body),
        Err(_) => json_line(&event.data, TEXT),
    }
}

fn said(body: &EventBody) -> String {
    let text = |text: &str| one_line(text, TEXT);
    match body {
        EventBody::Started { agent_id, model_id, parent_run_id, .. } => {
            let below = parent_run_id.as_ref().map(|parent| format!(" below {parent}")).unwrap_or_default();
            format!("agent {agent_id} on {}{below}", text(model_id))
        }
        EventBody::AssistantDelta { text: piece, turn, attempt, .. }
        | EventBody::ThinkingDelta { text: piece, turn, attempt, .. } => {
            format!("[{turn}.{attempt}] {}", json_line(&Value::String(piece.clone()), TEXT))
        }
        EventBody::ProviderTool { name, turn, attempt, .. } => {
            format!("[{turn}.{attempt}] {} by the provider", text(name))
        }
        EventBody::TurnRestarted { turn, attempt } => {
            format!("turn {turn}, attempt {attempt}; earlier deltas are void")
        }
        EventBody::AttemptFailed { turn, attempt, .. } => format!("[{turn}.{attempt}] {}", failed_attempt(body)),
        EventBody::ModelFallback { .. } => fell_back(body),
        EventBody::ContextTrimmed { .. } => trimmed(body),
        EventBody::AssistantMessage { text: message, tool_calls, .. } => {
            let calls: Vec<&str> = tool_calls.iter().map(|call| call.name.as_str()).collect();
            let calls = if calls.is_empty() { String::new() } else { format!(" → {}", text(&calls.join(", "))) };
            format!("{}{calls}", text(message))
        }
        EventBody::PlannerNote { text: note } => text(note),
        EventBody::Usage { turn, usage } => {
            format!(
                "turn {turn}: {} in{}, {} out{}",
                usage.input_tokens,
                cached(usage),
                usage.output_tokens,
                cost(usage)
            )
        }
        EventBody::ToolCall { tool_use_id, name, input, .. } => {
            format!("{tool_use_id} {name}{}", arguments(input.as_ref()))
        }
        EventBody::LocalToolCall { tool_use_id, name, args, await_id, .. } => {
            format!("{tool_use_id} {name}{} (in {await_id})", arguments(args.as_ref()))
        }
        EventBody::LocalToolResultIn { tool_use_id, output, error, result_bytes } => match (error, output) {
            (Some(error), _) => format!("{tool_use_id} failed: {}", text(error)),
            (None, Some(output)) => format!("{tool_use_id} {}", json_line(output, TEXT)),
            (None, None) => format!("{tool_use_id} {result_bytes} bytes"),
        },
        EventBody::ToolProgress { tool_use_id, name, message, progress, total, .. } => {
            format!("{tool_use_id} {name}{}", progress_words(message.as_deref(), *progress, *total))
        }
        EventBody::ToolResult { tool_use_id, name, ok, result, result_bytes, error, telemetry, .. } => {
            let time = telemetry.as_ref().map(|facts| format!(" {}", duration(facts.duration_ms))).unwrap_or_default();
            let mark = if *ok { "ok" } else { "not ok" };
            format!("{tool_use_id} {name} {mark}{time}: {}", outcome(result.as_ref(), *result_bytes, error.as_ref()))
        }
        EventBody::ApprovalDecided { tool_use_id, name, outcome, reason } => {
            format!("{tool_use_id} {name}: {outcome} {reason}")
        }
        EventBody::ApprovalGranted { grant } => {
            format!("{} {}: later calls are not asked about, granted by {}", grant.id, grant.tool, grant.granted_by)
        }
        EventBody::ArgumentsEdited { tool_use_id, name, digest, .. } => {
            format!("{tool_use_id} {name}: approved with other arguments, digest {}", digest.short())
        }
        EventBody::CallRefused { tool_use_id, name, reason } => format!("{tool_use_id} {name}: {}", word(reason)),
        EventBody::LoopDetected { consecutive_count, hard_cutoff, .. } => {
            format!("{consecutive_count} times the same{}", if *hard_cutoff { ", stopping" } else { "" })
        }
        EventBody::ToolBudgetExceeded { tool, max_calls, call_index } => {
            format!("{tool}: call {call_index}, {max_calls} allowed")
        }
        EventBody::ChildRunLinked { tool_use_id, child_run_id, child_agent_id, .. } => {
            format!("{tool_use_id} → {child_run_id} (agent {child_agent_id})")
        }
        EventBody::AwaitOpened { item } | EventBody::ChildAwaitOpened { item } => {
            format!("{} {}: {}", item.id, word(&item.kind), await_summary(item))
        }
        EventBody::ChildAwaitClosed { await_id, outcome, actor } => {
            let by = actor.as_ref().map(|actor| format!(" by {actor}")).unwrap_or_default();
            format!("{await_id} {}{by}", word(outcome))
        }
        EventBody::AwaitClosed { await_id, outcome, actor, answer } => {
            format!("{await_id} {}", closed(*outcome, actor.as_ref(), answer.as_deref()))
        }
        EventBody::AnswerRejected { await_id, status, message, actor } => {
            format!("{await_id} by {}: {}: {}", text(&actor.to_string()), word(status), text(message))
        }
        EventBody::SignalRejected { signal, message } => format!("{}: {}", text(signal), text(message)),
        EventBody::Paused { reason, requested_by } => by(reason, requested_by),
        EventBody::Resumed { notes, requested_by } => by(notes, requested_by),
        EventBody::Steered { text, requested_by } => by(text, requested_by),
        EventBody::Finalizing { reason } => reason.as_str().to_owned(),
        EventBody::Status { status, .. } => status.as_str().to_owned(),
        EventBody::Result { subtype, error: Some(error), .. } => format!("{subtype}: {}", text(error)),
        EventBody::Result { text: answer, .. } => text(answer),
        EventBody::Error { code, failure, error, .. } => {
            format!("{}: {}", failure.as_ref().unwrap_or(code), text(error))
        }
        EventBody::Cancelled { reason, .. } => text(reason),
    }
}

/// The share of the input that came from the provider's cache, if any did.
pub(super) fn cached(usage: &TokenUsage) -> String {
    let share = usage.cache_hit_ratio().filter(|ratio| *ratio > 0.0);
    share.map(|ratio| format!(" ({:.0}% cached)", ratio * 100.0)).unwrap_or_default()
}

/// What it cost, if that is known.
pub(super) fn cost(usage: &TokenUsage) -> String {
    usage.cost_usd.map(|cost| format!(", {cost}")).unwrap_or_default()
}

/// Why an attempt failed, and what comes next.
pub(super) fn failed_attempt(body: &EventBody) -> String {
    let EventBody::AttemptFailed { model, error_class, error, retryable, retry_after_ms, .. } = body else {
        return String::new();
    };
    let next = match (retryable, retry_after_ms) {
        (true, Some(wait)) => format!("; the provider asks to wait {}", duration(*wait)),
        (true, None) => String::new(),
        (false, _) => "; it is not asked again".to_owned(),
    };
    format!("{} did not answer ({error_class}): {}{next}", one_line(model, 80), one_line(error, TEXT))
}

pub(super) fn fell_back(body: &EventBody) -> String {
    let EventBody::ModelFallback { error_class, model, primary_model_id, .. } = body else { return String::new() };
    format!(
        "the run goes on with {} instead of {} ({error_class})",
        one_line(model, 80),
        one_line(primary_model_id, 80)
    )
}

pub(super) fn trimmed(body: &EventBody) -> String {
    let EventBody::ContextTrimmed { results, files, tokens_before, tokens_after, context_window, .. } = body else {
        return String::new();
    };
    format!(
        "left {results} results and {files} files out of the request: about {tokens_before} tokens became {tokens_after}, the model reads {context_window}"
    )
}

fn arguments(args: Option<&CanonicalJson>) -> String {
    args.map(|args| format!(" {}", json_line(args, TEXT))).unwrap_or_default()
}

/// How far a call is: a share if the tool says one, and its own words.
pub(super) fn progress_words(message: Option<&str>, done: Option<f64>, total: Option<f64>) -> String {
    let share = match (done, total) {
        (Some(done), Some(total)) if total > 0.0 => format!(" {:.0}%", (done / total * 100.0).clamp(0.0, 100.0)),
        (Some(done), _) => format!(" {done}"),
        (None, _) => String::new(),
    };
    let message = message.map(|message| format!(" {}", one_line(message, TEXT))).unwrap_or_default();
    format!("{share}{message}")
}

/// A result, or why there is none.
pub(super) fn outcome(result: Option<&CanonicalJson>, bytes: u64, error: Option<&ToolError>) -> String {
    match (error, result) {
        (Some(error), _) => format!("{}: {}", word(&error.kind), one_line(&error.message, TEXT)),
        (None, Some(result)) => json_line(result, TEXT),
        (None, None) => format!("{bytes} bytes"),
    }
}

/// How an await ended: by whom, and with which words.
pub(super) fn closed(outcome: AwaitClosure, actor: Option<&Actor>, answer: Option<&str>) -> String {
    let actor = actor.map(|actor| format!(" by {}", one_line(&actor.to_string(), WHO))).unwrap_or_default();
    let answer = answer.map(|answer| format!(": {}", one_line(answer, TEXT))).unwrap_or_default();
    format!("{}{actor}{answer}", word(&outcome))
}

fn by(text: &str, who: &Actor) -> String {
    match (one_line(text, TEXT), one_line(&who.to_string(), WHO)) {
        (text, who) if who.is_empty() => text,
        (text, who) if text.is_empty() => format!("by {who}"),
        (text, who) => format!("{text} (by {who})"),
    }
}

/// The name a value has in JSON, with spaces.
pub(super) fn word<T: serde::Serialize>(value: &T) -> String {
    let value = serde_json::to_value(value).unwrap_or_default();
    value.as_str().unwrap_or_default().replace('_', " ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use windlass_core::time::Timestamp;

    use super::*;

    fn line(kind: &str, data: Value) -> String {
        let event = Event { seq: 7, at: Timestamp(1_769_850_300_250), key: "k".into(), kind: kind.into(), data };
        let line = event_line(&event, Paint::PLAIN);
        line.strip_prefix("    7  2026-01-31T09:05:00.250Z  ").unwrap().to_owned()
    }

    #[test]
    fn events_are_lines() {
        let digest = "0".repeat(64);
        let cases = [
            (
                line(
                    "started",
                    json!({"agentId": "demo", "workspace": "w", "modelId": "script:demo", "parentRunId": "run-0"}),
                ),
                "started             agent demo on script:demo below run-0",
            ),
            (
                line("assistant_delta", json!({"text": " a\nb", "turn": 0, "attempt": 2})),
                r#"assistant_delta     [0.2] " a\nb""#,
            ),
            (
                line(
                    "tool_call",
                    json!({"toolUseId": "c", "name": "clock", "input": {"a": 1}, "digest": digest, "turn": 0}),
                ),
                r#"tool_call           c clock {"a":1}"#,
            ),
            (
                line(
                    "tool_result",
                    json!({"toolUseId": "c", "name": "clock", "ok": true, "status": "ok", "result": 5,
                    "resultBytes": 1, "telemetry": {"durationMs": 12}}),
                ),
                "tool_result         c clock ok 12ms: 5",
            ),
            (
                line(
                    "tool_result",
                    json!({"toolUseId": "c", "name": "clock", "ok": false, "status": "refused",
                    "resultBytes": 0, "error": {"kind": "tool_cap", "message": "no more"}}),
                ),
                "tool_result         c clock not ok: tool cap: no more",
            ),
            (
                line("await_closed", json!({"awaitId": "await-1", "outcome": "approved", "actor": "ann"})),
                "await_closed        await-1 approved by ann",
            ),
            (
                line(
                    "await_closed",
                    json!({"awaitId": "await-1", "outcome": "answered", "actor": "ann", "answer": "the\nteam"}),
                ),
                "await_closed        await-1 answered by ann: the team",
            ),
            (line("paused", json!({"reason": "lunch", "requestedBy": "ann"})), "paused              lunch (by ann)"),
            (line("hologram", json!({"x": "\u{9b}"})), "hologram            {\"x\":\"�\"}"),
        ];
        for (line, expected) in cases {
            assert_eq!(line, expected);
        }
    }
}
