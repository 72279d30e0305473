//! Kills of the server while clients of its HTTP API keep a ledger. A request without a response is repeated with the
//! same run id, as the documentation tells clients.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tokio::{sync::watch, task::JoinSet};

use super::{
    Tally,
    wire::{Answer, Caller},
};
use crate::{
    proofs::{dice::Dice, scale},
    sdk::dev::Dev,
};

const CLIENTS: u64 = 8;
/// Between two runs of one client.
const PACE: Duration = Duration::from_millis(150);
/// When a kill comes, in milliseconds after the server was ready.
const EARLIEST: u64 = 5;
const LATEST: u64 = 350;
/// Every so many kills one is a SIGTERM.
const TERMINATIONS: usize = 4;
/// A run that has not ended this long after the last kill is stuck.
const PATIENCE: Duration = Duration::from_secs(120);

/// What the clients recorded.
#[derive(Default)]
struct Ledger {
    /// Full run ids by the ids that clients chose; `None` until a start was acknowledged.
    starts: BTreeMap<String, Option<String>>,
    /// Chosen ids of runs whose tool result was acknowledged.
    results: BTreeSet<String>,
    requests: u64,
    /// Requests that were repeated because they got no response.
    repeated: u64,
    findings: Vec<String>,
}

#[derive(Clone)]
struct Client {
    caller: Caller,
    ledger: Arc<Mutex<Ledger>>,
    up: watch::Receiver<bool>,
    stop: watch::Receiver<bool>,
}

impl Client {
    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap()
    }

    /// Repeats a request until it gets a response. Returns whether it had to repeat it.
    async fn insist(&self, method: &str, path: &str, body: Option<&Value>) -> (Answer, bool) {
        let mut repeated = false;
        loop {
            self.ledger().requests += 1;
            match self.caller.request(method, path, body).await {
                Ok(answer) if answer.status != 503 => return (answer, repeated),
                _ => {
                    self.ledger().repeated += 1;
                    repeated = true;
                    tokio::task::yield_now().await;
                    self.up.clone().wait_for(|up| *up).await.unwrap();
                }
            }
        }
    }

    /// Starts runs one after the other, and sends the results of their local tool.
    async fn work(self, number: u64) {
        let mut pace = tokio::time::interval(PACE);
        for turn in 0.. {
            pace.tick().await;
            if *self.stop.borrow() {
                return;
            }
            let chosen = format!("ledger-{number}-{turn}");
            if turn % 3 == 0 {
                self.run_with_tool(&chosen).await
            } else {
                self.run(&chosen, "hello", json!([])).await
            };
        }
    }

    async fn run(&self, chosen: &str, script: &str, tools: Value) -> Option<String> {
        self.ledger().starts.insert(chosen.to_owned(), None);
        let body = json!({
            "runId": chosen, "modelId": format!("script:{script}"), "systemPrompt": "You are a test agent.",
            "prompt": "go", "tools": tools,
        });
        let (answer, repeated) = self.insist("POST", "/agent-runs", Some(&body)).await;
        let run = answer.body["runId"].as_str().map(str::to_owned).filter(|_| answer.status == 202);
        if run.is_none() {
            self.ledger().findings.push(format!("start of {chosen} (repeated: {repeated}): {answer:?}"));
        }
        self.ledger().starts.insert(chosen.to_owned(), run.clone());
        run
    }

    async fn run_with_tool(&self, chosen: &str) -> Option<String> {
        let tool = json!({"kind": "local", "name": "add", "parameters": {"type": "object"}});
        let run = self.run(chosen, "add", json!([tool])).await?;
        let call = self.call_of(&run).await?;
        let path = format!("/agent-runs/{run}/tool-results");
        let (answer, repeated) = self.insist("POST", &path, Some(&json!({"toolUseId": call, "result": "5"}))).await;
        // A repeated result may have been accepted the first time: then it is a duplicate, or the run has ended.
        if answer.status == 200 || (repeated && [404, 409].contains(&answer.status)) {
            self.ledger().results.insert(chosen.to_owned());
        } else {
            self.ledger().findings.push(format!("result of {chosen} (repeated: {repeated}): {answer:?}"));
        }
        Some(run)
    }

    /// The id of the run's local tool call, after waiting for it.
    async fn call_of(&self, run: &str) -> Option<Value> {
        let path = format!("/agent-runs/{run}/events?limit=50");
        let mut look = tokio::time::interval(Duration::from_millis(20));
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while tokio::time::Instant::now() < deadline {
            look.tick().await;
            let (answer, _) = self.insist("GET", &path, None).await;
            let events = answer.body["events"].as_array().cloned().unwrap_or_default();
            if let Some(call) = events.iter().find(|event| event["type"] == "local_tool_call") {
                return Some(call["data"]["toolUseId"].clone());
            }
        }
        self.ledger().findings.push(format!("{run}: its call was never handed out"));
        None
    }

    /// Every run of the workspace, as the server lists them.
    async fn listed(&self) -> Vec<Value> {
        let (mut runs, mut cursor) = (Vec::new(), String::new());
        loop {
            let (page, _) = self.insist("GET", &format!("/agent-runs?limit=200{cursor}"), None).await;
            runs.extend(page.body["runs"].as_array().cloned().unwrap_or_default());
            match page.body["nextCursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return runs,
            }
        }
    }

    /// Problems of the log of an ended run.
    async fn check_log(&self, run: &str, expected: &str) -> Option<String> {
        let (answer, _) = self.insist("GET", &format!("/agent-runs/{run}/events?limit=200"), None).await;
        let events = answer.body["events"].as_array().cloned().unwrap_or_default();
        let count = |kind: &str| events.iter().filter(|event| event["type"] == kind).count();
        let gapless = events.iter().zip(1..).all(|(event, seq)| event["seq"] == seq);
        let text = events.last().map(|event| event["data"]["text"].clone()).unwrap_or_default();
        let facts = (gapless, count("started"), count("result"), text.as_str());
        (facts != (true, 1, 1, Some(expected))).then(|| format!("{run}: {facts:?}, expected {expected:?}: {events:?}"))
    }
}

