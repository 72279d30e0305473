use serde_json::{Value, json};
use windlass_core::{envelope::Extra, time::Timestamp};

use super::*;
use crate::render::Paint;

fn event(seq: u64, kind: &str, data: Value) -> Event {
    Event { seq, at: Timestamp(seq * 1000), key: "k".into(), kind: kind.into(), data }
}

fn assistant(parts: Value) -> Message {
    Message::new(Role::Assistant, serde_json::from_value(parts).unwrap())
}

fn said_in(seq: u64, turn: u32) -> Event {
    event(seq, "assistant_message", json!({"text": "", "turn": turn, "finishReason": null, "model": "m"}))
}

fn shown(said: &[Entry], full: bool) -> String {
    transcript_lines(said, full, Paint::PLAIN).join("\n")
}

/// A session's run that thinks, calls, asks, is denied a call and answers.
fn whole() -> (Vec<Message>, Vec<Event>) {
    let result = |id: &str, content: Value, is_error: bool| json!([{"kind": "tool_result", "toolUseId": id, "content": content, "isError": is_error}]);
    let user = |parts: Value| Message::new(Role::User, serde_json::from_value(parts).unwrap());
    let messages = vec![
        Message::user("before"),
        Message::assistant("indeed"),
        Message::user("go\u{1b}"),
        assistant(json!([
            {"kind": "thinking", "text": "hm"}, {"kind": "text", "text": "Let me see."},
            {"kind": "tool_use", "id": "call-0-0", "name": "clock", "input": {"a": 1}},
        ])),
        user(result("call-0-0", json!({"utc": "noon"}), false)),
        assistant(json!([{"kind": "text", "text": "Who?"}])),
        Message::user("the team\nand you"),
        assistant(json!([{"kind": "tool_use", "id": "call-2-0", "name": "pay", "input": {}}])),
        user(result("call-2-0", json!({"error": "not executed: ann denied it: no", "kind": "denied"}), true)),
        assistant(json!([{"kind": "text", "text": "Done."}])),
    ];
    let asked = json!({"item": {"id": "await-1", "kind": "clarification", "prompt": "Who?", "openedAt": 0, "onExpiry": "replan"}});
    let ended = |id: &str, ok: bool, error: Option<Value>| {
        json!({"toolUseId": id, "name": if ok { "clock" } else { "pay" }, "ok": ok, "status": if ok { "ok" } else { "refused" },
            "resultBytes": 9, "error": error, "telemetry": {"durationMs": 12}})
    };
    let denied = json!({"kind": "denied", "message": "not executed: ann denied it: no"});
    let end = json!({"text": "Done.", "subtype": "success", "finishReason": null, "turns": 4, "toolCalls": 1, "activeMs": 1, "usage": {}});
    let log = vec![
        event(1, "started", json!({"agentId": "a", "workspace": "w", "modelId": "m"})),
        said_in(2, 0),
        event(3, "tool_result", ended("call-0-0", true, None)),
        said_in(4, 1),
        event(5, "await_opened", asked),
        event(
            6,
            "await_closed",
            json!({"awaitId": "await-1", "outcome": "answered", "actor": "ann", "answer": "the team\nand…"}),
        ),
        said_in(7, 2),
        event(8, "await_closed", json!({"awaitId": "await-2", "outcome": "denied", "actor": "ann", "answer": "no"})),
        event(9, "tool_result", ended("call-2-0", false, Some(denied))),
        said_in(10, 3),
        event(11, "result", end),
    ];
    (messages, log)
}

