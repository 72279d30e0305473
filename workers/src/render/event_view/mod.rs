//! The live view of a run: events in, output out.
//!
//! Deltas are shown as they come, but only the turn's message is final: the text shown so far is then completed or marked as
//! restarted, so that the last text on the screen is the text in the log.

use std::collections::HashMap;

use windlass_core::{
    awaits::{AwaitKind, AwaitView},
    envelope::{Actor, CallStatus, FinalizeReason, TokenUsage},
    event::{AwaitClosure, Event, EventBody},
    ids::{CallId, RunId, ToolName},
    time::{Millis, Timestamp},
};

use super::{
    Hint, Paint, await_lines, clean, duration,
    event_line::{WHO, cached, closed, cost, failed_attempt, fell_back, outcome, progress_words, trimmed, word},
    how_to_answer, json_line, one_line,
};

/// How much of a call's arguments is shown.
const ARGS: usize = 120;

/// Output for the screen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Show {
    /// The next piece of the current text.
    Text(String),
    /// The current text is complete.
    EndText,
    /// The current text is void: the turn starts again.
    VoidText,
    /// A line of its own.
    Line(String),
}

/// The view of one run.
#[derive(Debug)]
pub struct EventView {
    run: RunId,
    /// 0 for the run that is followed, 1 for its children, …
    depth: usize,
    hint: Hint,
    paint: Paint,
    /// Questions are asked with a prompt, so no commands are shown.
    asks_directly: bool,
    speech: Speech,
    begun: HashMap<CallId, Timestamp>,
    doing: String,
    turn: u32,
    last_message: String,
}

/// The current text.
#[derive(Debug, Default)]
struct Speech {
    turn: u32,
    attempt: u32,
    shown: String,
}

impl EventView {
    pub fn new(run: RunId, depth: usize, hint: Hint, paint: Paint, asks_directly: bool) -> Self {
        Self {
            run,
            depth,
            hint,
            paint,
            asks_directly,
            speech: Speech::default(),
            begun: HashMap::new(),
            doing: "starting".to_owned(),
            turn: 0,
            last_message: String::new(),
        }
    }

    /// What the run is doing, for a status line.
    pub fn doing(&self) -> String {
        if self.turn == 0 { self.doing.clone() } else { format!("{} · turn {}", self.doing, self.turn) }
    }

    pub fn apply(&mut self, event: &Event) -> Vec<Show> {
        let Ok(body) = event.body() else {
            let text = format!("· {} {}", one_line(&event.kind, 40), json_line(&event.data, ARGS));
            return self.lines([self.paint.dim(&text)]);
        };
        match body {
            EventBody::AssistantDelta { text, turn, attempt, .. } => self.delta(&text, turn, attempt),
            EventBody::ThinkingDelta { turn, .. } => {
                self.now("thinking", turn);
                Vec::new()
            }
            EventBody::TurnRestarted { turn, attempt } => self.restart(turn, attempt),
            EventBody::AssistantMessage { text, turn, .. } => self.message(text, turn),
            EventBody::Result { text, error: None, finalized, turns, tool_calls, active_ms, usage, .. } => {
                let mut shows = self.end_text();
                // The finalizer's answer may not have been a message.
                if text != self.last_message {
                    shows.extend(self.whole_text(&text));
                }
                let facts = facts(turns, tool_calls, active_ms, &usage);
                let early = finalized.map(|reason| format!(" early ({})", early_words(reason))).unwrap_or_default();
                shows.extend(self.lines([self.paint.good(&format!("✓ completed{early}{facts}"))]));
                shows
            }
            body => {
                let mut shows = self.end_text();
                let lines = self.happened(body, event.at);
                shows.extend(self.lines(lines));
                shows
            }
        }
    }

