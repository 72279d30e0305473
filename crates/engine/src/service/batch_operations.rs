//! Executes batches: reads pages, processes one execution after the other, and writes how far it has come.

use std::{collections::HashSet, sync::Arc, time::Duration};

use temporalio_protos::temporal::api::{
    batch::v1::{
        BatchOperationReset, batch_operation_reset_activities, batch_operation_unpause_activities,
        batch_operation_update_activity_options,
    },
    common::v1::{WorkflowExecution, reset_options::Target as ResetTarget},
    enums::v1::{BatchOperationState, EventType, ResetType},
    history::v1::HistoryEvent,
    workflowservice::v1::{
        DeleteWorkflowExecutionRequest, RequestCancelWorkflowExecutionRequest, ResetActivityRequest,
        ResetWorkflowExecutionRequest, SignalWorkflowExecutionRequest, StartBatchOperationRequest,
        TerminateWorkflowExecutionRequest, UnpauseActivityRequest, UpdateActivityOptionsRequest,
        reset_activity_request, start_batch_operation_request::Operation, unpause_activity_request,
        update_activity_options_request,
    },
};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use windlass_sqlite::{Ack, DatabaseError};

use super::checks;
use crate::{
    batch::{Batch, PAGE, Step},
    core::{Core, unavailable},
    persist,
    service_error::ServiceError,
    visibility::sql,
};

/// Pause before something is tried again that the database could not do.
const PAUSE: Duration = Duration::from_millis(200);

/// Namespace and job id.
type Job = [String; 2];

/// Executes open batches until `shutdown` is cancelled.
pub(crate) async fn run_batches(core: &Arc<Core>, shutdown: &CancellationToken) {
    let mut running: JoinSet<Job> = JoinSet::new();
    let mut known: HashSet<Job> = HashSet::new();
    loop {
        let open = core.database.read(|sql| Ok::<_, DatabaseError>(persist::open_batches(sql)?)).await;
        let open = open.inspect_err(|error| tracing::warn!(%error, "batches cannot be read; retrying"));
        let unread = open.is_err();
        for job in open.unwrap_or_default() {
            if known.insert(job.clone()) {
                running.spawn(Arc::clone(core).execute_batch(job));
            }
        }
        tokio::select! {
            // The batches go on after the next start.
            () = shutdown.cancelled() => return,
            () = core.batch_started.notified() => {}
            () = tokio::time::sleep(PAUSE), if unread => {}
            Some(ended) = running.join_next() => {
                if let Ok(job) = ended {
                    known.remove(&job);
                }
            }
        }
    }
}

impl Core {
    /// Executes a batch until it is done or was stopped.
    async fn execute_batch(self: Arc<Self>, job: Job) -> Job {
        let mut found = self.batch(&job[0], &job[1]).await;
        while let Ok(Some(batch)) = &mut found {
            if !batch.runs() {
                break;
            }
            if let Err(error) = self.batch_step(&job[0], batch).await {
                tracing::warn!(%error, job_id = job[1], "a batch cannot proceed; retrying");
                tokio::time::sleep(PAUSE).await;
                found = self.batch(&job[0], &job[1]).await;
                continue;
            }
            match self.save(&job, batch).await {
                Ok(true) => {}
                // It was stopped.
                Ok(false) => break,
                Err(error) => {
                    tracing::warn!(%error, job_id = job[1], "the progress of a batch cannot be written; retrying");
                    tokio::time::sleep(PAUSE).await;
                    found = self.batch(&job[0], &job[1]).await;
                }
            }
        }
        job
    }

    async fn save(&self, job: &Job, batch: &Batch) -> Result<bool, ServiceError> {
        let (job, batch) = (job.clone(), batch.clone());
        let saved = self.database.apply(Ack::Relaxed, move |tx| persist::save_batch(tx, &job[0], &job[1], &batch));
        saved.await.map_err(|error| unavailable(&error))
    }

    /// Does what is next. An error means that it is to be tried again.
    async fn batch_step(self: &Arc<Self>, namespace: &str, batch: &mut Batch) -> Result<(), ServiceError> {
        match batch.next() {
            Step::Begin { query } => {
                match self.matching(namespace, &query).await {
                    Ok(estimate) => batch.estimate = estimate,
                    Err(ServiceError::InvalidArgument(_)) => {
                        batch.close(BatchOperationState::Failed, self.now());
                        return Ok(());
                    }
                    Err(error) => return Err(error),
                }
                self.read_page(namespace, batch, query, Vec::new()).await
            }
            Step::ReadPage { query, token } => self.read_page(namespace, batch, query, token).await,
            Step::Process(execution) => {
                tokio::time::sleep(batch.interval()).await;
                let Some(request) = &batch.request else { return Ok(()) };
                let request_id = batch.request_id(&execution);
                match self.process(request, execution, request_id).await {
                    Err(error @ ServiceError::Unavailable(_)) => return Err(error),
                    // The run is closed, or gone.
                    Ok(()) | Err(ServiceError::NotFound(_)) => batch.processed(true),
                    Err(_) => batch.processed(false),
                }
                Ok(())
            }
            Step::Finish => {
                batch.close(BatchOperationState::Completed, self.now());
                Ok(())
            }
        }
    }

