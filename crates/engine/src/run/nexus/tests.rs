//! The rules about failures, links and times.

use temporalio_protos::temporal::api::{
    common::v1::{Link, link},
    enums::v1::{EventType, NexusHandlerErrorRetryBehavior as Retry, TimeoutType},
    failure::v1::{Failure, NexusHandlerFailureInfo, failure::FailureInfo},
    nexus::v1::{Failure as NexusFailure, Link as NexusLink},
};

use super::{
    NexusOperation, Request, event_url,
    failure::{from_nexus_failure, handler_error, is_retryable, passed_on},
    links::{WORKFLOW_EVENT, parse_links},
};
use crate::time::SECOND;

#[test]
fn a_link_that_was_written_is_read_again() {
    for id in ["plain", "with space/and %", "ü?&=#+"] {
        let url = event_url("here", id, "run", 5, EventType::NexusOperationScheduled);
        let event = link::WorkflowEvent {
            namespace: "here".to_owned(),
            workflow_id: id.to_owned(),
            run_id: "run".to_owned(),
            reference: Some(link::workflow_event::Reference::EventRef(link::workflow_event::EventReference {
                event_id: 5,
                event_type: EventType::NexusOperationScheduled as i32,
            })),
        };
        let expected = Link { variant: Some(link::Variant::WorkflowEvent(event)) };
        assert_eq!(parse_links(&[NexusLink { url, r#type: WORKFLOW_EVENT.to_owned() }]), [expected], "{id}");
    }
}

#[test]
fn links_that_cannot_be_read_are_left_out() {
    let kinds = [
        ("temporal:///namespaces/n/workflows/w/r/history?eventType=None&referenceType=EventReference", WORKFLOW_EVENT),
        ("temporal:///namespaces/n/workflows/w/r/history?referenceType=EventReference", WORKFLOW_EVENT),
        ("temporal:///namespaces/n/workflows/w/history", WORKFLOW_EVENT),
        ("https:///namespaces/n/workflows/w/r/history", WORKFLOW_EVENT),
        ("temporal:///namespaces/%zz/workflows/w/r/history", WORKFLOW_EVENT),
        ("https://example.com", "other"),
    ];
    for (url, kind) in kinds {
        let link = NexusLink { url: url.to_owned(), r#type: kind.to_owned() };
        assert_eq!(parse_links(&[link]), [], "{url}");
    }
}

#[test]
fn the_kind_of_a_handlers_error_says_whether_it_is_retried_unless_the_handler_does() {
    let error = |kind: &str, retry: Retry| {
        let info = NexusHandlerFailureInfo { r#type: kind.to_owned(), retry_behavior: retry as i32 };
        Failure { failure_info: Some(FailureInfo::NexusHandlerFailureInfo(info)), ..Failure::default() }
    };
    let cases = [
        ("BAD_REQUEST", Retry::Unspecified, false),
        ("NOT_FOUND", Retry::Unspecified, false),
        ("NOT_IMPLEMENTED", Retry::Unspecified, false),
        ("INTERNAL", Retry::Unspecified, true),
        ("UPSTREAM_TIMEOUT", Retry::Unspecified, true),
        ("unheard of", Retry::Unspecified, true),
        ("BAD_REQUEST", Retry::Retryable, true),
        ("INTERNAL", Retry::NonRetryable, false),
    ];
    for (kind, retry, expected) in cases {
        assert_eq!(is_retryable(&error(kind, retry)), expected, "{kind} {retry:?}");
    }
    assert!(!is_retryable(&Failure::default()));
}

#[test]
fn a_failure_keeps_its_causes_and_a_handlers_error_loses_its_source() {
    let cause = Failure { message: "why".to_owned(), source: "there".to_owned(), ..Failure::default() };
    let error =
        Failure { source: "there".to_owned(), cause: Some(Box::new(cause.clone())), ..handler_error("INTERNAL", "no") };
    let expected = Failure { cause: Some(Box::new(cause)), ..handler_error("INTERNAL", "no") };
    assert_eq!(passed_on(error), expected);
}

#[test]
fn a_nexus_failure_of_an_unknown_kind_keeps_what_it_has() {
    let known = NexusFailure { message: "plain".to_owned(), ..NexusFailure::default() };
    assert_eq!(from_nexus_failure(known), Failure { message: "plain".to_owned(), ..Failure::default() });
    let unknown = NexusFailure {
        metadata: [("a".to_owned(), "b".to_owned())].into(),
        details: b"{\"x\": 1}".to_vec(),
        ..NexusFailure::default()
    };
    let Some(FailureInfo::ApplicationFailureInfo(info)) = from_nexus_failure(unknown).failure_info else {
        panic!("it is a failure of an application");
    };
    assert_eq!(info.r#type, "NexusFailure");
    let kept = String::from_utf8(info.details.unwrap().payloads[0].data.clone()).unwrap();
    assert_eq!(kept, r#"{"metadata":{"a":"b"},"details":{"x":1}}"#);
}

#[test]
fn a_request_has_at_most_ten_seconds_and_not_more_than_its_operation() {
    let operation = |close: i64, start: i64, run: i64| NexusOperation {
        scheduled_time: 100 * SECOND,
        schedule_to_close: close * SECOND,
        schedule_to_start: start * SECOND,
        start_to_close: run * SECOND,
        ..NexusOperation::default()
    };
    let at = 102 * SECOND;
    let cases = [
        ((0, 0, 0), (10, TimeoutType::Unspecified), None),
        ((30, 0, 0), (10, TimeoutType::ScheduleToClose), Some(28)),
        ((5, 0, 0), (3, TimeoutType::ScheduleToClose), Some(3)),
        ((30, 4, 20), (2, TimeoutType::ScheduleToStart), Some(20)),
        ((0, 0, 7), (10, TimeoutType::Unspecified), Some(7)),
    ];
    for ((close, start, run), (time, limit), whole) in cases {
        let operation = operation(close, start, run);
        assert_eq!(operation.time_to_start(at), (time * SECOND, limit), "{close} {start} {run}");
        assert_eq!(operation.time_to_complete(at), whole.map(|whole: i64| whole * SECOND), "{close} {start} {run}");
    }
}

#[test]
fn pauses_between_attempts_double_up_to_an_hour() {
    let mut request = Request::default();
    let mut pauses = Vec::new();
    for _ in 0..14 {
        request.back_off(0, Failure::default(), &|_| 0);
        pauses.push(request.due / 100_000_000);
    }
    assert_eq!(pauses, [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 28800, 28800]);
    assert_eq!(request.attempt, 14);
}