#[test]
fn a_conversation_says_who_said_what_and_what_was_answered() {
    let (messages, log) = whole();
    let expected = "\
user · earlier in the session
  before
assistant · earlier in the session
  indeed
user
  go�
assistant · turn 1 · 1970-01-01T00:00:02.000Z
  (thinking) hm
  Let me see.
  → clock (call-0-0) {\"a\":1}
✓ clock (call-0-0) 12ms · 1970-01-01T00:00:03.000Z
  {\"utc\":\"noon\"}
assistant · turn 2 · 1970-01-01T00:00:04.000Z
  Who?
? await-1 asks: Who? · 1970-01-01T00:00:05.000Z
✓ await-1 answered by ann · 1970-01-01T00:00:06.000Z
  the team
  and you
assistant · turn 3 · 1970-01-01T00:00:07.000Z
  → pay (call-2-0) {}
✗ await-2 denied by ann · 1970-01-01T00:00:08.000Z
  no
✗ pay (call-2-0) 12ms · 1970-01-01T00:00:09.000Z
  {\"error\":\"not executed: ann denied it: no\",\"kind\":\"denied\"}
assistant · turn 4 · 1970-01-01T00:00:10.000Z
  Done.
✓ completed · 1970-01-01T00:00:11.000Z";
    assert_eq!(shown(&conversation(&messages, 3, 2, &log), false), expected);
}

#[test]
fn a_run_under_way_is_told_from_its_log_where_its_messages_end() {
    let (messages, log) = whole();
    let entries = conversation(&messages[..4], 3, 2, &log[..3]);
    assert!(matches!(&entries[..], [.., Entry::Result { content: None, bytes: Some(9), .. }]), "{entries:?}");
    assert!(shown(&entries, false).ends_with("\n  9 bytes; shown after the next turn"));
    // A log of an older build does not say what was answered; the message does.
    let mut old = log;
    old[5] = event(6, "await_closed", json!({"awaitId": "await-1", "outcome": "answered", "actor": "ann"}));
    let text = shown(&conversation(&messages, 3, 2, &old), false);
    assert!(
        text.contains("\n✓ await-1 answered by ann · 1970-01-01T00:00:06.000Z\nuser\n  the team\n  and you\n"),
        "{text}"
    );
}

#[test]
fn long_bodies_are_cut_unless_all_of_them_is_wanted() {
    let long = "x".repeat(1000);
    let input = json!({"a": long, "b": [1]});
    let messages = [assistant(json!([{"kind": "tool_use", "id": "c", "name": "t", "input": input}]))];
    let entries = conversation(&messages, 1, 0, &[]);
    let lines = transcript_lines(&entries, false, Paint::PLAIN);
    assert_eq!((lines.len(), lines[1].chars().last()), (2, Some('…')));
    assert!(shown(&entries, true).contains(&format!("\n  → t (c)\n    {{\n      \"a\": \"{long}\",")));
}

#[test]
fn the_runtimes_own_words_are_not_a_persons() {
    let mut nudge = Message::user("Change your strategy.");
    nudge.meta = Extra::from_iter([(NUDGE_MARK.to_owned(), json!(true))]);
    assert_eq!(shown(&conversation(&[nudge], 0, 0, &[]), false), "windlass\n  Change your strategy.");
}

#[test]
fn a_file_is_shown_by_its_kind_and_size_wherever_its_bytes_are() {
    // Base64 of 3,000 bytes; as a body in the store it has two quotes.
    let (inline, blob) = ("A".repeat(4000), json!({"digest": "0".repeat(64), "bytes": 4002}));
    let parts = json!([
        {"kind": "image", "format": "png", "bytes": inline},
        {"kind": "image", "format": "png", "source": {"blob": blob}},
        {"kind": "document", "name": "d", "format": "pdf", "source": {"bytes": inline}, "cite": false},
        {"kind": "document", "name": "d", "format": "pdf", "source": {"blob": blob}, "cite": false},
    ]);
    let lines = shown(&conversation(&[assistant(parts)], 1, 0, &[]), false);
    assert_eq!(lines.matches("[image, png, 3000 bytes]").count(), 2, "{lines}");
    assert_eq!(lines.matches("[document d, pdf, 3000 bytes]").count(), 2, "{lines}");
}
