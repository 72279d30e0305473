//! One request and its reply, independent of the transport.

use std::time::Duration;

use bytes::Bytes;
use tonic::Status;

/// A request from a client.
#[derive(Debug, Clone)]
pub struct Call {
    /// Fully qualified, for example `temporal.api.workflowservice.v1.WorkflowService`.
    pub service: String,
    pub rpc: String,
    /// The encoded request message.
    pub message: Bytes,
    /// The client's deadline, if it sent one.
    pub timeout: Option<Duration>,
    /// The client's `client-name` header; empty if absent.
    pub client: String,
    /// The caller is in this process, so its tasks end when the process ends.
    pub local: bool,
}

/// The encoded response message, or the error status.
pub type Answer = Result<Vec<u8>, Status>;
