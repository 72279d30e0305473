//! What can go wrong when operating a run, with what to do next.

use temporalio_client::{
    errors::{WorkflowInteractionError, WorkflowQueryError, WorkflowStartError, WorkflowUpdateError},
    tonic::Code,
};
use windlass_core::ids::{InstallationId, RunId};
use windlass_store::StoreError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpsError {
    #[error("OPS0010: there is no run {run} on this server; `windlass runs list` shows what there is")]
    NotFound { run: RunId },
    #[error("OPS0011: a run {run} exists already; choose another --run-id")]
    AlreadyExists { run: RunId },
    #[error("OPS0012: the run took no part in this ({reason}); check that a worker is up")]
    Unanswered { reason: String },
    #[error("OPS0013: the server refused: {reason}")]
    Refused { reason: String },
    /// The same request will be refused again.
    #[error("OPS0013: the server refused: {reason}")]
    Unstartable { reason: String },
    #[error("OPS0014: {code}: {0}", code = .0.code())]
    Store(#[from] StoreError),
    #[error("OPS0015: {0}")]
    Input(String),
    #[error(
        "OPS0016: run {run} belongs to installation {found}, and this store is installation {own}; use the store that \
         the run was started with (--data-dir or WINDLASS_POSTGRES_URL), or check --temporal and --namespace"
    )]
    Foreign { run: RunId, own: InstallationId, found: InstallationId },
    #[error(
        "OPS0017: the server did not say whether it started run {run} ({reason}); send the same request with the same run \
         id again, a repeat starts nothing twice"
    )]
    Unsettled { run: RunId, reason: String },
}

/// A run that ended without an answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RunEnd {
    #[error("{message}")]
    Failed { code: String, message: String },
    #[error("the run was cancelled")]
    Cancelled,
    #[error("the run was terminated from outside; its log has no last event")]
    Terminated,
    #[error("the run's end is not known: {message}")]
    Unknown { message: String },
}

impl OpsError {
    pub(super) fn start(run: &RunId, error: &WorkflowStartError) -> Self {
        match error {
            WorkflowStartError::AlreadyStarted { .. } => Self::AlreadyExists { run: run.clone() },
            WorkflowStartError::Rpc(status) => {
                let reason = status.message().to_owned();
                match status.code() {
                    Code::InvalidArgument => Self::Unstartable { reason },
                    Code::NotFound
                    | Code::PermissionDenied
                    | Code::Unauthenticated
                    | Code::FailedPrecondition
                    | Code::Unimplemented => Self::Refused { reason },
                    _ => Self::Unsettled { run: run.clone(), reason },
                }
            }
            error => Self::Unstartable { reason: error.to_string() },
        }
    }

    /// Whether a start that failed with this has certainly started nothing.
    pub fn started_nothing(&self) -> bool {
        !matches!(self, Self::Unsettled { .. })
    }

    pub(super) fn query(run: &RunId, error: &WorkflowQueryError) -> Self {
        match error {
            WorkflowQueryError::NotFound(_) => Self::NotFound { run: run.clone() },
            WorkflowQueryError::Rpc(status) if status.code() == Code::DeadlineExceeded => {
                Self::Unanswered { reason: status.message().to_owned() }
            }
            error => Self::Refused { reason: error.to_string() },
        }
    }

    pub(super) fn update(run: &RunId, error: &WorkflowUpdateError) -> Self {
        match error {
            WorkflowUpdateError::NotFound(_) => Self::NotFound { run: run.clone() },
            WorkflowUpdateError::Failed(failure) => Self::Refused { reason: failure.message.clone() },
            WorkflowUpdateError::Rpc(status) if matches!(status.code(), Code::DeadlineExceeded | Code::Unavailable) => {
                Self::Unanswered { reason: status.message().to_owned() }
            }
            error => Self::Refused { reason: error.to_string() },
        }
    }

    pub(super) fn interaction(run: &RunId, error: &WorkflowInteractionError) -> Self {
        match error {
            WorkflowInteractionError::NotFound(_) => Self::NotFound { run: run.clone() },
            WorkflowInteractionError::Rpc(status) => Self::Refused { reason: status.message().to_owned() },
            error => Self::Refused { reason: error.to_string() },
        }
    }
}
