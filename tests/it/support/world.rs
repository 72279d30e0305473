//! One test's world: its own store and task queue on the shared server, with a worker in this process.

use std::{
    collections::BTreeMap,
    path::Path,
    sync::{Arc, Mutex},
    time::Duration,
};

use serde_json::{Value, json};
use tempfile::TempDir;
use temporalio_client::{Client, UntypedWorkflow};
use tokio::{
    sync::{Mutex as AsyncMutex, Semaphore, mpsc},
    task::JoinHandle,
};
use tokio_util::sync::CancellationToken;
use windlass::{
    service::{ModelCatalogue, Ports, RunWorkerOptions, WorkerError, WorkerService},
    temporal::{Connect, connect, connect_embedded},
};
use windlass_activities::AgentCatalog;
use windlass_core::{
    agent::AgentDefinition,
    awaits::AwaitView,
    envelope::{Answer, AnswerBody, AnswerReply, AnswerStatus, CallAnswer, RunOutput, Tuning},
    event::{Event, EventBody},
    ids::{CallId, RunId, WorkspaceId},
    message::Message,
    time::Millis,
};
use windlass_models::script::{SCHEME, ScriptModel};
use windlass_ops::{RunEnd, RunOps, StartRun};
use windlass_store::{KeyRing, SecretKey, Store, Vault, sqlite::SqliteStore};
use windlass_tools::{ToolRegistry, Toolbox};

use super::{
    server::{self, Backend, Server},
    tools::{Echo, Fail, Gate, Report, Watch},
};

/// Nothing a test waits for takes this long unless it is broken.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) struct World {
    pub(crate) ops: RunOps,
    pub(crate) watch: Watch,
    /// Lets calls of the `gate` tool through.
    pub(crate) permits: Arc<Semaphore>,
    begun: AsyncMutex<mpsc::UnboundedReceiver<CallId>>,
    pub(crate) ports: Ports,
    pub(crate) options: RunWorkerOptions,
    client: Client,
    worker: Mutex<Option<RunningWorker>>,
    /// Removed when the world ends.
    dir: TempDir,
}

struct RunningWorker {
    stop: CancellationToken,
    done: JoinHandle<Result<(), WorkerError>>,
}

impl World {
    /// A world whose models are these scripts, with its worker running.
    pub(crate) async fn new(scripts: Value) -> Self {
        let world = Self::without_worker(scripts).await;
        world.start_worker();
        world
    }

    pub(crate) async fn without_worker(scripts: Value) -> Self {
        Self::with_client(client().await, scripts)
    }

    /// A world on one of the servers, whichever was chosen; its worker is not started.
    pub(crate) async fn on(backend: Backend, scripts: Value) -> Self {
        let server = match backend {
            Backend::Temporal => server::temporal(),
            Backend::Embedded => server::embedded(),
        };
        Self::with_client(client_of(server).await, scripts)
    }

    /// A world that reaches the server at another address; its worker is not started.
    pub(crate) async fn at(address: &str, scripts: Value) -> Self {
        Self::with_client(client_at(address).await, scripts)
    }

    fn with_client(client: Client, scripts: Value) -> Self {
        let dir = TempDir::new().unwrap();
        let store = Arc::new(open_store(dir.path()));
        Self::with_store(client, store, dir, scripts)
    }

    /// A world with a store of its own; the directory is removed with it.
    pub(crate) fn with_store(client: Client, store: Arc<dyn Store>, dir: TempDir, scripts: Value) -> Self {
        let watch = Watch::default();
        let permits = Arc::new(Semaphore::new(0));
        let (begun_sender, begun) = mpsc::unbounded_channel();
        let reporting = ToolRegistry::new().with(Report(watch.clone()));
        let tools = reporting.with(Echo(watch.clone())).with(Fail(watch.clone())).with(Gate {
            watch: watch.clone(),
            begun: begun_sender,
            permits: permits.clone(),
        });
        let tools = Toolbox::of(tools).unwrap();
        let model = ScriptModel::from_json(&scripts.to_string()).unwrap();
        let names: Vec<String> = model.names().map(str::to_owned).collect();
        let default = names.first().cloned();
        let models = ModelCatalogue::new().with(SCHEME, Arc::new(model), names, default.as_deref());
        let options = RunWorkerOptions {
            task_queue: format!("it-{}", uuid::Uuid::now_v7().simple()),
            grace: Duration::from_secs(5),
            ..RunWorkerOptions::default()
        };
        let ops = RunOps::new(client.clone(), store.clone(), options.task_queue.clone(), WorkspaceId::new("test"));
        let keys = KeyRing::new(SecretKey::random().unwrap(), Vec::new());
        let vault = Some(Vault::new(store.clone(), keys));
        let ports = Ports { store, vault, models, tools, agents: AgentCatalog::default() };
        let (begun, worker) = (AsyncMutex::new(begun), Mutex::new(None));
        Self { ops, watch, permits, begun, ports, options, client, worker, dir }
    }

