//! The load: clients of the HTTP API that start runs of every kind and keep a ledger. A request without a response is
//! repeated, as the documentation tells clients.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tokio::sync::watch;

use crate::{
    hostile::wire::{Answer, Caller},
    proofs::dice::Dice,
};

/// A run that has not got further after this time is stuck.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks for an event.
const LOOK: Duration = Duration::from_millis(20);
/// Between two runs of one client.
const PACE: Duration = Duration::from_millis(40);
/// Questions that a client leaves open while it goes on.
const OPEN: usize = 20;

/// The kinds of runs and how many of a hundred runs are of each.
const KINDS: [(&str, u64); 8] =
    [("short", 40), ("ask", 15), ("boss", 10), ("chat", 10), ("add", 8), ("flaky", 7), ("talk", 6), ("long", 4)];

/// The options of `windlass dev` for this load.
pub(super) fn arguments() -> Vec<std::ffi::OsString> {
    let here = |name: &str| Path::new(env!("CARGO_MANIFEST_DIR")).join("it/soak").join(name);
    let files = ["--scripts".into(), here("scripts.json").into(), "--agents".into(), here("agents").into()];
    ["--port", "0", "--local-tool-timeout", "600s"].map(Into::into).into_iter().chain(files).collect()
}

/// What was asked for, and what the server acknowledged.
#[derive(Default)]
pub(super) struct Books {
    /// By the full ids of runs whose start was acknowledged: their final text, once it is certain.
    pub(super) runs: BTreeMap<String, Option<String>>,
    pub(super) findings: Vec<String>,
    latencies: Vec<f64>,
    counts: Counts,
}

#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    pub(super) runs: u64,
    pub(super) requests: u64,
    pub(super) repeated: u64,
    pub(super) kinds: BTreeMap<&'static str, u64>,
}

#[derive(Clone)]
pub(super) struct Client {
    caller: Caller,
    books: Arc<Mutex<Books>>,
    up: watch::Receiver<bool>,
    stop: watch::Receiver<bool>,
}

/// A run whose question is not answered yet.
struct Question {
    run: String,
    id: Value,
    answer: String,
}

impl Client {
    pub(super) fn new(address: &str, up: watch::Receiver<bool>, stop: watch::Receiver<bool>) -> Self {
        Self { caller: Caller::of_dev(address), books: Arc::default(), up, stop }
    }

