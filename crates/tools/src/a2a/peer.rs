//! The operations of A2A on one interface of a peer.

use std::{future::Future, time::Duration};

use futures_util::{Stream, StreamExt as _, future::Either};
use reqwest::{
    Method, RequestBuilder, Response, Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderValue},
};
use serde::{Deserialize, Serialize, de::DeserializeOwned};
use serde_json::{Value, json};
use sse_stream::Sse;

use super::{
    access::{Access, READ_TIMEOUT},
    failure::{self, Effect, RequestFailure},
    grpc::Service,
    wire::{Event, Event03, RpcResponse, Task},
};
use crate::ToolFailure;

/// The longest id of a task or a context that is kept; ids are in the run's history.
const MAX_ID: usize = 1024;
/// How long the peer may take to begin a stream. The task is read while there is none.
const OPEN_TIMEOUT: Duration = Duration::from_secs(5);

/// A binding of the protocol in one of its versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Dialect {
    #[serde(rename = "JSONRPC 1.0")]
    JsonRpc,
    #[serde(rename = "HTTP+JSON 1.0")]
    HttpJson,
    #[serde(rename = "GRPC 1.0")]
    Grpc,
    #[serde(rename = "JSONRPC 0.3")]
    JsonRpc03,
}

/// The interface that a call uses. It is kept with the call, so that a task is asked for where it was started.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Endpoint {
    pub(super) dialect: Dialect,
    pub(super) url: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) tenant: Option<String>,
    #[serde(default)]
    pub(super) streaming: bool,
}

/// A message to a peer.
pub(super) struct Outgoing<'a> {
    pub(super) id: String,
    pub(super) text: &'a str,
    pub(super) context_id: Option<&'a str>,
    /// The task that it answers.
    pub(super) task_id: Option<&'a str>,
}

/// A piece of a stream: an event, or how long the peer wants to be left alone if the stream breaks off.
pub(super) enum Streamed {
    Event(Event),
    RetryAfter(Duration),
}

