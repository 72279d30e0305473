//! Runs: start, inspect, steer, answer, cancel.

use std::{
    sync::{Arc, PoisonError, RwLock},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_core::{
    awaits::AwaitView,
    canonical::Digest,
    envelope::{AnswerReply, AnswerStatus, ProvidedToolResult},
    ids::{AwaitId, CallId, RunId},
};

use crate::{
    Agent, Error, Identity, Options, Run, RunFilter, RunPage, RunSpec, Tools,
    http::Http,
    options::AddressLookup,
    stream::{FIRST_PAUSE, pauses},
};

/// A client of one workspace of a server. Clones share their connections.
#[derive(Debug, Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    /// Replaced when the server has moved.
    http: RwLock<Arc<Http>>,
    options: Options,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Taken {
    pub(crate) run_id: RunId,
}

#[derive(Deserialize)]
struct Reply {
    status: AnswerStatus,
    #[serde(default)]
    message: String,
}

/// A response body that is not used.
pub(crate) type Ignored = serde::de::IgnoredAny;

impl Client {
    /// Does not connect yet.
    pub fn new(options: Options) -> Result<Self, Error> {
        let http = RwLock::new(Arc::new(Http::new(&options, &options.address)?));
        Ok(Self { inner: Arc::new(Inner { http, options }) })
    }

    pub(crate) fn http(&self) -> Arc<Http> {
        Arc::clone(&self.inner.http.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Looks up the server's address again, if there is a lookup. An address that is not valid is ignored.
    pub(crate) fn look_up_address(&self) {
        let Some(address) = self.options().address_lookup.as_ref().and_then(AddressLookup::ask) else { return };
        if self.http().is_at(&address) {
            return;
        }
        if let Ok(http) = Http::new(self.options(), &address) {
            *self.inner.http.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(http);
        }
    }

    pub(crate) fn options(&self) -> &Options {
        &self.inner.options
    }

    /// Starts a run that may call these tools. The request is repeated until the server responds, with one run id: the caller's or
    /// a new one. However often it arrives, one run is started.
    pub async fn start(&self, spec: &RunSpec, tools: &Tools) -> Result<RunId, Error> {
        self.begin(&["agent-runs"], tools.declared_in(spec)?).await
    }

    /// Sends the start of a run until it is answered.
    pub(crate) async fn begin(&self, path: &[&str], mut body: Value) -> Result<RunId, Error> {
        if body["runId"].is_null() {
            body["runId"] = Value::String(format!("run-{}", uuid::Uuid::now_v7().simple()));
        }
        let (began, mut pauses, mut sent) = (Instant::now(), pauses(self.options()), false);
        loop {
            let error = match self.http().post::<Taken>(path, &body).await {
                Ok(taken) => return Ok(taken.run_id),
                Err(error) => error,
            };
            // A server that was never reached is not waited for.
            sent |= !matches!(error, Error::Unreachable { sent: false, .. });
            let patience =
                if sent { self.options().give_up_after.saturating_sub(began.elapsed()) } else { Duration::ZERO };
            let Some(retry_after) = error.retried_after().filter(|_| !patience.is_zero()) else { return Err(error) };
            let pause = pauses.next().unwrap_or(FIRST_PAUSE).min(self.options().longest_pause);
            tokio::time::sleep(pause.max(retry_after).min(patience)).await;
            self.look_up_address();
        }
    }

    pub async fn get(&self, run: &RunId) -> Result<Run, Error> {
        self.http().get(&["agent-runs", run.as_str()], &[]).await
    }

    pub async fn list(&self, filter: &RunFilter) -> Result<RunPage, Error> {
        self.http().get(&["agent-runs"], &filter.query()).await
    }

    /// Cancels a run. A run that has ended is not changed.
    pub async fn cancel(&self, run: &RunId) -> Result<(), Error> {
        self.tell(run, "cancel", json!({})).await
    }

    /// Pauses a run before its next step.
    pub async fn pause(&self, run: &RunId, reason: &str) -> Result<(), Error> {
        self.tell(run, "pause", json!({"reason": reason})).await
    }

    /// Resumes a paused run.
    pub async fn resume(&self, run: &RunId, notes: &str) -> Result<(), Error> {
        self.tell(run, "resume", json!({"notes": notes})).await
    }

    /// Adds a user message before the model's next turn.
    pub async fn steer(&self, run: &RunId, text: &str) -> Result<(), Error> {
        self.tell(run, "steer", json!({"text": text})).await
    }

    pub(crate) async fn tell(&self, run: &RunId, verb: &str, body: Value) -> Result<(), Error> {
        let _: Ignored = self.http().post(&["agent-runs", run.as_str(), verb], &self.signed(body)).await?;
        Ok(())
    }

    /// The open awaits of the run, with the arguments of calls that need an approval.
    pub async fn awaits(&self, run: &RunId) -> Result<Vec<AwaitView>, Error> {
        #[derive(Deserialize)]
        struct Awaits {
            awaits: Vec<AwaitView>,
        }
        let Awaits { awaits } = self.http().get(&["agent-runs", run.as_str(), "awaits"], &[]).await?;
        Ok(awaits)
    }

    /// Answers a question. Returns whether the answer was accepted or a duplicate; every other status is an error.
    pub async fn answer(&self, run: &RunId, id: &AwaitId, text: &str) -> Result<AnswerStatus, Error> {
        self.reply(run, "answers", json!({"awaitId": id, "answer": text})).await
    }

    /// Sends the results of an await's calls.
    pub async fn answer_calls(
        &self,
        run: &RunId,
        id: &AwaitId,
        results: &[ProvidedToolResult],
    ) -> Result<AnswerStatus, Error> {
        self.reply(run, "answers", json!({"awaitId": id, "results": results})).await
    }

    /// Approves a call with exactly the arguments that have this digest, or denies it.
    pub async fn confirm(&self, run: &RunId, id: &AwaitId, approval: Option<Digest>) -> Result<AnswerStatus, Error> {
        let body = json!({"awaitId": id, "approved": approval.is_some(), "digest": approval});
        self.reply(run, "confirmations", body).await
    }

    async fn reply(&self, run: &RunId, to: &str, body: Value) -> Result<AnswerStatus, Error> {
        Ok(self.heard(run, to, body).await?.status)
    }

    pub(crate) async fn heard(&self, run: &RunId, to: &str, body: Value) -> Result<AnswerReply, Error> {
        let said: Reply = self.http().post(&["agent-runs", run.as_str(), to], &self.signed(body)).await?;
        Ok(AnswerReply::new(said.status, said.message))
    }

    /// Sends the result of one call of a local tool, or its error. [`Client::run`] does this for its tools.
    pub async fn tool_result(&self, run: &RunId, call: &CallId, result: Result<&str, &str>) -> Result<(), Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Body<'a> {
            tool_use_id: &'a CallId,
            #[serde(skip_serializing_if = "Option::is_none")]
            result: Option<&'a str>,
            #[serde(skip_serializing_if = "Option::is_none")]
            error: Option<&'a str>,
        }
        let body = Body { tool_use_id: call, result: result.ok(), error: result.err() };
        let _: Ignored = self.http().post(&["agent-runs", run.as_str(), "tool-results"], &body).await?;
        Ok(())
    }

    /// The agents this key may start by their id.
    pub async fn agents(&self) -> Result<Vec<Agent>, Error> {
        #[derive(Deserialize)]
        struct Agents {
            agents: Vec<Agent>,
        }
        let Agents { agents } = self.http().get(&["agents"], &[]).await?;
        Ok(agents)
    }

    /// The workspace, id and scopes of the key.
    pub async fn identity(&self) -> Result<Identity, Error> {
        self.http().get(&["identity"], &[]).await
    }

    /// The body with the actor from the options, if one is set.
    pub(crate) fn signed(&self, mut body: Value) -> Value {
        if let Some(actor) = &self.options().actor {
            body["actor"] = Value::String(actor.clone());
        }
        body
    }
}
