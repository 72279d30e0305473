//! Starts: a request that is repeated, a server that dies between accepting a run and starting it, and runs that can never
//! be started.

use std::{
    net::SocketAddr,
    path::PathBuf,
    process::{Command, Stdio},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use temporalio_client::NamespacedClient as _;
use temporalio_protos::temporal::api::{
    common::v1::WorkflowExecution, workflowservice::v1::DeleteWorkflowExecutionRequest,
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::watch,
};
use tonic::IntoRequest as _;
use windlass_core::{
    canonical::Digest,
    ids::RunId,
    time::{Millis, Timestamp},
};
use windlass_ops::{OpsError, Pairing, StartRun};
use windlass_store::{NewStart, ReservedRun, Retention, RunFilter, Runs, Transcripts, testing::reserved};

use super::{
    http::{Answer, Exchange},
    rig::{Rig, Stream, WORKSPACE, ask, ask_with_tool, desk},
};
use crate::{
    sdk::dev::lasting_port,
    support::{
        process::Process,
        server,
        world::{open_store, scripts, within},
    },
};

fn echo() -> Value {
    scripts([("echo", json!({"turns": [{"text": "you said {{last_user}}"}]}))])
}

/// A way to Temporal that can be held up. What was sent in the meantime never arrives.
struct Gate {
    address: SocketAddr,
    held: watch::Sender<bool>,
}

impl Gate {
    async fn to(target: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (held, watched) = watch::channel(false);
        tokio::spawn(async move {
            while let Ok((near, _)) = listener.accept().await {
                let (target, held) = (target.clone(), watched.clone());
                tokio::spawn(async move {
                    let far = TcpStream::connect(target).await.unwrap();
                    let ((mut near_in, mut near_out), (mut far_in, far_out)) = (near.into_split(), far.into_split());
                    tokio::select! {
                        () = pump(&mut near_in, far_out, held) => {}
                        _ = tokio::io::copy(&mut far_in, &mut near_out) => {}
                    }
                });
            }
        });
        Self { address, held }
    }
}

async fn pump(
    from: &mut tokio::net::tcp::OwnedReadHalf,
    mut to: tokio::net::tcp::OwnedWriteHalf,
    mut held: watch::Receiver<bool>,
) {
    let mut bytes = vec![0; 64 * 1024];
    while let Ok(count @ 1..) = from.read(&mut bytes).await {
        if *held.borrow() {
            held.wait_for(|held| !held).await.ok();
            return;
        }
        if to.write_all(&bytes[..count]).await.is_err() {
            return;
        }
    }
}

/// A worker and API servers as processes, on one store.
struct Site {
    home: TempDir,
    task_queue: String,
    key: String,
    gate: Gate,
}

impl Site {
    async fn new() -> Self {
        let home = TempDir::new().unwrap();
        std::fs::write(home.path().join("scripts.json"), echo().to_string()).unwrap();
        let gate = Gate::to(server::shared().address.clone()).await;
        let task_queue = format!("it-{}", uuid::Uuid::now_v7().simple());
        let mut site = Self { home, task_queue, key: String::new(), gate };
        let made = site.command(&["keys", "create", "--name", "tests"]).output().unwrap();
        site.key = serde_json::from_slice::<Value>(&made.stdout).unwrap()["key"].as_str().unwrap().to_owned();
        site
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(PathBuf::from(std::env::var_os("WINDLASS_BIN").expect("WINDLASS_BIN is set")));
        command.args(arguments).args(["--json", "--workspace", WORKSPACE, "--task-queue", &self.task_queue]);
        command.arg("--data-dir").arg(self.home.path());
        command
    }

    fn worker(&self) -> Process {
        let mut command = self.command(&["worker", "--temporal", &server::shared().address]);
        command.arg("--scripts").arg(self.home.path().join("scripts.json"));
        Process::spawn(command)
    }

    fn api(&self) -> (Process, SocketAddr) {
        self.api_at("127.0.0.1:0")
    }

    fn api_at(&self, listen: &str) -> (Process, SocketAddr) {
        let gate = self.gate.address.to_string();
        let mut command = self.command(&["serve", "--temporal", &gate, "--listen", listen, "--no-rate-limits"]);
        command.arg("--scripts").arg(self.home.path().join("scripts.json"));
        let process = Process::spawn(command);
        let ready: Value = serde_json::from_str(&process.line(|line| line.contains("\"api\""))).unwrap();
        let address = ready["api"].as_str().unwrap().trim_start_matches("http://").parse().unwrap();
        (process, address)
    }

    async fn post(&self, api: SocketAddr, path: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {}", self.key);
        let request = format!("POST /api/v1/workspaces/{WORKSPACE}{path}");
        within("an answer", async {
            Exchange::open(api, &request, &[("Authorization", &bearer)], Some(body)).await.finish().await
        })
        .await
    }

    /// Posts the start of a run to a server that cannot reach Temporal, and kills it when the run is in the store.
    async fn start_and_kill(&self, path: &str, body: &Value) {
        let (process, api) = self.api();
        self.gate.held.send_replace(true);
        let text = body.to_string();
        let request = format!(
            "POST /api/v1/workspaces/{WORKSPACE}{path} HTTP/1.1\r\nHost: windlass\r\nAuthorization: Bearer {}\r\n\
             Content-Length: {}\r\n\r\n{text}",
            self.key,
            text.len()
        );
        let mut connection = TcpStream::connect(api).await.unwrap();
        connection.write_all(request.as_bytes()).await.unwrap();
        let store = open_store(self.home.path());
        let run = RunId::new(body["runId"].as_str().unwrap());
        within("the reservation", async {
            while store.run(&run).await.unwrap().is_none() {
                tokio::task::yield_now().await;
            }
        })
        .await;
        drop(process);
        self.gate.held.send_replace(false);
    }

    /// The start of the site's run. Ids are the server's, which other tests use too.
    fn start(&self, prompt: &str) -> Value {
        let mut body = ask("echo", prompt);
        body["runId"] = json!(self.run());
        body
    }

    fn run(&self) -> String {
        format!("{WORKSPACE}~run-{}", self.task_queue)
    }

    async fn ending(&self, api: SocketAddr) -> Value {
        let run = &self.run();
        within("the run's end", async { Stream::open(api, &self.key, run, None).await.rest().await.pop().unwrap() })
            .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_server_died_before_starting_it_is_started_by_the_next_one() {
    let site = Site::new().await;
    let _worker = site.worker();
    site.start_and_kill("/agent-runs", &site.start("hello")).await;
    let (_process, api) = site.api();
    let last = site.ending(api).await;
    assert_eq!((&last["type"], &last["text"]), (&json!("result"), &json!("you said hello")), "{last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_was_never_answered_is_repeated_with_the_same_run_id() {
    let site = Site::new().await;
    let _worker = site.worker();
    site.start_and_kill("/agent-runs", &site.start("hello")).await;
    let (_process, api) = site.api();
    let again = site.post(api, "/agent-runs", &site.start("hello")).await;
    assert_eq!((again.status, &again.body["runId"]), (202, &json!(site.run())), "{again:?}");
    assert_eq!(site.ending(api).await["text"], "you said hello");
    // Also when the run has ended, and not for another request.
    assert_eq!(site.post(api, "/agent-runs", &site.start("hello")).await.body, again.body);
    assert_eq!(site.post(api, "/agent-runs", &site.start("good bye")).await.refusal(), (409, "run_exists"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_session_is_repeated_with_the_same_run_id() {
    let site = Site::new().await;
    let _worker = site.worker();
    let (process, api) = site.api();
    let session = site.post(api, "/agent-sessions", &json!({"systemPrompt": "x", "modelId": "script:echo"})).await;
    let session = session.body["sessionId"].as_str().unwrap().to_owned();
    drop(process);
    let path = format!("/agent-sessions/{session}/messages");
    let message = json!({"prompt": "hello", "runId": site.run()});
    site.start_and_kill(&path, &message).await;
    let (_process, api) = site.api();
    let again = site.post(api, &path, &message).await;
    assert_eq!((again.status, &again.body["runId"]), (202, &json!(site.run())), "{again:?}");
    assert_eq!(site.ending(api).await["text"], "you said hello");
    assert_eq!(
        site.post(api, &path, &json!({"prompt": "else", "runId": site.run()})).await.refusal(),
        (409, "run_exists")
    );
    let history =
        open_store(site.home.path()).session_messages(&WORKSPACE.into(), &session.as_str().into()).await.unwrap();
    assert_eq!(history.len(), 2, "said once, answered once: {history:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_never_started_is_cancelled_at_once() {
    let site = Site::new().await;
    site.start_and_kill("/agent-runs", &site.start("hello")).await;
    let (_process, api) = site.api();
    let cancelled = site.post(api, &format!("/agent-runs/{}/cancel", site.run()), &json!({"reason": "enough"})).await;
    assert_eq!(cancelled.body, json!({"ok": true, "status": "cancelled"}));
    let frames = within("the end", async { Stream::open(api, &site.key, &site.run(), None).await.rest().await }).await;
    let [only] = &frames[..] else { panic!("{frames:?}") };
    assert_eq!((&only["type"], &only["reason"]), (&json!("cancelled"), &json!("enough")), "{only}");
}

#[tokio::test(flavor = "multi_thread")]
async fn windlass_run_survives_the_death_of_its_server() {
    let site = Site::new().await;
    let _worker = site.worker();
    let agent = site.home.path().join("echo.toml");
    std::fs::write(&agent, "id = \"echo\"\nmodel = \"script:echo\"\n").unwrap();
    let (process, api) = site.api_at(&format!("127.0.0.1:{}", lasting_port()));
    site.gate.held.send_replace(true);
    let mut run = site.command(&["run", "--server", &format!("http://{api}")]);
    run.arg(&agent).arg("hello").env("WINDLASS_API_KEY", &site.key).stdin(Stdio::null());
    let run = Process::spawn(run);
    let store = open_store(site.home.path());
    within("the reservation", async {
        while store.runs(RunFilter::default()).await.unwrap().runs.is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    drop(process);
    site.gate.held.send_replace(false);
    let (_process, _) = site.api_at(&api.to_string());
    let result: Value = serde_json::from_str(&run.line(|line| line.contains("\"result\""))).unwrap();
    assert_eq!(result["data"]["text"], "you said hello", "{result}");
    assert_eq!(store.runs(RunFilter::default()).await.unwrap().runs.len(), 1, "one run was started");
}

// --- what can go wrong with a start, in one process

async fn rig() -> Rig {
    Rig::with(echo(), |options| {
        options.agents = vec![desk()];
        options.limits.repair_interval = Duration::from_millis(50);
        options.limits.start_grace = Millis::ZERO;
    })
    .await
}

/// Accepts a run as a server does that is killed before it starts it.
async fn accept(rig: &Rig, run: &str, change: impl FnOnce(&mut Value)) {
    let mut start = StartRun::new(desk(), "hello");
    start.run_id = RunId::new(run);
    let mut plan = json!(rig.world.ops.plan(start).await.unwrap());
    change(&mut plan);
    let start = Some(NewStart { request: Digest::of_json(&json!("hello")), plan });
    let accepted = ReservedRun { workspace: WORKSPACE.into(), start, ..reserved(run, "hello") };
    rig.store().reserve_run(accepted).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn several_servers_finish_a_start_once() {
    let rig = rig().await;
    for index in 0..20 {
        accept(&rig, &format!("run-{}-{index}", rig.world.options.task_queue), |_| {}).await;
    }
    let others = [rig.another().await, rig.another().await];
    for index in 0..20 {
        let run = format!("run-{}-{index}", rig.world.options.task_queue);
        let kinds: Vec<Value> = rig.frames(&run).await.into_iter().map(|frame| frame["type"].clone()).collect();
        assert_eq!(kinds.iter().filter(|kind| **kind == "result").count(), 1, "{kinds:?}");
        assert_eq!(kinds.iter().filter(|kind| **kind == "assistant_message").count(), 1, "{kinds:?}");
    }
    drop(others);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_that_cannot_succeed_ends_its_run() {
    let rig = rig().await;
    // What no server takes, and what cannot be read.
    let queue = rig.world.options.task_queue.clone();
    let [refused, torn] = ["refused", "torn"].map(|name| format!("{name}-{queue}"));
    accept(&rig, &refused, |plan| plan["taskQueue"] = json!("")).await;
    accept(&rig, &torn, |plan| *plan = json!({"token": 1})).await;
    for run in [refused, torn] {
        let last = rig.ending(&run).await;
        assert_eq!((&last["type"], &last["code"]), (&json!("error"), &json!("RUN0013")), "{last}");
        let row = rig.get(&format!("/agent-runs/{run}")).await.body;
        assert_eq!((&row["status"], &row["error"]), (&json!("failed"), &last["error"]), "{row}");
        assert_eq!(rig.store().pending_start(&RunId::new(&run)).await.unwrap(), None);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_start_after_the_cancellation_executes_nothing() {
    let rig = Rig::with(echo(), |options| options.limits.start_grace = Millis::from_secs(3600)).await;
    let run = format!("late-{}", rig.world.options.task_queue);
    accept(&rig, &run, |_| {}).await;
    let id = RunId::new(&run);
    let plan = rig.store().pending_start(&id).await.unwrap().unwrap().plan.unwrap();
    let cancelled = rig.post(&format!("/agent-runs/{run}/cancel"), json!({})).await;
    assert_eq!(cancelled.body["status"], "cancelled", "{cancelled:?}");
    // Another process had read the plan before.
    rig.world.ops.carry_out(&serde_json::from_value(plan).unwrap()).await.unwrap();
    rig.world.result(&id).await.unwrap_err();
    let kinds = rig.world.kinds(&id).await;
    assert_eq!(kinds, ["cancelled"]);
    assert_eq!(rig.get(&format!("/agent-runs/{run}")).await.body["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_whose_run_was_swept_is_refused_while_the_server_knows_its_workflow() {
    let rig = rig().await;
    let run = format!("{WORKSPACE}~swept-{}", rig.world.options.task_queue);
    let mut body = ask("echo", "hello");
    body["runId"] = json!(run);
    rig.ending(&rig.run(body.clone()).await).await;
    let id = RunId::new(&run);
    within("the workflow's end", rig.world.ops.result(&id)).await.unwrap();
    let everything = Retention { before: Timestamp(u64::MAX >> 1), limit: 100 };
    assert_eq!(rig.store().sweep(everything).await.unwrap().runs, 1);
    assert_eq!(rig.post("/agent-runs", body.clone()).await.refusal(), (409, "run_exists"));
    assert_eq!(rig.store().run(&id).await.unwrap(), None, "nothing is left of the refused start");

    delete(&rig, &run).await;
    assert_eq!(rig.ending(&rig.run(body).await).await["text"], "you said hello");
}

// --- workflows that are gone

/// Deletes a run's workflow, and waits until the server has done so.
async fn delete(rig: &Rig, run: &str) {
    let client = rig.world.ops.client();
    let request = DeleteWorkflowExecutionRequest {
        namespace: client.namespace(),
        workflow_execution: Some(WorkflowExecution { workflow_id: run.to_owned(), run_id: String::new() }),
    };
    client.connection().workflow_service().delete_workflow_execution(request.into_request()).await.unwrap();
    within("the deletion", async {
        while !matches!(rig.world.ops.exists(&RunId::new(run)).await, Err(OpsError::NotFound { .. })) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn waiting() -> Value {
    scripts([("wait", json!({"turns": [{"tool_calls": [{"name": "probe", "args": {}}]}, {"text": "done"}]}))])
}

/// A run that waits for its caller, and whose workflow was deleted.
async fn deleted(rig: &Rig) -> String {
    let probe = ask_with_tool("wait", json!({"kind": "local", "name": "probe"}));
    let run = rig.run(probe).await;
    rig.stream(&run, None).await.until("local_tool_call").await;
    rig.world.at_rest(&RunId::new(&run)).await;
    delete(rig, &run).await;
    run
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_ends_a_run_whose_workflow_was_deleted() {
    // There is no background check.
    let rig = Rig::with(waiting(), |options| options.limits.repair_interval = Duration::from_secs(3600)).await;
    rig.world.ops.pair(Pairing::Claim).await.unwrap();

    let run = deleted(&rig).await;
    let shown = rig.get(&format!("/agent-runs/{run}?live=1")).await;
    assert_eq!((shown.status, &shown.body["status"]), (200, &json!("failed")), "{shown:?}");
    assert_eq!(rig.ending(&run).await["code"], "RUN0012");

    let run = deleted(&rig).await;
    let cancelled = rig.post(&format!("/agent-runs/{run}/cancel"), json!({})).await;
    assert_eq!(cancelled.body, json!({"ok": true, "status": "failed"}));

    let run = deleted(&rig).await;
    let paused = rig.post(&format!("/agent-runs/{run}/pause"), json!({"reason": "x"})).await;
    assert_eq!(paused.refusal(), (409, "run_terminal"));

    let run = deleted(&rig).await;
    let result = json!({"toolUseId": "call-0-0", "result": "x"});
    assert_eq!(rig.post(&format!("/agent-runs/{run}/tool-results"), result).await.refusal(), (409, "run_terminal"));

    let run = deleted(&rig).await;
    assert_eq!(rig.ending(&run).await["code"], "RUN0012", "a stream that stays silent looks");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_workflow_was_deleted_ends_in_the_background() {
    let rig = Rig::with(waiting(), |options| {
        options.limits.repair_interval = Duration::from_millis(50);
        options.limits.keep_alive = Duration::from_secs(3600);
    })
    .await;
    rig.world.ops.pair(Pairing::Claim).await.unwrap();
    let run = deleted(&rig).await;
    assert_eq!(rig.ending(&run).await["code"], "RUN0012");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_missing_workflow_on_another_server_does_not_end_a_run() {
    let rig = Rig::with(waiting(), |options| options.limits.repair_interval = Duration::from_secs(3600)).await;
    rig.world.ops.pair(Pairing::Claim).await.unwrap();
    // The store was used with another namespace before.
    rig.store().used_with("another namespace", false).await.unwrap();
    let run = deleted(&rig).await;
    let shown = rig.get(&format!("/agent-runs/{run}?live=1")).await.body;
    assert_eq!(shown["status"], "running", "{shown}");
    rig.world.ops.pair(Pairing::Adopt).await.unwrap();
    let shown = rig.get(&format!("/agent-runs/{run}?live=1")).await.body;
    assert_eq!(shown["status"], "failed", "{shown}");
}
