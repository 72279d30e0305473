//! Starting runs: alone, with a signal, or with an update.

#![allow(deprecated, reason = "clients may still use the old spelling of a conflict policy")]

use std::sync::Arc;

use prost::Message as _;
use temporalio_protos::temporal::api::{
    common::v1::{Link, RetryPolicy, link},
    enums::v1::{EventType, WorkflowExecutionStatus, WorkflowIdConflictPolicy, WorkflowIdReusePolicy},
    workflowservice::v1::{
        PollWorkflowTaskQueueResponse, SignalWithStartWorkflowExecutionRequest,
        SignalWithStartWorkflowExecutionResponse, StartWorkflowExecutionRequest, StartWorkflowExecutionResponse,
    },
};

use super::checks;
use crate::{
    core::{Core, Done, Target},
    refusal::Refusal,
    registry::Workflow,
    run::{Env, Run, Signal, StartSpec, retry, run_timeout, task_timeout, text},
    time::{check_span, duration, span},
};

/// What a start does about a run that is there already.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Policies {
    pub(crate) reuse: WorkflowIdReusePolicy,
    pub(crate) conflict: WorkflowIdConflictPolicy,
}

/// The run that a start led to.
#[derive(Debug)]
pub(crate) struct Started {
    pub(crate) run_id: String,
    pub(crate) first_run_id: String,
    /// Whether it is this very request's run.
    pub(crate) started: bool,
    pub(crate) status: i32,
    /// The run was there, and hears of this start if the caller wants it to.
    attaches: bool,
    eager: Option<PollWorkflowTaskQueueResponse>,
}

/// What is done with the new run, or the existing one, before it is kept.
enum Then<'a> {
    Begin {
        eager: Option<Eager<'a>>,
        attach: Option<String>,
    },
    Hold,
    Signal(Signal),
    /// An update is to follow, for which only a new run will do.
    Update,
}

/// The worker that starts the run and takes its first task along.
#[derive(Clone, Copy)]
struct Eager<'a> {
    identity: &'a str,
    lent_to: u64,
}

/// What a start finds.
enum Verdict {
    New,
    Existing(Box<Started>),
    Replace,
}

impl Core {
    pub(super) async fn start_workflow(
        self: &Arc<Self>,
        request: StartWorkflowExecutionRequest,
        local: bool,
    ) -> Result<StartWorkflowExecutionResponse, Refusal> {
        let identity = request.identity.clone();
        let eager =
            request.request_eager_execution.then_some(Eager { identity: &identity, lent_to: self.lent_to(local) });
        let options = request.on_conflict_options;
        let (spec, policies) = self.spec(request)?;
        let (namespace, workflow_id) = (spec.namespace.clone(), spec.workflow_id.clone());
        let attached = |attach| if attach { spec.request_id.clone() } else { String::new() };
        let attach = options.map(|options| attached(options.attach_request_id));
        let started = self.start_new(spec, policies, &Then::Begin { eager, attach })?.kept().await?;
        Ok(response(&namespace, &workflow_id, started))
    }

    pub(super) async fn signal_with_start(
        self: &Arc<Self>,
        request: SignalWithStartWorkflowExecutionRequest,
    ) -> Result<SignalWithStartWorkflowExecutionResponse, Refusal> {
        let mut request = request;
        let policies = self.check_signal_with_start(&mut request)?;
        let signal = Signal {
            name: request.signal_name.clone(),
            input: request.signal_input.clone(),
            header: request.header.clone(),
            identity: request.identity.clone(),
            ..Signal::default()
        };
        checks::blob(signal.input.as_ref(), &self.limits)?;
        let (spec, _) = self.spec(start_part(request))?;
        let (namespace, workflow_id) = (spec.namespace.clone(), spec.workflow_id.clone());
        let request_id = spec.request_id.clone();
        let signal = Signal { request_id: request_id.clone(), ..signal };
        let started = self.start_new(spec, policies, &Then::Signal(signal))?.kept().await?;
        let signal_link = event_link(
            &namespace,
            &workflow_id,
            &started.run_id,
            link::workflow_event::Reference::RequestIdRef(link::workflow_event::RequestIdReference {
                request_id,
                event_type: EventType::WorkflowExecutionSignaled as i32,
            }),
        );
        Ok(SignalWithStartWorkflowExecutionResponse {
            run_id: started.run_id,
            started: started.started,
            signal_link: Some(signal_link),
            first_execution_run_id: started.first_run_id,
        })
    }