    /// Everything but the model's text.
    fn happened(&mut self, body: EventBody, at: Timestamp) -> Vec<String> {
        let paint = self.paint;
        match body {
            EventBody::Started { agent_id, model_id, .. } => {
                self.now("planning", 0);
                let who = format!("agent {agent_id} · {}", one_line(&model_id, 80));
                vec![paint.bold(&if self.depth == 0 {
                    format!("▶ {} · {who}", self.run)
                } else {
                    format!("▶ {who}")
                })]
            }
            EventBody::ToolCall { tool_use_id, name, input, turn, .. } => {
                self.now(&format!("running {name}"), turn);
                self.begun.insert(tool_use_id, at);
                let args = input.map(|input| format!(" {}", paint.dim(&json_line(&input, ARGS)))).unwrap_or_default();
                vec![format!("→ {name}{args}")]
            }
            EventBody::ToolProgress { name, message, progress, total, .. } => {
                let words = progress_words(message.as_deref(), progress, total);
                self.doing = format!("running {name}{words}");
                vec![paint.dim(&format!("… {name}{words}"))]
            }
            EventBody::ProviderTool { name, .. } => {
                vec![paint.dim(&format!("→ {} by the provider", one_line(&name, 80)))]
            }
            EventBody::ToolResult { tool_use_id, name, ok, status, result, result_bytes, error, telemetry, .. } => {
                self.doing = "planning".to_owned();
                let begun = self.begun.remove(&tool_use_id);
                let time = telemetry.map(|facts| facts.duration_ms).or_else(|| begun.map(|begun| at.since(begun)));
                let time = time.map(|time| format!(" {}", duration(time))).unwrap_or_default();
                let outcome = outcome(result.as_ref(), result_bytes, error.as_ref());
                vec![self.finished_call(&name, ok, status, &time, &one_line(&outcome, ARGS))]
            }
            EventBody::ChildRunLinked { child_run_id, child_agent_id, .. } => {
                vec![paint.dim(&format!("↳ run {child_run_id} of agent {child_agent_id}"))]
            }
            EventBody::AwaitOpened { item } => {
                self.doing = format!("waiting for {}", item.id);
                self.opened(&item)
            }
            EventBody::AwaitClosed { await_id, outcome, actor, answer } => {
                let text = format!("{await_id} {}", closed(outcome, actor.as_ref(), answer.as_deref()));
                self.doing = "planning".to_owned();
                vec![match outcome {
                    AwaitClosure::Answered | AwaitClosure::Approved => paint.good(&format!("✓ {text}")),
                    AwaitClosure::Denied | AwaitClosure::Expired | AwaitClosure::Abandoned => {
                        paint.attention(&format!("✗ {text}"))
                    }
                }]
            }
            EventBody::Paused { reason, requested_by } => {
                self.doing = "paused".to_owned();
                vec![paint.attention(&format!("‖ paused{}", said_by(&reason, &requested_by)))]
            }
            EventBody::Resumed { notes, requested_by } => {
                self.doing = "planning".to_owned();
                vec![format!("▶ resumed{}", said_by(&notes, &requested_by))]
            }
            EventBody::Finalizing { reason } => {
                self.doing = "giving a last answer".to_owned();
                vec![paint.attention(&format!("! finishing early: {}", early_words(reason)))]
            }
            EventBody::Error { code, failure, error, turns, tool_calls, active_ms, usage, .. } => {
                let facts = facts(turns, tool_calls, active_ms, &usage);
                let code = failure.unwrap_or(code);
                vec![paint.bad(&format!("✗ failed: {code}: {}{facts}", one_line(&error, 1000)))]
            }
            EventBody::Result { subtype, error: Some(error), turns, tool_calls, active_ms, usage, .. } => {
                let facts = facts(turns, tool_calls, active_ms, &usage);
                vec![paint.bad(&format!("✗ failed: {subtype}: {}{facts}", one_line(&error, 1000)))]
            }
            EventBody::Cancelled { reason, turns, tool_calls, active_ms, usage, .. } => {
                let facts = facts(turns, tool_calls, active_ms, &usage);
                vec![paint.bad(&format!("✗ cancelled: {}{facts}", one_line(&reason, 200)))]
            }
            body => remark(&body).map(|text| paint.attention(&format!("! {text}"))).into_iter().collect(),
        }
    }

    fn finished_call(&self, name: &ToolName, ok: bool, status: CallStatus, time: &str, outcome: &str) -> String {
        if ok {
            format!("{} {name}{time} {}", self.paint.good("✓"), self.paint.dim(outcome))
        } else {
            self.paint.bad(&format!("✗ {name} {}{time}: {outcome}", word(&status)))
        }
    }

    fn opened(&self, item: &AwaitView) -> Vec<String> {
        let mut lines = await_lines(item, self.paint);
        let asked = self.asks_directly
            && matches!(item.kind, AwaitKind::Clarification | AwaitKind::Confirmation | AwaitKind::Input);
        if !asked {
            lines.extend(how_to_answer(&self.hint, &self.run, item).iter().map(|command| format!("  $ {command}")));
        }
        lines
    }

    fn now(&mut self, doing: &str, turn: u32) {
        self.doing = doing.to_owned();
        self.turn = turn + 1;
    }

    // --- the model's text

    fn delta(&mut self, text: &str, turn: u32, attempt: u32) -> Vec<Show> {
        self.now("answering", turn);
        // Messages of child runs are shown when they are complete, so that texts do not mix.
        if self.depth > 0 || (turn, attempt) < (self.speech.turn, self.speech.attempt) {
            return Vec::new();
        }
        let mut shows = Vec::new();
        if (turn, attempt) > (self.speech.turn, self.speech.attempt) {
            shows = self.void_text();
            self.speech = Speech { turn, attempt, shown: String::new() };
        }
        self.speech.shown.push_str(text);
        shows.push(Show::Text(clean(text)));
        shows
    }

