//! An MCP server on loopback.

use std::{
    borrow::Cow,
    collections::VecDeque,
    net::Ipv4Addr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use reqwest::header::HeaderMap;
use rmcp::{
    ErrorData, RoleServer, ServerHandler,
    model::{
        CallToolRequestParams, CallToolResponse, CallToolResult, CancelTaskParams, ContentBlock, CreateTaskResult,
        DetailedTask, ElicitRequest, ElicitRequestParams, ElicitResult, ErrorCode, GetTaskParams, GetTaskResult,
        Implementation, InputRequest, InputRequiredResult, ListToolsResult, PaginatedRequestParams,
        ProgressNotificationParam, ProtocolVersion, ServerCapabilities, ServerConfig, SubscriptionFilter, Task,
        TaskPayload, TaskStatus, Tool, UpdateTaskParams,
    },
    service::{Peer, RequestContext, SubscriptionContext},
    transport::streamable_http_server::{
        StreamableHttpServerConfig, StreamableHttpService, session::local::LocalSessionManager,
    },
};
use rustls::crypto::{CryptoProvider, ring};
use serde_json::{Value, json};
use tokio::{
    net::TcpListener,
    sync::{Notify, mpsc, watch},
};
use tokio_util::sync::CancellationToken;

use super::McpEndpoint;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Revision {
    /// 2025-11-25.
    Sessions,
    /// 2026-07-28.
    Stateless,
}

impl Revision {
    pub(super) const BOTH: [Self; 2] = [Self::Sessions, Self::Stateless];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Sessions => "2025-11-25",
            Self::Stateless => "2026-07-28",
        }
    }
}

/// What the tests see of the server, and tell it.
pub(super) struct Server {
    pub(super) shared: Arc<Shared>,
    /// What happened in calls.
    pub(super) events: mpsc::UnboundedReceiver<String>,
    port: u16,
    stop: CancellationToken,
}

pub(super) struct Shared {
    revision: Revision,
    pub(super) pages: Mutex<Vec<Vec<Tool>>>,
    pub(super) ttl_ms: Mutex<Option<u64>>,
    /// Pages that were asked for.
    pub(super) lists: AtomicUsize,
    /// Lets the tool `progress` go on.
    pub(super) go: Notify,
    /// Calls of the tool `visit`.
    visits: AtomicUsize,
    /// What is read of the task of the tool `task`, one after the other; the last one stays.
    pub(super) task: Mutex<VecDeque<TaskPayload>>,
    events: mpsc::UnboundedSender<String>,
    /// Peers of sessions, for notifications.
    peers: Mutex<Vec<Peer<RoleServer>>>,
    /// How often the list of tools has changed, for subscriptions.
    changes: watch::Sender<usize>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}

impl Server {
    pub(super) async fn start(revision: Revision) -> Self {
        let (sender, events) = mpsc::unbounded_channel();
        let shared = Arc::new(Shared {
            revision,
            pages: Mutex::new(vec![vec![tool("echo")]]),
            ttl_ms: Mutex::new(None),
            lists: AtomicUsize::new(0),
            go: Notify::new(),
            visits: AtomicUsize::new(0),
            task: Mutex::default(),
            events: sender,
            peers: Mutex::default(),
            changes: watch::Sender::new(0),
        });
        let mut server = Self { shared, events, port: 0, stop: CancellationToken::new() };
        server.listen().await;
        server
    }

