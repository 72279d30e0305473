//! One request and its answer, before and after the protocol's encoding.

use std::time::Duration;

use bytes::Bytes;
use tonic::Status;

/// A request as it came in.
#[derive(Debug, Clone)]
pub struct Call {
    /// Fully qualified, for example `temporal.api.workflowservice.v1.WorkflowService`.
    pub service: String,
    pub rpc: String,
    /// The encoded request message.
    pub message: Bytes,
    /// How long the caller waits, if it said so.
    pub timeout: Option<Duration>,
    /// What the caller's program calls itself; empty if it does not say.
    pub client: String,
    /// The caller lives in this process: what it has taken on ends with it.
    pub local: bool,
}

/// The encoded response message, or why there is none.
pub type Answer = Result<Vec<u8>, Status>;
