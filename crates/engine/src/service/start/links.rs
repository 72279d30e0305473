//! Links from a response to the event that the request caused.

use temporalio_protos::temporal::api::{
    common::v1::{Link, link},
    enums::v1::EventType,
};

pub(in crate::service) fn started_link(namespace: &str, workflow_id: &str, run_id: &str) -> Link {
    let reference = link::workflow_event::Reference::EventRef(link::workflow_event::EventReference {
        event_id: 1,
        event_type: EventType::WorkflowExecutionStarted as i32,
    });
    event_link(namespace, workflow_id, run_id, reference)
}

pub(super) fn event_link(
    namespace: &str,
    workflow_id: &str,
    run_id: &str,
    reference: link::workflow_event::Reference,
) -> Link {
    Link {
        variant: Some(link::Variant::WorkflowEvent(link::WorkflowEvent {
            namespace: namespace.to_owned(),
            workflow_id: workflow_id.to_owned(),
            run_id: run_id.to_owned(),
            reference: Some(reference),
        })),
    }
}
