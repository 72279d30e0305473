//! Signals, cancellation, termination and deletion of runs.

use std::sync::Arc;

use temporalio_protos::temporal::api::{
    common::v1::{Link, link},
    enums::v1::EventType,
    workflowservice::v1::{
        DeleteWorkflowExecutionRequest, DeleteWorkflowExecutionResponse, RequestCancelWorkflowExecutionRequest,
        RequestCancelWorkflowExecutionResponse, SignalWorkflowExecutionRequest, SignalWorkflowExecutionResponse,
        TerminateWorkflowExecutionRequest, TerminateWorkflowExecutionResponse,
    },
};
use windlass_sqlite::Ack;

use super::checks;
use crate::{
    core::{Core, Target, unavailable},
    persist,
    run::{Run, Signal},
    schedules::ScheduleKey,
    service_error::ServiceError,
};

impl Core {
    pub(super) async fn signal_workflow(
        self: &Arc<Self>,
        request: SignalWorkflowExecutionRequest,
    ) -> Result<SignalWorkflowExecutionResponse, ServiceError> {
        let target = checks::target(&self.read_namespaces(), &request.namespace, request.workflow_execution)?;
        if request.signal_name.is_empty() {
            return Err(ServiceError::invalid("SignalName is not set on request."));
        }
        if request.signal_name.len() > self.limits.id_length {
            return Err(ServiceError::invalid("SignalName length exceeds limit."));
        }
        if request.request_id.len() > self.limits.id_length {
            return Err(ServiceError::invalid("RequestId length exceeds limit."));
        }
        checks::blob(request.input.as_ref(), &self.limits)?;
        let request_id = match request.request_id {
            id if id.is_empty() => uuid::Uuid::new_v4().to_string(),
            id => id,
        };
        let signal = Signal {
            name: request.signal_name,
            input: request.input,
            header: request.header,
            identity: request.identity,
            request_id: request_id.clone(),
            sender: None,
        };
        let done = self.with_run(&target, |run, env| Ok(run.signal(env, signal).map(|()| run.state.run_id.clone())))?;
        let run_id = done.transpose()?.acknowledged().await?;
        let reference = link::workflow_event::Reference::RequestIdRef(link::workflow_event::RequestIdReference {
            request_id,
            event_type: EventType::WorkflowExecutionSignaled as i32,
        });
        let event = link::WorkflowEvent {
            namespace: target.namespace,
            workflow_id: target.workflow_id,
            run_id,
            reference: Some(reference),
        };
        Ok(SignalWorkflowExecutionResponse { link: Some(Link { variant: Some(link::Variant::WorkflowEvent(event)) }) })
    }

    pub(super) async fn cancel_workflow(
        self: &Arc<Self>,
        request: RequestCancelWorkflowExecutionRequest,
    ) -> Result<RequestCancelWorkflowExecutionResponse, ServiceError> {
        let target = checks::target(&self.read_namespaces(), &request.namespace, request.workflow_execution)?;
        let done = self.with_run(&target, |run, env| {
            same_chain(run, &request.first_execution_run_id)?;
            // A run that is already closed needs no cancellation.
            if !run.state.is_running() {
                return Ok(());
            }
            run.request_cancel(env, &request.request_id, &request.reason, &request.identity, None)
        })?;
        done.acknowledged().await?;
        Ok(RequestCancelWorkflowExecutionResponse {})
    }

    pub(super) async fn terminate_workflow(
        self: &Arc<Self>,
        request: TerminateWorkflowExecutionRequest,
    ) -> Result<TerminateWorkflowExecutionResponse, ServiceError> {
        let target = checks::target(&self.read_namespaces(), &request.namespace, request.workflow_execution)?;
        let done = self.with_run(&target, |run, env| {
            same_chain(run, &request.first_execution_run_id)?;
            run.terminate(env, &request.reason, request.details, &request.identity)?;
            run.release_queries();
            Ok(())
        })?;
        done.acknowledged().await?;
        Ok(TerminateWorkflowExecutionResponse {})
    }

