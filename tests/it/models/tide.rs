//! A whole run through a provider: a plan, a tool, a person's consent, the answer. The worker is killed in the middle of two
//! streams, and another one takes over.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_core::{
    agent::AgentDefinition,
    event::{Event, EventBody},
    ids::{RunId, WorkspaceId},
    time::Millis,
};
use windlass_ops::RunOps;

use super::peers::{Aimock, Asked};
use crate::support::{
    World, checks,
    process::Workshop,
    server,
    world::{client, open_store, within},
};

const QUESTION: &str = "When is high tide?";
const CONSENT: &str = "The harbour master is asked by telephone, and that needs your consent. Do you agree?";
const ANSWER: &str =
    "High tide is at six in the evening, at the pier as well as in the harbour; the boat can leave at five.";

/// Deltas of a turn before the worker is killed. The whole text has many more.
const DELTAS: usize = 4;

/// What aimock says to a model, turn by turn. The first streams of the turns in which the worker is killed take longer than
/// the kill; the second ones are quick. aimock finds the turn by the number of messages and calls of the model before it.
pub(super) fn fixtures(model: &str, per_turn: u32) -> Vec<Value> {
    let said = |turn: u32, text: &str, tool: Option<&str>| {
        let mut response = json!({"content": text});
        if let Some(name) = tool {
            response["toolCalls"] = json!([{"name": name, "arguments": json!({"n": turn}).to_string()}]);
        }
        json!({"match": {"model": model, "userMessage": QUESTION, "turnIndex": turn * per_turn}, "response": response})
    };
    let slow = |mut fixture: Value| {
        fixture["match"]["sequenceIndex"] = json!(0);
        (fixture["latency"], fixture["chunkSize"]) = (json!(250), json!(2));
        fixture
    };
    let quick = |mut fixture: Value| {
        fixture["match"]["sequenceIndex"] = json!(1);
        (fixture["latency"], fixture["chunkSize"]) = (json!(5), json!(8));
        fixture
    };
    let consent = said(1, CONSENT, Some("once"));
    let answer = said(2, ANSWER, None);
    vec![
        said(0, "I look at the table first.", Some("again")),
        slow(consent.clone()),
        quick(consent),
        slow(answer.clone()),
        quick(answer),
    ]
}

