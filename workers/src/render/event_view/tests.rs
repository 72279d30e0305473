use serde_json::{Value, json};

use super::*;

/// A view and the log it reads.
struct Script {
    view: EventView,
    seq: u64,
}

impl Script {
    fn new() -> Self {
        Self::at_depth(0)
    }

    fn at_depth(depth: usize) -> Self {
        let view = EventView::new(RunId::new("run-1"), depth, Hint::new("windlass", []), Paint::PLAIN, false);
        Self { view, seq: 0 }
    }

    fn event(&mut self, kind: &str, data: Value) -> Vec<Show> {
        self.seq += 1;
        let event = Event { seq: self.seq, at: Timestamp(self.seq * 10), key: "k".into(), kind: kind.into(), data };
        self.view.apply(&event)
    }

    fn delta(&mut self, turn: u32, attempt: u32, text: &str) -> Vec<Show> {
        self.event("assistant_delta", json!({"text": text, "turn": turn, "attempt": attempt}))
    }

    fn message(&mut self, turn: u32, text: &str) -> Vec<Show> {
        self.event("assistant_message", json!({"text": text, "turn": turn, "finishReason": null, "model": "m"}))
    }
}

fn text(text: &str) -> Show {
    Show::Text(text.to_owned())
}

fn line(line: &str) -> Show {
    Show::Line(line.to_owned())
}

#[test]
fn deltas_are_shown_as_they_come_and_not_again() {
    let mut run = Script::new();
    assert_eq!(run.delta(0, 1, "Hel"), [text("Hel")]);
    assert_eq!(run.view.doing(), "answering · turn 1");
    assert_eq!(run.delta(0, 1, "lo"), [text("lo")]);
    assert_eq!(run.message(0, "Hello"), [Show::EndText]);
    assert_eq!(run.delta(1, 1, "Bye"), [text("Bye")]);
    assert_eq!(run.message(1, "Bye"), [Show::EndText]);
}

#[test]
fn a_restart_voids_what_was_shown() {
    let mut run = Script::new();
    run.delta(0, 1, "Half a tho");
    assert_eq!(run.event("turn_restarted", json!({"turn": 0, "attempt": 2})), [Show::VoidText]);
    assert_eq!(run.delta(0, 1, "ught, late"), []);
    assert_eq!(run.delta(0, 2, "Whole"), [text("Whole")]);
    assert_eq!(run.message(0, "Whole"), [Show::EndText]);
}

#[test]
fn a_restart_that_was_not_announced_is_noticed() {
    let mut run = Script::new();
    run.delta(0, 1, "Half");
    assert_eq!(run.delta(0, 2, "Whole"), [Show::VoidText, text("Whole")]);
}

#[test]
fn the_message_has_the_last_word() {
    let mut run = Script::new();
    assert_eq!(run.message(0, "No deltas"), [text("No deltas"), Show::EndText]);
    run.delta(1, 1, "Only the be");
    assert_eq!(run.message(1, "Only the beginning"), [text("ginning"), Show::EndText]);
    run.delta(2, 1, "Something else");
    assert_eq!(run.message(2, "This"), [Show::VoidText, text("This"), Show::EndText]);
    assert_eq!(run.message(3, ""), []);
}

#[test]
fn a_run_below_speaks_in_whole_indented_lines() {
    let mut run = Script::at_depth(1);
    assert_eq!(
        run.event("started", json!({"agentId": "reviewer", "workspace": "w", "modelId": "script:r"})),
        [line("  ▶ agent reviewer · script:r")]
    );
    assert_eq!(run.delta(0, 1, "One\n"), []);
    assert_eq!(run.message(0, "One\nTwo"), [line("  One"), line("  Two")]);
}