    async fn matching(&self, namespace: &str, query: &str) -> Result<i64, ServiceError> {
        let query = self.filter(namespace, query)?;
        let namespace = namespace.to_owned();
        let counted = self.database.read(move |sql| Ok::<_, DatabaseError>(sql::count(sql, &namespace, &query)?));
        Ok(counted.await.map_err(|error| unavailable(&error))?.total)
    }

    async fn read_page(
        &self,
        namespace: &str,
        batch: &mut Batch,
        query: String,
        token: Vec<u8>,
    ) -> Result<(), ServiceError> {
        let size = i32::try_from(PAGE).unwrap_or(i32::MAX);
        let page = self.page(namespace, query, size, token).await?;
        let execution =
            |row: sql::VisibilityRow| WorkflowExecution { workflow_id: row.workflow_id, run_id: row.run_id };
        batch.page_read(page.rows.into_iter().map(execution).collect(), page.next);
        Ok(())
    }

    /// Applies the operation to one execution.
    async fn process(
        self: &Arc<Self>,
        request: &StartBatchOperationRequest,
        execution: WorkflowExecution,
        request_id: String,
    ) -> Result<(), ServiceError> {
        let (namespace, reason) = (request.namespace.clone(), request.reason.clone());
        let Some(operation) = request.operation.clone() else { return Ok(()) };
        let target = Some(execution.clone());
        match operation {
            Operation::SignalOperation(it) => {
                let request = SignalWorkflowExecutionRequest {
                    namespace,
                    workflow_execution: target,
                    signal_name: it.signal,
                    input: it.input,
                    identity: it.identity,
                    request_id,
                    ..SignalWorkflowExecutionRequest::default()
                };
                self.signal_workflow(request).await.map(drop)
            }
            Operation::CancellationOperation(it) => {
                let request = RequestCancelWorkflowExecutionRequest {
                    namespace,
                    workflow_execution: target,
                    identity: it.identity,
                    request_id,
                    ..RequestCancelWorkflowExecutionRequest::default()
                };
                self.cancel_workflow(request).await.map(drop)
            }
            Operation::TerminationOperation(it) => {
                let request = TerminateWorkflowExecutionRequest {
                    namespace,
                    workflow_execution: target,
                    reason,
                    identity: it.identity,
                    ..TerminateWorkflowExecutionRequest::default()
                };
                self.terminate_workflow(request).await.map(drop)
            }
            Operation::DeletionOperation(_) => {
                let request = DeleteWorkflowExecutionRequest { namespace, workflow_execution: target };
                self.delete_workflow(request).await.map(drop)
            }
            Operation::ResetOperation(it) => self.reset_one(namespace, reason, execution, request_id, it).await,
            Operation::UnpauseActivitiesOperation(it) => {
                use batch_operation_unpause_activities::Activity;
                let request = UnpauseActivityRequest {
                    namespace,
                    execution: target,
                    identity: it.identity,
                    activity: it.activity.map(|activity| match activity {
                        Activity::Type(kind) => unpause_activity_request::Activity::Type(kind),
                        Activity::MatchAll(_) => unpause_activity_request::Activity::UnpauseAll(true),
                    }),
                    reset_attempts: it.reset_attempts,
                    reset_heartbeat: it.reset_heartbeat,
                    jitter: it.jitter,
                };
                self.unpause_activity(request).await.map(drop)
            }
            Operation::ResetActivitiesOperation(it) => {
                use batch_operation_reset_activities::Activity;
                let request = ResetActivityRequest {
                    namespace,
                    execution: target,
                    identity: it.identity,
                    activity: it.activity.map(|activity| match activity {
                        Activity::Type(kind) => reset_activity_request::Activity::Type(kind),
                        Activity::MatchAll(_) => reset_activity_request::Activity::MatchAll(true),
                    }),
                    reset_heartbeat: it.reset_heartbeat,
                    keep_paused: it.keep_paused,
                    jitter: it.jitter,
                    restore_original_options: it.restore_original_options,
                };
                self.reset_activity(request).await.map(drop)
            }
            Operation::UpdateActivityOptionsOperation(it) => {
                use batch_operation_update_activity_options::Activity;
                let request = UpdateActivityOptionsRequest {
                    namespace,
                    execution: target,
                    identity: it.identity,
                    activity: it.activity.map(|activity| match activity {
                        Activity::Type(kind) => update_activity_options_request::Activity::Type(kind),
                        Activity::MatchAll(_) => update_activity_options_request::Activity::MatchAll(true),
                    }),
                    activity_options: it.activity_options,
                    update_mask: it.update_mask,
                    restore_original: it.restore_original,
                };
                self.update_activity_options(request).await.map(drop)
            }
            Operation::UpdateWorkflowOptionsOperation(_)
            | Operation::CancelActivitiesOperation(_)
            | Operation::TerminateActivitiesOperation(_)
            | Operation::DeleteActivitiesOperation(_) => {
                Err(ServiceError::Unimplemented("StartBatchOperation with this operation".to_owned()))
            }
        }
    }