    pub(super) fn books(&self) -> MutexGuard<'_, Books> {
        self.books.lock().unwrap()
    }

    pub(super) fn counts(&self) -> Counts {
        self.books().counts.clone()
    }

    /// Milliseconds of the short runs that have ended since the last time.
    pub(super) fn take_latencies(&self) -> Vec<f64> {
        std::mem::take(&mut self.books().latencies)
    }

    /// Executes runs of random kinds until it is told to stop. Then every open question is answered.
    pub(super) async fn work(self, number: u64, seed: u64) {
        let mut dice = Dice::seeded(seed.wrapping_mul(1000) + number);
        let mut open: Vec<Question> = Vec::new();
        let mut conversation = None;
        let mut pace = tokio::time::interval(PACE);
        for turn in 0.. {
            pace.tick().await;
            if *self.stop.borrow() {
                break;
            }
            let (kind, chosen) = (kind(&mut dice), format!("soak-{number}-{turn}"));
            *self.books().counts.kinds.entry(kind).or_default() += 1;
            match kind {
                "ask" => open.extend(self.ask(&chosen).await),
                "add" => self.add(&chosen).await,
                "chat" => self.chat(&chosen, &mut conversation).await,
                "talk" => self.talk(&chosen, dice.chance(50)).await,
                _ => self.complete(kind, &chosen).await,
            }
            // Some answers come at once, others much later, perhaps to another process.
            if !open.is_empty() && (dice.chance(25) || open.len() > OPEN) {
                let question = open.swap_remove(dice.roll(open.len() as u64) as usize);
                self.answer(question).await;
            }
        }
        for question in open {
            self.answer(question).await;
        }
    }

    /// Repeats a request until it gets a response. Returns whether it had to repeat it.
    pub(super) async fn insist(&self, method: &str, path: &str, body: Option<&Value>) -> (Answer, bool) {
        let mut repeated = false;
        loop {
            self.books().counts.requests += 1;
            match self.caller.request(method, path, body).await {
                Ok(answer) if answer.status != 503 => return (answer, repeated),
                _ => {
                    self.books().counts.repeated += 1;
                    repeated = true;
                    tokio::task::yield_now().await;
                    self.up.clone().wait_for(|up| *up).await.unwrap();
                }
            }
        }
    }

    fn finding(&self, what: String) {
        self.books().findings.push(what);
    }

    /// Starts a run. Its final text is certain if it does not depend on what comes later.
    async fn start(&self, path: &str, body: &Value, text: Option<String>) -> Option<(String, bool)> {
        let (answer, repeated) = self.insist("POST", path, Some(body)).await;
        let Some(run) = answer.body["runId"].as_str().filter(|_| answer.status == 202) else {
            self.finding(format!("start of {} (repeated: {repeated}): {answer:?}", body["runId"]));
            return None;
        };
        let mut books = self.books();
        books.counts.runs += 1;
        if books.runs.insert(run.to_owned(), text).is_some() {
            books.findings.push(format!("{run} was given to two runs"));
        }
        Some((run.to_owned(), repeated))
    }

    /// A run of an agent that needs nothing from its client.
    async fn complete(&self, kind: &str, chosen: &str) {
        let begun = Instant::now();
        let agent = json!({"runId": chosen, "agentId": kind, "prompt": chosen});
        let script = json!({
            "runId": chosen, "modelId": format!("script:{kind}"), "systemPrompt": "You are a test agent.", "prompt": chosen,
        });
        let body = if kind == "flaky" { script } else { agent };
        let Some((run, repeated)) = self.start("/agent-runs", &body, Some(format!("done {chosen}"))).await else {
            return;
        };
        if self.ended(&run).await && kind == "short" && !repeated {
            self.books().latencies.push(begun.elapsed().as_secs_f64() * 1000.0);
        }
    }

    /// Reads the run's stream until the run has ended. Returns whether no kill came in between.
    async fn ended(&self, run: &str) -> bool {
        let (path, deadline) = (format!("/agent-runs/{run}/stream"), Instant::now() + PATIENCE);
        let mut undisturbed = true;
        while Instant::now() < deadline {
            let (stream, repeated) = self.insist("GET", &path, None).await;
            undisturbed &= !repeated;
            let text = stream.body.as_str().unwrap_or_default();
            if text.contains("\"type\":\"result\"") || text.contains("event: result") {
                return undisturbed;
            }
            // The stream was cut off by a kill, or by the limit of its length.
            undisturbed = false;
            tokio::time::sleep(LOOK).await;
        }
        self.finding(format!("{run} has not ended"));
        false
    }

    /// A run that waits for an answer, which it is not given yet.
    async fn ask(&self, chosen: &str) -> Option<Question> {
        let body = self.of_script("ask", chosen, json!([]));
        let (run, _) = self.start("/agent-runs", &body, None).await?;
        let id = self.seen(format!("/agent-runs/{run}/awaits"), |body| {
            body["awaits"].as_array()?.first().map(|open| open["id"].clone())
        });
        Some(Question { id: id.await?, answer: format!("answer to {chosen}"), run })
    }

    async fn answer(&self, Question { run, id, answer }: Question) {
        let path = format!("/agent-runs/{run}/answers");
        let (reply, repeated) = self.insist("POST", &path, Some(&json!({"awaitId": id, "answer": answer}))).await;
        self.accepted(&run, "answer", &reply, repeated, format!("2 {answer}"));
    }

    /// A run whose client executes its tool.
    async fn add(&self, chosen: &str) {
        let tool = json!({"kind": "local", "name": "add", "parameters": {"type": "object"}});
        let body = self.of_script("add", chosen, json!([tool]));
        let Some((run, _)) = self.start("/agent-runs", &body, None).await else { return };
        let call = self.seen(format!("/agent-runs/{run}/events?limit=50"), |body| {
            let events = body["events"].as_array()?;
            let call = events.iter().find(|event| event["type"] == "local_tool_call")?;
            Some(call["data"]["toolUseId"].clone())
        });
        let Some(call) = call.await else { return };
        let result = json!({"toolUseId": call, "result": "5"});
        let (reply, repeated) = self.insist("POST", &format!("/agent-runs/{run}/tool-results"), Some(&result)).await;
        self.accepted(&run, "result", &reply, repeated, "sum=5".to_owned());
    }

    /// A repeated answer may have been accepted the first time: then it is a duplicate, or the run has ended.
    fn accepted(&self, run: &str, what: &str, reply: &Answer, repeated: bool, text: String) {
        if reply.status == 200 || (repeated && [404, 409].contains(&reply.status)) {
            self.books().runs.insert(run.to_owned(), Some(text));
        } else {
            self.finding(format!("{what} of {run} (repeated: {repeated}): {reply:?}"));
        }
    }

    /// The next message of a long conversation: its answer counts the messages so far.
    async fn chat(&self, chosen: &str, conversation: &mut Option<(String, u64)>) {
        if conversation.is_none() {
            let spec = json!({"modelId": "script:chat", "systemPrompt": "You are a test agent."});
            let (created, _) = self.insist("POST", "/agent-sessions", Some(&spec)).await;
            match created.body["sessionId"].as_str() {
                Some(session) => *conversation = Some((session.to_owned(), 0)),
                None => return self.finding(format!("a session was refused: {created:?}")),
            }
        }
        let Some((session, messages)) = conversation else { return };
        *messages += 1;
        let (path, body) = (format!("/agent-sessions/{session}/messages"), json!({"runId": chosen, "prompt": chosen}));
        let Some((run, _)) = self.start(&path, &body, Some(format!("{messages}: {chosen}"))).await else { return };
        self.ended(&run).await;
    }

    /// A run that is read while it talks, and perhaps paused and resumed.
    async fn talk(&self, chosen: &str, pauses: bool) {
        let text = "one two three four five six seven eight".to_owned();
        let body = self.of_script("talk", chosen, json!([]));
        let Some((run, _)) = self.start("/agent-runs", &body, Some(text)).await else { return };
        for control in ["pause", "resume"].into_iter().filter(|_| pauses) {
            let (reply, repeated) =
                self.insist("POST", &format!("/agent-runs/{run}/{control}"), Some(&json!({}))).await;
            // A run that has ended meanwhile is not paused.
            if ![200, 409].contains(&reply.status) {
                self.finding(format!("{control} of {run} (repeated: {repeated}): {reply:?}"));
            }
        }
        self.ended(&run).await;
    }

    fn of_script(&self, script: &str, chosen: &str, tools: Value) -> Value {
        json!({
            "runId": chosen, "modelId": format!("script:{script}"), "systemPrompt": "You are a test agent.",
            "prompt": "go", "tools": tools,
        })
    }

    /// What is found in the body of this page, after waiting for it.
    async fn seen(&self, path: String, find: impl Fn(&Value) -> Option<Value>) -> Option<Value> {
        let deadline = Instant::now() + PATIENCE;
        while Instant::now() < deadline {
            let (page, _) = self.insist("GET", &path, None).await;
            if let Some(found) = find(&page.body) {
                return Some(found);
            }
            tokio::time::sleep(LOOK).await;
        }
        self.finding(format!("{path}: what was waited for never came"));
        None
    }
}

fn kind(dice: &mut Dice) -> &'static str {
    let mut rolled = dice.roll(KINDS.iter().map(|(_, share)| share).sum());
    for (kind, share) in KINDS {
        if rolled < share {
            return kind;
        }
        rolled -= share;
    }
    unreachable!("a roll is below the sum of the shares")
}