    /// Starts a run whose first task is scheduled later, by [`Run::begin`].
    pub(crate) async fn start_held(self: &Arc<Self>, spec: StartSpec, policies: Policies) -> Result<Started, Refusal> {
        self.start_new(spec, policies, &Then::Hold)?.kept().await
    }

    /// Starts a run for an update: it begins at once, and whoever brings the update goes on from there.
    pub(super) fn start_for_update(
        self: &Arc<Self>,
        spec: StartSpec,
        policies: Policies,
    ) -> Result<Done<Started>, Refusal> {
        self.start_new(spec, policies, &Then::Update)
    }

    /// Checks a start that brings an update along.
    pub(super) fn spec_for_update(
        &self,
        request: StartWorkflowExecutionRequest,
    ) -> Result<(StartSpec, Policies), Refusal> {
        if !request.cron_schedule.is_empty() {
            return Err(Refusal::invalid("CronSchedule is not allowed."));
        }
        let eager = request.request_eager_execution;
        let (spec, policies) = self.spec(request)?;
        if eager {
            return Err(Refusal::invalid("RequestEagerExecution is not supported."));
        }
        if span(spec.first_task_backoff.as_ref()) > 0 {
            return Err(Refusal::invalid("WorkflowStartDelay is not supported."));
        }
        Ok((spec, policies))
    }

