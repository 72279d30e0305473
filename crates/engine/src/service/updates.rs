//! Update requests. Update-with-start is in `update_with_start`.

use std::{sync::Arc, time::Duration};

use temporalio_protos::temporal::api::{
    common::v1::WorkflowExecution,
    enums::v1::UpdateWorkflowExecutionLifecycleStage as Stage,
    history::v1::history_event::Attributes,
    update::v1::{Outcome, Request, UpdateRef, outcome},
    workflowservice::v1::{
        PollWorkflowExecutionUpdateRequest, PollWorkflowExecutionUpdateResponse, UpdateWorkflowExecutionRequest,
        UpdateWorkflowExecutionResponse,
    },
};
use tokio::{sync::watch, time::Instant};

use super::checks;
use crate::{
    core::{Applied, Core, Target},
    notifications::UpdateStatus,
    persist,
    run::{
        Env, Run,
        updates::{Progress, run_ended_first},
    },
    service_error::ServiceError,
};

/// How long an update request waits before it returns the stage reached so far.
const TIMEOUT: Duration = Duration::from_secs(20);
const TAIL_ROOM: Duration = Duration::from_secs(1);
/// How many continuations of the run an update follows.
const MOVES: usize = 5;

/// An update and the notifications of its progress.
pub(super) struct Followed {
    pub(super) run_id: String,
    number: i64,
    progress: Progress,
    pub(super) changes: watch::Receiver<UpdateStatus>,
    completed_id: i64,
    running: bool,
}

impl Core {
    pub(super) async fn update_workflow(
        self: &Arc<Self>,
        request: UpdateWorkflowExecutionRequest,
        timeout: Option<Duration>,
    ) -> Result<UpdateWorkflowExecutionResponse, ServiceError> {
        let target = checks::target(&self.read_namespaces(), &request.namespace, request.workflow_execution.clone())?;
        let (update, stage) =
            check(request.request, request.wait_policy.map(|policy| policy.lifecycle_stage()), &self.limits)?;
        let first_run_id = request.first_execution_run_id;
        let deadline = deadline(timeout);
        for _ in 0..MOVES {
            let followed = self.admit(&target, &update, &first_run_id)?;
            let id = update.meta.clone().unwrap_or_default().update_id;
            match self.follow(followed, &id, stage, deadline).await {
                // The run is continuing as new; the update goes to the next run.
                Err(ServiceError::Exhausted { .. }) if target.run_id.is_empty() => {}
                Err(error) => return Err(error),
                Ok((run_id, reached, outcome)) => {
                    return Ok(response(&target.workflow_id, run_id, &id, reached, outcome));
                }
            }
        }
        Err(ServiceError::Unavailable("the run keeps continuing as new; try again".to_owned()))
    }

    fn admit(
        self: &Arc<Self>,
        target: &Target,
        update: &Request,
        first_run_id: &str,
    ) -> Result<Applied<Followed>, ServiceError> {
        self.with_run(target, |run, env| {
            if !first_run_id.is_empty() && run.state.first_run_id != first_run_id {
                return Err(ServiceError::not_found("workflow execution not found"));
            }
            self.admit_in(run, env, update)
        })
    }

    pub(super) fn admit_in(&self, run: &mut Run, env: &Env<'_>, update: &Request) -> Result<Followed, ServiceError> {
        let id = update.meta.clone().unwrap_or_default().update_id;
        let changes = self.notifications.update(&run.state.run_id, &id);
        let progress = run.admit_update(env, update.clone())?;
        Ok(followed(run, &id, progress, changes))
    }

    pub(super) async fn poll_update(
        self: &Arc<Self>,
        request: PollWorkflowExecutionUpdateRequest,
        timeout: Option<Duration>,
    ) -> Result<PollWorkflowExecutionUpdateResponse, ServiceError> {
        let Some(reference) = request.update_ref else {
            return Err(ServiceError::invalid("UpdateRef is not set on request."));
        };
        let target = checks::target(&self.read_namespaces(), &request.namespace, reference.workflow_execution)?;
        let stage = request.wait_policy.map_or(Stage::Unspecified, |policy| policy.lifecycle_stage());
        let id = reference.update_id;
        let found = self.with_run(&target, |run, _| {
            let changes = self.notifications.update(&run.state.run_id, &id);
            let progress = run.update_progress(&id).map(|progress| followed(run, &id, progress, changes));
            Ok(progress.ok_or_else(|| ServiceError::not_found(format!("update \"{id}\" not found"))))
        })?;
        let followed = found.transpose()?;
        let wait_until = if stage == Stage::Unspecified { Instant::now() } else { deadline(timeout) };
        let (run_id, reached, outcome) = self.follow(followed, &id, stage, wait_until).await?;
        let response = response(&target.workflow_id, run_id, &id, reached, outcome);
        Ok(PollWorkflowExecutionUpdateResponse {
            outcome: response.outcome,
            stage: response.stage,
            update_ref: response.update_ref,
        })
    }

