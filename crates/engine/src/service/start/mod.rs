//! Starting runs: alone, with a signal, or with an update.
//!
//! This module starts, finds or replaces a run. `request` checks the request, `policies` decides about an existing run,
//! `signal` is signal-with-start; update-with-start is in `service::update_with_start`.

mod callbacks;
mod links;
mod policies;
mod request;
mod scheduled;
mod signal;

use std::sync::Arc;

use temporalio_protos::temporal::api::{
    update::v1::Request as Update,
    workflow::v1::OnConflictOptions,
    workflowservice::v1::{
        PollWorkflowTaskQueueResponse, StartWorkflowExecutionRequest, StartWorkflowExecutionResponse,
    },
};

use self::links::attached_link;
pub(crate) use self::links::started_link;
pub(crate) use self::policies::Policies;
use self::policies::{Verdict, judge};
pub(super) use self::request::check_timeouts;
use crate::{
    core::{Applied, Core, Target},
    registry::Workflow,
    run::{Attached, Env, Run, Signal, StartSpec, Worker, text},
    service_error::ServiceError,
    time::span,
};

const TERMINATED_BY_START: &str = "TerminateIfRunning WorkflowIdReusePolicy";

/// The run that a start request led to.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) run_id: String,
    pub(crate) first_run_id: String,
    /// Whether this request started the run.
    pub(crate) started: bool,
    pub(crate) status: i32,
    /// The run existed, and the request id is attached to it if the client asks for it.
    attaches: bool,
    /// The request id is attached to the run.
    attached: bool,
    eager: Option<PollWorkflowTaskQueueResponse>,
}

/// What is done with the new or existing run in the same operation.
enum Then<'a> {
    Begin {
        eager: Option<Eager<'a>>,
        attach: Option<Attached>,
    },
    Hold,
    Signal(Signal),
    /// Only a new run is possible here: an existing one was handled before.
    Update(&'a Update),
}

/// The worker that starts the run and gets its first task in the response.
#[derive(Clone, Copy)]
struct Eager<'a> {
    identity: &'a str,
    incarnation: u64,
}

impl Core {
    pub(super) async fn start_workflow(
        self: &Arc<Self>,
        request: StartWorkflowExecutionRequest,
        local: bool,
    ) -> Result<StartWorkflowExecutionResponse, ServiceError> {
        self.read_namespaces().must_take_runs(&request.namespace)?;
        let identity = request.identity.clone();
        let eager = request
            .request_eager_execution
            .then_some(Eager { identity: &identity, incarnation: self.incarnation_for(local) });
        let options = request.on_conflict_options;
        let (spec, policies) = self.spec(request)?;
        let (namespace, workflow_id) = (spec.namespace.clone(), spec.workflow_id.clone());
        let attach = options.map(|options| attached(options, &spec));
        let request_id = spec.request_id.clone();
        let given = spec.inherited.versioning_override.clone();
        let started = self.start_new(spec, policies, &Then::Begin { eager, attach })?.acknowledged().await?;
        self.reactivate_pinned(&namespace, given.as_ref()).await;
        let refers = started.attached;
        let mut response = response(&namespace, &workflow_id, started);
        if refers {
            response.link = Some(attached_link(&namespace, &workflow_id, &response.run_id, &request_id));
        }
        Ok(response)
    }

    /// Starts a run whose first task is scheduled later, by [`Run::begin`].
    pub(crate) async fn start_held(
        self: &Arc<Self>,
        spec: StartSpec,
        policies: Policies,
    ) -> Result<Started, ServiceError> {
        self.start_new(spec, policies, &Then::Hold)?.acknowledged().await
    }

    /// Starts a run with an update that its first task carries.
    pub(super) fn start_for_update(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        epoch: u64,
        spec: StartSpec,
        policies: Policies,
        update: &Update,
    ) -> Result<Applied<Started>, ServiceError> {
        self.start_in(workflow, epoch, spec, policies, &Then::Update(update))
    }

    fn start_new(
        self: &Arc<Self>,
        spec: StartSpec,
        policies: Policies,
        then: &Then<'_>,
    ) -> Result<Applied<Started>, ServiceError> {
        self.read_namespaces().named(&spec.namespace)?;
        let (namespace, workflow_id) = (spec.namespace.clone(), spec.workflow_id.clone());
        self.with_workflow(&namespace, &workflow_id, |workflow, epoch| {
            self.start_in(workflow, epoch, spec, policies, then)
        })
    }