    /// Where the store's files are.
    pub(crate) fn directory(&self) -> &Path {
        self.dir.path()
    }

    /// Sets a secret of the world's workspace.
    pub(crate) async fn set_secret(&self, name: &str, value: &str) {
        let vault = self.ports.vault.as_ref().unwrap();
        vault.set(&WorkspaceId::new("test"), name, &value.into()).await.unwrap();
    }

    pub(crate) fn start_worker(&self) {
        self.start_worker_on(self.ports.clone());
    }

    /// A worker with other ports than the world's.
    pub(crate) fn start_worker_on(&self, ports: Ports) {
        let service = WorkerService::new(self.client.clone(), ports, &self.options).unwrap();
        let stop = CancellationToken::new();
        let done = tokio::spawn(service.run(stop.clone()));
        *self.worker.lock().unwrap() = Some(RunningWorker { stop, done });
    }

    pub(crate) async fn stop_worker(&self) {
        let worker = self.worker.lock().unwrap().take().expect("a worker runs");
        worker.stop.cancel();
        worker.done.await.unwrap().unwrap();
    }

    pub(crate) async fn start(&self, agent: AgentDefinition, prompt: &str) -> RunId {
        self.start_with(agent, prompt, |_| {}).await
    }

    /// Starts a run after the test has changed how.
    pub(crate) async fn start_with(
        &self,
        agent: AgentDefinition,
        prompt: &str,
        change: impl FnOnce(&mut StartRun),
    ) -> RunId {
        let mut start = StartRun::new(agent, prompt);
        start.tuning = Some(Tuning {
            heartbeat_timeout_ms: Some(Millis::from_secs(5)),
            plan_retry_interval_ms: Some(Millis(50)),
            ..Tuning::default()
        });
        change(&mut start);
        self.ops.start(start).await.unwrap()
    }

    pub(crate) async fn result(&self, run: &RunId) -> Result<RunOutput, RunEnd> {
        within("the run's end", self.ops.result(run)).await
    }

    /// Starts a run and waits for its answer.
    pub(crate) async fn answer_of(&self, agent: AgentDefinition, prompt: &str) -> (RunId, RunOutput) {
        let run = self.start(agent, prompt).await;
        let output = self.result(&run).await.unwrap();
        (run, output)
    }

    pub(crate) async fn events(&self, run: &RunId) -> Vec<Event> {
        self.ops.store().events(run, 0, 100_000).await.unwrap()
    }

    /// The bodies of a run's events, as this build reads them.
    pub(crate) async fn bodies(&self, run: &RunId) -> Vec<EventBody> {
        self.events(run).await.iter().map(|event| event.body().unwrap()).collect()
    }

    pub(crate) async fn kinds(&self, run: &RunId) -> Vec<String> {
        self.events(run).await.into_iter().map(|event| event.kind).collect()
    }

    /// Waits for the first event that fits, from the log.
    pub(crate) async fn event(&self, run: &RunId, fits: impl Fn(&EventBody) -> bool) -> EventBody {
        within("an event", async {
            let mut watch = self.ops.store().watch(run);
            loop {
                let bodies = self.bodies(run).await;
                if let Some(body) = bodies.into_iter().find(|body| fits(body)) {
                    return body;
                }
                watch.changed().await;
            }
        })
        .await
    }

    /// Waits until the run has opened its n-th await, from 1.
    pub(crate) async fn opened(&self, run: &RunId, n: usize) -> AwaitView {
        within("an await", async {
            let mut watch = self.ops.store().watch(run);
            loop {
                let opened = self.bodies(run).await.into_iter().filter_map(|body| match body {
                    EventBody::AwaitOpened { item } => Some(item),
                    _ => None,
                });
                if let Some(item) = opened.into_iter().nth(n - 1) {
                    return item;
                }
                watch.changed().await;
            }
        })
        .await
    }

