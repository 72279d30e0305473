//! Update-with-start: one operation, so that the first workflow task carries the update.

use std::{sync::Arc, time::Duration};

use temporalio_protos::temporal::api::{
    enums::v1::{UpdateWorkflowExecutionLifecycleStage as Stage, WorkflowIdConflictPolicy},
    update::v1::Request,
    workflowservice::v1::{
        ExecuteMultiOperationRequest, ExecuteMultiOperationResponse, StartWorkflowExecutionResponse,
        UpdateWorkflowExecutionRequest,
        execute_multi_operation_request::operation::Operation,
        execute_multi_operation_response::{Response, response},
    },
};
use tokio::time::Instant;
use windlass_sqlite::Ack;

use super::{
    checks, start,
    start::Policies,
    updates::{self, Followed, check, deadline, followed},
};
use crate::{
    core::{Acknowledgement, Applied, Core, Target},
    registry::Workflow,
    run::{
        Run, StartSpec,
        updates::{Progress, aborted_by_closing, task_keeps_failing},
    },
    service_error::ServiceError,
};

/// An update that was checked.
struct Update {
    request: Request,
    stage: Stage,
}

impl Update {
    fn id(&self) -> String {
        self.request.meta.clone().unwrap_or_default().update_id
    }
}

/// A run and its update.
struct Begun {
    started: Applied<StartWorkflowExecutionResponse>,
    followed: Applied<Followed>,
    /// The run existed.
    used: bool,
}

impl Core {
    /// Executes a start and an update. If the run closes before it accepts the update, the update may start another
    /// run.
    pub(super) async fn execute_multi_operation(
        self: &Arc<Self>,
        request: ExecuteMultiOperationRequest,
        timeout: Option<Duration>,
    ) -> Result<ExecuteMultiOperationResponse, ServiceError> {
        let deadline = deadline(timeout);
        let ((spec, policies), update) = self.operations(request)?;
        let ended_first = both(Some(ServiceError::Aborted), Some(aborted_by_closing()));
        let mut result = self.start_and_update(spec.clone(), policies, &update, deadline).await;
        if result.as_ref().is_err_and(|error| *error == ended_first) {
            result = self.start_and_update(spec, policies, &update, deadline).await;
        }
        result.map_err(|error| match error == ended_first {
            true => both(Some(ServiceError::Aborted), Some(ServiceError::Overtaken(aborted_by_closing().to_string()))),
            false => error,
        })
    }

    /// Sends the update to the existing run if the policies allow it, and starts a run otherwise.
    async fn start_and_update(
        self: &Arc<Self>,
        spec: StartSpec,
        policies: Policies,
        update: &Update,
        deadline: Instant,
    ) -> Result<ExecuteMultiOperationResponse, ServiceError> {
        let start_failed = |error| both(Some(error), Some(ServiceError::Aborted));
        let (namespace, workflow_id) = (spec.namespace.clone(), spec.workflow_id.clone());
        // One operation, so that no worker can start the first task before the update is admitted.
        let begun = self.with_workflow(&namespace, &workflow_id, |workflow, epoch| {
            Ok(match self.use_for_update(workflow, epoch, &spec, policies, update) {
                Ok(None) => self.start_with_update(workflow, epoch, spec, policies, update).map_err(start_failed),
                Ok(Some(used)) => Ok(used),
                Err(error) => Err(error),
            })
        });
        let Begun { started, followed, used } = begun.map_err(start_failed)??;
        let mut started = started.acknowledged().await.map_err(start_failed)?;
        let id = update.id();
        let changes = followed.value.changes.clone();
        let answer = self.follow(followed, &id, update.stage, deadline).await;
        // The real server got both operations again, and the start found the run it had started.
        let readmitted =
            changes.borrow().readmitted || answer.as_ref().is_err_and(|error| *error == task_keeps_failing());
        let used = used || readmitted;
        let failed = |error| both(used.then_some(ServiceError::Aborted), Some(error));
        let (run_id, reached, outcome) = answer.map_err(failed)?;
        if readmitted {
            started.started = false;
            started.first_execution_run_id.clear();
        }
        let answered = updates::response(&workflow_id, run_id, &id, reached, outcome);
        Ok(ExecuteMultiOperationResponse {
            responses: vec![
                Response { response: Some(response::Response::StartWorkflow(started)) },
                Response { response: Some(response::Response::UpdateWorkflow(answered)) },
            ],
        })
    }

    /// Sends the update to the existing run, if the policies allow it or the run knows the update.
    fn use_for_update(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        epoch: u64,
        spec: &StartSpec,
        policies: Policies,
        update: &Update,
    ) -> Result<Option<Begun>, ServiceError> {
        let target = Target::new(&spec.namespace, &spec.workflow_id, "");
        let run = match self.run_in(workflow, &target) {
            Ok(run) => run,
            Err(ServiceError::NotFound(_)) => return Ok(None),
            Err(error) => return Err(both(Some(error), Some(ServiceError::Aborted))),
        };
        let Some(started) = usable(run, spec, policies, &update.id()) else { return Ok(None) };
        let admitted = self.in_env(&spec.namespace, |env| self.admit_in(run, env, &update.request));
        let admitted = admitted.inspect_err(|_| run.drop_transient_state());
        let followed = admitted.map_err(|error| both(Some(ServiceError::Aborted), Some(error)))?;
        let kept = self.commit(workflow, &followed.run_id, epoch, Ack::Durable);
        let started = Applied::new(started, Acknowledgement::Already);
        Ok(Some(Begun { started, followed: Applied::new(followed, kept), used: true }))
    }

