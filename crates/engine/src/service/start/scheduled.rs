//! Starts by a schedule.

use std::sync::Arc;

use temporalio_protos::temporal::api::workflowservice::v1::StartWorkflowExecutionRequest;

use super::Then;
use crate::{
    core::{Applied, Core, Target},
    registry::Workflow,
    service_error::ServiceError,
};

impl Core {
    /// Starts a workflow and returns the first run of its chain. Unlike a client's start, one that is repeated after a
    /// crash finds its chain also when the chain has continued as new meanwhile.
    pub(in crate::service) async fn start_scheduled(
        self: &Arc<Self>,
        request: StartWorkflowExecutionRequest,
    ) -> Result<String, ServiceError> {
        let (spec, policies) = self.spec(request)?;
        let (namespace, workflow_id) = (spec.namespace.clone(), spec.workflow_id.clone());
        let started = self.with_workflow(&namespace, &workflow_id, |workflow, epoch| {
            let current = Target::new(&namespace, &workflow_id, "");
            if let Some(first_run_id) = self.chain_of(workflow, current, &spec.request_id)? {
                let known = self.commit(workflow, &first_run_id, epoch, windlass_sqlite::Ack::Durable);
                return Ok(Applied::new(first_run_id, known));
            }
            let then = Then::Begin { eager: None, attach: None };
            Ok(self.start_in(workflow, epoch, spec, policies, &then)?.map(|started| started.run_id))
        })?;
        started.acknowledged().await
    }

    /// The first run of the current chain, if this request has started it.
    fn chain_of(
        &self,
        workflow: &mut Workflow,
        mut target: Target,
        request_id: &str,
    ) -> Result<Option<String>, ServiceError> {
        if self.current_in(workflow, &target.namespace, &target.workflow_id)?.is_none() {
            return Ok(None);
        }
        target.run_id = self.run_in(workflow, &target)?.state.first_run_id.clone();
        match self.run_in(workflow, &target) {
            Ok(first) if first.state.create_request_id == request_id => Ok(Some(target.run_id)),
            // The first run may be deleted before the others.
            Ok(_) | Err(ServiceError::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