    /// Serves on the port it had before, if any.
    pub(super) async fn listen(&mut self) {
        self.stop = CancellationToken::new();
        let handler = Handler(Arc::clone(&self.shared));
        let service: StreamableHttpService<Handler, LocalSessionManager> = StreamableHttpService::new(
            move || Ok(handler.clone()),
            Arc::default(),
            StreamableHttpServerConfig::default().with_cancellation_token(self.stop.child_token()),
        );
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, self.port)).await.unwrap();
        self.port = listener.local_addr().unwrap().port();
        let router = axum::Router::new().nest_service("/mcp", service);
        tokio::spawn(self.stop.clone().run_until_cancelled_owned(async move {
            axum::serve(listener, router).await.unwrap();
        }));
    }

    pub(super) fn endpoint(&self) -> McpEndpoint {
        let url = format!("http://127.0.0.1:{}/mcp", self.port).parse().unwrap();
        McpEndpoint::Http { url, client: client(), headers: HeaderMap::new() }
    }

    /// Closes the port and all connections.
    pub(super) fn stop(&self) {
        self.stop.cancel();
    }

    /// Waits until the port is closed.
    pub(super) async fn stopped(&mut self) {
        while tokio::net::TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.is_ok() {
            tokio::task::yield_now().await;
        }
    }

    pub(super) async fn event(&mut self) -> String {
        self.events.recv().await.unwrap()
    }

    pub(super) fn lists(&self) -> usize {
        self.shared.lists.load(Ordering::SeqCst)
    }

    /// Tells the client that the list of tools has changed.
    pub(super) async fn announce_change(&self) {
        match self.shared.revision {
            Revision::Sessions => {
                let peers = self.shared.peers.lock().unwrap().clone();
                peers.last().unwrap().notify_tool_list_changed().await.unwrap();
            }
            Revision::Stateless => self.shared.changes.send_modify(|changes| *changes += 1),
        }
    }
}

pub(super) fn client() -> reqwest::Client {
    if CryptoProvider::get_default().is_none() {
        let _ = ring::default_provider().install_default();
    }
    // Without connections that are kept, a server that was stopped is gone at once.
    reqwest::Client::builder().no_proxy().pool_max_idle_per_host(0).build().unwrap()
}

pub(super) fn tool(name: &'static str) -> Tool {
    Tool::new(name, format!("Does {name}."), json!({"type": "object"}).as_object().unwrap().clone())
}

#[derive(Clone)]
struct Handler(Arc<Shared>);

impl ServerHandler for Handler {
    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        let newest = match self.0.revision {
            Revision::Sessions => ProtocolVersion::V_2025_11_25,
            Revision::Stateless => ProtocolVersion::V_2026_07_28,
        };
        Cow::Borrowed(ProtocolVersion::known_up_to(&newest))
    }

    fn get_info(&self) -> ServerConfig {
        let capabilities =
            ServerCapabilities::builder().enable_tools().enable_tool_list_changed().enable_tasks().build();
        ServerConfig::new(capabilities).with_server_info(Implementation::new("test-server", "1.2.3"))
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        self.0.lists.fetch_add(1, Ordering::SeqCst);
        self.0.peers.lock().unwrap().push(context.peer);
        let cursor = request.and_then(|request| request.cursor);
        let page: usize = cursor.as_deref().map_or(0, |cursor| cursor.parse().unwrap());
        let pages = self.0.pages.lock().unwrap();
        let mut list = ListToolsResult::with_all_items(pages[page].clone());
        list.next_cursor = (page + 1 < pages.len()).then(|| (page + 1).to_string());
        list.ttl_ms = *self.0.ttl_ms.lock().unwrap();
        Ok(list)
    }

    fn accepted_subscription_filter(&self, requested: &SubscriptionFilter) -> Option<SubscriptionFilter> {
        Some(requested.clone())
    }

    async fn listen(&self, context: SubscriptionContext) -> Result<(), ErrorData> {
        let mut changes = self.0.changes.subscribe();
        self.report("subscribed");
        loop {
            tokio::select! {
                () = context.cancelled() => return Ok(()),
                _ = changes.changed() => context.sink().notify_tool_list_changed().await.unwrap(),
            }
        }
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        match &*request.name {
            "echo" => {
                let call = context.meta.0.0.get("windlass/callId").cloned();
                Ok(CallToolResult::structured(json!({"arguments": request.arguments, "callId": call})).into())
            }
            "refuse" => Err(ErrorData::invalid_params("there is no such thing", None)),
            "break" => Err(ErrorData::internal_error("out of order", None)),
            "hang" => {
                self.report("hangs");
                context.ct.cancelled().await;
                self.report("cancelled");
                Ok(text("too late"))
            }
            "visit" if self.0.visits.fetch_add(1, Ordering::SeqCst) == 0 => {
                let data = json!({"elicitations": [page()]});
                Err(ErrorData::new(ErrorCode(-32042), "visit a page first", Some(data)))
            }
            "visit" => Ok(text("visited")),
            "progress" => self.progress(&context).await,
            "ask" => self.ask(request, &context).await,
            "task" => Ok(CreateTaskResult::new(task(TaskStatus::Working)).into()),
            other => panic!("there is no tool {other}"),
        }
    }

    async fn get_task(
        &self,
        request: GetTaskParams,
        _: RequestContext<RoleServer>,
    ) -> Result<GetTaskResult, ErrorData> {
        assert_eq!(request.task_id, "task-1");
        let mut payloads = self.0.task.lock().unwrap();
        let next = if payloads.len() > 1 { payloads.pop_front() } else { payloads.front().cloned() };
        let Some(payload) = next else { return Err(ErrorData::invalid_params("there is no such task", None)) };
        self.report(format!("read {:?}", payload.status()));
        Ok(GetTaskResult::new(DetailedTask::new(task(payload.status()), payload)))
    }

    async fn update_task(&self, request: UpdateTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.report(format!("updated {}", json!(request.input_responses)));
        Ok(())
    }

    async fn cancel_task(&self, request: CancelTaskParams, _: RequestContext<RoleServer>) -> Result<(), ErrorData> {
        self.report(format!("cancelled {}", request.task_id));
        Ok(())
    }
}