enum Operation<'a> {
    Send(&'a Outgoing<'a>),
    Get(&'a str),
    Cancel(&'a str),
    Subscribe(&'a str),
}

pub(super) struct Peer<'a> {
    access: Access<'a>,
    endpoint: &'a Endpoint,
    url: Url,
}

impl<'a> Peer<'a> {
    pub(super) fn new(access: Access<'a>, endpoint: &'a Endpoint) -> Result<Self, ToolFailure> {
        let url = Url::parse(&endpoint.url).map_err(|_| failure::unreadable("address"))?;
        Ok(Self { access, endpoint, url })
    }

    /// Sends a message. The peer is asked not to wait for the end of its task.
    pub(super) async fn send(&self, message: &Outgoing<'_>) -> Result<Event, ToolFailure> {
        const EFFECT: Effect = Effect::Message;
        let operation = Operation::Send(message);
        let answer = || async { Ok::<_, ToolFailure>(self.access.send(self.request(&operation)?, EFFECT).await?) };
        let event = match self.endpoint.dialect {
            Dialect::JsonRpc => self.result(answer().await?, EFFECT).await?,
            Dialect::HttpJson => self.access.json(answer().await?, "response", EFFECT).await?,
            Dialect::Grpc => self.grpc(&operation, EFFECT).await?,
            Dialect::JsonRpc03 => self.result::<Event03>(answer().await?, EFFECT).await?.0,
        };
        if let Event::Task(task) = &event {
            check_ids(task)?;
        }
        Ok(event)
    }

    pub(super) async fn task(&self, id: &str) -> Result<Task, RequestFailure> {
        self.read(&Operation::Get(id)).await
    }

    pub(super) async fn cancel(&self, id: &str) -> Result<Task, RequestFailure> {
        self.read(&Operation::Cancel(id)).await
    }

    /// A task, read in bounded time.
    async fn read(&self, operation: &Operation<'_>) -> Result<Task, RequestFailure> {
        let read = async {
            if self.endpoint.dialect == Dialect::Grpc {
                return self.grpc(operation, Effect::None).await;
            }
            let response = self.access.send(self.request(operation)?, Effect::None).await?;
            let task = match self.endpoint.dialect {
                Dialect::HttpJson => self.access.json(response, "response", Effect::None).await?,
                _ => self.result(response, Effect::None).await?,
            };
            Ok(task)
        };
        within(READ_TIMEOUT, read).await
    }

    /// The events of a task from now on. It ends when the peer ends it or it breaks off.
    pub(super) async fn subscribe(&self, id: &str) -> Result<impl Stream<Item = Streamed> + Unpin, RequestFailure> {
        if self.endpoint.dialect == Dialect::Grpc {
            let (method, params) = self.method(&Operation::Subscribe(id));
            let open = self.service().stream(method, &params);
            let texts = within(OPEN_TIMEOUT, open).await?;
            let events = texts.map(|text| serde_json::from_str(&text).ok().map(Streamed::Event));
            return Ok(Either::Left(until_unreadable(events)));
        }
        let request = self.request(&Operation::Subscribe(id))?.header(ACCEPT, "text/event-stream");
        let response = within(OPEN_TIMEOUT, self.access.send(request, Effect::None)).await?;
        let is_stream = |value: &HeaderValue| value.as_bytes().starts_with(b"text/event-stream");
        if !response.headers().get(CONTENT_TYPE).is_some_and(is_stream) {
            return Err(failure::unreadable("stream").into());
        }
        let dialect = self.endpoint.dialect;
        let pieces = self.access.events(response).map(move |event| read_event(dialect, event));
        Ok(Either::Right(until_unreadable(pieces)))
    }

    fn service(&self) -> Service<'_> {
        Service { access: self.access, url: &self.url }
    }

    /// The result of a method of gRPC.
    async fn grpc<T: DeserializeOwned>(&self, operation: &Operation<'_>, effect: Effect) -> Result<T, RequestFailure> {
        let (method, params) = self.method(operation);
        let text = self.service().call(method, &params, effect).await?;
        Ok(serde_json::from_str(&text).map_err(|_| failure::unreadable("response"))?)
    }

    async fn result<T: DeserializeOwned>(&self, response: Response, effect: Effect) -> Result<T, ToolFailure> {
        let response: RpcResponse<T> = self.access.json(response, "response", effect).await?;
        match (response.error, response.result) {
            (Some(error), _) => Err(failure::of_rpc(error.code, &error.message, effect)),
            (None, Some(result)) => Ok(result),
            (None, None) => Err(failure::unreadable("response")),
        }
    }

    fn request(&self, operation: &Operation<'_>) -> Result<RequestBuilder, ToolFailure> {
        if self.endpoint.dialect == Dialect::HttpJson {
            return self.http_request(operation);
        }
        let (method, params) = self.method(operation);
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = with_json(self.access.request(Method::POST, self.url.clone())?, &body);
        // Without the header a request is one of 0.3.
        Ok(if self.endpoint.dialect == Dialect::JsonRpc03 { request } else { with_version(request) })
    }

    /// An operation in JSON-RPC and in gRPC, which have the same names.
    fn method(&self, operation: &Operation<'_>) -> (&'static str, Value) {
        let v03 = self.endpoint.dialect == Dialect::JsonRpc03;
        let (method, mut params) = match operation {
            Operation::Send(message) if v03 => ("message/send", message.params_03()),
            Operation::Send(message) => ("SendMessage", message.params()),
            Operation::Get(id) if v03 => ("tasks/get", json!({"id": id, "historyLength": 0})),
            Operation::Get(id) => ("GetTask", json!({"id": id, "historyLength": 0})),
            Operation::Cancel(id) => (if v03 { "tasks/cancel" } else { "CancelTask" }, json!({"id": id})),
            Operation::Subscribe(id) => (if v03 { "tasks/resubscribe" } else { "SubscribeToTask" }, json!({"id": id})),
        };
        if let Some(tenant) = &self.endpoint.tenant {
            params["tenant"] = json!(tenant);
        }
        (method, params)
    }

    fn http_request(&self, operation: &Operation<'_>) -> Result<RequestBuilder, ToolFailure> {
        let (method, path, body) = match operation {
            Operation::Send(message) => (Method::POST, vec!["message:send".to_owned()], Some(message.params())),
            Operation::Get(id) => (Method::GET, vec!["tasks".to_owned(), (*id).to_owned()], None),
            Operation::Cancel(id) => (Method::POST, vec!["tasks".to_owned(), format!("{id}:cancel")], Some(json!({}))),
            Operation::Subscribe(id) => (Method::GET, vec!["tasks".to_owned(), format!("{id}:subscribe")], None),
        };
        let mut url = self.url.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            segments.pop_if_empty().extend(self.endpoint.tenant.iter()).extend(path);
        }
        if matches!(operation, Operation::Get(_)) {
            url.query_pairs_mut().append_pair("historyLength", "0");
        }
        let request = with_version(self.access.request(method, url)?);
        Ok(match body {
            Some(body) => with_json(request, &body),
            None => request,
        })
    }
}

