//! An API server for a test world, and a client with an API key.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{net::TcpListener, task::JoinHandle};
use tokio_util::sync::{CancellationToken, DropGuard};
use windlass::service::ApiOptions;
use windlass_api::{Limits, Options, Rates, Service, auth::ApiKey};
use windlass_core::{
    agent::AgentDefinition,
    ids::{AgentId, WorkspaceId},
    time::Millis,
};
use windlass_store::Store;

use super::http::{Answer, Exchange};
use crate::support::world::{World, within};

pub(crate) struct Rig {
    pub(crate) world: World,
    pub(crate) address: SocketAddr,
    pub(crate) key: ApiKey,
    options: Options,
    stop: CancellationToken,
    served: Option<JoinHandle<()>>,
}

pub(crate) const WORKSPACE: &str = "test";

impl Rig {
    pub(crate) async fn new(scripts: Value) -> Self {
        Self::with(scripts, |_| {}).await
    }

    /// A rig whose API the test has changed.
    pub(crate) async fn with(scripts: Value, change: impl FnOnce(&mut Options)) -> Self {
        Self::with_world(scripts, |_, options| change(options)).await
    }

    /// A rig whose API the test has changed, by the world behind it.
    pub(super) async fn with_world(scripts: Value, change: impl FnOnce(&World, &mut Options)) -> Self {
        Self::over(World::new(scripts).await, change).await
    }

    /// A rig of a world whose worker runs.
    pub(crate) async fn of(world: World) -> Self {
        Self::over(world, |_, _| {}).await
    }