    /// Waits until the update has reached the requested stage, or until the deadline.
    pub(super) async fn follow(
        self: &Arc<Self>,
        followed: Applied<Followed>,
        id: &str,
        wanted: Stage,
        deadline: Instant,
    ) -> Result<(String, Stage, Option<Outcome>), ServiceError> {
        // An update that was only admitted needs no write.
        let admitted = followed.value.progress == Progress::Admitted;
        let followed = if admitted { followed.value() } else { followed.acknowledged().await? };
        let Followed { run_id, number, mut progress, mut changes, completed_id, running } = followed;
        // A rejected request does not return earlier progress.
        if let Progress::Aborted(error) = progress {
            return Err(error);
        }
        if completed_id != 0 {
            let outcome = self.recorded_outcome(number, completed_id)?;
            return Ok((run_id, Stage::Completed, Some(outcome)));
        }
        if !running && progress == Progress::Accepted {
            return Ok((run_id, Stage::Completed, Some(failed_by_end())));
        }
        loop {
            match progress {
                Progress::Completed(outcome) => return Ok((run_id, Stage::Completed, Some(*outcome))),
                Progress::Aborted(error) => return Err(error),
                Progress::WaiterDropped => return Ok((run_id, Stage::Accepted, None)),
                Progress::Accepted if wanted != Stage::Completed => return Ok((run_id, Stage::Accepted, None)),
                Progress::Admitted | Progress::Readmitted if wanted == Stage::Unspecified => {
                    return Ok((run_id, Stage::Admitted, None));
                }
                Progress::Accepted | Progress::Admitted | Progress::Readmitted => {}
            }
            let reached = if progress == Progress::Accepted { Stage::Accepted } else { Stage::Admitted };
            match tokio::time::timeout_at(deadline, changes.changed()).await {
                Err(_) => return Ok((run_id, reached, None)),
                Ok(Err(_)) => return Err(ServiceError::Unavailable("workflow update was aborted".to_owned())),
                Ok(Ok(())) => {
                    progress = changes.borrow_and_update().progress.clone().unwrap_or(Progress::Admitted);
                    tracing::trace!(id, ?progress, "the update has progressed");
                }
            }
        }
    }

    fn recorded_outcome(&self, run: i64, completed_id: i64) -> Result<Outcome, ServiceError> {
        let event = self.read(|sql| persist::event(sql, run, completed_id))?;
        match event.and_then(|event| event.attributes) {
            Some(Attributes::WorkflowExecutionUpdateCompletedEventAttributes(completed)) => {
                Ok(completed.outcome.unwrap_or_default())
            }
            _ => Err(ServiceError::Unavailable("the update's outcome is not committed yet; try again".to_owned())),
        }
    }
}

pub(super) fn check(
    request: Option<Request>,
    stage: Option<Stage>,
    limits: &crate::limits::Limits,
) -> Result<(Request, Stage), ServiceError> {
    let mut request = request.unwrap_or_default();
    let Some(meta) = &mut request.meta else { return Err(ServiceError::invalid("Update meta is not set on request.")) };
    if meta.update_id.len() > limits.id_length {
        return Err(ServiceError::invalid("UpdateId length exceeds limit."));
    }
    if meta.update_id.is_empty() {
        meta.update_id = uuid::Uuid::new_v4().to_string();
    }
    let Some(input) = &request.input else { return Err(ServiceError::invalid("Update input is not set on request.")) };
    if input.name.is_empty() {
        return Err(ServiceError::invalid("Update name is not set on request."));
    }
    checks::blob(input.args.as_ref(), limits)?;
    match stage.unwrap_or(Stage::Unspecified) {
        Stage::Admitted => Err(ServiceError::PermissionDenied(
            "UpdateWorkflowExecution issued asynchronously and waiting on update admitted is not supported.".to_owned(),
        )),
        Stage::Unspecified => Ok((request, Stage::Accepted)),
        stage => Ok((request, stage)),
    }
}

pub(super) fn followed(run: &Run, id: &str, progress: Progress, changes: watch::Receiver<UpdateStatus>) -> Followed {
    Followed {
        run_id: run.state.run_id.clone(),
        number: run.number,
        progress,
        changes,
        completed_id: run.state.updates.get(id).map_or(0, |record| record.completed_id),
        running: run.state.is_running(),
    }
}

pub(super) fn deadline(timeout: Option<Duration>) -> Instant {
    let wait = timeout.map_or(TIMEOUT, |timeout| timeout.saturating_sub(TAIL_ROOM).min(TIMEOUT));
    Instant::now() + wait
}

fn failed_by_end() -> Outcome {
    Outcome { value: Some(outcome::Value::Failure(run_ended_first())) }
}

pub(super) fn response(
    workflow_id: &str,
    run_id: String,
    update_id: &str,
    stage: Stage,
    outcome: Option<Outcome>,
) -> UpdateWorkflowExecutionResponse {
    UpdateWorkflowExecutionResponse {
        update_ref: Some(UpdateRef {
            workflow_execution: Some(WorkflowExecution { workflow_id: workflow_id.to_owned(), run_id }),
            update_id: update_id.to_owned(),
        }),
        outcome,
        stage: stage as i32,
        ..UpdateWorkflowExecutionResponse::default()
    }
}
