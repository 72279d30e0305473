//! Links: from a response to the event that the request caused, and those that a request has.

use prost::Message as _;
use temporalio_protos::temporal::api::{
    common::v1::{Link, link},
    enums::v1::EventType,
};

use crate::service_error::ServiceError;

const LINKS: usize = 10;
const LINK_BYTES: usize = 4000;

/// Rejects links that lead nowhere.
pub(super) fn check<'l>(links: impl Iterator<Item = &'l Link> + Clone) -> Result<(), ServiceError> {
    let count = links.clone().count();
    if count > LINKS {
        return Err(ServiceError::invalid(format!("cannot attach more than {LINKS} links per request, got {count}")));
    }
    for link in links {
        let size = link.encoded_len();
        if size > LINK_BYTES {
            return Err(ServiceError::invalid(format!("link exceeds allowed size of {LINK_BYTES}, got {size}")));
        }
        if let Some(problem) = problem(link) {
            return Err(ServiceError::InvalidArgument(problem));
        }
    }
    Ok(())
}

fn problem(link: &Link) -> Option<String> {
    use link::Variant;
    let (kind, fields) = match link.variant.as_ref() {
        Some(Variant::WorkflowEvent(it)) => (
            "workflow event",
            vec![("namespace", &it.namespace), ("workflow ID", &it.workflow_id), ("run ID", &it.run_id)],
        ),
        Some(Variant::BatchJob(it)) => {
            return it.job_id.is_empty().then(|| "batch job link must not have an empty job ID".to_owned());
        }
        Some(Variant::NexusOperation(it)) => (
            "nexus operation",
            vec![("namespace", &it.namespace), ("operation ID", &it.operation_id), ("run ID", &it.run_id)],
        ),
        Some(Variant::Activity(it)) => {
            ("activity", vec![("namespace", &it.namespace), ("activity ID", &it.activity_id), ("run ID", &it.run_id)])
        }
        Some(Variant::Workflow(it)) => {
            ("workflow", vec![("namespace", &it.namespace), ("workflow ID", &it.workflow_id), ("run ID", &it.run_id)])
        }
        _ => return Some("unsupported link variant".to_owned()),
    };
    let empty = fields.into_iter().find(|(_, value)| value.is_empty());
    empty.map(|(field, _)| format!("{kind} link must not have an empty {field} field"))
}

pub(crate) fn started_link(namespace: &str, workflow_id: &str, run_id: &str) -> Link {
    let reference = link::workflow_event::Reference::EventRef(link::workflow_event::EventReference {
        event_id: 1,
        event_type: EventType::WorkflowExecutionStarted as i32,
    });
    event_link(namespace, workflow_id, run_id, reference)
}

pub(super) fn attached_link(namespace: &str, workflow_id: &str, run_id: &str, request_id: &str) -> Link {
    let reference = link::workflow_event::Reference::RequestIdRef(link::workflow_event::RequestIdReference {
        request_id: request_id.to_owned(),
        event_type: EventType::WorkflowExecutionOptionsUpdated as i32,
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

#[cfg(test)]
mod tests {
    use temporalio_protos::temporal::api::common::v1::link::{BatchJob, Variant, WorkflowEvent};

    use super::*;

    fn event(workflow_id: &str, run_id: &str) -> Link {
        let (namespace, workflow_id, run_id) = ("here".to_owned(), workflow_id.to_owned(), run_id.to_owned());
        Link {
            variant: Some(Variant::WorkflowEvent(WorkflowEvent { namespace, workflow_id, run_id, reference: None })),
        }
    }

    #[test]
    fn links_that_lead_nowhere_are_refused_with_the_servers_texts() {
        let job = Link { variant: Some(Variant::BatchJob(BatchJob::default())) };
        let cases = [
            (vec![event("w", "r"); 10], "fine"),
            (vec![event("w", "r"); 11], "cannot attach more than 10 links per request, got 11"),
            (vec![event("w", "r"), event("w", "")], "workflow event link must not have an empty run ID field"),
            (vec![event("", "")], "workflow event link must not have an empty workflow ID field"),
            (vec![event(&"w".repeat(4000), "r")], "link exceeds allowed size of 4000, got 4015"),
            (vec![job], "batch job link must not have an empty job ID"),
            (vec![Link::default()], "unsupported link variant"),
        ];
        for (links, expected) in cases {
            let checked = check(links.iter()).map_or_else(|error| error.to_string(), |()| "fine".to_owned());
            assert_eq!(checked, expected, "{links:?}");
        }
    }
}
