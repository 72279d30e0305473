//! The start of a run.

use prost_wkt_types::Duration;
use temporalio_protos::temporal::api::{
    common::v1::{
        Callback, Header, Link, Memo, Payloads, Priority, RetryPolicy, SearchAttributes, WorkflowExecution,
        WorkflowType,
    },
    enums::v1::ContinueAsNewInitiator,
    failure::v1::Failure,
    history::v1::{WorkflowExecutionStartedEventAttributes, history_event::Attributes},
    sdk::v1::UserMetadata,
    workflow::v1::{ResetPointInfo, ResetPoints},
};

use super::{
    Changes, Env, Inherited, Memory, Run,
    events::new_event,
    rebuild::{Identity, begun},
    state::Parent,
    task::{Delivery, normal_queue},
};
use crate::time::{Nanos, duration, optional_timestamp, span};

/// What a run starts with, checked and completed by the caller.
#[derive(Debug, Clone, Default)]
pub(crate) struct StartSpec {
    pub(crate) number: i64,
    pub(crate) namespace: String,
    pub(crate) workflow_id: String,
    pub(crate) run_id: String,
    pub(crate) workflow_type: String,
    pub(crate) task_queue: String,
    pub(crate) input: Option<Payloads>,
    pub(crate) header: Option<Header>,
    pub(crate) execution_timeout: Option<Duration>,
    pub(crate) run_timeout: Option<Duration>,
    pub(crate) task_timeout: Option<Duration>,
    pub(crate) identity: String,
    pub(crate) request_id: String,
    pub(crate) retry_policy: Option<RetryPolicy>,
    pub(crate) cron_schedule: String,
    pub(crate) memo: Option<Memo>,
    pub(crate) search_attributes: Option<SearchAttributes>,
    pub(crate) user_metadata: Option<UserMetadata>,
    pub(crate) priority: Option<Priority>,
    pub(crate) first_task_backoff: Option<Duration>,
    pub(crate) eager: bool,

    pub(crate) parent: Option<Parent>,
    pub(crate) parent_namespace_id: String,
    pub(crate) root: Option<WorkflowExecution>,

    /// Empty for the first run of a chain.
    pub(crate) first_run_id: String,
    pub(crate) continued_run_id: String,
    pub(crate) initiator: ContinueAsNewInitiator,
    pub(crate) attempt: i32,
    pub(crate) continued_failure: Option<Failure>,
    pub(crate) last_completion_result: Option<Payloads>,
    pub(crate) execution_expires: Nanos,
    pub(crate) reset_points: Vec<ResetPointInfo>,
    pub(crate) completion_callbacks: Vec<Callback>,
    /// Of the first event.
    pub(crate) links: Vec<Link>,

    /// The version to start on, if any.
    pub(crate) inherited: Inherited,
}

impl Run {
    /// A new run with its first event. Its first workflow task is scheduled by [`Run::begin`].
    pub(crate) fn start(env: &Env<'_>, spec: StartSpec) -> Self {
        let identity = Identity {
            namespace: spec.namespace.clone(),
            run_id: spec.run_id.clone(),
            create_request_id: spec.request_id.clone(),
        };
        let (number, user_metadata, links) = (spec.number, spec.user_metadata.clone(), spec.links.clone());
        let started = started(env, spec);
        let mut event = new_event(env.now, Attributes::WorkflowExecutionStartedEventAttributes(started.clone()));
        event.user_metadata = user_metadata;
        event.links = links;
        let state = begun(&identity, &event, &started);
        let mut run = Self { number, state, memory: Memory::default(), changes: Changes::default() };
        run.changes.listing = true;
        run.append(event);
        run
    }

    /// Schedules the first workflow task, unless the start is delayed.
    pub(crate) fn begin(&mut self, env: &Env<'_>) {
        self.ensure_task(env);
    }

    /// Schedules the first workflow task of a child that was started held. Later events, such as signals, are already
    /// in history.
    pub(crate) fn schedule_first_task_if_held(&mut self, env: &Env<'_>) {
        const ONLY_ITS_START: i64 = 2;
        if self.state.next_event_id == ONLY_ITS_START {
            self.begin(env);
        }
    }

