//! The next run of a chain: continue-as-new, retries and cron.

use temporalio_protos::temporal::api::{
    command::v1::ContinueAsNewWorkflowExecutionCommandAttributes,
    common::v1::{Payloads, WorkflowExecution},
    enums::v1::ContinueAsNewInitiator,
    failure::v1::Failure,
    history::v1::WorkflowExecutionStartedEventAttributes,
    workflow::v1::ResetPointInfo,
};

use super::{Env, Run, RunState, StartSpec, cron};
use crate::time::{Nanos, SECOND, duration, moment, timestamp};

impl Run {
    /// What every next run of the chain inherits.
    fn next_in_chain(&self, env: &Env<'_>) -> StartSpec {
        StartSpec {
            namespace: self.state.namespace.clone(),
            workflow_id: self.state.workflow_id.clone(),
            run_id: (env.new_id)(),
            request_id: (env.new_id)(),
            execution_timeout: self.state.execution_timeout,
            execution_expires: self.state.execution_expires,
            first_run_id: self.state.first_run_id.clone(),
            continued_run_id: self.state.run_id.clone(),
            parent_namespace_id: self
                .state
                .parent
                .as_ref()
                .and_then(|parent| (env.namespace_id)(&parent.namespace))
                .unwrap_or_default(),
            parent: self.state.parent.clone(),
            root: self.state.parent.is_some().then(|| WorkflowExecution {
                workflow_id: self.state.root_workflow_id.clone(),
                run_id: self.state.root_run_id.clone(),
            }),
            reset_points: self.expiring_reset_points(env),
            completion_callbacks: self.standing_callbacks(),
            ..StartSpec::default()
        }
    }

    /// A closed run is deleted after its retention, so its reset points get an expiry time.
    fn expiring_reset_points(&self, env: &Env<'_>) -> Vec<ResetPointInfo> {
        let mut points = self.state.reset_points.clone();
        expire(&mut points, &self.state.run_id, env.now);
        points.retain(|point| moment(point.expire_time.as_ref()) >= env.now);
        points
    }

    /// Sets the expiry on this run's own reset points, too.
    fn expire_reset_points(&mut self, env: &Env<'_>) {
        let RunState { reset_points, run_id, .. } = &mut self.state;
        expire(reset_points, run_id, env.now);
    }

    pub(super) fn prepare_continuation(
        &self,
        env: &Env<'_>,
        command: ContinueAsNewWorkflowExecutionCommandAttributes,
    ) -> StartSpec {
        let initiator = match command.initiator() {
            ContinueAsNewInitiator::Unspecified => ContinueAsNewInitiator::Workflow,
            initiator => initiator,
        };
        let queue = command.task_queue.clone().unwrap_or_default().name;
        let inherited = self.state.inherited_by_next(&queue, command.initial_versioning_behavior(), env.has_queue);
        let attempt = if initiator == ContinueAsNewInitiator::Retry { self.state.attempt + 1 } else { 1 };
        StartSpec {
            workflow_type: command.workflow_type.unwrap_or_default().name,
            task_queue: queue,
            input: command.input,
            header: command.header,
            run_timeout: command.workflow_run_timeout,
            task_timeout: command.workflow_task_timeout,
            retry_policy: command.retry_policy,
            cron_schedule: command.cron_schedule,
            memo: command.memo,
            search_attributes: command.search_attributes,
            priority: self.state.priority.clone(),
            first_task_backoff: command.backoff_start_interval,
            initiator,
            attempt,
            continued_failure: command.failure,
            last_completion_result: command.last_completion_result,
            inherited,
            ..self.next_in_chain(env)
        }
    }

    /// A retry of the run with the same input.
    pub(super) fn prepare_retry(
        &self,
        env: &Env<'_>,
        beginning: WorkflowExecutionStartedEventAttributes,
        wait: Nanos,
        failure: Option<Failure>,
        last_completion_result: Option<Payloads>,
    ) -> StartSpec {
        let inherited = self.state.inherited_by_retry(&beginning);
        StartSpec {
            workflow_type: self.state.workflow_type.clone(),
            task_queue: self.state.task_queue.clone(),
            input: beginning.input,
            header: beginning.header,
            run_timeout: beginning.workflow_run_timeout,
            task_timeout: beginning.workflow_task_timeout,
            retry_policy: beginning.retry_policy,
            cron_schedule: beginning.cron_schedule,
            memo: beginning.memo,
            search_attributes: beginning.search_attributes,
            priority: beginning.priority,
            first_task_backoff: Some(duration(wait)),
            initiator: ContinueAsNewInitiator::Retry,
            attempt: self.state.attempt + 1,
            continued_failure: failure,
            last_completion_result,
            inherited,
            ..self.next_in_chain(env)
        }
    }

    /// The next run by the cron schedule, if there is one. `result` is that of the closing run; after a failure, the
    /// next run gets the one that this run got.
    pub(super) fn prepare_cron(
        &self,
        env: &Env<'_>,
        beginning: impl FnOnce() -> Option<WorkflowExecutionStartedEventAttributes>,
        result: Option<Payloads>,
        failure: Option<Failure>,
    ) -> Option<StartSpec> {
        if self.state.cron_schedule.is_empty() {
            return None;
        }
        let wait = cron::backoff(&self.state.cron_schedule, self.state.execution_time, env.now)?;
        let beginning = beginning()?;
        let last_completion_result = if failure.is_some() { beginning.last_completion_result.clone() } else { result };
        Some(StartSpec {
            initiator: ContinueAsNewInitiator::CronSchedule,
            attempt: 1,
            // The real server does not hand them on: they wait for the end of this run.
            completion_callbacks: Vec::new(),
            ..self.prepare_retry(env, beginning, wait, failure, last_completion_result)
        })
    }

    /// Makes this the next run of the chain. It starts at once.
    pub(super) fn succeed(&mut self, env: &Env<'_>, next: StartSpec) {
        let mut next = Self::start(env, next);
        next.begin(env);
        self.expire_reset_points(env);
        self.changes.successor = Some(Box::new(next));
    }
}

/// Reset points of the closing run expire after its retention.
fn expire(points: &mut [ResetPointInfo], run_id: &str, now: Nanos) {
    const KEPT: Nanos = 3 * 24 * 3600 * SECOND;
    for point in points.iter_mut().filter(|point| point.run_id == run_id) {
        point.expire_time = Some(timestamp(now + KEPT));
    }
}
