//! Two servers and two workers on one Postgres and a real Temporal server: whichever of them dies, runs and streams go on.

use std::{net::SocketAddr, path::PathBuf, process::Command};

use secrecy::ExposeSecret as _;
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_store::postgres::testing::TestServer;

use super::{
    http::Exchange,
    rig::{Stream, WORKSPACE, ask, ask_with_tool},
};
use crate::support::{
    process::Process,
    server,
    world::{scripts, within},
};

/// Runs that stream words, and as many that also wait for the caller's tool.
const TALKERS: usize = 4;

/// What every process of the cluster is told.
struct Cluster {
    home: TempDir,
    postgres: String,
    task_queue: String,
    key: String,
}

/// An API server that can be killed.
struct Api {
    process: Process,
    address: SocketAddr,
}

impl Cluster {
    async fn new(scripts: &Value) -> Self {
        let home = TempDir::new().unwrap();
        std::fs::write(home.path().join("scripts.json"), scripts.to_string()).unwrap();
        let postgres = TestServer::shared().database().await.expose_secret().to_owned();
        let task_queue = format!("it-{}", uuid::Uuid::now_v7().simple());
        let mut cluster = Self { home, postgres, task_queue, key: String::new() };
        let made = cluster.command(&["keys", "create", "--name", "tests"]).output().unwrap();
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        cluster.key = made["key"].as_str().unwrap().to_owned();
        cluster
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PathBuf::from(std::env::var_os("WINDLASS_BIN").expect("WINDLASS_BIN is set")));
        command.args(arguments).args(["--json", "--workspace", WORKSPACE, "--task-queue", &self.task_queue]);
        command.args(["--temporal", &server::temporal().address]).arg("--data-dir").arg(self.home.path());
        command.env("WINDLASS_POSTGRES_URL", &self.postgres);
        command
    }

    /// A command that offers the scripts.
    fn scripted(&self, arguments: &[&str]) -> Command {
        let mut command = self.command(arguments);
        command.arg("--scripts").arg(self.home.path().join("scripts.json"));
        command
    }

    fn worker(&self) -> Process {
        Process::spawn(self.scripted(&["worker"]))
    }

    fn api(&self) -> Api {
        let process = Process::spawn(self.scripted(&["serve", "--listen", "127.0.0.1:0", "--no-rate-limits"]));
        let ready: Value = serde_json::from_str(&process.line(|line| line.contains("\"api\""))).unwrap();
        let address = ready["api"].as_str().unwrap().trim_start_matches("http://").parse().unwrap();
        Api { process, address }
    }

    async fn post(&self, api: SocketAddr, path: &str, body: &Value) -> (u16, Value) {
        let bearer = format!("Bearer {}", self.key);
        let request = format!("POST /api/v1/workspaces/{WORKSPACE}{path}");
        let answer = Exchange::open(api, &request, &[("Authorization", &bearer)], Some(body)).await.finish().await;
        (answer.status, answer.body)
    }

    async fn start(&self, api: SocketAddr, spec: &Value) -> String {
        let (status, body) = self.post(api, "/agent-runs", spec).await;
        assert_eq!(status, 202, "{body}");
        body["runId"].as_str().unwrap().to_owned()
    }
}

/// Follows a run from one server to the other, wherever it is cut off, and answers its calls.
async fn follow(cluster: &Cluster, apis: [SocketAddr; 2], run: &str, seen: impl Fn()) -> Vec<Value> {
    let mut frames: Vec<Value> = Vec::new();
    let mut turn = 0;
    loop {
        let api = apis[turn % 2];
        let last = frames.last().and_then(|frame| frame["seq"].as_u64());
        turn += 1;
        if tokio::net::TcpStream::connect(api).await.is_err() {
            continue;
        }
        let mut stream = Stream::open(api, &cluster.key, run, last).await;
        while let Ok(Some(frame)) = stream.next().await {
            seen();
            if frame["type"] == "local_tool_call" {
                let result = json!({"toolUseId": frame["toolUseId"], "result": "a fact"});
                let (status, body) = cluster.post(api, &format!("/agent-runs/{run}/tool-results"), &result).await;
                assert_eq!(status, 200, "{body}");
            }
            let ended = ["result", "error", "cancelled"].contains(&frame["type"].as_str().unwrap());
            frames.push(frame);
            if ended {
                return frames;
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_and_streams_survive_the_death_of_any_process() {
    let words: Vec<String> = (0..40).map(|index| format!("{index} ")).collect();
    let talk = json!({"deltas": words, "delta_delay_ms": 20});
    let call = json!({"deltas": words, "delta_delay_ms": 20, "tool_calls": [{"name": "look", "args": {"n": 1}}]});
    let cluster = Cluster::new(&scripts([
        ("talk", json!({"turns": [talk]})),
        ("look", json!({"turns": [call, {"text": "It is {{last_tool_result}}."}]})),
    ]))
    .await;
    let (worker, _other_worker) = (cluster.worker(), cluster.worker());
    let (api, other_api) = (cluster.api(), cluster.api());
    let apis = [api.address, other_api.address];

    let look = ask_with_tool("look", json!({"kind": "local", "name": "look"}));
    let mut runs = Vec::new();
    for spec in std::iter::repeat_n([ask("talk", "x"), look], TALKERS).flatten() {
        runs.push(cluster.start(apis[runs.len() % 2], &spec).await);
    }
    let (seen, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let readers = runs.iter().enumerate().map(|(index, run)| {
        let (seen, cluster) = (seen.clone(), &cluster);
        let order = if index % 2 == 0 { apis } else { [apis[1], apis[0]] };
        async move { follow(cluster, order, run, || seen.send(()).unwrap()).await }
    });
    let readers = futures_util::future::join_all(readers);
    let kills = async {
        // All of them are under way, and none is near its end.
        for _ in 0..10 * runs.len() {
            heard.recv().await.unwrap();
        }
        drop(api.process);
        drop(worker);
    };
    let (logs, ()) = within("the end of all runs", async { tokio::join!(readers, kills) }).await;

    for (run, frames) in runs.iter().zip(&logs) {
        let seqs: Vec<u64> = frames.iter().map(|frame| frame["seq"].as_u64().unwrap()).collect();
        assert!(seqs.is_sorted_by(|one, next| one < next), "no frame comes twice: {seqs:?}");
        let last = frames.last().unwrap();
        assert_eq!(last["subtype"], "success", "{last}");
        let late = Stream::open(other_api.address, &cluster.key, run, None).await.rest().await;
        assert_eq!(&late, frames, "no frame was lost: a reader of the finished run gets the same frames");
    }
    let restarted = logs.iter().flatten().filter(|frame| frame["type"] == "turn_restarted").count();
    println!(
        "{} runs, {} events, a server and a worker killed: all completed, {restarted} turns asked again",
        runs.len(),
        logs.iter().map(Vec::len).sum::<usize>()
    );
}
