//! A backend and a worker in this process, on which runs are measured.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, stream};
use temporalio_client::UntypedWorkflow;
use tokio_util::sync::CancellationToken;
use windlass_activities::AgentCatalog;
use windlass_core::{
    envelope::{Answer, AnswerBody, RunOutput},
    event::EventBody,
    ids::{AgentId, AwaitId, RunId, WorkspaceId},
};
use windlass_models::script::{SCHEME, ScriptModel};
use windlass_ops::{RunEnd, RunOps, StartRun};
use windlass_tools::{ToolRegistry, Toolbox};

use super::{
    api,
    backend::{Backend, Opened, open},
    door::Door,
    probe::{Lookup, Probe, ProbedModel},
    site::Site,
    work::{self, Work},
};
use crate::{
    failure::{Failure, failed},
    service::{ModelCatalogue, Ports, RunWorkerOptions, WorkerService},
};

/// Short: no activity runs any more when the worker is stopped.
const GRACE: Duration = Duration::from_secs(2);
/// Runs that are terminated concurrently.
const AT_ONCE: usize = 64;
/// The await of a parked run, and the answer to it.
pub(super) const QUESTION: &str = "await-1";
pub(super) const ANSWER: &str = "Yes.";
/// More events than a run has when it waits.
const FIRST_EVENTS: u32 = 100;

pub(super) struct Rig {
    pub(super) ops: RunOps,
    pub(super) door: Door,
    pub(super) opened: Opened,
    site: Site,
    begun: AtomicU32,
    abandoned: AtomicU32,
}

impl Rig {
    /// Measures on a rig and stops it afterwards, even after a failure.
    pub(super) async fn with<T>(
        site: &Site,
        work: Work,
        probe: Probe,
        measure: impl AsyncFnOnce(&Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        Self::with_ports(site, |opened| ports(opened, work, probe), measure).await
    }

    /// As [`Self::with`], with other models, tools and agents.
    pub(super) async fn with_ports<T>(
        site: &Site,
        ports: impl FnOnce(&Opened) -> Result<Ports, Failure>,
        measure: impl AsyncFnOnce(&Self) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let opened = open(&site.backend, &site.data_dir, site.durability).await?;
        let ports = ports(&opened)?;
        let service = worker(&opened, site, ports.clone())?;
        let stop = CancellationToken::new();
        let workspace = WorkspaceId::new("bench");
        let ops = RunOps::new(opened.client.clone(), opened.store.clone(), site.task_queue.clone(), workspace);
        let door = match site.through_api {
            true => Door::Api(api::serve(&ops, &ports, stop.clone()).await?),
            false => Door::Temporal(ops.clone()),
        };
        let mut worker = tokio::spawn(service.run(stop.clone()));
        let rig =
            Self { ops, door, opened, site: site.clone(), begun: AtomicU32::new(0), abandoned: AtomicU32::new(0) };
        let measured = tokio::select! {
            measured = measure(&rig) => measured,
            ended = &mut worker => Err(match ended {
                Ok(Err(error)) => error.into(),
                _ => failed("the worker stopped during the measurement"),
            }),
            () = site.interrupted.cancelled() => Err(interrupted()),
        };
        if measured.is_err() {
            rig.abandon(rig.begun.load(Ordering::Relaxed));
        }
        stop.cancel();
        // If the worker ended by itself, that was already reported.
        if !worker.is_finished() {
            let _ = worker.await;
        }
        rig.clear().await;
        let closed = rig.opened.close().await;
        let measured = measured?;
        closed.map(|()| measured)
    }

    /// An id for another run.
    pub(super) fn next_run(&self) -> RunId {
        self.site.run(self.begun.fetch_add(1, Ordering::Relaxed))
    }

    /// The first `runs` runs are no longer needed.
    pub(super) fn abandon(&self, runs: u32) {
        self.abandoned.store(runs, Ordering::Relaxed);
    }

    /// Terminates runs that would otherwise wait on a Temporal server for weeks. With the embedded engine, the directory is
    /// deleted instead.
    async fn clear(&self) {
        let abandoned = self.abandoned.load(Ordering::Relaxed);
        let runs: Vec<_> = match &self.site.backend {
            Backend::Embedded => Vec::new(),
            Backend::Address(_) => (0..abandoned).map(|number| self.site.run(number)).collect(),
        };
        let terminate = async |run: RunId| {
            let handle = self.ops.client().get_workflow_handle::<UntypedWorkflow>(run.to_string());
            let _ = handle.terminate(Default::default()).await;
        };
        stream::iter(runs).map(terminate).buffer_unordered(AT_ONCE).for_each(|()| std::future::ready(())).await;
    }
}

fn ports(opened: &Opened, work: Work, probe: Probe) -> Result<Ports, Failure> {
    let scripts = ScriptModel::from_json(&work.scripts())?;
    let names: Vec<String> = scripts.names().map(str::to_owned).collect();
    let model = ProbedModel { scripts, probe: probe.clone() };
    Ok(Ports {
        vault: None,
        store: opened.store.clone(),
        models: ModelCatalogue::new().with(SCHEME, Arc::new(model), names, None),
        tools: Toolbox::of(ToolRegistry::new().with(Lookup { work, probe }))?,
        agents: AgentCatalog::from_iter(work.agents()?),
    })
}

fn worker(opened: &Opened, site: &Site, ports: Ports) -> Result<WorkerService, Failure> {
    let options = RunWorkerOptions {
        task_queue: site.task_queue.clone(),
        max_cached_runs: site.max_cached_runs,
        grace: GRACE,
        deployment: None,
    };
    Ok(WorkerService::new(opened.client.clone(), ports, &options)?)
}

/// The error after Ctrl-C.
pub(super) fn interrupted() -> Failure {
    failed("interrupted; the benchmark's runs and data were removed")
}

/// Starts a run of one of the benchmark's agents.
pub(super) async fn start(ops: &RunOps, agent: AgentId, run: RunId) -> Result<RunId, Failure> {
    let start = StartRun { run_id: run, ..StartRun::of(agent, None, "Go.") };
    Ok(ops.start(start).await?)
}

/// Waits for the end of a run. Fails if it did not complete.
pub(super) async fn finish(ops: &RunOps, run: &RunId) -> Result<RunOutput, Failure> {
    ops.result(run).await.map_err(|end| failed(format!("run {run} did not complete: {end}")))
}

/// Starts a run and waits for its end.
pub(super) async fn complete(ops: &RunOps, run: RunId) -> Result<RunOutput, Failure> {
    let run = start(ops, work::working(), run).await?;
    finish(ops, &run).await
}

/// Starts a run that ends by itself, and waits until it has completed, or failed if its agent always fails.
pub(super) async fn close(ops: &RunOps, agent: AgentId, run: RunId) -> Result<(), Failure> {
    let fails = agent == work::refusing();
    let run = start(ops, agent, run).await?;
    match ops.result(&run).await {
        Err(RunEnd::Failed { .. }) if fails => Ok(()),
        Ok(_) if fails => Err(failed(format!("run {run} completed, but should have failed"))),
        Ok(_) => Ok(()),
        Err(end) => Err(failed(format!("run {run} did not complete: {end}"))),
    }
}

/// Starts a run that asks a question, and returns once it waits.
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

/// Answers a parked run with a signal.
pub(super) async fn answer(ops: &RunOps, run: &RunId) -> Result<(), Failure> {
    let answer = AnswerBody::Clarification { answer: ANSWER.to_owned() };
    Ok(ops.signal_answer(run, Answer::new(AwaitId::new(QUESTION), "bench", answer)).await?)
}
