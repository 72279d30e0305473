//! The benchmark through the front door: the API served in this process, and a client that comes to it over HTTP as an
//! application does: it starts a run, follows its stream and answers what it asks.

use std::{
    net::Ipv4Addr,
    sync::{Arc, Mutex, PoisonError},
};

use reqwest::{Response, StatusCode};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_api::{
    Limits, Options, Service,
    auth::ApiKey,
    models::{Catalogue, ModelInfo},
};
use windlass_core::ids::{AgentId, RunId};
use windlass_models::script::{SCHEME, ScriptModel};
use windlass_ops::RunOps;

use super::work::{self, Work};
use crate::cli::{Failure, failed};

/// An application with a key to the API.
#[derive(Clone)]
pub(super) struct ApiClient {
    http: reqwest::Client,
    /// Of the workspace's routes.
    base: String,
    key: ApiKey,
    /// The ids that runs were given, in order.
    started: Arc<Mutex<Vec<RunId>>>,
}

/// Serves the API on a free port of this machine until the token fires, and makes a client of it.
pub(super) async fn serve(ops: &RunOps, work: Work, stop: CancellationToken) -> Result<ApiClient, Failure> {
    let key = ApiKey::random();
    let row = key.row(ops.workspace().clone(), "bench", vec!["*".to_owned()], None);
    ops.store().create_key(row).await?;
    let scripts = ScriptModel::from_json(&work.scripts())?;
    let models = scripts.names().map(|name| ModelInfo::of(SCHEME, name)).collect();
    let mut agents = work::agents()?;
    for agent in &mut agents {
        // Callers of the API get fewer turns unless the agent has more.
        agent.policy.max_tool_turns = Some(work.turns + 1);
    }
    let options = Options {
        ops: ops.clone(),
        models: Catalogue { models, default_model_id: None },
        agents,
        builtins: Vec::new(),
        rates: None,
        limits: Limits::default(),
    };
    let (service, handle) = Service::new(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?, options)?;
    tokio::spawn(service.run(stop));
    let http = reqwest::Client::builder().no_proxy().build().map_err(unreachable)?;
    let base = format!("http://{}/api/v1/workspaces/{}", handle.address, ops.workspace());
    Ok(ApiClient { http, base, key, started: Arc::default() })
}

impl ApiClient {
    /// Starts a run of one of the benchmark's agents and opens its stream.
    pub(super) async fn start(&self, agent: AgentId) -> Result<Following, Failure> {
        let taken = self.post("/agent-runs", &json!({"agentId": agent, "prompt": "Go."})).await?;
        let run = taken["runId"].as_str().map(RunId::from).ok_or_else(|| failed(format!("no runId in {taken}")))?;
        self.started.lock().unwrap_or_else(PoisonError::into_inner).push(run.clone());
        let request = self.http.get(format!("{}/agent-runs/{run}/stream", self.base)).bearer_auth(self.key.reveal());
        let stream = request.send().await.map_err(unreachable)?;
        match stream.status() {
            StatusCode::OK => Ok(Following { run, stream, text: Vec::new() }),
            status => Err(failed(format!("the stream of run {run} was refused: {status}"))),
        }
    }

    /// Answers the question of a parked run.
    pub(super) async fn answer(&self, run: &RunId) -> Result<(), Failure> {
        let answer = json!({"awaitId": "await-1", "answer": "Yes."});
        self.post(&format!("/agent-runs/{run}/answers"), &answer).await.map(drop)
    }

    pub(super) fn first_started(&self, count: u32) -> Vec<RunId> {
        let started = self.started.lock().unwrap_or_else(PoisonError::into_inner);
        started.iter().take(count as usize).cloned().collect()
    }

    async fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        let request = self.http.post(format!("{}{path}", self.base)).bearer_auth(self.key.reveal());
        let response = request.body(body.to_string()).send().await.map_err(unreachable)?;
        let status = response.status();
        let text = response.text().await.map_err(unreachable)?;
        match status.is_success() {
            true => Ok(serde_json::from_str(&text)?),
            false => Err(failed(format!("the API refused {path}: {status} {text}"))),
        }
    }
}

/// A run whose stream is open.
pub(super) struct Following {
    pub(super) run: RunId,
    stream: Response,
    /// What has come of the next frame.
    text: Vec<u8>,
}

impl Following {
    /// Reads until the run waits for somebody.
    pub(super) async fn until_it_waits(&mut self) -> Result<(), Failure> {
        while self.next().await?.0 != "await_opened" {}
        Ok(())
    }

    /// Reads to the terminal event, which must be a good one.
    pub(super) async fn finish(&mut self) -> Result<(), Failure> {
        loop {
            match self.next().await? {
                (kind, data) if kind == "result" && data["subtype"] == "success" => return Ok(()),
                (kind, data) if ["result", "error", "cancelled"].contains(&kind.as_str()) => {
                    return Err(failed(format!("run {} did not complete: {data}", self.run)));
                }
                _ => {}
            }
        }
    }

    /// The next event: its type and its data.
    async fn next(&mut self) -> Result<(String, Value), Failure> {
        loop {
            if let Some(frame) = take_frame(&mut self.text) {
                return Ok(frame);
            }
            let chunk = self.stream.chunk().await.map_err(unreachable)?;
            let chunk = chunk.ok_or_else(|| failed(format!("the stream of run {} ended too early", self.run)))?;
            self.text.extend_from_slice(&chunk);
        }
    }
}

/// Takes the first whole frame; comments are passed over.
fn take_frame(text: &mut Vec<u8>) -> Option<(String, Value)> {
    loop {
        let end = text.windows(2).position(|pair| pair == b"\n\n")?;
        let block: Vec<u8> = text.drain(..end + 2).collect();
        let block = String::from_utf8_lossy(&block);
        let field = |name: &str| block.lines().find_map(|line| line.strip_prefix(name));
        if let (Some(kind), Some(data)) = (field("event: "), field("data: ")) {
            return Some((kind.to_owned(), serde_json::from_str(data).unwrap_or_default()));
        }
    }
}

fn unreachable(error: reqwest::Error) -> Failure {
    failed(format!("the API of this benchmark does not answer: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_are_taken_whole_and_comments_are_not_frames() {
        let mut text = b": keep-alive\n\nid: 1\nevent: result\ndata: {\"seq\":1}\n\nid: 2\nevent: ".to_vec();
        assert_eq!(take_frame(&mut text), Some(("result".to_owned(), json!({"seq": 1}))));
        assert_eq!(take_frame(&mut text), None);
        assert_eq!(text, b"id: 2\nevent: ");
    }
}
