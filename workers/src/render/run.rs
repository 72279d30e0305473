//! Runs in a list, and one run in detail.

use windlass_core::{
    awaits::AwaitView,
    envelope::RunStatusView,
    event::{Event, EventBody},
    ids::RunId,
    run::RunStatus,
    run_usage::RunUsage,
    time::Timestamp,
};
use windlass_store::RunRow;

use super::{
    Hint, Paint, Table, age, await_lines, clean, duration,
    event_line::{cached, cost},
    event_summary, how_to_answer, moment, one_line,
};

/// How much of an input a list shows at most.
const INPUT: usize = 200;

/// Runs, one per line.
pub fn run_table(runs: &[RunRow], now: Timestamp, width: Option<u16>) -> String {
    let mut table = Table::new(&["RUN", "AGENT", "STATUS", "PHASE", "AGE", "INPUT"]);
    for run in runs {
        table.row(vec![
            run.id.to_string(),
            one_line(run.agent_id.as_str(), 40),
            run.status.as_str().to_owned(),
            run.phase.as_str().to_owned(),
            age(now, run.created_at),
            one_line(&run.input_preview, INPUT),
        ]);
    }
    table.render(width)
}

/// The facts about a run.
#[derive(Debug)]
pub struct Details {
    pub row: RunRow,
    /// The workflow's state, if a worker answered.
    pub live: Option<RunStatusView>,
    /// Turns, calls and tokens, so far or in all.
    pub spent: RunUsage,
    pub awaits: Vec<AwaitView>,
    /// The events of awaits that were answered or ended otherwise, oldest first.
    pub answers: Vec<Event>,
    pub children: Vec<RunRow>,
    /// Its last tool results, oldest first.
    pub results: Vec<Event>,
    /// Its terminal event.
    pub end: Option<Event>,
}

/// A run in detail.
pub fn details(run: &Details, now: Timestamp, hint: &Hint, paint: Paint) -> String {
    let Details { row, live, awaits, answers, children, results, end, .. } = run;
    let mut lines = facts(run, now).iter().map(|(name, value)| fact(name, value, paint)).collect::<Vec<_>>();
    if live.is_none() && !row.status.is_terminal() {
        lines.push(paint.attention("! no worker answered in time; this is what the store knows"));
    }
    if !results.is_empty() {
        lines.extend([String::new(), paint.bold("Last tool results")]);
        lines.extend(results.iter().map(|event| format!("  {}", event_summary(event))));
    }
    if !answers.is_empty() {
        lines.extend([String::new(), paint.bold("Answers")]);
        lines
            .extend(answers.iter().map(|event| format!("  {} {}", paint.dim(&moment(event.at)), event_summary(event))));
    }
    if let Some(end) = end {
        lines.extend([String::new(), paint.bold("End")]);
        lines.extend(last_words(end).lines().map(|line| format!("  {line}")));
    }
    if !children.is_empty() {
        lines.extend([String::new(), paint.bold("Runs below")]);
        lines.extend(children.iter().map(|child| format!("  {}", child_line(child))));
    }
    if !awaits.is_empty() {
        lines.extend([String::new(), paint.bold("Waits for")]);
        lines.extend(awaits.iter().flat_map(|item| await_block(hint, &row.id, item, paint)));
    }
    lines.join("\n")
}

fn await_block(hint: &Hint, run: &RunId, item: &AwaitView, paint: Paint) -> Vec<String> {
    let commands = how_to_answer(hint, run, item).into_iter().map(|command| format!("  $ {command}"));
    await_lines(item, paint).into_iter().chain(commands).map(|line| format!("  {line}")).collect()
}

/// The final answer, not cut.
pub(super) fn last_words(end: &Event) -> String {
    match end.body() {
        Ok(EventBody::Result { text, error: None, .. }) => clean(&text),
        _ => event_summary(end),
    }
}

fn child_line(child: &RunRow) -> String {
    format!("{}  agent {}  {}", child.id, child.agent_id, child.status.as_str())
}

fn fact(name: &str, value: &str, paint: Paint) -> String {
    format!("{} {value}", paint.bold(&format!("{name:<10}")))
}

fn facts(run: &Details, now: Timestamp) -> Vec<(&'static str, String)> {
    let row = &run.row;
    let mut facts = vec![
        ("run", row.id.to_string()),
        ("agent", format!("{} on {}", row.agent_id, one_line(&row.model_id, 80))),
        ("status", status(run)),
        ("workspace", row.workspace.to_string()),
    ];
    facts.extend(row.session.as_ref().map(|session| ("session", session.to_string())));
    facts.extend(row.parent.as_ref().map(|parent| ("parent", parent.to_string())));
    if !row.labels.is_empty() {
        let labels = row.labels.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
        facts.push(("labels", one_line(&labels.join(" "), INPUT)));
    }
    facts.push(("created", format!("{} ({} ago)", moment(row.created_at), age(now, row.created_at))));
    facts.extend(row.closed_at.map(|at| ("closed", format!("{} ({} ago)", moment(at), age(now, at)))));
    facts.push(("log", format!("{} events, {} messages", row.last_seq, row.head.len)));
    facts.push((if row.status.is_terminal() { "in all" } else { "so far" }, spent(run)));
    facts.push(("input", one_line(&row.input_preview, INPUT)));
    facts
}

fn status(run: &Details) -> String {
    let (status, phase) = run.live.as_ref().map_or((run.row.status, run.row.phase), |live| (live.status, live.phase));
    let paused = run.live.as_ref().and_then(|live| live.paused_by.as_deref()).filter(|who| !who.is_empty());
    let paused = paused.map(|who| format!(" by {}", one_line(who, 80))).unwrap_or_default();
    match status {
        RunStatus::Running => format!("{}, {}", status.as_str(), phase.as_str().replace('_', " ")),
        status => format!("{}{paused}", status.as_str()),
    }
}

