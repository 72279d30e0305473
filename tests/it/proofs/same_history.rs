//! The embedded engine and the real server write the same history for the same run, event for event.
//!
//! Ids, times and the server's bookkeeping are replaced by what they mean: the second run id that appears is `id-2` on
//! both sides. Everything else is compared, payloads included.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD as STANDARD};
use serde_json::{Map, Value, json};
use temporalio_client::UntypedWorkflow;
use windlass_core::{envelope::AnswerBody, ids::RunId};

use crate::{
    replay::shapes::{self, SHAPES},
    support::{
        World, agent, block_on, calls, says, script,
        server::Backend,
        world::{scripts, within},
    },
};

/// Shapes whose calls run side by side, or are answered the moment the log shows them, while the activity that wrote the
/// log is about to end: which comes first is chance, on either server.
const RACING: [&str; 9] = [
    "tools",
    "awaits",
    "paused",
    "lost_call",
    "client_tools",
    "local_timeout",
    "temporal_tools",
    "heartbeats",
    "rounds",
];

/// How often a run is played whose histories differ: a machine that stands still long enough lets awaits expire before
/// their timers are set, on either server.
const PLAYS: usize = 4;

/// Where the server may say what it likes.
const IGNORED: [&str; 13] = [
    "event_time",
    "task_id",
    "version",
    "history_size_bytes",
    "identity",
    "request_id",
    "worker_version",
    "binary_checksum",
    "build_id",
    "create_time",
    "expire_time",
    "priority",
    "links",
];

/// Figures inside payloads that are measured rather than decided.
const MEASURED: [&str; 10] = [
    "activeMs",
    "openedAt",
    "expiresAt",
    "startedAt",
    "at",
    "complete_time",
    "original_schedule_time",
    "used",
    "durationMs",
    "maxDurationMs",
];

#[test]
fn runs_have_the_same_history_on_both_servers() {
    block_on(async {
        let (mut equal, mut events, mut again) = (0, 0, 0);
        let mut different = Vec::new();
        for name in corpus() {
            let mut plays = 1;
            let mut compared = compare(&name).await;
            while compared.is_err() && plays < PLAYS {
                plays += 1;
                compared = compare(&name).await;
            }
            again += plays - 1;
            match compared {
                Ok(of_run) => (equal, events) = (equal + 1, events + of_run),
                Err(difference) => different.push(difference),
            }
        }
        let all = equal + different.len();
        println!("same history: {equal} of {all} runs equal, {events} events compared, {again} played again");
        assert!(different.is_empty(), "{}", different.join("\n\n"));
    });
}

/// Plays a run on both servers. Returns how many events were equal, or the first that were not.
async fn compare(name: &str) -> Result<usize, String> {
    let real = history_of(name, Backend::Temporal).await;
    let ours = history_of(name, Backend::Embedded).await;
    let first = match real.iter().zip(&ours).position(|(real, ours)| real != ours) {
        None if real.len() == ours.len() => return Ok(real.len()),
        first => first.unwrap_or_else(|| real.len().min(ours.len())),
    };
    Err(format!(
        "{name}, event {}: the real server has\n{:#}\nand the engine\n{:#}",
        first + 1,
        real.get(first).unwrap_or(&Value::Null),
        ours.get(first).unwrap_or(&Value::Null)
    ))
}

/// The recorded shapes without those that race, and more runs that take one step at a time.
fn corpus() -> Vec<String> {
    let recorded = SHAPES.iter().map(|(name, _)| *name).filter(|name| !RACING.contains(name));
    recorded
        .chain(["one_call", "failing_call", "large_result", "many_turns", "asked", "approved", "denied", "external"])
        .map(str::to_owned)
        .collect()
}

async fn history_of(name: &str, backend: Backend) -> Vec<Value> {
    let world = World::on(backend, scripts_of(name)).await;
    world.start_worker();
    let run = play(name, &world).await;
    let handle = world.ops.client().get_workflow_handle::<UntypedWorkflow>(run.to_string());
    let json = within("the history", handle.fetch_history(Default::default()).to_json()).await.unwrap();
    let history: Value = serde_json::from_slice(&json).unwrap();
    let mut names = Names::default();
    history["events"].as_array().unwrap().iter().map(|event| names.normal(event)).collect()
}

fn scripts_of(name: &str) -> Value {
    let turns = match name {
        "one_call" => script(&[calls(&[("echo", json!({"n": 1}))]), says("done")]),
        "failing_call" => script(&[calls(&[("fail", json!({}))]), says("{{last_tool_result}}")]),
        "large_result" => script(&[calls(&[("echo", json!({"bytes": 5000}))]), says("done")]),
        "many_turns" => {
            let mut turns: Vec<Value> = (0..6).map(|n| calls(&[("echo", json!({"n": n}))])).collect();
            turns.push(says("done"));
            script(&turns)
        }
        "asked" => script(&[
            json!({"text": "Let me ask.", "await": {"kind": "clarification", "question": "city?", "expires_in_ms": 600_000}}),
            says("{{last_user}}"),
        ]),
        "approved" | "denied" => script(&[calls(&[("echo", json!({"n": 1}))]), says("{{last_tool_result}}")]),
        "external" => script(&[calls(&[("browser", json!({}))]), says("done")]),
        recorded => return shapes::scripts_of(recorded),
    };
    scripts([(name, turns)])
}