    fn start_new(
        self: &Arc<Self>,
        spec: StartSpec,
        policies: Policies,
        then: &Then<'_>,
    ) -> Result<Done<Started>, Refusal> {
        self.read_namespaces().named(&spec.namespace)?;
        let (namespace, workflow_id) = (spec.namespace.clone(), spec.workflow_id.clone());
        self.with_workflow(&namespace, &workflow_id, |workflow, epoch| {
            let mut spec = spec;
            spec.run_id = uuid::Uuid::new_v4().to_string();
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
                    // Both writes are queued in order, so the old run is never open beside the new one.
                    let _ended = self.keep(workflow, &run_id, epoch, windlass_sqlite::Ack::Written);
                    self.begin_new(workflow, epoch, spec, then)
                }
                (Verdict::New | Verdict::Replace, _) => self.begin_new(workflow, epoch, spec, then),
            }
        })
    }

    fn begin_new(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        epoch: u64,
        mut spec: StartSpec,
        then: &Then<'_>,
    ) -> Result<Done<Started>, Refusal> {
        spec.number = self.new_number();
        let namespace = spec.namespace.clone();
        spec.eager = matches!(then, Then::Begin { eager: Some(_), .. }) && span(spec.first_task_backoff.as_ref()) == 0;
        let (run, eager) = self.in_env(&namespace, |env| {
            let mut run = Run::start(env, spec);
            let eager = begin(env, &mut run, then)?;
            Ok::<_, Refusal>((run, eager))
        })?;
        let started = Started {
            run_id: run.state.run_id.clone(),
            first_run_id: run.state.first_run_id.clone(),
            started: true,
            status: run.state.status,
            attaches: false,
            eager,
        };
        Ok(self.insert(workflow, run, epoch).map(|()| started))
    }

    /// The run is there already; a signal still reaches it.
    fn use_existing(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        epoch: u64,
        namespace: &str,
        workflow_id: &str,
        started: Started,
        then: &Then<'_>,
    ) -> Result<Done<Started>, Refusal> {
        let target = Target::new(namespace, workflow_id, &started.run_id);
        let run = self.run_in(workflow, &target)?;
        match then {
            Then::Signal(signal) => self.in_env(namespace, |env| run.signal(env, signal.clone()))?,
            Then::Begin { attach: Some(request_id), .. } if started.attaches => {
                self.in_env(namespace, |env| run.attach_request(env, request_id));
            }
            Then::Update => {
                let how = if started.attaches { "StartReused" } else { "StartDeduped" };
                return Err(Refusal::Unavailable(format!("Workflow was not started: {how}")));
            }
            Then::Begin { .. } | Then::Hold => {}
        }
        let kept = self.keep(workflow, &started.run_id, epoch, windlass_sqlite::Ack::Durable);
        Ok(Done::new(started, kept))
    }

    /// Checks a request and fills in what it leaves open.
    /// What can be wrong with a start that brings a signal is looked at in another order than with a plain one.
    fn check_signal_with_start(
        &self,
        request: &mut SignalWithStartWorkflowExecutionRequest,
    ) -> Result<Policies, Refusal> {
        self.read_namespaces().named(&request.namespace)?;
        checks::workflow_id(&request.workflow_id, &self.limits)?;
        if request.signal_name.is_empty() {
            return Err(Refusal::invalid("signal not set"));
        }
        if request.workflow_type.as_ref().is_none_or(|kind| kind.name.is_empty()) {
            return Err(Refusal::invalid("workflow type not set"));
        }
        checks::queue(request.task_queue.as_ref(), &self.limits)?;
        check_timeouts([
            &mut request.workflow_execution_timeout,
            &mut request.workflow_run_timeout,
            &mut request.workflow_task_timeout,
        ])?;
        check_retry_and_delay(request.retry_policy.as_mut(), &mut request.workflow_start_delay)?;
        let policies =
            Policies { reuse: request.workflow_id_reuse_policy(), conflict: request.workflow_id_conflict_policy() };
        let policies = policies.checked(false)?;
        match policies.conflict {
            WorkflowIdConflictPolicy::Fail => Err(Refusal::invalid(
                "Invalid WorkflowIDConflictPolicy: WORKFLOW_ID_CONFLICT_POLICY_FAIL is not supported for this operation.",
            )),
            WorkflowIdConflictPolicy::Unspecified => {
                Ok(Policies { conflict: WorkflowIdConflictPolicy::UseExisting, ..policies })
            }
            _ => Ok(policies),
        }
    }

    fn spec(&self, mut request: StartWorkflowExecutionRequest) -> Result<(StartSpec, Policies), Refusal> {
        let limits = &self.limits;
        self.read_namespaces().named(&request.namespace)?;
        checks::workflow_id(&request.workflow_id, limits)?;
        check_retry_and_delay(request.retry_policy.as_mut(), &mut request.workflow_start_delay)?;
        if !request.cron_schedule.is_empty() {
            return Err(Refusal::Unimplemented("cron schedules".to_owned()));
        }
        let kind = request.workflow_type.take().unwrap_or_default().name;
        if kind.is_empty() {
            return Err(Refusal::invalid("WorkflowType is not set on request."));
        }
        if kind.len() > limits.id_length {
            return Err(Refusal::invalid("WorkflowType length exceeds limit."));
        }
        let queue = checks::queue(request.task_queue.as_ref(), limits)?;
        check_timeouts([
            &mut request.workflow_execution_timeout,
            &mut request.workflow_run_timeout,
            &mut request.workflow_task_timeout,
        ])?;
        if request.request_id.len() > limits.id_length {
            return Err(Refusal::invalid("RequestId length exceeds limit."));
        }
        let policies =
            Policies { reuse: request.workflow_id_reuse_policy(), conflict: request.workflow_id_conflict_policy() };
        let policies = policies.checked(true)?;
        let options = request.on_conflict_options;
        if options.is_some_and(|options| options.attach_completion_callbacks && !options.attach_request_id) {
            return Err(Refusal::invalid("attaching request ID is required for attaching completion callbacks"));
        }
        if let Some(attributes) = &mut request.search_attributes {
            self.read_namespaces().check(&request.namespace, attributes)?;
        }
        checks::blob(request.input.as_ref(), limits)?;
        if request.memo.as_ref().is_some_and(|memo| memo.encoded_len() > limits.memo_bytes) {
            return Err(Refusal::invalid("Memo size exceeds limit."));
        }
        if request.priority.as_ref().is_some_and(|priority| priority.priority_key < 0) {
            return Err(Refusal::invalid("priority key can't be negative"));
        }
        let execution = span(request.workflow_execution_timeout.as_ref());
        let run = run_timeout(span(request.workflow_run_timeout.as_ref()), execution);
        let had_run_timeout = request.workflow_run_timeout.is_some() || execution > 0;
        let spec = StartSpec {
            namespace: request.namespace,
            workflow_id: request.workflow_id,
            workflow_type: kind,
            task_queue: queue,
            input: request.input,
            header: request.header,
            execution_timeout: request.workflow_execution_timeout,
            run_timeout: had_run_timeout.then(|| duration(run)),
            task_timeout: Some(task_timeout(span(request.workflow_task_timeout.as_ref()), run)),
            identity: request.identity,
            request_id: match request.request_id {
                id if id.is_empty() => uuid::Uuid::new_v4().to_string(),
                id => id,
            },
            retry_policy: request.retry_policy,
            memo: crate::run::memo_without_nothings(request.memo),
            search_attributes: crate::run::without_nothings(request.search_attributes),
            user_metadata: request.user_metadata,
            priority: request.priority,
            first_task_backoff: Some(request.workflow_start_delay.unwrap_or_default()),
            continued_failure: request.continued_failure,
            last_completion_result: request.last_completion_result,
            attempt: 1,
            ..StartSpec::default()
        };
        Ok((spec, policies))
    }
}

