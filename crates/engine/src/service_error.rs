//! Errors of requests, with the texts, codes and details that Temporal clients expect.
//!
//! Clients decode the details. Without them, an error is only text to a client.

use prost::Message;
use prost_wkt_types::Any;
use temporalio_protos::{
    google::rpc,
    temporal::api::{
        enums::v1::{NamespaceState, ResourceExhaustedCause, ResourceExhaustedScope},
        errordetails::v1::{
            CancellationAlreadyRequestedFailure, MultiOperationExecutionFailure, NamespaceAlreadyExistsFailure,
            NamespaceInvalidStateFailure, NamespaceNotFoundFailure, NotFoundFailure, PermissionDeniedFailure,
            QueryFailedFailure, ResourceExhaustedFailure, WorkflowExecutionAlreadyStartedFailure,
            WorkflowNotReadyFailure, multi_operation_execution_failure::OperationStatus,
        },
        failure::v1::Failure,
    },
};
use tonic::{Code, Status};

#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ServiceError {
    #[error("{0}")]
    InvalidArgument(String),
    #[error("{0}")]
    NotFound(String),
    #[error("{message}")]
    AlreadyStarted { message: String, start_request_id: String, run_id: String, first_run_id: String },
    #[error("Namespace {0} is not found.")]
    NamespaceNotFound(String),
    #[error("Namespace has invalid state: {state:?}. Must be Registered.")]
    NamespaceNotRegistered { namespace: String, state: NamespaceState },
    #[error("Namespace \"{0}\" already exists")]
    NamespaceExists(String),
    #[error("{0}")]
    AlreadyExists(String),
    #[error("cancellation already requested for workflow")]
    CancellationAlreadyRequested,
    #[error("{0}")]
    FailedPrecondition(String),
    #[error("{0}")]
    WorkflowNotReady(String),
    #[error("{message}")]
    QueryFailed { message: String, failure: Option<Box<Failure>> },
    #[error("{message}")]
    Exhausted { message: String, cause: ResourceExhaustedCause },
    /// The result of each operation; `None` for one that did not fail.
    #[error("Update-with-Start could not be executed.")]
    MultiOperation { code: i32, outcomes: Vec<Option<ServiceError>> },
    /// An operation that was not executed because another one failed.
    #[error("Operation was aborted.")]
    Aborted,
    /// The operation lost against a concurrent one and may be retried.
    #[error("{0}")]
    Overtaken(String),
    #[error("{0}")]
    PermissionDenied(String),
    #[error("{0}")]
    DeadlineExceeded(String),
    #[error("{0}")]
    Unavailable(String),
    /// Stored data is damaged. A retry does not help.
    #[error("{0}")]
    DataLoss(String),
    #[error("{0}")]
    Internal(String),
    /// Not served by default by the real server either; the text is its own.
    #[error("{0}")]
    NotServed(String),
    #[error("the embedded engine does not implement {0}")]
    Unimplemented(String),
    /// The real server does not implement it any more.
    #[error("{0}")]
    Withdrawn(String),
}

impl ServiceError {
    pub(crate) fn invalid(message: impl Into<String>) -> Self {
        Self::InvalidArgument(message.into())
    }

    pub(crate) fn not_found(message: impl Into<String>) -> Self {
        Self::NotFound(message.into())
    }

    /// The run is about to close; the client may retry.
    pub(crate) fn closing() -> Self {
        Self::Exhausted {
            message: "workflow operation can not be applied because workflow is closing".to_owned(),
            cause: ResourceExhaustedCause::BusyWorkflow,
        }
    }