    async fn over(world: World, change: impl FnOnce(&World, &mut Options)) -> Self {
        let limits = Limits {
            local_tool_timeout: Millis::from_secs(300),
            keep_alive: Duration::from_millis(200),
            grace: Duration::from_secs(2),
            ..Limits::default()
        };
        let mut options = Options {
            // Tests say themselves which tools callers may name.
            builtins: Vec::new(),
            limits,
            ..ApiOptions::loopback().on(world.ops.clone(), &world.ports)
        };
        change(&world, &mut options);
        let key = ApiKey::random();
        world.ops.store().create_key(key.row(WORKSPACE.into(), "tests", vec!["*".into()], None)).await.unwrap();
        let (address, stop, served) = serve("127.0.0.1:0".parse().unwrap(), options.clone()).await;
        Self { world, address, key, options, stop, served: Some(served) }
    }

    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        self.world.ops.store()
    }

    /// Another key to the API.
    pub(crate) async fn key(&self, workspace: &str, scopes: &[&str], agents: Option<Vec<AgentId>>) -> ApiKey {
        let key = ApiKey::random();
        let scopes = scopes.iter().map(|scope| (*scope).to_owned()).collect();
        self.store().create_key(key.row(WorkspaceId::new(workspace), "other", scopes, agents)).await.unwrap();
        key
    }

    /// Drains the API, as a deployment would.
    pub(crate) async fn stop(&mut self) {
        self.stop.cancel();
        within("the API's end", self.served.take().unwrap()).await.unwrap();
    }

    /// One more server in front of the same world, until the guard is dropped.
    pub(super) async fn another(&self) -> DropGuard {
        let (_, stop, _) = serve("127.0.0.1:0".parse().unwrap(), self.options.clone()).await;
        stop.drop_guard()
    }

    /// Serves again at the same address.
    pub(crate) async fn start_again(&mut self) {
        let (_, stop, served) = serve(self.address, self.options.clone()).await;
        (self.stop, self.served) = (stop, Some(served));
    }

    /// `GET /models`, relative to the workspace.
    pub(crate) async fn get(&self, path: &str) -> Answer {
        self.send(&self.key, "GET", path, None).await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(&self.key, "POST", path, Some(&body)).await
    }

    pub(crate) async fn send(&self, key: &ApiKey, method: &str, path: &str, body: Option<&Value>) -> Answer {
        self.send_to(WORKSPACE, key, method, path, body).await
    }

    pub(super) async fn send_to(
        &self,
        workspace: &str,
        key: &ApiKey,
        method: &str,
        path: &str,
        body: Option<&Value>,
    ) -> Answer {
        let bearer = format!("Bearer {}", key.reveal());
        let request = format!("{method} /api/v1/workspaces/{workspace}{path}");
        let headers = [("Authorization", bearer.as_str())];
        within("an answer", async { Exchange::open(self.address, &request, &headers, body).await.finish().await }).await
    }

    /// Starts a run and returns its id.
    pub(crate) async fn run(&self, body: Value) -> String {
        let answer = self.post("/agent-runs", body).await;
        assert_eq!(answer.status, 202, "{answer:?}");
        answer.body["runId"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn stream(&self, run: &str, last_seq: Option<u64>) -> Stream {
        Stream::open(self.address, self.key.reveal(), run, last_seq).await
    }

    /// Everything a run says, to its end.
    pub(crate) async fn frames(&self, run: &str) -> Vec<Value> {
        self.stream(run, None).await.rest().await
    }

    /// The last frame of a run.
    pub(crate) async fn ending(&self, run: &str) -> Value {
        self.frames(run).await.pop().unwrap()
    }
}

async fn serve(address: SocketAddr, options: Options) -> (SocketAddr, CancellationToken, JoinHandle<()>) {
    let listener = TcpListener::bind(address).await.unwrap();
    let (service, handle) = Service::new(listener, options).unwrap();
    let stop = CancellationToken::new();
    (handle.address, stop.clone(), tokio::spawn(service.run(stop)))
}

/// A reader of a run's events.
pub(crate) struct Stream {
    exchange: Exchange,
    text: String,
}

impl Stream {
    /// The events of a response.
    pub(crate) fn of(exchange: Exchange) -> Self {
        assert_eq!(exchange.status, 200, "{:?}", exchange.headers);
        Self { exchange, text: String::new() }
    }

    pub(crate) async fn open(address: SocketAddr, key: &str, run: &str, last_seq: Option<u64>) -> Self {
        let bearer = format!("Bearer {key}");
        let query = last_seq.map(|seq| format!("?lastSeq={seq}")).unwrap_or_default();
        let request = format!("GET /api/v1/workspaces/{WORKSPACE}/agent-runs/{run}/stream{query}");
        Self::of(Exchange::open(address, &request, &[("Authorization", &bearer)], None).await)
    }

    /// The next block between blank lines.
    async fn block(&mut self) -> Result<Option<String>, &'static str> {
        loop {
            if let Some((block, rest)) = self.text.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.text = rest;
                return Ok(Some(block));
            }
            match within("a chunk", self.exchange.chunk()).await? {
                Some(chunk) => self.text.push_str(&chunk),
                None => return Ok(None),
            }
        }
    }

    /// The next event; comments are passed over.
    pub(crate) async fn next(&mut self) -> Result<Option<Value>, &'static str> {
        while let Some(block) = self.block().await? {
            if let Some(data) = block.lines().find_map(|line| line.strip_prefix("data: ")) {
                return Ok(Some(serde_json::from_str(data).unwrap()));
            }
        }
        Ok(None)
    }

    /// The first comment that comes.
    pub(crate) async fn comment(&mut self) -> String {
        loop {
            let block = self.block().await.unwrap().unwrap();
            if block.starts_with(':') {
                return block;
            }
        }
    }

    /// Events until one of this type.
    pub(crate) async fn until(&mut self, kind: &str) -> Value {
        loop {
            let event = self.next().await.unwrap().unwrap_or_else(|| panic!("the stream ended before {kind}"));
            if event["type"] == kind {
                return event;
            }
        }
    }

    pub(crate) async fn rest(&mut self) -> Vec<Value> {
        let mut events = Vec::new();
        while let Some(event) = self.next().await.unwrap() {
            events.push(event);
        }
        events
    }
}

/// A spec that asks a script.
pub(crate) fn ask(script: &str, prompt: &str) -> Value {
    json!({"systemPrompt": "You are a test agent.", "modelId": format!("script:{script}"), "prompt": prompt, "tools": []})
}

/// The same with one local tool.
pub(crate) fn ask_with_tool(script: &str, tool: Value) -> Value {
    let mut spec = ask(script, "go");
    spec["tools"] = json!([tool]);
    spec
}

pub(crate) fn strict_rates() -> Rates {
    Rates { starts: 2, ..Rates::default() }
}

/// An agent that callers may name.
pub(crate) fn desk() -> AgentDefinition {
    serde_json::from_value(json!({"id": "desk", "model": "script:echo", "systemPrompt": "You are the desk."})).unwrap()
}