    #[allow(deprecated, reason = "clients still send these fields")]
    async fn reset_one(
        self: &Arc<Self>,
        namespace: String,
        reason: String,
        mut execution: WorkflowExecution,
        request_id: String,
        reset: BatchOperationReset,
    ) -> Result<(), ServiceError> {
        let options = reset.options.clone().unwrap_or_default();
        let target = match &options.target {
            Some(target) => target.clone(),
            None if reset.reset_type == ResetType::FirstWorkflowTask as i32 => ResetTarget::FirstWorkflowTask(()),
            None => ResetTarget::LastWorkflowTask(()),
        };
        let finish_id = match target {
            ResetTarget::WorkflowTaskId(id) => id,
            ResetTarget::BuildId(build) => {
                let (run_id, id) = self.reset_point(&namespace, &execution, &build, options.current_run_only)?;
                execution.run_id = run_id;
                id
            }
            ResetTarget::FirstWorkflowTask(()) => finished_task(self.events_of(&namespace, &execution).await?, false)?,
            ResetTarget::LastWorkflowTask(()) => finished_task(self.events_of(&namespace, &execution).await?, true)?,
        };
        let (reapply, exclude) = match &reset.options {
            Some(options) => (options.reset_reapply_type, options.reset_reapply_exclude_types.clone()),
            None => (reset.reset_reapply_type, Vec::new()),
        };
        let request = ResetWorkflowExecutionRequest {
            namespace,
            workflow_execution: Some(execution),
            reason,
            workflow_task_finish_event_id: finish_id,
            request_id,
            reset_reapply_type: reapply,
            reset_reapply_exclude_types: exclude,
            post_reset_operations: reset.post_reset_operations,
            identity: reset.identity,
        };
        self.reset_workflow(request).await.map(drop)
    }

    async fn events_of(
        self: &Arc<Self>,
        namespace: &str,
        execution: &WorkflowExecution,
    ) -> Result<Vec<HistoryEvent>, ServiceError> {
        let target = checks::target(&self.read_namespaces(), namespace, Some(execution.clone()))?;
        let number = self.with_run(&target, |run, _| Ok(run.number))?.acknowledged().await?;
        let batches = self.database.read(move |sql| Ok::<_, DatabaseError>(persist::batches(sql, number)?));
        Ok(batches.await.map_err(|error| unavailable(&error))?.into_iter().flatten().collect())
    }

    /// The run and the event to which a build's reset point refers.
    fn reset_point(
        self: &Arc<Self>,
        namespace: &str,
        execution: &WorkflowExecution,
        build: &str,
        current_run_only: bool,
    ) -> Result<(String, i64), ServiceError> {
        let target = checks::target(&self.read_namespaces(), namespace, Some(execution.clone()))?;
        let found = self.with_run(&target, |run, _| {
            let point = run.state.reset_points.iter().find(|point| point.build_id == build);
            let usable = point.filter(|it| it.resettable && (!current_run_only || it.run_id == execution.run_id));
            Ok(usable.map(|point| (point.run_id.clone(), point.first_workflow_task_completed_id)))
        })?;
        found.value().ok_or_else(|| ServiceError::invalid(format!("Can't find reset point for {build}")))
    }
}

/// The first or the last completed workflow task. If there is none, where the first would be.
fn finished_task(events: Vec<HistoryEvent>, last: bool) -> Result<i64, ServiceError> {
    let (mut found, mut scheduled) = (None, None);
    for event in events {
        match event.event_type() {
            EventType::WorkflowTaskCompleted if last || found.is_none() => found = Some(event.event_id),
            EventType::WorkflowTaskScheduled if scheduled.is_none() => scheduled = Some(event.event_id + 1),
            _ => {}
        }
    }
    found.or(scheduled).ok_or_else(|| ServiceError::invalid("unable to find any scheduled or completed task"))
}