const TERMINATED_BY_START: &str = "TerminateIfRunning WorkflowIdReusePolicy";

fn begin(env: &Env<'_>, run: &mut Run, then: &Then<'_>) -> Result<Option<PollWorkflowTaskQueueResponse>, Refusal> {
    match then {
        Then::Hold => Ok(None),
        Then::Begin { eager: None, .. } | Then::Update => {
            run.begin(env);
            Ok(None)
        }
        Then::Begin { eager: Some(Eager { identity, lent_to }), .. } => {
            let Some(scheduled_id) = run.begin_inline(env) else { return Ok(None) };
            let Some(task) = run.start_task(env, scheduled_id, identity, &(env.new_id)()) else { return Ok(None) };
            run.lend_task(*lent_to);
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

/// What a start means, given the current run.
fn judge(current: &Run, spec: &StartSpec, policies: Policies, then: &Then<'_>) -> Result<Verdict, Refusal> {
    let state = &current.state;
    let existing = |started, attaches| {
        Verdict::Existing(Box::new(Started {
            run_id: state.run_id.clone(),
            first_run_id: state.first_run_id.clone(),
            started,
            status: state.status,
            attaches,
            eager: None,
        }))
    };
    // A signal is known by its own request, and reaches whatever run is there.
    if !matches!(then, Then::Signal(_)) {
        if state.create_request_id == spec.request_id {
            return Ok(existing(true, false));
        }
        if state.attached_requests.contains_key(&spec.request_id) {
            return Ok(existing(false, false));
        }
    }
    let refused = |message: String| Refusal::AlreadyStarted {
        message,
        start_request_id: state.create_request_id.clone(),
        run_id: state.run_id.clone(),
        first_run_id: state.first_run_id.clone(),
    };
    let (id, run_id) = (&state.workflow_id, &state.run_id);
    if state.is_running() {
        return match policies.conflict {
            WorkflowIdConflictPolicy::UseExisting => Ok(existing(false, true)),
            WorkflowIdConflictPolicy::TerminateExisting => Ok(Verdict::Replace),
            _ => Err(refused(format!("Workflow execution is already running. WorkflowId: {id}, RunId: {run_id}."))),
        };
    }
    match policies.reuse {
        WorkflowIdReusePolicy::RejectDuplicate => Err(refused(format!(
            "Workflow execution already finished. WorkflowId: {id}, RunId: {run_id}. Workflow Id reuse policy: reject \
             duplicate workflow Id."
        ))),
        WorkflowIdReusePolicy::AllowDuplicateFailedOnly
            if state.status == WorkflowExecutionStatus::Completed as i32 =>
        {
            Err(refused(format!(
                "Workflow execution already finished successfully. WorkflowId: {id}, RunId: {run_id}. Workflow Id \
                 reuse policy: allow duplicate workflow Id if last run failed."
            )))
        }
        _ => Ok(Verdict::New),
    }
}

impl Policies {
    /// Refuses combinations that contradict each other and maps the old spelling to the new.
    fn checked(self, with_default: bool) -> Result<Self, Refusal> {
        use WorkflowIdConflictPolicy as Conflict;
        use WorkflowIdReusePolicy as Reuse;
        match (self.reuse, self.conflict) {
            (Reuse::TerminateIfRunning, Conflict::Unspecified) => {
                Ok(Self { reuse: Reuse::AllowDuplicate, conflict: Conflict::TerminateExisting })
            }
            (Reuse::TerminateIfRunning, _) => Err(Refusal::invalid(
                "Invalid WorkflowIDReusePolicy: WORKFLOW_ID_REUSE_POLICY_TERMINATE_IF_RUNNING cannot be used together \
                 with a WorkflowIDConflictPolicy",
            )),
            (Reuse::RejectDuplicate, Conflict::TerminateExisting) => Err(Refusal::invalid(
                "Invalid WorkflowIDReusePolicy: WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE cannot be used together with \
                 WorkflowIdConflictPolicy WORKFLOW_ID_CONFLICT_POLICY_TERMINATE_EXISTING",
            )),
            (reuse, Conflict::Unspecified) if with_default => Ok(Self { reuse, conflict: Conflict::Fail }),
            (reuse, conflict) => Ok(Self { reuse, conflict }),
        }
    }
}

/// Those of the execution, of a run and of a workflow task.
fn check_timeouts(timeouts: [&mut Option<prost_wkt_types::Duration>; 3]) -> Result<(), Refusal> {
    let names = ["WorkflowExecutionTimeoutSeconds", "WorkflowRunTimeoutSeconds", "WorkflowTaskTimeoutSeconds"];
    for (name, timeout) in names.into_iter().zip(timeouts) {
        check_span(timeout)
            .map_err(|problem| Refusal::invalid(format!("An invalid {name} is set on request. cause: {problem}")))?;
    }
    Ok(())
}

fn check_retry_and_delay(
    policy: Option<&mut RetryPolicy>,
    delay: &mut Option<prost_wkt_types::Duration>,
) -> Result<(), Refusal> {
    if let Some(policy) = policy {
        retry::complete(policy);
        retry::check(policy)?;
    }
    check_span(delay).map_err(|problem| {
        Refusal::invalid(format!("An invalid WorkflowStartDelaySeconds is set on request. cause: {problem}"))
    })
}

pub(super) fn started_link(namespace: &str, workflow_id: &str, run_id: &str) -> Link {
    let reference = link::workflow_event::Reference::EventRef(link::workflow_event::EventReference {
        event_id: 1,
        event_type: EventType::WorkflowExecutionStarted as i32,
    });
    event_link(namespace, workflow_id, run_id, reference)
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

fn event_link(namespace: &str, workflow_id: &str, run_id: &str, reference: link::workflow_event::Reference) -> Link {
    Link {
        variant: Some(link::Variant::WorkflowEvent(link::WorkflowEvent {
            namespace: namespace.to_owned(),
            workflow_id: workflow_id.to_owned(),
            run_id: run_id.to_owned(),
            reference: Some(reference),
        })),
    }
}

fn start_part(request: SignalWithStartWorkflowExecutionRequest) -> StartWorkflowExecutionRequest {
    StartWorkflowExecutionRequest {
        namespace: request.namespace,
        workflow_id: request.workflow_id,
        workflow_type: request.workflow_type,
        task_queue: request.task_queue,
        input: request.input,
        workflow_execution_timeout: request.workflow_execution_timeout,
        workflow_run_timeout: request.workflow_run_timeout,
        workflow_task_timeout: request.workflow_task_timeout,
        identity: request.identity,
        request_id: request.request_id,
        retry_policy: request.retry_policy,
        cron_schedule: request.cron_schedule,
        memo: request.memo,
        search_attributes: request.search_attributes,
        header: request.header,
        workflow_start_delay: request.workflow_start_delay,
        user_metadata: request.user_metadata,
        priority: request.priority,
        ..StartWorkflowExecutionRequest::default()
    }
}
