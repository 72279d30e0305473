//! Resets.

use std::sync::Arc;

use temporalio_protos::temporal::api::workflowservice::v1::{
    ResetWorkflowExecutionRequest, ResetWorkflowExecutionResponse,
};

use crate::{core::Core, refusal::Refusal};

impl Core {
    pub(super) async fn reset_workflow(
        self: &Arc<Self>,
        _: ResetWorkflowExecutionRequest,
    ) -> Result<ResetWorkflowExecutionResponse, Refusal> {
        Err(Refusal::Unimplemented("ResetWorkflowExecution".into()))
    }
}