    /// Schedules the first workflow task and starts it for the client that started the run.
    pub(crate) fn begin_inline(&mut self, env: &Env<'_>) -> Option<i64> {
        if self.state.first_task_due != 0 {
            return None;
        }
        self.schedule_task(env, Delivery::Inline, env.now);
        self.state.task.as_ref().map(|task| task.scheduled_id)
    }
}

fn started(env: &Env<'_>, spec: StartSpec) -> WorkflowExecutionStartedEventAttributes {
    let parent = spec.parent.unwrap_or_default();
    let has_parent = !parent.workflow_id.is_empty();
    let execution_expires = match (spec.execution_expires, span(spec.execution_timeout.as_ref())) {
        (0, 0) => 0,
        (0, timeout) => env.now.saturating_add(timeout),
        (carried, _) => carried,
    };
    WorkflowExecutionStartedEventAttributes {
        workflow_type: Some(WorkflowType { name: spec.workflow_type }),
        parent_workflow_namespace: parent.namespace,
        parent_workflow_namespace_id: spec.parent_namespace_id,
        parent_workflow_execution: has_parent
            .then_some(WorkflowExecution { workflow_id: parent.workflow_id, run_id: parent.run_id }),
        parent_initiated_event_id: parent.initiated_id,
        task_queue: Some(normal_queue(&spec.task_queue)),
        input: spec.input,
        workflow_execution_timeout: spec.execution_timeout,
        workflow_run_timeout: spec.run_timeout,
        workflow_task_timeout: spec.task_timeout,
        continued_execution_run_id: spec.continued_run_id,
        initiator: spec.initiator as i32,
        continued_failure: spec.continued_failure,
        last_completion_result: spec.last_completion_result,
        first_execution_run_id: if spec.first_run_id.is_empty() { spec.run_id.clone() } else { spec.first_run_id },
        original_execution_run_id: spec.run_id,
        identity: spec.identity,
        retry_policy: spec.retry_policy,
        cron_schedule: spec.cron_schedule,
        attempt: spec.attempt.max(1),
        workflow_execution_expiration_time: optional_timestamp(execution_expires),
        first_workflow_task_backoff: spec.first_task_backoff,
        memo: spec.memo,
        search_attributes: spec.search_attributes,
        prev_auto_reset_points: (!spec.reset_points.is_empty()).then_some(ResetPoints { points: spec.reset_points }),
        header: spec.header,
        workflow_id: spec.workflow_id,
        root_workflow_execution: if has_parent { spec.root } else { None },
        priority: spec.priority,
        eager_execution_accepted: spec.eager,
        completion_callbacks: spec.completion_callbacks,
        versioning_override: spec.inherited.versioning_override,
        inherited_auto_upgrade_info: spec.inherited.auto_upgrade,
        inherited_pinned_version: spec.inherited.pinned,
        declined_target_version_upgrade: spec.inherited.declined,
        ..WorkflowExecutionStartedEventAttributes::default()
    }
}

/// The initiator of the first run of a chain.
pub(crate) fn cron_initiator(cron_schedule: &str) -> ContinueAsNewInitiator {
    if cron_schedule.is_empty() { ContinueAsNewInitiator::Unspecified } else { ContinueAsNewInitiator::CronSchedule }
}

/// The shorter of run and execution timeout, if either is set.
pub(crate) fn run_timeout(run: Nanos, execution: Nanos) -> Nanos {
    match (run, execution) {
        (0, execution) => execution,
        (run, 0) => run,
        (run, execution) => run.min(execution),
    }
}

/// The workflow task timeout: the default if none is given, at most two minutes and at most the run timeout.
pub(crate) fn task_timeout(task: Nanos, run: Nanos) -> Duration {
    const DEFAULT: Nanos = 10 * crate::time::SECOND;
    const LONGEST: Nanos = 120 * crate::time::SECOND;
    let task = if task == 0 { DEFAULT } else { task.min(LONGEST) };
    duration(if run == 0 { task } else { task.min(run) })
}
