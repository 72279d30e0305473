//! The work of `windlass bench` as a workflow of Restate: a step is a `ctx.run`, an answer a durable promise.
//! The Rust SDK has no concurrent `ctx.run`, so the calls of a turn are executed one after another. (The other way, a call of
//! another handler, would run them concurrently but is a whole invocation for each.)
//!
//! `INGRESS` is the server's address for clients, `LISTEN` where this program serves its workflow.

use std::{env, time::Duration};

use peer::{Peer, Probe, Step, Work, plan, result};
use restate_sdk::prelude::*;
use serde_json::{Value, json};
use tokio::net::TcpSocket;

const ANSWER: &str = "answer";
/// Between two looks for a run that the server does not know yet.
const PAUSE: Duration = Duration::from_millis(10);

struct Bench(Probe);

#[workflow]
impl Bench {
    #[handler]
    async fn run(&self, ctx: WorkflowContext<'_>, Json(work): Json<Work>) -> Result<String, HandlerError> {
        let run = ctx.key().to_owned();
        let mut conversation: Vec<Value> = Vec::new();
        for turn in 0..work.turns {
            let Json(calls) = ctx
                .run(|| async move {
                    self.0.begins(Step::Plan);
                    Ok(Json(plan(work, turn)))
                })
                .name("plan")
                .await?;
            for call in &calls {
                let run = &run;
                let look_up = ctx.run(move || async move {
                    self.0.begins(Step::Call);
                    Ok(Json(result(run, call)))
                });
                conversation.push(look_up.name("lookup").await?.into_inner());
            }
        }
        if work.asks {
            self.close(&ctx, work).await?;
            self.0.waits(&run);
            let answer: String = ctx.promise(ANSWER).await?;
            conversation.push(json!(answer));
        }
        self.close(&ctx, work).await?;
        Ok(format!("{} results", conversation.len()))
    }

    #[handler]
    async fn answer(&self, ctx: SharedWorkflowContext<'_>, answer: String) -> Result<(), HandlerError> {
        ctx.resolve_promise(ANSWER, answer);
        Ok(())
    }
}

impl Bench {
    /// A plan without calls.
    async fn close(&self, ctx: &WorkflowContext<'_>, work: Work) -> Result<(), HandlerError> {
        let planned = ctx.run(|| async move {
            self.0.begins(Step::Plan);
            Ok(Json(plan(work, work.turns)))
        });
        planned.name("plan").await?;
        Ok(())
    }
}

struct Ingress {
    http: reqwest::Client,
    url: String,
}

impl Ingress {
    async fn post(&self, path: String, body: Value) -> peer::Result<()> {
        self.http.post(format!("{}{path}", self.url)).json(&body).send().await?.error_for_status()?;
        Ok(())
    }
}

impl Peer for Ingress {
    async fn complete(&self, run: &str, work: Work) -> peer::Result<()> {
        self.post(format!("/Bench/{run}/run"), json!(work)).await
    }

    async fn begin(&self, run: &str, work: Work) -> peer::Result<()> {
        self.post(format!("/Bench/{run}/run/send"), json!(work)).await
    }

    async fn finish(&self, run: &str) -> peer::Result<()> {
        loop {
            let attached = self.http.get(format!("{}/restate/workflow/Bench/{run}/attach", self.url)).send().await;
            match attached {
                Ok(ended) if ended.status().is_success() => return Ok(()),
                Ok(refused) if !refused.status().is_server_error() => {
                    refused.error_for_status()?;
                    return Err("the result was redirected".into());
                }
                // The server has just been started again and is not ready for every run.
                _ => tokio::time::sleep(PAUSE).await,
            }
        }
    }

    async fn answer(&self, run: &str) -> peer::Result<()> {
        self.post(format!("/Bench/{run}/answer"), json!("Yes.")).await
    }
}

#[tokio::main]
async fn main() -> peer::Result<()> {
    let (listen, url) = (env::var("LISTEN")?, env::var("INGRESS")?);
    let probe = Probe::default();
    let endpoint = Endpoint::builder().bind(Bench(probe.clone())).build();
    // Accepted connections have the option of their listener. The SDK does not set it, and every run would begin with the
    // 40 ms of a delayed acknowledgement.
    let socket = TcpSocket::new_v4()?;
    socket.set_nodelay(true)?;
    socket.set_reuseaddr(true)?;
    socket.bind(listen.parse()?)?;
    tokio::spawn(HttpServer::new(endpoint).serve(socket.listen(1024)?));
    peer::serve(Ingress { http: reqwest::Client::new(), url }, probe).await
}