    /// Deletes a run. An open one is terminated first.
    pub(super) async fn delete_workflow(
        self: &Arc<Self>,
        request: DeleteWorkflowExecutionRequest,
    ) -> Result<DeleteWorkflowExecutionResponse, ServiceError> {
        let target = checks::target(&self.read_namespaces(), &request.namespace, request.workflow_execution)?;
        let done = self.with_run(&target, |run, env| {
            if run.state.is_running() {
                run.terminate(env, "Delete workflow execution", None, "history-service")?;
                run.release_queries();
            }
            Ok(run.state.run_id.clone())
        })?;
        let run_id = done.acknowledged().await?;
        self.delete(&Target { run_id, ..target }).await?;
        Ok(DeleteWorkflowExecutionResponse {})
    }

    /// Deletes a closed run from memory and disk, after its outbox is empty.
    pub(crate) async fn delete(self: &Arc<Self>, target: &Target) -> Result<(), ServiceError> {
        const PAUSE: std::time::Duration = std::time::Duration::from_millis(10);
        const ATTEMPTS: u32 = 1000;
        for _ in 0..ATTEMPTS {
            if let Some(ticket) = self.remove_unless_busy(target)? {
                return ticket.await.map(|_| ()).map_err(|error| unavailable(&error));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Err(ServiceError::Unavailable("the run still has outbox messages to deliver; try again".to_owned()))
    }

    fn remove_unless_busy(self: &Arc<Self>, target: &Target) -> Result<Option<Removal>, ServiceError> {
        self.remove_if(target, |run| !run.state.is_running() && run.next_message().is_none())
    }

    /// Removes a run of a deleted namespace, whatever its state. No other run is told.
    pub(super) async fn remove_run(self: &Arc<Self>, target: &Target) -> Result<(), ServiceError> {
        let removal = match self.remove_if(target, |_| true) {
            // Removed meanwhile, for example because its retention has passed.
            Err(ServiceError::NotFound(_)) => return Ok(()),
            removal => removal?,
        };
        match removal {
            Some(ticket) => ticket.await.map(|_| ()).map_err(|error| unavailable(&error)),
            None => Ok(()),
        }
    }

    fn remove_if(
        self: &Arc<Self>,
        target: &Target,
        may: impl FnOnce(&Run) -> bool,
    ) -> Result<Option<Removal>, ServiceError> {
        self.with_workflow(&target.namespace, &target.workflow_id, |workflow, epoch| {
            let run = self.run_in(workflow, target)?;
            if !may(run) {
                return Ok(None);
            }
            let number = run.number;
            let schedule = run.ended_for_schedule().map(|schedule| ScheduleKey::new(&target.namespace, schedule));
            workflow.runs.remove(&target.run_id);
            if self.current_in(workflow, &target.namespace, &target.workflow_id)?.is_some_and(|(n, _)| n == number) {
                workflow.current = Some(None);
            }
            let core = Arc::clone(self);
            Ok(Some(self.database.apply(Ack::Durable, move |tx| {
                if core.registry.epoch() != epoch {
                    return Ok(false);
                }
                persist::delete_run(tx, number)?;
                if let Some(schedule) = &schedule {
                    // It looks whether its runs are still there.
                    core.schedules.wake(schedule.clone());
                }
                Ok(true)
            })))
        })
    }
}

/// The write that removes a run.
type Removal = windlass_sqlite::Ticket<bool, windlass_sqlite::DatabaseError>;

/// Checks the first run id of the chain, if the request names one.
fn same_chain(run: &Run, first_run_id: &str) -> Result<(), ServiceError> {
    if !first_run_id.is_empty() && run.state.first_run_id != first_run_id {
        return Err(ServiceError::not_found("workflow execution not found"));
    }
    Ok(())
}