impl Outgoing<'_> {
    fn params(&self) -> Value {
        let mut message = json!({"messageId": self.id, "role": "ROLE_USER", "parts": [{"text": self.text}]});
        self.address(&mut message);
        json!({"message": message, "configuration": {"returnImmediately": true, "historyLength": 0}})
    }

    fn params_03(&self) -> Value {
        let parts = json!([{"kind": "text", "text": self.text}]);
        let mut message = json!({"kind": "message", "messageId": self.id, "role": "user", "parts": parts});
        self.address(&mut message);
        json!({"message": message, "configuration": {"blocking": false, "historyLength": 0}})
    }

    fn address(&self, message: &mut Value) {
        for (field, id) in [("contextId", self.context_id), ("taskId", self.task_id)] {
            if let Some(id) = id {
                message[field] = json!(id);
            }
        }
    }
}

fn with_json(request: RequestBuilder, body: &Value) -> RequestBuilder {
    request.header(CONTENT_TYPE, "application/json").body(body.to_string())
}

pub(super) fn with_version(request: RequestBuilder) -> RequestBuilder {
    request.header("A2A-Version", "1.0")
}

/// A piece that cannot be read ends the stream.
fn until_unreadable(pieces: impl Stream<Item = Option<Streamed>> + Unpin) -> impl Stream<Item = Streamed> + Unpin {
    pieces.take_while(|piece| std::future::ready(piece.is_some())).filter_map(std::future::ready)
}

/// What an event says; `None` if it cannot be read, which ends the stream.
fn read_event(dialect: Dialect, event: Sse) -> Option<Streamed> {
    let Some(data) = event.data.filter(|data| !data.is_empty()) else {
        return Some(Streamed::RetryAfter(Duration::from_millis(event.retry?)));
    };
    let event = match dialect {
        Dialect::JsonRpc => serde_json::from_str::<RpcResponse<Event>>(&data).ok()?.result?,
        Dialect::HttpJson | Dialect::Grpc => serde_json::from_str(&data).ok()?,
        Dialect::JsonRpc03 => serde_json::from_str::<RpcResponse<Event03>>(&data).ok()?.result?.0,
    };
    Some(Streamed::Event(event))
}

async fn within<T>(
    limit: Duration,
    request: impl Future<Output = Result<T, RequestFailure>>,
) -> Result<T, RequestFailure> {
    // Boxed because a request in flight is large, and callers hold it inside others.
    tokio::time::timeout(limit, Box::pin(request)).await.map_err(|_| failure::timed_out(Effect::None))?
}

/// The ids that a call keeps.
fn check_ids(task: &Task) -> Result<(), ToolFailure> {
    let is_usable = |id: &str| id.len() <= MAX_ID && !id.contains(char::is_control);
    if task.id.is_empty() || !is_usable(&task.id) || !task.context_id.as_deref().is_none_or(is_usable) {
        let message = format!("the peer's task has an id that is empty, not text, or longer than {MAX_ID} bytes");
        return Err(failure::failed(message));
    }
    Ok(())
}
