//! A backend with a worker on it, in this process: what runs are measured on.

use std::{sync::Arc, time::Duration};

use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_activities::AgentCatalog;
use windlass_core::{
    envelope::{Answer, AnswerBody, RunOutput},
    event::EventBody,
    ids::{AgentId, AwaitId, RunId, WorkspaceId},
};
use windlass_models::{
    ModelRegistry,
    script::{SCHEME, ScriptModel},
};
use windlass_tools::ToolRegistry;

use super::{
    backend::{Opened, open},
    probe::{Lookup, Probe, ProbedModel},
    site::Site,
    work::{self, Work},
};
use crate::{
    cli::{Failure, failed},
    ops::{RunOps, StartRun},
    worker::{Ports, RunWorkerOptions, WorkerError, WorkerService},
};

/// Nothing is under way any more when a worker is stopped.
const GRACE: Duration = Duration::from_secs(2);
/// More than a run writes until it waits.
const FIRST_EVENTS: u32 = 100;

pub(super) struct Rig {
    ops: RunOps,
    opened: Opened,
    stop: CancellationToken,
    worker: JoinHandle<Result<(), WorkerError>>,
}

impl Rig {
    async fn start(site: &Site, work: Work, probe: Probe) -> Result<Self, Failure> {
        let opened = open(&site.backend, &site.data_dir, site.durability).await?;
        let model = ProbedModel { scripts: ScriptModel::from_json(&work.scripts())?, probe: probe.clone() };
        let ports = Ports {
            store: opened.store.clone(),
            models: ModelRegistry::new().with(SCHEME, Arc::new(model)),
            tools: ToolRegistry::new().with(Lookup { work, probe }),
            agents: AgentCatalog::from_iter(work::agents()?),
        };
        let options =
            RunWorkerOptions { task_queue: site.task_queue.clone(), grace: GRACE, ..RunWorkerOptions::default() };
        let service = WorkerService::new(opened.client.clone(), ports, &options)?;
        let stop = CancellationToken::new();
        let worker = tokio::spawn(service.run(stop.clone()));
        let workspace = WorkspaceId::new("bench");
        let ops = RunOps::new(opened.client.clone(), opened.store.clone(), site.task_queue.clone(), workspace);
        Ok(Self { ops, opened, stop, worker })
    }

    /// Measures on a rig, which is taken down afterwards, however the measurement ended.
    pub(super) async fn with<T>(
        site: &Site,
        work: Work,
        probe: Probe,
        measure: impl AsyncFnOnce(&RunOps, &Opened) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut rig = Self::start(site, work, probe).await?;
        let measured = tokio::select! {
            measured = measure(&rig.ops, &rig.opened) => measured,
            ended = &mut rig.worker => Err(match ended {
                Ok(Err(error)) => error.into(),
                _ => failed("the worker stopped in the middle of the measurement"),
            }),
            () = site.interrupted.cancelled() => Err(interrupted()),
        };
        let closed = rig.close().await;
        let measured = measured?;
        closed.map(|()| measured)
    }

    async fn close(self) -> Result<(), Failure> {
        self.stop.cancel();
        // A worker that ended by itself has been reported already.
        if !self.worker.is_finished() {
            let _ = self.worker.await;
        }
        self.opened.close().await
    }
}

/// The user has seen enough.
pub(super) fn interrupted() -> Failure {
    failed("interrupted; nothing is left behind")
}

/// Starts a run of one of the benchmark's agents.
pub(super) async fn start(ops: &RunOps, agent: AgentId, run: RunId) -> Result<RunId, Failure> {
    let start = StartRun { run_id: run, ..StartRun::of(agent, None, "Go.") };
    Ok(ops.start(start).await?)
}

/// Waits for the end of a run, which must be a good one.
pub(super) async fn finish(ops: &RunOps, run: &RunId) -> Result<RunOutput, Failure> {
    ops.result(run).await.map_err(|end| failed(format!("run {run} did not complete: {end}")))
}

/// A whole run.
pub(super) async fn complete(ops: &RunOps, run: RunId) -> Result<RunOutput, Failure> {
    let run = start(ops, work::working(), run).await?;
    finish(ops, &run).await
}

/// Starts a run that asks a person, and returns once it waits.
pub(super) async fn park(ops: &RunOps, run: RunId) -> Result<RunId, Failure> {
    let mut watch = ops.store().watch(&run);
    let run = start(ops, work::asking(), run).await?;
    loop {
        let events = ops.store().events(&run, 0, FIRST_EVENTS).await?;
        if events.iter().any(|event| matches!(event.body(), Ok(EventBody::AwaitOpened { .. }))) {
            return Ok(run);
        }
        watch.changed().await;
    }
}

/// Answers a parked run as operators' tools do: with a signal.
pub(super) async fn answer(ops: &RunOps, run: &RunId) -> Result<(), Failure> {
    let answer = AnswerBody::Clarification { answer: "Yes.".to_owned() };
    Ok(ops.signal_answer(run, Answer::new(AwaitId::new("await-1"), "bench", answer)).await?)
}

/// An id that no other run has.
pub(super) fn fresh() -> RunId {
    RunId::new(format!("bench-{}", uuid::Uuid::now_v7().simple()))
}