/// A provider for the run: its `windlass.toml`, the model by its name there and by its name in aimock.
pub(super) struct Provider {
    pub(super) config: String,
    pub(super) model: &'static str,
    pub(super) asked_as: &'static str,
    /// Messages and calls that aimock counts in a turn with a text and a call. In Responses both are items of their own.
    pub(super) per_turn: u32,
    /// The path of its requests in aimock's journal.
    pub(super) path: &'static str,
    pub(super) environment: Vec<(&'static str, String)>,
}

/// Runs it and returns a line with the counts.
pub(super) async fn run(aimock: &Aimock, provider: Provider) -> String {
    let Provider { config, model, asked_as, per_turn, path, environment } = provider;
    let mut workshop = Workshop::new(&server::shared().address, &json!({}));
    workshop.configure(&config);
    workshop.environment = environment;
    // With a cache, tasks would wait for the killed worker before another one gets them.
    workshop.cached_runs = 0;
    let world = beside(&workshop).await;
    let run = start(&world, model).await;

    let first = workshop.spawn();
    until_streamed(&world, &run, 1).await;
    drop(first);
    let second = workshop.spawn();
    let question = world.opened(&run, 1).await;
    world.approve(&run, &question).await;
    until_streamed(&world, &run, 2).await;
    drop(second);
    let _third = workshop.spawn();
    let output = world.result(&run).await.unwrap_or_else(|end| panic!("{model}: {end}"));

    let log = world.events(&run).await;
    checks::log_is_gapless_with_one_terminal_event_at_its_end(&log);
    let transcript = world.transcript(&run).await;
    checks::every_call_has_one_result(&transcript);
    assert_eq!(transcript.last().unwrap().plain_text(), ANSWER, "{model}");
    assert_eq!((output.turns, output.tool_calls), (3, 2), "{model}");
    assert_eq!(restarts(&log), [1, 2], "{model}: the turns that were in flight begin again");
    for (turn, whole) in [(1, CONSENT), (2, ANSWER)] {
        let streamed = streamed(&log, turn);
        let (_, last) = streamed.last_key_value().unwrap();
        assert_eq!((streamed.len(), last.as_str()), (2, whole), "{model}: the last attempt streams the whole text");
        let (_, broken) = streamed.first_key_value().unwrap();
        assert!(whole.starts_with(broken) && broken.len() < whole.len(), "{model}: killed in the middle: {broken}");
    }
    let begun = |what: &str| workshop.ledger().iter().filter(|entry| entry.what == what).count();
    assert_eq!((begun("begin-again"), begun("begin-once")), (1, 1), "{model}: each tool is called once");

    let journal = aimock.journal(asked_as).await;
    let turns: Vec<u32> = journal.iter().map(|asked| asked.turn / per_turn).collect();
    assert_eq!(turns, [0, 1, 1, 2, 2], "{model}: one more request for each turn in flight");
    let again = asked_after_it_was_recorded(&journal, &turns, &log);
    assert_eq!(again, 0, "{model}: {journal:?}");
    for asked in &journal {
        assert!(asked.path.contains(path) && asked.status == 200, "{model}: {asked:?}");
    }
    format!(
        "{model}: 3 turns, 2 tool calls, 1 consent, 2 kills in a stream (after {} and {} bytes of text); {} requests, \
         {again} for a turn that was recorded",
        streamed(&log, 1)[&1].len(),
        streamed(&log, 2)[&1].len(),
        journal.len(),
    )
}

/// Requests for a turn after its response was recorded.
fn asked_after_it_was_recorded(journal: &[Asked], turns: &[u32], log: &[Event]) -> usize {
    let recorded = log.iter().filter_map(|event| match event.body().unwrap() {
        EventBody::AssistantMessage { turn, .. } => Some((turn, event.at.0)),
        _ => None,
    });
    let recorded: BTreeMap<u32, u64> = recorded.collect();
    turns.iter().zip(journal).filter(|(turn, asked)| asked.at > recorded[turn]).count()
}

/// A world whose workers are the workshop's processes.
async fn beside(workshop: &Workshop) -> World {
    let (client, store) = (client().await, Arc::new(open_store(workshop.dir.path())));
    let mut world = World::with_store(client.clone(), store.clone(), TempDir::new().unwrap(), json!({}));
    world.ops = RunOps::new(client, store, workshop.task_queue.clone(), WorkspaceId::new("test"));
    world
}

async fn start(world: &World, model: &str) -> RunId {
    let schema = json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let consent = json!({"title": "Call", "prompt": "Call the harbour master?"});
    let tools = json!([
        {"name": "again", "description": "Reads the table", "inputSchema": schema},
        {"name": "once", "description": "Calls the harbour master", "inputSchema": schema, "confirmation": consent},
    ]);
    let agent = json!({"id": "tide", "model": model, "instructions": "Use the tools.", "tools": tools});
    let agent: AgentDefinition = serde_json::from_value(agent).unwrap();
    world
        .start_with(agent, QUESTION, |start| {
            start.tuning.as_mut().unwrap().heartbeat_timeout_ms = Some(Millis(3000));
        })
        .await
}

/// Waits until the log has some text of a turn, whose response must not be there yet.
async fn until_streamed(world: &World, run: &RunId, of: u32) {
    let streaming = async {
        let mut watch = world.ops.store().watch(run);
        loop {
            let bodies = world.bodies(run).await;
            let count = |fits: fn(&EventBody, u32) -> bool| bodies.iter().filter(|body| fits(body, of)).count();
            let over = count(|body, of| matches!(body, EventBody::AssistantMessage { turn, .. } if *turn == of));
            assert_eq!(over, 0, "turn {of} was over before the kill");
            if count(|body, of| matches!(body, EventBody::AssistantDelta { turn, .. } if *turn == of)) >= DELTAS {
                return;
            }
            watch.changed().await;
        }
    };
    within("text", streaming).await;
}

fn restarts(log: &[Event]) -> Vec<u32> {
    let restarted = log.iter().filter_map(|event| match event.body().unwrap() {
        EventBody::TurnRestarted { turn, .. } => Some(turn),
        _ => None,
    });
    restarted.collect()
}

/// The text of a turn's deltas, by attempt.
fn streamed(log: &[Event], of: u32) -> BTreeMap<u32, String> {
    let mut texts: BTreeMap<u32, String> = BTreeMap::new();
    for event in log {
        if let EventBody::AssistantDelta { text, turn, attempt, .. } = event.body().unwrap()
            && turn == of
        {
            texts.entry(attempt).or_default().push_str(&text);
        }
    }
    texts
}