    pub fn code(&self) -> Code {
        match self {
            Self::InvalidArgument(_) | Self::QueryFailed { .. } => Code::InvalidArgument,
            Self::NotFound(_) | Self::NamespaceNotFound(_) => Code::NotFound,
            Self::AlreadyStarted { .. }
            | Self::NamespaceExists(_)
            | Self::AlreadyExists(_)
            | Self::CancellationAlreadyRequested => Code::AlreadyExists,
            Self::FailedPrecondition(_) | Self::WorkflowNotReady(_) | Self::NamespaceNotRegistered { .. } => {
                Code::FailedPrecondition
            }
            Self::Exhausted { .. } => Code::ResourceExhausted,
            Self::MultiOperation { code, .. } => Code::from_i32(*code),
            Self::Aborted | Self::Overtaken(_) => Code::Aborted,
            Self::PermissionDenied(_) => Code::PermissionDenied,
            Self::DeadlineExceeded(_) => Code::DeadlineExceeded,
            Self::Unavailable(_) => Code::Unavailable,
            Self::DataLoss(_) => Code::DataLoss,
            Self::Internal(_) => Code::Internal,
            Self::NotServed(_) | Self::Unimplemented(_) | Self::Withdrawn(_) => Code::Unimplemented,
        }
    }

    fn details(&self) -> Option<Any> {
        Some(match self {
            Self::NotFound(_) => any("NotFoundFailure", &NotFoundFailure::default()),
            Self::NamespaceNotFound(namespace) => {
                any("NamespaceNotFoundFailure", &NamespaceNotFoundFailure { namespace: namespace.clone() })
            }
            Self::NamespaceNotRegistered { namespace, state } => any(
                "NamespaceInvalidStateFailure",
                &NamespaceInvalidStateFailure {
                    namespace: namespace.clone(),
                    state: *state as i32,
                    allowed_states: vec![NamespaceState::Registered as i32],
                },
            ),
            Self::NamespaceExists(_) => any("NamespaceAlreadyExistsFailure", &NamespaceAlreadyExistsFailure::default()),
            Self::AlreadyStarted { start_request_id, run_id, first_run_id, .. } => any(
                "WorkflowExecutionAlreadyStartedFailure",
                &WorkflowExecutionAlreadyStartedFailure {
                    start_request_id: start_request_id.clone(),
                    run_id: run_id.clone(),
                    first_execution_run_id: first_run_id.clone(),
                },
            ),
            Self::CancellationAlreadyRequested => {
                any("CancellationAlreadyRequestedFailure", &CancellationAlreadyRequestedFailure {})
            }
            Self::PermissionDenied(_) => any("PermissionDeniedFailure", &PermissionDeniedFailure::default()),
            Self::WorkflowNotReady(_) => any("WorkflowNotReadyFailure", &WorkflowNotReadyFailure {}),
            Self::QueryFailed { failure, .. } => {
                any("QueryFailedFailure", &QueryFailedFailure { failure: failure.as_deref().cloned() })
            }
            Self::Exhausted { cause, .. } => any(
                "ResourceExhaustedFailure",
                &ResourceExhaustedFailure { cause: *cause as i32, scope: ResourceExhaustedScope::Namespace as i32 },
            ),
            Self::MultiOperation { outcomes, .. } => any(
                "MultiOperationExecutionFailure",
                &MultiOperationExecutionFailure { statuses: outcomes.iter().map(operation_status).collect() },
            ),
            Self::Aborted => any("MultiOperationExecutionAborted", &()),
            _ => return None,
        })
    }
}

fn operation_status(outcome: &Option<ServiceError>) -> OperationStatus {
    match outcome {
        None => OperationStatus::default(),
        Some(error) => OperationStatus {
            code: error.code() as i32,
            message: error.to_string(),
            details: error.details().into_iter().collect(),
        },
    }
}

fn any(name: &str, message: &impl Message) -> Any {
    let package = match name {
        "MultiOperationExecutionAborted" => "temporal.api.failure.v1",
        _ => "temporal.api.errordetails.v1",
    };
    Any { type_url: format!("type.googleapis.com/{package}.{name}"), value: message.encode_to_vec() }
}

impl From<ServiceError> for Status {
    fn from(error: ServiceError) -> Self {
        let (code, message) = (error.code(), error.to_string());
        let Some(details) = error.details() else { return Self::new(code, message) };
        let whole = rpc::Status { code: code as i32, message: message.clone(), details: vec![details] };
        Self::with_details(code, message, whole.encode_to_vec().into())
    }
}
