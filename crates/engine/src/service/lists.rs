//! Lists and counts of runs.

use std::sync::Arc;

use temporalio_protos::temporal::api::workflowservice::v1::{
    CountWorkflowExecutionsRequest, CountWorkflowExecutionsResponse, ListClosedWorkflowExecutionsRequest,
    ListClosedWorkflowExecutionsResponse, ListOpenWorkflowExecutionsRequest, ListOpenWorkflowExecutionsResponse,
    ListWorkflowExecutionsRequest, ListWorkflowExecutionsResponse, ScanWorkflowExecutionsRequest,
    ScanWorkflowExecutionsResponse,
};

use crate::{core::Core, refusal::Refusal};

impl Core {
    pub(super) async fn list_workflows(
        self: &Arc<Self>,
        _: ListWorkflowExecutionsRequest,
    ) -> Result<ListWorkflowExecutionsResponse, Refusal> {
        Err(Refusal::Unimplemented("lists".into()))
    }
    pub(super) async fn scan_workflows(
        self: &Arc<Self>,
        _: ScanWorkflowExecutionsRequest,
    ) -> Result<ScanWorkflowExecutionsResponse, Refusal> {
        Err(Refusal::Unimplemented("lists".into()))
    }
    pub(super) async fn list_open_workflows(
        self: &Arc<Self>,
        _: ListOpenWorkflowExecutionsRequest,
    ) -> Result<ListOpenWorkflowExecutionsResponse, Refusal> {
        Err(Refusal::Unimplemented("lists".into()))
    }
    pub(super) async fn list_closed_workflows(
        self: &Arc<Self>,
        _: ListClosedWorkflowExecutionsRequest,
    ) -> Result<ListClosedWorkflowExecutionsResponse, Refusal> {
        Err(Refusal::Unimplemented("lists".into()))
    }
    pub(super) async fn count_workflows(
        self: &Arc<Self>,
        _: CountWorkflowExecutionsRequest,
    ) -> Result<CountWorkflowExecutionsResponse, Refusal> {
        Err(Refusal::Unimplemented("lists".into()))
    }
}