fn task(status: TaskStatus) -> Task {
    let time = "2026-07-28T12:00:00Z";
    let mut task = Task::new("task-1", status, time, time).with_poll_interval_ms(1);
    task.status_message = Some("works on it".to_owned());
    task
}

impl Handler {
    fn report(&self, event: impl Into<String>) {
        let _ = self.0.events.send(event.into());
    }

    async fn progress(&self, context: &RequestContext<RoleServer>) -> Result<CallToolResponse, ErrorData> {
        let token = context.meta.get_progress_token().unwrap();
        let report = ProgressNotificationParam::new(token, 1.0).with_total(2.0).with_message("half");
        context.peer.notify_progress(report).await.unwrap();
        self.0.go.notified().await;
        Ok(text("whole"))
    }

    /// Asks for a name, then for a page to be visited.
    async fn ask(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        if self.0.revision == Revision::Sessions {
            self.report("started");
            let name = self.elicit(context, form()).await?;
            let visit = self.elicit(context, page()).await?;
            return Ok(CallToolResult::structured(json!({"name": name, "visit": visit})).into());
        }
        let Some(responses) = request.input_responses else {
            let both = [("name", form()), ("visit", page())];
            let asked = both.map(|(key, params)| (key.into(), InputRequest::Elicitation(ElicitRequest::new(params))));
            return Ok(InputRequiredResult::new(Some(asked.into()), Some("sealed".into())).into());
        };
        Ok(CallToolResult::structured(json!({"responses": responses, "state": request.request_state})).into())
    }

    async fn elicit(
        &self,
        context: &RequestContext<RoleServer>,
        params: ElicitRequestParams,
    ) -> Result<ElicitResult, ErrorData> {
        tokio::select! {
            answer = context.peer.create_elicitation(params) => {
                answer.map_err(|error| ErrorData::internal_error(error.to_string(), None))
            }
            () = context.ct.cancelled() => {
                self.report("cancelled");
                Err(ErrorData::internal_error("cancelled", None))
            }
        }
    }
}

fn text(text: &str) -> CallToolResponse {
    CallToolResult::success(vec![ContentBlock::text(text)]).into()
}

pub(super) fn form() -> ElicitRequestParams {
    let schema: Value = json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]});
    ElicitRequestParams::FormElicitationParams {
        meta: None,
        message: "Who are you?".into(),
        requested_schema: serde_json::from_value(schema).unwrap(),
    }
}

fn page() -> ElicitRequestParams {
    ElicitRequestParams::UrlElicitationParams {
        meta: None,
        message: "Sign in.".into(),
        url: "https://example.com/sign-in".into(),
        elicitation_id: "e1".into(),
    }
}