    fn start_with_update(
        self: &Arc<Self>,
        workflow: &mut Workflow,
        epoch: u64,
        spec: StartSpec,
        policies: Policies,
        update: &Update,
    ) -> Result<Begun, ServiceError> {
        let (namespace, workflow_id, id) = (spec.namespace.clone(), spec.workflow_id.clone(), update.id());
        let started = self.start_for_update(workflow, epoch, spec, policies, &update.request)?;
        let run = self.run_in(workflow, &Target::new(&namespace, &workflow_id, &started.value.run_id))?;
        let changes = self.notifications.update(&run.state.run_id, &id);
        let followed = followed(run, &id, Progress::Admitted, changes);
        let started = started.map(|started| start::response(&namespace, &workflow_id, started));
        Ok(Begun { started, followed: Applied::new(followed, Acknowledgement::Already), used: false })
    }

    /// Checks both operations.
    fn operations(
        &self,
        request: ExecuteMultiOperationRequest,
    ) -> Result<((StartSpec, Policies), Update), ServiceError> {
        self.read_namespaces().named(&request.namespace)?;
        let count = request.operations.len();
        let mut operations = request.operations.into_iter().map(|operation| operation.operation);
        let (Some(Operation::StartWorkflow(mut start)), Some(Operation::UpdateWorkflow(mut update)), 2) =
            (operations.next().flatten(), operations.next().flatten(), count)
        else {
            return Err(ServiceError::invalid("Operations have to be exactly [Start, Update]."));
        };
        for namespace in [&mut start.namespace, &mut update.namespace] {
            if namespace.is_empty() {
                namespace.clone_from(&request.namespace);
            }
        }
        let mismatch = || ServiceError::invalid("Operation namespace did not match request's namespace.");
        let workflow_id = start.workflow_id.clone();
        let start = if start.namespace == request.namespace { self.spec_for_update(start) } else { Err(mismatch()) };
        let update = match &start {
            _ if update.namespace != request.namespace => Err(mismatch()),
            Ok(_) => self.update_for_start(update, Some(&workflow_id)),
            Err(_) => self.update_for_start(update, None),
        };
        match (start, update) {
            (Ok(start), Ok(update)) => Ok((start, update)),
            (start, update) => {
                let aborted = |error: Option<ServiceError>| Some(error.unwrap_or(ServiceError::Aborted));
                Err(both(aborted(start.err()), aborted(update.err())))
            }
        }
    }

    fn update_for_start(
        &self,
        update: UpdateWorkflowExecutionRequest,
        workflow_id: Option<&str>,
    ) -> Result<Update, ServiceError> {
        let target = checks::target(&self.read_namespaces(), &update.namespace, update.workflow_execution)?;
        let stage = update.wait_policy.map(|policy| policy.lifecycle_stage());
        let (request, stage) = check(update.request, stage, &self.limits)?;
        if !update.first_execution_run_id.is_empty() {
            return Err(ServiceError::invalid("FirstExecutionRunId is not allowed."));
        }
        if !target.run_id.is_empty() {
            return Err(ServiceError::invalid("RunId is not allowed."));
        }
        if workflow_id.is_some_and(|id| id != target.workflow_id) {
            return Err(ServiceError::invalid("WorkflowId is not consistent with previous operation(s)."));
        }
        Ok(Update { request, stage })
    }
}

/// The start's response, if the update can use this run.
fn usable(run: &Run, spec: &StartSpec, policies: Policies, update_id: &str) -> Option<StartWorkflowExecutionResponse> {
    let state = &run.state;
    let answered = state.updates.get(update_id).is_some_and(|record| record.completed_id != 0);
    let usable = state.is_running()
        && (state.create_request_id == spec.request_id
            || run.update_progress(update_id).is_some()
            || policies.conflict == WorkflowIdConflictPolicy::UseExisting);
    (answered || usable).then(|| StartWorkflowExecutionResponse {
        run_id: state.run_id.clone(),
        status: state.status,
        link: usable.then(|| start::started_link(&spec.namespace, &spec.workflow_id, &state.run_id)),
        ..StartWorkflowExecutionResponse::default()
    })
}

/// The error of each operation; `None` for one that did not fail.
fn both(start: Option<ServiceError>, update: Option<ServiceError>) -> ServiceError {
    let outcomes = [start, update];
    let at_fault = outcomes.iter().flatten().find(|error| **error != ServiceError::Aborted);
    let code = at_fault.map_or(tonic::Code::Unknown, ServiceError::code);
    ServiceError::MultiOperation { code: code as i32, outcomes: outcomes.into() }
}
