//! The work of `windlass bench` as a workflow of DBOS: a step is a `dbos::step`, an answer a message.
//!
//! `DATABASE` is the URL of the Postgres database. A client waits for a run of this process without polling, by its
//! handle. Runs of an earlier process are polled for, which is what DBOS offers.

use std::{
    collections::BTreeMap,
    env,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use dbos::{Config, DBOS, RunOptions, StartOptions, WorkflowHandle, WorkflowRef};
use futures_util::future::try_join_all;
use peer::{Peer, Probe, Step, Work, plan, result};
use serde_json::{Value, json};

const THREE_WEEKS: Duration = Duration::from_secs(21 * 24 * 3600);
/// How often a client looks whether a run of an earlier process has ended. The default is a second.
const POLL: Duration = Duration::from_millis(50);
/// The default is 10, which the 200 runs of the throughput measurement would wait for.
const CONNECTIONS: u32 = 32;

type Ended = Result<u64, dbos::Error>;

async fn work_off(probe: Probe, work: Work) -> Ended {
    let run = dbos::workflow_id().unwrap_or_default();
    let mut conversation: Vec<Value> = Vec::new();
    for turn in 0..work.turns {
        let calls = planned(&probe, work, turn).await?;
        let look_ups = calls.into_iter().map(|call| {
            let (probe, run) = (probe.clone(), run.clone());
            dbos::step("lookup", move || {
                probe.begins(Step::Call);
                let found = result(&run, &call);
                async move { Ok::<Value, dbos::Error>(found) }
            })
        });
        conversation.extend(try_join_all(look_ups).await?);
    }
    if work.asks {
        planned(&probe, work, 0).await?;
        probe.waits(&run);
        let answer: Option<String> = dbos::recv(None, THREE_WEEKS).await?;
        conversation.push(json!(answer));
    }
    planned(&probe, work, work.turns).await?;
    Ok(conversation.len() as u64)
}

async fn planned(probe: &Probe, work: Work, turn: u32) -> Result<Vec<peer::Call>, dbos::Error> {
    let probe = probe.clone();
    dbos::step("plan", move || {
        probe.begins(Step::Plan);
        async move { Ok(plan(work, turn)) }
    })
    .await
}

struct Client {
    dbos: DBOS,
    bench: WorkflowRef<Work, u64>,
    /// Runs that this process has begun.
    begun: Mutex<BTreeMap<String, WorkflowHandle<u64>>>,
}

impl Peer for Client {
    async fn complete(&self, run: &str, work: Work) -> peer::Result<()> {
        let options = RunOptions { workflow_id: Some(run), ..Default::default() };
        self.bench.run_with(work, options).await?;
        Ok(())
    }

    async fn begin(&self, run: &str, work: Work) -> peer::Result<()> {
        let options = StartOptions { workflow_id: Some(run), ..Default::default() };
        let handle = self.bench.start_with(work, options).await?;
        self.begun.lock().unwrap_or_else(PoisonError::into_inner).insert(run.to_owned(), handle);
        Ok(())
    }

    async fn finish(&self, run: &str) -> peer::Result<()> {
        let mine = self.begun.lock().unwrap_or_else(PoisonError::into_inner).remove(run);
        match mine {
            Some(handle) => handle.result().await?,
            None => self.dbos.retrieve_workflow::<u64, dbos::EngineOnly>(run)?.result().await?,
        };
        Ok(())
    }

    async fn answer(&self, run: &str) -> peer::Result<()> {
        Ok(self.dbos.send(run, &"Yes.").await?)
    }
}

#[tokio::main]
async fn main() -> peer::Result<()> {
    let probe = Probe::default();
    let dbos = DBOS::new(Config {
        app_version: Some("1".to_owned()),
        max_connections: CONNECTIONS,
        outcome_poll_interval: Some(POLL),
        ..Config::new("windlass-peer", env::var("DATABASE")?)
    });
    let noted = probe.clone();
    let bench = dbos.register_workflow("bench", move |work: Work| work_off(noted.clone(), work))?;
    dbos.launch().await?;
    peer::serve(Client { dbos, bench, begun: Mutex::default() }, probe).await
}