#[test]
fn every_run_that_a_client_started_exists_exactly_once() {
    let kills = scale("WINDLASS_KILLS", 12);
    let seed = scale("WINDLASS_KILL_SEED", 1) as u64;
    crate::support::block_on(async {
        let mut dev = Dev::start("600s");
        let (up, is_up) = watch::channel(true);
        let (stop, stopped) = watch::channel(false);
        let client = Client { caller: Caller::of_dev(&dev.listen), ledger: Arc::default(), up: is_up, stop: stopped };
        let mut clients: JoinSet<()> = (0..CLIENTS).map(|number| client.clone().work(number)).collect();
        let mut dice = Dice::seeded(seed);
        for kill in 1..=kills {
            tokio::time::sleep(Duration::from_millis(EARLIEST + dice.roll(LATEST - EARLIEST))).await;
            up.send_replace(false);
            tokio::task::block_in_place(|| {
                if kill % TERMINATIONS == 0 {
                    dev.stop()
                } else {
                    dev.kill()
                }
                dev.start_again();
            });
            up.send_replace(true);
        }
        stop.send_replace(true);
        while clients.join_next().await.is_some() {}
        let runs = ended(&client).await;
        judge(&client, &runs, kills).await;
    });
}

/// All runs, after the last of them has ended.
async fn ended(client: &Client) -> Vec<Value> {
    let deadline = tokio::time::Instant::now() + PATIENCE;
    let mut look = tokio::time::interval(Duration::from_millis(250));
    loop {
        look.tick().await;
        let runs = client.listed().await;
        let open = |run: &&Value| run["completedAt"].is_null();
        if runs.iter().filter(open).count() == 0 || tokio::time::Instant::now() > deadline {
            return runs;
        }
    }
}

async fn judge(client: &Client, runs: &[Value], kills: usize) {
    let Ledger { starts, results, requests, repeated, findings } = std::mem::take(&mut *client.ledger());
    let mut tally = Tally::new("kill -9 and SIGTERM with a ledger of HTTP clients");
    findings.into_iter().for_each(|finding| tally.finding(finding));
    let mut times: BTreeMap<&str, usize> = BTreeMap::new();
    for run in runs {
        *times.entry(run["id"].as_str().unwrap()).or_default() += 1;
        if run["status"] != "succeeded" {
            tally.finding(format!("{}: {}", run["id"], run["status"]));
        }
    }
    for (chosen, run) in &starts {
        let Some(run) = run else { continue };
        match times.remove(run.as_str()) {
            Some(1) => {
                let expected = if results.contains(chosen) { "sum=5" } else { "Hello, go" };
                client.check_log(run, expected).await.into_iter().for_each(|finding| tally.finding(finding));
            }
            found => tally.finding(format!("{run} was acknowledged and is listed {} times", found.unwrap_or_default())),
        }
    }
    for (run, _) in times {
        tally.finding(format!("{run} is listed, but no client was told of it"));
    }
    println!(
        "{kills} kills: {} runs asked for; {} tool results; {requests} requests, {repeated} of them sent again",
        starts.len(),
        results.len()
    );
    tally.count("kills", kills as u64);
    tally.count("requests", requests);
    tally.count("requests sent again", repeated);
    tally.count("runs", starts.len() as u64);
    tally.close();
}
