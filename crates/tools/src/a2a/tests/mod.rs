//! Calls to peers on loopback sockets that speak each dialect.

mod answers;
mod credentials;
mod grpc;
mod hostile;
mod oracle;
mod peer;
mod rounds;
mod streams;

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use reqwest::{Client, Url, header::HeaderMap, redirect::Policy};
use serde_json::{Value, json};
use windlass_core::{
    agent::A2aSource,
    canonical::{CanonicalJson, Digest},
    envelope::{Continuation, InputAction, InputRequest, InputResponse, Resumption, ToolErrorKind},
};

use self::peer::{Answer, Legacy, TestPeer};
use super::{A2aClients, A2aPeers, AgentCardSummary, AgentInterface, AgentSkill, peer::Dialect};
use crate::{CallContext, ProgressSink, ToolFailure, ToolReply, ToolSuccess, fixtures};

const DIALECTS: [Dialect; 4] = [Dialect::JsonRpc, Dialect::HttpJson, Dialect::Grpc, Dialect::JsonRpc03];

/// A run with one call of one peer.
struct Caller {
    peers: A2aPeers,
    source: A2aSource,
    headers: HeaderMap,
    context: CallContext,
    /// The addresses that were checked.
    checked: Arc<Mutex<Vec<String>>>,
}

impl Caller {
    fn of(peer: &TestPeer) -> Self {
        let source = A2aSource { agent_card_url: peer.url(""), ..A2aSource::default() };
        Self {
            peers: A2aPeers::default(),
            source,
            headers: HeaderMap::new(),
            context: fixtures::context(),
            checked: Arc::default(),
        }
    }

    /// One round.
    async fn round(&self) -> Result<ToolReply, ToolFailure> {
        let args = json!({"message": "hello"}).into();
        let check = |url: &Url| {
            self.checked.lock().unwrap().push(url.path().to_owned());
            Ok(())
        };
        let [http, http2] = clients();
        let clients = A2aClients { http: &http, http2: &http2 };
        self.peers.call(&self.source, clients, &self.headers, &check, Some("session-1"), &self.context, &args).await
    }

    /// The round after one that returned `continuation`, with what a person did if it asked.
    async fn next(
        &mut self,
        continuation: &Continuation,
        response: Option<InputResponse>,
    ) -> Result<ToolReply, ToolFailure> {
        let round = self.context.resumption.as_ref().map_or(1, |resumption| resumption.round) + 1;
        let responses = response.into_iter().map(|response| ("message".to_owned(), response));
        let responses: BTreeMap<_, _> = responses.collect();
        self.context.resumption = Some(Resumption {
            round,
            state: continuation.state.clone(),
            responses,
            repeatable: continuation.repeatable,
        });
        self.round().await
    }

    /// Rounds without input until the call ends or asks.
    async fn finish(&mut self) -> Result<ToolReply, ToolFailure> {
        let mut reply = self.round().await?;
        while let ToolReply::Continue(continuation) = &reply
            && continuation.inputs.is_empty()
        {
            reply = self.next(&continuation.clone(), None).await?;
        }
        Ok(reply)
    }

    fn with_time(mut self, left: Duration) -> Self {
        self.context.deadline = Some(Instant::now() + left);
        self
    }
}

/// One for the other bindings, and one for gRPC.
fn clients() -> [Client; 2] {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let builder = || Client::builder().no_proxy().redirect(Policy::none());
    [builder(), builder().http2_prior_knowledge()].map(|builder| builder.build().unwrap())
}

fn task(state: &str) -> Value {
    json!({"id": "t1", "contextId": "c1", "status": {"state": format!("TASK_STATE_{state}")}})
}

fn task_saying(state: &str, text: &str) -> Value {
    let mut task = task(state);
    let message = json!({"messageId": format!("m-{text}"), "role": "ROLE_AGENT", "parts": [{"text": text}]});
    task["status"]["message"] = message;
    task["status"]["timestamp"] = json!("2026-01-01T00:00:00Z");
    task
}

fn completed(text: &str) -> Value {
    let mut task = task("COMPLETED");
    task["artifacts"] = json!([{"artifactId": "a1", "parts": [{"text": text}]}]);
    task
}

fn done(text: &str) -> ToolReply {
    let ids = json!({"taskId": "t1", "contextId": "c1"});
    ToolReply::Done(ToolSuccess { server_data: Some(ids), ..ToolSuccess::new(json!(text)) })
}

/// The state of a call of the peer's task.
fn state(peer: &TestPeer, asked: Option<Digest>) -> CanonicalJson {
    let dialect = match peer.dialect {
        Dialect::JsonRpc => "JSONRPC 1.0",
        Dialect::HttpJson => "HTTP+JSON 1.0",
        Dialect::Grpc => "GRPC 1.0",
        Dialect::JsonRpc03 => "JSONRPC 0.3",
    };
    let mut state = json!({
        "dialect": dialect,
        "url": peer.url("/a2a"),
        "streaming": peer.streaming,
        "taskId": "t1",
        "contextId": "c1",
    });
    if let Some(asked) = asked {
        state["asked"] = json!(asked);
    }
    state.into()
}

fn continues(peer: &TestPeer) -> Continuation {
    Continuation { state: state(peer, None), inputs: Vec::new(), repeatable: true }
}

fn asks(peer: &TestPeer, text: &str, url: Option<&str>) -> Continuation {
    let input =
        InputRequest { key: "message".to_owned(), prompt: text.to_owned(), schema: None, url: url.map(str::to_owned) };
    let asked = Digest::of_bytes(format!("2026-01-01T00:00:00Z m-{text}").as_bytes());
    Continuation { state: state(peer, Some(asked)), inputs: vec![input], repeatable: false }
}

fn person(action: InputAction, text: Option<&str>) -> Option<InputResponse> {
    Some(InputResponse { action, content: text.map(|text| json!(text).into()) })
}

fn failed(message: &str) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::ToolFailed, message)
}

fn continuation(reply: Result<ToolReply, ToolFailure>) -> Continuation {
    match reply {
        Ok(ToolReply::Continue(continuation)) => continuation,
        other => panic!("{other:?}"),
    }
}