#[test]
fn tools_show_what_they_got_and_gave() {
    let mut run = Script::new();
    let digest = "0".repeat(64);
    let call =
        |id: &str| json!({"toolUseId": id, "name": "clock", "input": {"zone": "UTC"}, "digest": digest, "turn": 0});
    assert_eq!(run.event("tool_call", call("c1")), [line("→ clock {\"zone\":\"UTC\"}")]);
    assert_eq!(run.view.doing(), "running clock · turn 1");
    assert_eq!(
        run.event(
            "tool_result",
            json!({"toolUseId": "c1", "name": "clock", "ok": true, "status": "ok", "result": {"utc": "x"},
                "resultBytes": 9, "telemetry": {"durationMs": 3}})
        ),
        [line("✓ clock 3ms {\"utc\":\"x\"}")]
    );
    run.event("tool_call", call("c2"));
    assert_eq!(
        run.event(
            "tool_result",
            json!({"toolUseId": "c2", "name": "clock", "ok": false, "status": "outcome_unknown", "resultBytes": 0,
                "error": {"kind": "outcome_unknown", "message": "lost"}})
        ),
        [line("✗ clock outcome unknown 10ms: outcome unknown: lost")]
    );
}

#[test]
fn awaits_say_what_to_type() {
    let item = json!({"item": {"id": "await-1", "kind": "clarification", "prompt": "Who?", "openedAt": 0, "onExpiry": "replan"}});
    let mut run = Script::new();
    assert_eq!(
        run.event("await_opened", item.clone()),
        [line("? await-1 asks: Who?"), line("  $ windlass runs answer run-1 await-1 'YOUR ANSWER'")]
    );
    assert_eq!(run.view.doing(), "waiting for await-1");
    assert_eq!(
        run.event("await_closed", json!({"awaitId": "await-1", "outcome": "answered", "actor": "ann"})),
        [line("✓ await-1 answered by ann")]
    );
    let mut asked = Script::new();
    asked.view.asks_directly = true;
    assert_eq!(asked.event("await_opened", item), [line("? await-1 asks: Who?")]);
}

#[test]
fn every_end_says_how_it_ended() {
    let facts = json!({"turns": 1, "toolCalls": 2, "activeMs": 1500, "usage": {"totalTokens": 12}});
    let with = |more: Value| {
        let mut all = facts.as_object().unwrap().clone();
        all.extend(more.as_object().unwrap().clone());
        Value::Object(all)
    };
    let mut run = Script::new();
    run.message(0, "Hi");
    assert_eq!(
        run.event("result", with(json!({"text": "Hi", "subtype": "success", "finishReason": "end_turn"}))),
        [line("✓ completed · 1 turn · 2 calls · 1.5s of work · 12 tokens")]
    );
    assert_eq!(
        run.event(
            "result",
            with(json!({"text": "Late", "subtype": "success", "finishReason": null, "finalized": "tool_cap"}))
        ),
        [
            text("Late"),
            Show::EndText,
            line("✓ completed early (all tool calls are used up) · 1 turn · 2 calls · 1.5s of work · 12 tokens")
        ]
    );
    assert_eq!(
        run.event("error", with(json!({"code": "RUN0001", "error": "no model", "retryable": false}))),
        [line("✗ failed: RUN0001: no model · 1 turn · 2 calls · 1.5s of work · 12 tokens")]
    );
    assert_eq!(
        run.event("cancelled", with(json!({"reason": "enough"}))),
        [line("✗ cancelled: enough · 1 turn · 2 calls · 1.5s of work · 12 tokens")]
    );
}

#[test]
fn something_in_the_middle_of_a_text_ends_its_line() {
    let mut run = Script::new();
    run.delta(0, 1, "Thinking");
    assert_eq!(
        run.event("steered", json!({"text": "faster", "requestedBy": "ann"})),
        [Show::EndText, line("! steered by ann: faster")]
    );
    assert_eq!(run.delta(0, 1, " on"), [text(" on")]);
    assert_eq!(run.message(0, "Thinking on"), [Show::EndText]);
}

#[test]
fn an_event_of_a_newer_build_is_shown_as_data() {
    assert_eq!(Script::new().event("hologram", json!({"x": 1})), [line("· hologram {\"x\":1}")]);
}