async fn play(name: &str, world: &World) -> RunId {
    if let Some((_, shape)) = SHAPES.iter().find(|(shape, _)| *shape == name) {
        return shape(world).await;
    }
    let tools = match name {
        "approved" | "denied" => json!([{"name": "echo", "confirmation": {}}]),
        "external" => json!([{"name": "browser", "kind": "external"}]),
        _ => json!([{"name": "echo"}, {"name": "fail"}]),
    };
    let run = world.start(agent(name, tools), "go").await;
    if matches!(name, "asked" | "approved" | "denied" | "external") {
        let item = world.opened(&run, 1).await;
        world.at_rest(&run).await;
        let answer = match name {
            "asked" => AnswerBody::Clarification { answer: "Oslo".into() },
            "external" => {
                let results = json!([{"toolCallId": item.calls[0].tool_call_id, "result": {"page": 1}}]);
                AnswerBody::ToolResults { results: serde_json::from_value(results).unwrap() }
            }
            _ => AnswerBody::Confirmation {
                approved: name == "approved",
                digest: Some(item.calls[0].digest),
                reason: None,
                grant: None,
            },
        };
        world.give(&run, &item, answer).await;
    }
    world.result(&run).await.unwrap();
    run
}

/// Ids in the order in which they appear.
#[derive(Default)]
struct Names {
    known: BTreeMap<String, String>,
}

impl Names {
    fn normal(&mut self, value: &Value) -> Value {
        match value {
            Value::Object(fields) => Value::Object(self.fields(fields)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.normal(item)).collect()),
            Value::String(text) => Value::String(self.text(text)),
            other => other.clone(),
        }
    }

    fn fields(&mut self, fields: &Map<String, Value>) -> Map<String, Value> {
        let mut normal = Map::new();
        for (key, value) in fields {
            if IGNORED.contains(&key.as_str()) {
                continue;
            }
            let value = match (key.as_str(), value) {
                ("data", Value::String(encoded)) => self.payload(encoded),
                // What is left of a wait or a budget when it begins: a few seconds more or less on a busy machine.
                (
                    "start_to_fire_timeout" | "schedule_to_close_timeout" | "schedule_to_start_timeout",
                    Value::String(span),
                ) => json!(half_minutes(span)),
                // A run that was continued soon after it began pauses for what is left of a second.
                ("first_workflow_task_backoff", _) => json!("measured"),
                // The worker keeps them in a set.
                ("core_used_flags", Value::Array(flags)) => {
                    let mut flags = flags.clone();
                    flags.sort_by_key(Value::as_u64);
                    json!(flags)
                }
                (key, _) if MEASURED.contains(&key) => json!("measured"),
                _ => self.normal(value),
            };
            normal.insert(key.clone(), value);
        }
        normal
    }

    /// A payload's JSON, so that ids and times in it can be told apart from the rest.
    fn payload(&mut self, encoded: &str) -> Value {
        let document = STANDARD.decode(encoded).ok().and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
        document.map_or_else(|| json!(encoded), |document| self.normal(&document))
    }

    fn text(&mut self, text: &str) -> String {
        let mut normal = String::new();
        let mut rest = text;
        while let Some((before, id, after)) = next_id(rest) {
            let next = format!("id-{}", self.known.len() + 1);
            normal.push_str(before);
            normal.push_str(self.known.entry(id.to_owned()).or_insert(next));
            rest = after;
        }
        normal.push_str(rest);
        normal
    }
}

/// The first UUID in a text, with or without dashes, and what is around it.
fn next_id(text: &str) -> Option<(&str, &str, &str)> {
    let bytes = text.as_bytes();
    let mut start = 0;
    while start < bytes.len() {
        if !text.is_char_boundary(start) || !bytes[start].is_ascii_hexdigit() {
            start += 1;
            continue;
        }
        let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_hexdigit() || **byte == b'-').count();
        let digits = bytes[start..start + length].iter().filter(|byte| byte.is_ascii_hexdigit()).count();
        if digits == 32 {
            let end = start + length;
            return Some((&text[..start], &text[start..end], &text[end..]));
        }
        start += length;
    }
    None
}

fn half_minutes(span: &str) -> f64 {
    span.trim_end_matches('s').parse::<f64>().map_or(-1.0, |seconds| (seconds / 30.0).round() * 30.0)
}