    fn start_in(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        epoch: u64,
        mut spec: StartSpec,
        policies: Policies,
        then: &Then<'_>,
    ) -> Result<Applied<Started>, ServiceError> {
        let (namespace, workflow_id) = (spec.namespace.clone(), spec.workflow_id.clone());
        spec.run_id = new_run_id(then);
        let current = self.current_in(workflow, &namespace, &workflow_id)?;
        let verdict = match &current {
            None => Verdict::New,
            Some((_, run_id)) => {
                let target = Target::new(&namespace, &workflow_id, run_id);
                judge(self.run_in(workflow, &target)?, &spec, policies, then)?
            }
        };
        match (verdict, current) {
            (Verdict::Existing(started), _) => {
                self.use_existing(workflow, epoch, &namespace, &workflow_id, *started, then)
            }
            (Verdict::Replace, Some((_, run_id))) => {
                let target = Target::new(&namespace, &workflow_id, &run_id);
                let run = self.run_in(workflow, &target)?;
                self.in_env(&namespace, |env| {
                    run.terminate(
                        env,
                        TERMINATED_BY_START,
                        Some(text(&format!("terminated by new runID: {}", spec.run_id))),
                        "history-service",
                    )
                })?;
                // Both writes are queued in order, so the old run is never open together with the new one.
                let _ended = self.commit(workflow, &run_id, epoch, windlass_sqlite::Ack::Relaxed);
                self.begin_new(workflow, epoch, spec, then)
            }
            (Verdict::New | Verdict::Replace, _) => self.begin_new(workflow, epoch, spec, then),
        }
    }

    fn begin_new(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        epoch: u64,
        mut spec: StartSpec,
        then: &Then<'_>,
    ) -> Result<Applied<Started>, ServiceError> {
        spec.number = self.new_number();
        let namespace = spec.namespace.clone();
        spec.eager = matches!(then, Then::Begin { eager: Some(_), .. }) && span(spec.first_task_backoff.as_ref()) == 0;
        let (run, eager) = self.in_env(&namespace, |env| {
            let mut run = Run::start(env, spec);
            let eager = begin(env, &mut run, then)?;
            Ok::<_, ServiceError>((run, eager))
        })?;
        let started = Started {
            run_id: run.state.run_id.clone(),
            first_run_id: run.state.first_run_id.clone(),
            started: true,
            status: run.state.status,
            attaches: false,
            attached: false,
            eager,
        };
        Ok(self.insert(workflow, run, epoch).map(|()| started))
    }

    /// The run exists; a signal is sent to it.
    fn use_existing(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        epoch: u64,
        namespace: &str,
        workflow_id: &str,
        mut started: Started,
        then: &Then<'_>,
    ) -> Result<Applied<Started>, ServiceError> {
        let target = Target::new(namespace, workflow_id, &started.run_id);
        let run = self.run_in(workflow, &target)?;
        match then {
            Then::Signal(signal) => self.in_env(namespace, |env| run.signal(env, signal.clone()))?,
            Then::Begin { attach: Some(attached), .. } if started.attaches => {
                run.check_callbacks(attached.callbacks.len(), self.limits.callbacks)?;
                self.in_env(namespace, |env| run.attach(env, attached));
                started.attached = !attached.request_id.is_empty();
            }
            Then::Update(_) => {
                let how = if started.attaches { "StartReused" } else { "StartDeduped" };
                return Err(ServiceError::Unavailable(format!("Workflow was not started: {how}")));
            }
            Then::Begin { .. } | Then::Hold => {}
        }
        let kept = self.commit(workflow, &started.run_id, epoch, windlass_sqlite::Ack::Durable);
        Ok(Applied::new(started, kept))
    }
}

/// What a start attaches to a run that exists.
fn attached(options: OnConflictOptions, spec: &StartSpec) -> Attached {
    Attached {
        request_id: if options.attach_request_id { spec.request_id.clone() } else { String::new() },
        callbacks: if options.attach_completion_callbacks { spec.completion_callbacks.clone() } else { Vec::new() },
        links: if options.attach_links { spec.links.clone() } else { Vec::new() },
    }
}

fn begin(env: &Env<'_>, run: &mut Run, then: &Then<'_>) -> Result<Option<PollWorkflowTaskQueueResponse>, ServiceError> {
    match then {
        Then::Hold => Ok(None),
        Then::Begin { eager: None, .. } => {
            run.begin(env);
            Ok(None)
        }
        Then::Update(update) => {
            run.begin(env);
            run.admit_update(env, (*update).clone())?;
            Ok(None)
        }
        Then::Begin { eager: Some(Eager { identity, incarnation }), .. } => {
            let Some(scheduled_id) = run.begin_inline(env) else { return Ok(None) };
            let Some(task) = run.start_task(env, scheduled_id, Worker::unknown(identity), &(env.new_id)()) else {
                return Ok(None);
            };
            run.set_task_incarnation(*incarnation);
            let events = run.written_events();
            Ok(Some(super::tasks::task_response(run, &task, events, Vec::new())))
        }
        Then::Signal(signal) => {
            run.signal_before_first_task(env, signal.clone())?;
            run.begin(env);
            Ok(None)
        }
    }
}

/// As on the real server: a run started by a signal has a UUID of version 4, like the later runs of a chain.
fn new_run_id(then: &Then<'_>) -> String {
    match then {
        Then::Signal(_) => uuid::Uuid::new_v4(),
        Then::Begin { .. } | Then::Hold | Then::Update(_) => uuid::Uuid::now_v7(),
    }
    .to_string()
}

pub(super) fn response(namespace: &str, workflow_id: &str, started: Started) -> StartWorkflowExecutionResponse {
    StartWorkflowExecutionResponse {
        link: Some(started_link(namespace, workflow_id, &started.run_id)),
        run_id: started.run_id,
        first_execution_run_id: started.first_run_id,
        started: started.started,
        status: started.status,
        eager_workflow_task: started.eager,
    }
}