fn spent(run: &Details) -> String {
    let RunUsage { turns, tool_calls, usage, active_ms } = &run.spent;
    let worked = active_ms.map(|worked| format!(", {} of work", duration(worked))).unwrap_or_default();
    let left = run.live.as_ref().and_then(|live| live.remaining_ms);
    let left = left.map(|left| format!(", {} of work left", duration(left))).unwrap_or_default();
    let (cached, cost) = (cached(usage), cost(usage));
    format!("{turns} turns, {tool_calls} calls, {} tokens{cached}{cost}{worked}{left}", usage.total_tokens)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp(1_769_850_300_000);

    fn row(id: &str, more: Value) -> RunRow {
        let zero = "0".repeat(64);
        let mut fields = json!({
            "id": id, "workspace": "default", "session": null, "agentId": "demo", "agentDigest": zero,
            "modelId": "script:demo", "parent": null, "parentCall": null, "children": [], "labels": {}, "metadata": {},
            "status": "running", "phase": "executing_tools", "inputPreview": "Write a\nnote", "createdAt": NOW.0 - 5_000,
            "updatedAt": NOW.0, "closedAt": null, "head": {"len": 3, "digest": zero}, "lastSeq": 9,
        });
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value(fields).unwrap()
    }

    #[test]
    fn a_list_is_a_table() {
        let runs =
            [row("run-2", json!({})), row("run-1", json!({"status": "completed", "phase": "done", "createdAt": 0}))];
        let expected = "\
RUN    AGENT  STATUS     PHASE            AGE     INPUT
run-2  demo   running    executing_tools  5s      Write a note
run-1  demo   completed  done             20484d  Write a note";
        assert_eq!(run_table(&runs, NOW, None), expected);
    }

    #[test]
    fn details_say_what_to_do_next() {
        let item =
            json!({"id": "await-1", "kind": "clarification", "prompt": "Who?", "openedAt": 0, "onExpiry": "replan"});
        let live = json!({
            "runId": "run-2", "agentId": "demo", "status": "waiting", "phase": "waiting", "turn": 2, "toolCalls": 2,
            "pendingAwaits": 1, "remainingMs": 60_000, "transcript": {"len": 3, "digest": "0".repeat(64)},
            "usage": {"totalTokens": 42}, "stateDigest": "0".repeat(64),
        });
        let result =
            json!({"toolUseId": "c", "name": "clock", "ok": true, "status": "ok", "result": 5, "resultBytes": 1});
        let live: RunStatusView = serde_json::from_value(live).unwrap();
        let run = Details {
            row: row("run-2", json!({"session": "s1", "labels": {"team": "a"}})),
            spent: RunUsage::from(&live),
            live: Some(live),
            answers: Vec::new(),
            awaits: vec![serde_json::from_value(item).unwrap()],
            children: vec![row("run-2/call-0-0", json!({"status": "completed"}))],
            results: vec![Event { seq: 8, at: NOW, key: "k".into(), kind: "tool_result".into(), data: result }],
            end: None,
        };
        let expected = "\
run        run-2
agent      demo on script:demo
status     waiting
workspace  default
session    s1
labels     team=a
created    2026-01-31T09:04:55.000Z (5s ago)
log        9 events, 3 messages
so far     2 turns, 2 calls, 42 tokens, 1m 00s of work left
input      Write a note

Last tool results
  c clock ok: 5

Runs below
  run-2/call-0-0  agent demo  completed

Waits for
  ? await-1 asks: Who?
    $ windlass runs answer run-2 await-1 'YOUR ANSWER'";
        assert_eq!(details(&run, NOW, &Hint::new("windlass", []), Paint::PLAIN), expected);
    }

    #[test]
    fn a_run_that_has_ended_keeps_its_numbers_its_answers_and_its_last_word_whole() {
        let data = json!({"text": "One\nTwo", "subtype": "success", "finishReason": null, "turns": 3, "toolCalls": 2,
            "activeMs": 1500, "usage": {"totalTokens": 42}});
        let end = Event { seq: 9, at: NOW, key: "k".into(), kind: "result".into(), data };
        let answered = json!({"awaitId": "await-1", "outcome": "answered", "actor": "ann", "answer": "the team"});
        let run = Details {
            row: row("run-2", json!({"status": "completed", "closedAt": NOW.0})),
            live: None,
            spent: RunUsage::of(std::slice::from_ref(&end)),
            awaits: Vec::new(),
            answers: vec![Event { seq: 4, at: NOW, key: "k".into(), kind: "await_closed".into(), data: answered }],
            children: Vec::new(),
            results: Vec::new(),
            end: Some(end),
        };
        let text = details(&run, NOW, &Hint::new("windlass", []), Paint::PLAIN);
        assert!(text.contains("\nin all     3 turns, 2 calls, 42 tokens, 1.5s of work\n"), "{text}");
        let answers = "\n\nAnswers\n  2026-01-31T09:05:00.000Z await-1 answered by ann: the team";
        assert!(text.ends_with(&format!("{answers}\n\nEnd\n  One\n  Two")), "{text}");
    }

    #[test]
    fn without_a_worker_the_store_speaks() {
        let run = Details {
            row: row("run-2", json!({})),
            live: None,
            spent: RunUsage::default(),
            awaits: Vec::new(),
            answers: Vec::new(),
            children: Vec::new(),
            results: Vec::new(),
            end: None,
        };
        let text = details(&run, NOW, &Hint::new("windlass", []), Paint::PLAIN);
        assert!(text.contains("status     running, executing tools\n"), "{text}");
        assert!(text.ends_with("! no worker answered in time; this is what the store knows"), "{text}");
    }
}
