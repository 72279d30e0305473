//! The calls in flight on a connection, and what the server sends while they are: progress, questions, and that its list
//! of tools has changed.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex as StdMutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
    },
};

use rmcp::{
    ClientHandler, ErrorData, RoleClient,
    model::{
        CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest, ElicitRequestParams,
        ElicitResult, ElicitationAction, ElicitationCapability, FormElicitationCapability, Implementation, JsonObject,
        ProgressNotificationParam, ProgressToken, ProtocolVersion, RequestId, ServerResult, TASKS_EXTENSION_ID,
        UrlElicitationCapability,
    },
    service::{
        InboundStreamOrigin, NotificationContext, Peer, PeerRequestOptions, RequestContext, RequestHandle, ServiceError,
    },
};
use tokio::sync::{Mutex, mpsc, oneshot};

use crate::{Progress, ProgressSink};

/// What the client of one connection keeps.
#[derive(Default)]
pub(super) struct InFlight {
    /// A call that has ended is gone from memory; its entry is removed later.
    calls: Mutex<HashMap<RequestId, Weak<Call>>>,
    /// How often the server said that its list of tools has changed.
    list_changes: AtomicU64,
}

struct Call {
    token: ProgressToken,
    progress: ProgressSink,
    /// The highest number reported so far. Notifications are handled concurrently, so an older one may come later.
    done: StdMutex<f64>,
    questions: mpsc::UnboundedSender<Question>,
}

/// A question that a server asks during a call. It is cancelled if no answer is sent.
pub(super) struct Question {
    pub(super) asked: ElicitRequestParams,
    pub(super) answer: oneshot::Sender<ElicitResult>,
}

/// A request that was sent. If this is dropped before the response is there, the server is told.
pub(super) struct Sent {
    /// None once the response is there.
    handle: Option<RequestHandle<RoleClient>>,
    questions: mpsc::UnboundedReceiver<Question>,
    _call: Arc<Call>,
}

/// What comes from the server during a call.
pub(super) enum Event {
    Response(Result<ServerResult, ServiceError>),
    Question(Question),
}

impl InFlight {
    pub(super) async fn send(
        &self,
        peer: &Peer<RoleClient>,
        params: CallToolRequestParams,
        progress: ProgressSink,
    ) -> Result<Sent, ServiceError> {
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        // Locked until the call is listed: what the server sends for it waits here.
        let mut calls = self.calls.lock().await;
        let handle = peer.send_cancellable_request(request, PeerRequestOptions::no_options()).await?;
        let (sender, questions) = mpsc::unbounded_channel();
        let token = handle.progress_token.clone();
        let call = Arc::new(Call { token, progress, done: StdMutex::new(f64::NEG_INFINITY), questions: sender });
        calls.retain(|_, call| call.strong_count() > 0);
        calls.insert(handle.id.clone(), Arc::downgrade(&call));
        Ok(Sent { handle: Some(handle), questions, _call: call })
    }

    pub(super) fn list_changes(&self) -> u64 {
        self.list_changes.load(Ordering::Acquire)
    }

    pub(super) fn list_changed(&self) {
        self.list_changes.fetch_add(1, Ordering::AcqRel);
    }

    /// The call that a question belongs to: that of the stream it arrived on, or else the only one in flight.
    async fn asking(&self, origin: Option<&InboundStreamOrigin>) -> Option<Arc<Call>> {
        let calls = self.calls.lock().await;
        if let Some(InboundStreamOrigin::OutboundRequest(id)) = origin {
            return calls.get(id).and_then(Weak::upgrade);
        }
        let mut live = calls.values().filter_map(Weak::upgrade);
        live.next().filter(|_| live.next().is_none())
    }
}

impl Sent {
    /// The response, or a question before it. After the response there is nothing more.
    pub(super) async fn next(&mut self) -> Event {
        let Some(handle) = &mut self.handle else { return Event::Response(Err(ServiceError::TransportClosed)) };
        tokio::select! {
            biased;
            response = &mut handle.rx => {
                self.handle = None;
                Event::Response(response.unwrap_or(Err(ServiceError::TransportClosed)))
            }
            Some(question) = self.questions.recv() => Event::Question(question),
        }
    }

    /// Cancels the call because of a question that a person has to answer first.
    pub(super) fn set_aside(mut self, question: Question) {
        if let Some(handle) = self.handle.take() {
            tokio::spawn(async move {
                let _ = handle.cancel(Some("a person is asked first; the call is then made again".to_owned())).await;
                // Only now: a server that gets the cancelled question first may complete the call.
                drop(question);
            });
        }
    }
}

impl Drop for Sent {
    fn drop(&mut self) {
        // Not awaited: a server that reads nothing must not hold up the caller.
        if let Some(handle) = self.handle.take()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            runtime.spawn(async move {
                let _ = handle.cancel(Some("the caller no longer waits for the result".to_owned())).await;
            });
        }
    }
}

impl ClientHandler for InFlight {
    fn get_info(&self) -> ClientConfig {
        let mut capabilities = ClientCapabilities::default();
        let elicitation = ElicitationCapability::new()
            .with_form(FormElicitationCapability::new())
            .with_url(UrlElicitationCapability::new());
        capabilities.elicitation = Some(elicitation);
        capabilities.extensions = Some([(TASKS_EXTENSION_ID.to_owned(), JsonObject::new())].into());
        ClientConfig::new(capabilities, Implementation::new("windlass", env!("CARGO_PKG_VERSION")))
            .with_protocol_version(ProtocolVersion::V_2025_11_25)
    }

    async fn create_elicitation(
        &self,
        asked: ElicitRequestParams,
        context: RequestContext<RoleClient>,
    ) -> Result<ElicitResult, ErrorData> {
        let Some(call) = self.asking(context.extensions.get()).await else {
            tracing::warn!("an MCP server asks a question, and it is not known which of its calls asks");
            let message = "the client cannot tell which call asks: make no other call to this server meanwhile";
            return Err(ErrorData::invalid_request(message, None));
        };
        let (answer, answered) = oneshot::channel();
        // The call may have ended; then there is no answer.
        let _ = call.questions.send(Question { asked, answer });
        drop(call);
        Ok(answered.await.unwrap_or_else(|_| ElicitResult::new(ElicitationAction::Cancel)))
    }

    async fn on_progress(&self, report: ProgressNotificationParam, _: NotificationContext<RoleClient>) {
        let calls = self.calls.lock().await;
        let Some(call) = calls.values().filter_map(Weak::upgrade).find(|call| call.token == report.progress_token)
        else {
            return;
        };
        drop(calls);
        let mut done = call.done.lock().unwrap_or_else(PoisonError::into_inner);
        if report.progress >= *done {
            *done = report.progress;
            let progress = Progress { message: report.message, done: Some(report.progress), total: report.total };
            call.progress.report(progress);
        }
    }

    async fn on_tool_list_changed(&self, _: NotificationContext<RoleClient>) {
        self.list_changed();
    }
}
