//! Errors with details, as `google.rpc.Status` in the trailer `grpc-status-details-bin`.

use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::Message;

const STATUS: &str = "google.rpc.Status";
const ERROR_INFO: &str = "type.googleapis.com/google.rpc.ErrorInfo";
const DOMAIN: &str = "a2a-protocol.org";
/// Details are a few objects.
const MAX_VALUES: usize = 1000;

/// A status with details in the JSON form of `google.protobuf.Any`: objects with a `@type`.
pub fn status(code: Code, message: &str, details: &Value) -> Status {
    let whole = json!({"code": i32::from(code), "message": message, "details": details});
    match Message::named(STATUS).and_then(|status| status.to_bytes(&whole).ok()) {
        Some(bytes) => Status::with_details(code, message, bytes),
        None => Status::new(code, message),
    }
}

/// The details of a status that this build can read.
pub fn details(status: &Status) -> Vec<Value> {
    let read = Message::named(STATUS).and_then(|message| message.to_json(status.details(), MAX_VALUES).ok());
    match read.as_ref().and_then(|status| status["details"].as_array()) {
        Some(details) => details.clone(),
        None => Vec::new(),
    }
}

/// The protocol's name of the error, for example `TASK_NOT_FOUND`.
pub fn reason(status: &Status) -> Option<String> {
    let is_reason = |detail: &Value| detail["@type"] == ERROR_INFO && detail["domain"] == DOMAIN;
    let details = details(status);
    let found = details.iter().find(|detail| is_reason(detail))?;
    found["reason"].as_str().map(str::to_owned)
}
