//! The bridge between a client at stdin and stdout and the MCP endpoint of an API server.
//!
//! It understands as little as it can: each message is a request to the endpoint, and each message of its response is a
//! line. It adds the headers that the endpoint wants, remembers the session of clients of older revisions, and turns
//! the cancellation of a call into what the endpoint understands: closing the request.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use serde_json::{Value, json};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};

use super::post::{Lost, Post};

/// What a client of an older revision has agreed on with `initialize`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Agreed {
    pub(super) session: Option<String>,
    pub(super) version: Option<String>,
}

pub(super) struct Bridge {
    post: Arc<Post>,
    out: mpsc::UnboundedSender<String>,
    agreed: Arc<Mutex<Agreed>>,
    /// The requests in flight, by their ids.
    open: HashMap<String, AbortHandle>,
    tasks: JoinSet<()>,
}

impl Bridge {
    pub(super) fn new(post: Arc<Post>, out: mpsc::UnboundedSender<String>) -> Self {
        Self { post, out, agreed: Arc::default(), open: HashMap::new(), tasks: JoinSet::new() }
    }

    /// Until the client closes stdin. Requests that are in flight then are closed.
    pub(super) async fn run(mut self, mut lines: mpsc::Receiver<String>) {
        while let Some(line) = lines.recv().await {
            if line.trim().is_empty() {
                continue;
            }
            match serde_json::from_str(&line) {
                Ok(message) => self.take(message),
                Err(error) => self.say(&failure(&Value::Null, -32700, &format!("the line is not JSON ({error})"))),
            }
            while self.tasks.try_join_next().is_some() {}
            self.open.retain(|_, request| !request.is_finished());
        }
        self.tasks.shutdown().await;
    }

    fn say(&self, message: &Value) {
        // Without a client that reads there is nothing left to say.
        let _ = self.out.send(message.to_string());
    }

    fn take(&mut self, message: Value) {
        let id = message.get("id").filter(|_| message.get("method").is_some()).cloned();
        let agreed = lock(&self.agreed).clone();
        if message["method"] == "notifications/cancelled" {
            // A cancelled request gets no response.
            if let Some(request) = self.open.remove(&message["params"]["requestId"].to_string()) {
                request.abort();
            }
            // Without a session the closed request is itself the cancellation.
            if agreed.session.is_none() {
                return;
            }
        }
        let (post, out, store) = (Arc::clone(&self.post), self.out.clone(), Arc::clone(&self.agreed));
        let request = id.as_ref().map(ToString::to_string);
        let task = self.tasks.spawn(async move {
            let answered = post.exchange(&message, &agreed, |reply, session| {
                if message["method"] == "initialize" {
                    let version = reply["result"]["protocolVersion"].as_str().map(str::to_owned);
                    *lock(&store) = Agreed { session: session.map(str::to_owned), version };
                }
                let _ = out.send(reply.to_string());
            });
            if let (Err(Lost(why)), Some(id)) = (answered.await, id) {
                let _ = out.send(failure(&id, -32603, &why).to_string());
            }
        });
        if let Some(request) = request {
            self.open.insert(request, task);
        }
    }
}

fn failure(id: &Value, code: i64, message: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}})
}

/// A panic elsewhere leaves it whole: every change to it is a single step.
fn lock(agreed: &Mutex<Agreed>) -> MutexGuard<'_, Agreed> {
    agreed.lock().unwrap_or_else(PoisonError::into_inner)
}
