//! Failures between handlers and callers. The real server sends them over HTTP, in JSON, and what comes out is not
//! always what went in. Pure functions.

use serde_json::{Value, json};
use temporalio_protos::temporal::api::{
    common::v1::{Payload, Payloads},
    enums::v1::NexusHandlerErrorRetryBehavior as Retry,
    failure::v1::{
        ApplicationFailureInfo, CanceledFailureInfo, Failure, NexusHandlerFailureInfo, failure::FailureInfo,
    },
    nexus::v1::{Failure as NexusFailure, HandlerError},
};

/// The type of a nexus failure whose details are a failure of Temporal.
const TEMPORAL: &str = "temporal.api.failure.v1.Failure";

pub(super) fn handler_error(kind: &str, message: &str) -> Failure {
    let info = NexusHandlerFailureInfo { r#type: kind.to_owned(), ..NexusHandlerFailureInfo::default() };
    Failure {
        message: message.to_owned(),
        failure_info: Some(FailureInfo::NexusHandlerFailureInfo(info)),
        ..Failure::default()
    }
}

/// A request that was not answered, and is given up.
pub(super) fn call_error(message: String) -> Failure {
    let info = ApplicationFailureInfo {
        r#type: "CallError".to_owned(),
        non_retryable: true,
        ..ApplicationFailureInfo::default()
    };
    Failure { message, failure_info: Some(FailureInfo::ApplicationFailureInfo(info)), ..Failure::default() }
}

/// Whether the request is made again after this error.
pub(super) fn is_retryable(failure: &Failure) -> bool {
    let Some(FailureInfo::NexusHandlerFailureInfo(info)) = &failure.failure_info else { return false };
    match info.retry_behavior() {
        Retry::Retryable => true,
        Retry::NonRetryable => false,
        Retry::Unspecified => !matches!(
            info.r#type.as_str(),
            "BAD_REQUEST" | "UNAUTHENTICATED" | "UNAUTHORIZED" | "NOT_FOUND" | "CONFLICT" | "NOT_IMPLEMENTED"
        ),
    }
}

/// A failure as the other side gets it: a handler error loses the fields that have no place in a nexus failure.
pub(super) fn passed_on(failure: Failure) -> Failure {
    let cause = failure.cause.map(|cause| Box::new(passed_on(*cause)));
    match failure.failure_info {
        Some(FailureInfo::NexusHandlerFailureInfo(info)) => Failure {
            message: failure.message,
            stack_trace: failure.stack_trace,
            encoded_attributes: failure.encoded_attributes,
            failure_info: Some(FailureInfo::NexusHandlerFailureInfo(info)),
            cause,
            ..Failure::default()
        },
        failure_info => Failure { failure_info, cause, ..failure },
    }
}

/// The older form of a handler's error.
pub(super) fn from_handler_error(error: HandlerError) -> Failure {
    let cause = error.failure.map(|failure| Box::new(from_nexus_failure(failure)));
    let info = NexusHandlerFailureInfo { r#type: error.error_type, retry_behavior: error.retry_behavior };
    Failure {
        failure_info: Some(FailureInfo::NexusHandlerFailureInfo(info)),
        cause: cause.or_else(|| Some(Box::default())),
        ..Failure::default()
    }
}

/// A nexus failure as a failure of Temporal.
pub(super) fn from_nexus_failure(failure: NexusFailure) -> Failure {
    let cause = failure.cause.map(|cause| Box::new(from_nexus_failure(*cause)));
    let (message, stack_trace) = (failure.message, failure.stack_trace);
    let kind = failure.metadata.get("type").map(String::as_str);
    let details: Value = serde_json::from_slice(&failure.details).unwrap_or_default();
    let info = match kind {
        Some(TEMPORAL) => {
            let source = details["source"].as_str().unwrap_or_default().to_owned();
            let failure_info = temporal_info(&details);
            return Failure { message, stack_trace, source, failure_info, cause, ..Failure::default() };
        }
        Some("nexus.OperationError") if details["state"] == "canceled" => {
            Some(FailureInfo::CanceledFailureInfo(CanceledFailureInfo::default()))
        }
        Some("nexus.OperationError") => Some(FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo {
            r#type: "OperationError".to_owned(),
            non_retryable: true,
            ..ApplicationFailureInfo::default()
        })),
        Some("nexus.HandlerError") => {
            let retry = match details["retryableOverride"].as_bool() {
                None => Retry::Unspecified,
                Some(true) => Retry::Retryable,
                Some(false) => Retry::NonRetryable,
            };
            Some(FailureInfo::NexusHandlerFailureInfo(NexusHandlerFailureInfo {
                r#type: details["type"].as_str().unwrap_or_default().to_owned(),
                retry_behavior: retry as i32,
            }))
        }
        _ if failure.metadata.is_empty() && failure.details.is_empty() => None,
        _ => {
            let metadata: std::collections::BTreeMap<_, _> = failure.metadata.into_iter().collect();
            Some(unknown(&metadata, &details))
        }
    };
    Failure { message, stack_trace, failure_info: info, cause, ..Failure::default() }
}

/// The kind of a failure of Temporal that is written as JSON. Older workers send those of applications and of
/// cancellations.
fn temporal_info(details: &Value) -> Option<FailureInfo> {
    if details.get("canceledFailureInfo").is_some() {
        return Some(FailureInfo::CanceledFailureInfo(CanceledFailureInfo::default()));
    }
    let application = details.get("applicationFailureInfo")?;
    Some(FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo {
        r#type: application["type"].as_str().unwrap_or_default().to_owned(),
        non_retryable: application["nonRetryable"].as_bool().unwrap_or_default(),
        ..ApplicationFailureInfo::default()
    }))
}

/// A nexus failure of an unknown type keeps its metadata and details as JSON.
fn unknown(metadata: &std::collections::BTreeMap<String, String>, details: &Value) -> FailureInfo {
    let mut kept = Vec::new();
    if !metadata.is_empty() {
        kept.push(format!("\"metadata\":{}", json!(metadata)));
    }
    if !details.is_null() {
        kept.push(format!("\"details\":{details}"));
    }
    let payload = Payload {
        metadata: [("encoding".to_owned(), b"json/plain".to_vec())].into(),
        data: format!("{{{}}}", kept.join(",")).into_bytes(),
        ..Payload::default()
    };
    FailureInfo::ApplicationFailureInfo(ApplicationFailureInfo {
        r#type: "NexusFailure".to_owned(),
        details: Some(Payloads { payloads: vec![payload] }),
        ..ApplicationFailureInfo::default()
    })
}
