//! Errors of operating runs.

use prost::Message as _;
use temporalio_client::{
    errors::{WorkflowInteractionError, WorkflowQueryError, WorkflowStartError, WorkflowUpdateError},
    tonic::{Code, Status},
};
use temporalio_protos::{
    google::rpc,
    temporal::api::failure::v1::{Failure, failure::FailureInfo},
};
use windlass_core::ids::{InstallationId, RunId};
use windlass_store::StoreError;

#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpsError {
    #[error("OPS0010: this server has no run {run}; `windlass runs list` lists the runs")]
    NotFound { run: RunId },
    #[error("OPS0011: run {run} already exists; choose another --run-id")]
    AlreadyExists { run: RunId },
    #[error("OPS0012: no reply from the run ({reason}); check that a worker is running")]
    Unanswered { reason: String },
    #[error("OPS0013: the Temporal server refused the request: {reason}")]
    Refused { reason: String },
    /// A repeat of the start will be refused, too.
    #[error("OPS0013: the Temporal server refused the request: {reason}")]
    Unstartable { reason: String },
    #[error("OPS0014: {code}: {0}", code = .0.code())]
    Store(StoreError),
    #[error("OPS0015: {0}")]
    Input(String),
    #[error(
        "OPS0016: run {run} belongs to installation {found}, and this store is installation {own}; use the store that \
         the run was started with (--data-dir or WINDLASS_POSTGRES_URL), or check --temporal and --namespace"
    )]
    Foreign { run: RunId, own: InstallationId, found: InstallationId },
    #[error(
        "OPS0017: the Temporal server did not confirm the start of run {run} ({reason}); send the same request with the same run \
         id again, a repeat does not start a second run"
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
    #[error("the run was terminated on the Temporal server; its log has no terminal event")]
    Terminated,
    #[error("the outcome of the run is not known: {message}")]
    Unknown { message: String },
}

/// Not a `source`: the message has the store's message already.
impl From<StoreError> for OpsError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
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

    /// Whether a start that failed with this error has not started a workflow.
    pub fn started_nothing(&self) -> bool {
        !matches!(self, Self::Unsettled { .. })
    }

    pub(super) fn query(run: &RunId, error: &WorkflowQueryError) -> Self {
        match error {
            WorkflowQueryError::NotFound(_) => Self::NotFound { run: run.clone() },
            WorkflowQueryError::Rpc(status) => Self::rpc(status),
            error => Self::Refused { reason: error.to_string() },
        }
    }

    pub(super) fn update(run: &RunId, error: &WorkflowUpdateError) -> Self {
        match error {
            WorkflowUpdateError::NotFound(_) => Self::NotFound { run: run.clone() },
            WorkflowUpdateError::Failed(failure) if run_ended_first(failure) => Self::NotFound { run: run.clone() },
            WorkflowUpdateError::Failed(failure) => Self::Refused { reason: failure.message.clone() },
            WorkflowUpdateError::Rpc(status) => Self::rpc(status),
            error => Self::Refused { reason: error.to_string() },
        }
    }

    pub(super) fn interaction(run: &RunId, error: &WorkflowInteractionError) -> Self {
        match error {
            WorkflowInteractionError::NotFound(_) => Self::NotFound { run: run.clone() },
            WorkflowInteractionError::Rpc(status) => Self::rpc(status),
            error => Self::Refused { reason: error.to_string() },
        }
    }

    fn rpc(status: &Status) -> Self {
        let reason = status.message().to_owned();
        if may_succeed_later(status) { Self::Unanswered { reason } } else { Self::Refused { reason } }
    }
}

/// Whether a repeat may succeed: the server was busy, shutting down or unreachable, or workflow tasks of the run fail
/// at the moment.
fn may_succeed_later(status: &Status) -> bool {
    match status.code() {
        Code::Unavailable
        | Code::DeadlineExceeded
        | Code::Cancelled
        | Code::Aborted
        | Code::ResourceExhausted
        | Code::Unknown => true,
        Code::FailedPrecondition => is_workflow_not_ready(status),
        // With a source it is not the server's status: the connection broke.
        Code::Internal => std::error::Error::source(status).is_some(),
        _ => false,
    }
}

fn is_workflow_not_ready(status: &Status) -> bool {
    let details = rpc::Status::decode(status.details()).unwrap_or_default().details;
    details.iter().any(|detail| detail.type_url.ends_with("/temporal.api.errordetails.v1.WorkflowNotReadyFailure"))
}

/// Whether the run accepted the update and ended before it completed it.
fn run_ended_first(failure: &Failure) -> bool {
    matches!(&failure.failure_info, Some(FailureInfo::ApplicationFailureInfo(info))
        if info.r#type == "AcceptedUpdateCompletedWorkflow")
}

#[cfg(test)]
mod tests {
    use prost_wkt_types::Any;

    use super::*;

    fn detailed(code: Code, detail: &str) -> Status {
        let type_url = format!("type.googleapis.com/temporal.api.errordetails.v1.{detail}");
        let details = rpc::Status { details: vec![Any { type_url, value: Vec::new() }], ..rpc::Status::default() };
        Status::with_details(code, "no", details.encode_to_vec().into())
    }

    fn broken_connection() -> Status {
        Status::from_error(Box::new(std::io::Error::new(std::io::ErrorKind::BrokenPipe, "broken pipe")))
    }

    #[test]
    fn transient_statuses_may_be_repeated_and_others_may_not() {
        let passing = [
            Status::unavailable("no"),
            Status::deadline_exceeded("no"),
            Status::cancelled("no"),
            Status::aborted("no"),
            Status::resource_exhausted("no"),
            Status::unknown("no"),
            detailed(Code::FailedPrecondition, "WorkflowNotReadyFailure"),
            broken_connection(),
        ];
        for status in passing {
            assert!(matches!(OpsError::rpc(&status), OpsError::Unanswered { .. }), "{status:?}");
        }
        let lasting = [
            Status::invalid_argument("no"),
            Status::permission_denied("no"),
            Status::unauthenticated("no"),
            Status::unimplemented("no"),
            Status::internal("no"),
            Status::failed_precondition("too many updates"),
            detailed(Code::FailedPrecondition, "NamespaceInvalidStateFailure"),
        ];
        for status in lasting {
            assert!(matches!(OpsError::rpc(&status), OpsError::Refused { .. }), "{status:?}");
        }
    }

    #[test]
    fn an_update_that_the_run_ended_before_completing_is_not_found() {
        let run = RunId::new("r");
        let failure = |kind: &str| {
            let info = temporalio_protos::temporal::api::failure::v1::ApplicationFailureInfo {
                r#type: kind.to_owned(),
                ..Default::default()
            };
            let failure =
                Failure { failure_info: Some(FailureInfo::ApplicationFailureInfo(info)), ..Failure::default() };
            OpsError::update(&run, &WorkflowUpdateError::Failed(Box::new(failure)))
        };
        assert!(matches!(failure("AcceptedUpdateCompletedWorkflow"), OpsError::NotFound { .. }));
        assert!(matches!(failure("UnprocessedUpdate"), OpsError::Refused { .. }));
    }
}