    fn restart(&mut self, turn: u32, attempt: u32) -> Vec<Show> {
        self.now("planning", turn);
        let shows = self.void_text();
        self.speech = Speech { turn, attempt, shown: String::new() };
        shows
    }

    fn message(&mut self, text: String, turn: u32) -> Vec<Show> {
        self.now("planning", turn);
        let speech = std::mem::replace(&mut self.speech, Speech { turn: turn + 1, ..Speech::default() });
        let mut shows = match text.strip_prefix(&speech.shown) {
            _ if speech.shown.is_empty() => self.whole_text(&text),
            Some("") => vec![Show::EndText],
            Some(rest) => vec![Show::Text(clean(rest)), Show::EndText],
            None => [Show::VoidText].into_iter().chain(self.whole_text(&text)).collect(),
        };
        if text.is_empty() {
            shows.retain(|show| *show == Show::VoidText);
        }
        self.last_message = text;
        shows
    }

    fn whole_text(&self, text: &str) -> Vec<Show> {
        match (text.is_empty(), self.depth) {
            (true, _) => Vec::new(),
            (false, 0) => vec![Show::Text(clean(text)), Show::EndText],
            (false, _) => self.lines(clean(text).lines().map(str::to_owned)),
        }
    }

    /// Another event comes during a text.
    fn end_text(&mut self) -> Vec<Show> {
        if self.speech.shown.is_empty() { Vec::new() } else { vec![Show::EndText] }
    }

    fn void_text(&self) -> Vec<Show> {
        if self.speech.shown.is_empty() { Vec::new() } else { vec![Show::VoidText] }
    }

    fn lines(&self, lines: impl IntoIterator<Item = String>) -> Vec<Show> {
        let indent = "  ".repeat(self.depth);
        lines.into_iter().map(|line| Show::Line(format!("{indent}{line}"))).collect()
    }
}

/// The line for events that have no output of their own.
fn remark(body: &EventBody) -> Option<String> {
    Some(match body {
        EventBody::LoopDetected { consecutive_count, tools, .. } => {
            let tools: Vec<&str> = tools.iter().map(ToolName::as_str).collect();
            format!("{consecutive_count} identical turns in a row: {}", tools.join(", "))
        }
        EventBody::ToolBudgetExceeded { tool, max_calls, .. } => {
            format!("{tool} may be called {max_calls} times; further calls are refused")
        }
        EventBody::AnswerRejected { await_id, status, message, actor } => {
            let (actor, message) = (one_line(&actor.to_string(), WHO), one_line(message, 200));
            let by = if actor.is_empty() { actor } else { format!(" by {actor}") };
            format!("an answer to {await_id}{by} was not accepted ({}): {message}", word(status))
        }
        EventBody::SignalRejected { signal, message } => {
            format!("a {} signal was rejected: {}", one_line(signal, 80), one_line(message, 200))
        }
        EventBody::Steered { text, requested_by } => {
            format!("steered{}", said_by(text, requested_by))
        }
        EventBody::PlannerNote { text } => format!("note: {}", one_line(text, 200)),
        EventBody::AttemptFailed { .. } => failed_attempt(body),
        EventBody::ModelFallback { .. } => fell_back(body),
        EventBody::ContextTrimmed { .. } => trimmed(body),
        _ => return None,
    })
}

fn said_by(text: &str, who: &Actor) -> String {
    let (text, who) = (one_line(text, 200), one_line(&who.to_string(), WHO));
    let who = if who.is_empty() { who } else { format!(" by {who}") };
    if text.is_empty() { who } else { format!("{who}: {text}") }
}

fn early_words(reason: FinalizeReason) -> &'static str {
    match reason {
        FinalizeReason::TimeBudget => "the time budget is used up",
        FinalizeReason::ToolCap => "all tool calls are used up",
        FinalizeReason::FailureCap => "too many calls in a row failed",
        FinalizeReason::Loop => "it repeated itself",
        FinalizeReason::ToolTurns => "all turns with tool calls are used up",
        FinalizeReason::CostBudget => "the budget of money or tokens is used up",
    }
}

fn facts(turns: u32, calls: u32, active: Millis, usage: &TokenUsage) -> String {
    let count = |number: u32, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    format!(
        " · {} · {} · {} of work · {} tokens{}{}",
        count(turns, "turn"),
        count(calls, "call"),
        duration(active),
        usage.total_tokens,
        cached(usage),
        cost(usage).replacen(", ", " · ", 1)
    )
}

#[cfg(test)]
mod tests;
