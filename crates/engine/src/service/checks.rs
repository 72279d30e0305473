//! Checks that several requests share, with the real server's error texts.

use prost::Message as _;
use temporalio_protos::temporal::api::{
    common::v1::{Payloads, WorkflowExecution},
    taskqueue::v1::TaskQueue,
};

use crate::{core::Target, limits::Limits, namespaces::Namespaces, service_error::ServiceError};

pub(super) fn workflow_id(id: &str, limits: &Limits) -> Result<(), ServiceError> {
    if id.is_empty() {
        return Err(ServiceError::invalid("WorkflowId is not set on request."));
    }
    if id.len() > limits.id_length {
        return Err(ServiceError::invalid(format!(
            "WorkflowId exceeds maximum allowed length ({}/{})",
            id.len(),
            limits.id_length
        )));
    }
    Ok(())
}

pub(super) fn queue(queue: Option<&TaskQueue>, limits: &Limits) -> Result<String, ServiceError> {
    let Some(queue) = queue else { return Err(ServiceError::invalid("taskQueue is not set")) };
    if queue.name.is_empty() {
        return Err(ServiceError::invalid("missing task queue name"));
    }
    if queue.name.len() > limits.id_length {
        return Err(ServiceError::invalid("taskQueue length exceeds limit"));
    }
    if queue.name.starts_with("/_sys/") {
        return Err(ServiceError::invalid("task queue name cannot start with reserved prefix /_sys/"));
    }
    Ok(queue.name.clone())
}

pub(super) fn blob(payloads: Option<&Payloads>, limits: &Limits) -> Result<(), ServiceError> {
    if payloads.is_some_and(|payloads| payloads.encoded_len() > limits.blob_bytes) {
        return Err(ServiceError::invalid("Blob data size exceeds limit."));
    }
    Ok(())
}

/// The run that a request names.
pub(super) fn target(
    namespaces: &Namespaces,
    namespace: &str,
    execution: Option<WorkflowExecution>,
) -> Result<Target, ServiceError> {
    namespaces.named(namespace)?;
    let Some(execution) = execution else { return Err(ServiceError::invalid("Execution is not set on request.")) };
    if execution.workflow_id.is_empty() {
        return Err(ServiceError::invalid("WorkflowId is not set on request."));
    }
    if !execution.run_id.is_empty() && uuid::Uuid::try_parse(&execution.run_id).is_err() {
        return Err(ServiceError::invalid("Invalid RunId."));
    }
    Ok(Target { namespace: namespace.to_owned(), workflow_id: execution.workflow_id, run_id: execution.run_id })
}