    /// Waits until nothing is under way in the run: an answer that came sooner would race with what is.
    pub(crate) async fn at_rest(&self, run: &RunId) {
        let handle = self.ops.client().get_workflow_handle::<UntypedWorkflow>(run.to_string());
        within("rest", async {
            loop {
                let described = handle.describe(Default::default()).await.unwrap().raw_description;
                if described.pending_activities.is_empty() && described.pending_workflow_task.is_none() {
                    return;
                }
                tokio::task::yield_now().await;
            }
        })
        .await;
    }

    /// Waits until a call of the `gate` tool has begun.
    pub(crate) async fn gate_begun(&self) -> CallId {
        within("the gate", async { self.begun.lock().await.recv().await.unwrap() }).await
    }

    pub(crate) async fn reply(&self, run: &RunId, item: &AwaitView, body: AnswerBody) -> AnswerReply {
        within("a reply", self.ops.answer(run, &Answer::new(item.id.clone(), "ann", body))).await.unwrap()
    }

    /// Waits until this call is handed out.
    pub(crate) async fn handed_out(&self, run: &RunId, call: &str) {
        self.event(
            run,
            |body| matches!(body, EventBody::LocalToolCall { tool_use_id, .. } if tool_use_id.as_str() == call),
        )
        .await;
    }

    /// Gives a result, or another field of one, addressed by its call.
    pub(crate) async fn give_result(&self, run: &RunId, call: &str, fields: Value) -> AnswerReply {
        let mut answer = json!({"toolCallId": call, "actor": "sdk"});
        answer.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        let answer: CallAnswer = serde_json::from_value(answer).unwrap();
        within("a reply", self.ops.tool_result(run, &answer)).await.unwrap()
    }

    /// Answers and expects it to be taken.
    pub(crate) async fn give(&self, run: &RunId, item: &AwaitView, body: AnswerBody) {
        assert_eq!(self.reply(run, item, body).await.status, AnswerStatus::Accepted);
    }

    pub(crate) async fn approve(&self, run: &RunId, item: &AwaitView) {
        let digest = Some(item.calls[0].digest);
        self.give(run, item, AnswerBody::Confirmation { approved: true, digest, reason: None, grant: None }).await;
    }

    /// The conversation as the store has it.
    pub(crate) async fn transcript(&self, run: &RunId) -> Vec<Message> {
        let row = self.ops.store().run(run).await.unwrap().unwrap();
        self.ops.store().transcript(run, row.head).await.unwrap()
    }
}

/// Fails the test, saying what it waited for, instead of hanging.
pub(crate) async fn within<F: Future>(what: &str, future: F) -> F::Output {
    match tokio::time::timeout(PATIENCE, future).await {
        Ok(output) => output,
        Err(_) => panic!("{what} did not come within {PATIENCE:?}"),
    }
}

pub(crate) fn open_store(dir: &Path) -> SqliteStore {
    let options = windlass_store::sqlite::Options::new(dir.join("windlass.db"));
    SqliteStore::open(options).unwrap()
}

/// Without a socket where the server is in this process.
pub(crate) async fn client() -> Client {
    client_of(server::shared()).await
}

async fn client_of(server: &Server) -> Client {
    match &server.engine {
        Some(engine) => within("the engine", connect_embedded(engine, "default", "it")).await.unwrap(),
        None => client_at(&server.address).await,
    }
}

pub(crate) async fn client_at(address: &str) -> Client {
    let options = Connect {
        address: address.to_owned(),
        namespace: "default".to_owned(),
        tls: None,
        api_key: None,
        identity: "it".to_owned(),
    };
    // The port answers before the namespace is there.
    within("the server", async {
        loop {
            if let Ok(client) = connect(&options).await {
                return client;
            }
            tokio::task::yield_now().await;
        }
    })
    .await
}

/// Several scripts by name.
pub(crate) fn scripts<const N: usize>(scripts: [(&str, Value); N]) -> Value {
    json!(scripts.into_iter().collect::<BTreeMap<_, _>>())
}
