//! Links as URLs: `temporal:///namespaces/<namespace>/workflows/<id>/<run id>/history?…`. Pure functions.

use std::fmt::Write as _;

use temporalio_protos::temporal::api::{
    common::v1::{Link, link},
    enums::v1::EventType,
    nexus::v1::Link as NexusLink,
};

pub(crate) const WORKFLOW_EVENT: &str = "temporal.api.common.v1.Link.WorkflowEvent";
const SCHEME: &str = "temporal:///namespaces/";
const REQUEST_ID: &str = "RequestIdReference";
const EVENT: &str = "EventReference";

/// The URL of an event of a run.
pub(crate) fn event_url(namespace: &str, workflow_id: &str, run_id: &str, event_id: i64, kind: EventType) -> String {
    let [namespace, workflow_id, run_id] = [namespace, workflow_id, run_id].map(escaped);
    let kind = camel_case(kind);
    format!(
        "{SCHEME}{namespace}/workflows/{workflow_id}/{run_id}/history?eventID={event_id}&eventType={kind}&\
         referenceType={EVENT}"
    )
}

/// The links that can be read. Others are left out.
pub(super) fn parse_links(links: &[NexusLink]) -> Vec<Link> {
    links.iter().filter_map(parse).collect()
}

fn parse(link: &NexusLink) -> Option<Link> {
    if link.r#type != WORKFLOW_EVENT {
        return None;
    }
    let (path, query) = link.url.strip_prefix(SCHEME)?.split_once('?').unwrap_or((&link.url, ""));
    let mut parts = path.split('/');
    let namespace = unescaped(parts.next()?, false)?;
    if parts.next()? != "workflows" {
        return None;
    }
    let (workflow_id, run_id) = (unescaped(parts.next()?, false)?, unescaped(parts.next()?, false)?);
    if parts.next()? != "history" || parts.next().is_some() {
        return None;
    }
    let value = |name: &str| {
        let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
        pairs.filter(|(key, _)| *key == name).find_map(|(_, value)| unescaped(value, true))
    };
    let event_type = event_type(&value("eventType")?)? as i32;
    let reference = match value("referenceType")?.as_str() {
        EVENT => {
            let event_id = value("eventID").map_or(Some(0), |id| id.parse().ok())?;
            link::workflow_event::Reference::EventRef(link::workflow_event::EventReference { event_id, event_type })
        }
        REQUEST_ID => {
            let request_id = value("requestID").unwrap_or_default();
            let reference = link::workflow_event::RequestIdReference { request_id, event_type };
            link::workflow_event::Reference::RequestIdRef(reference)
        }
        _ => return None,
    };
    let event = link::WorkflowEvent { namespace, workflow_id, run_id, reference: Some(reference) };
    Some(Link { variant: Some(link::Variant::WorkflowEvent(event)) })
}

/// `EVENT_TYPE_NEXUS_OPERATION_SCHEDULED` as `NexusOperationScheduled`.
fn camel_case(kind: EventType) -> String {
    let name = kind.as_str_name();
    let words = name.strip_prefix("EVENT_TYPE_").unwrap_or(name).split('_');
    words
        .flat_map(|word| {
            let (first, rest) = word.split_at(word.len().min(1));
            [first.to_owned(), rest.to_ascii_lowercase()]
        })
        .collect()
}

/// Either form of the name.
fn event_type(name: &str) -> Option<EventType> {
    if let Some(kind) = EventType::from_str_name(name) {
        return Some(kind);
    }
    let mut long = "EVENT_TYPE".to_owned();
    for letter in name.chars() {
        if letter.is_ascii_uppercase() {
            long.push('_');
        }
        long.push(letter.to_ascii_uppercase());
    }
    EventType::from_str_name(&long)
}

/// Escapes a part of a path as Go does.
fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' => escaped.push(char::from(byte)),
            b'-' | b'_' | b'.' | b'~' | b'$' | b'&' | b'+' | b'=' | b':' | b'@' => escaped.push(char::from(byte)),
            // Writing to a string does not fail.
            _ => drop(write!(escaped, "%{byte:02X}")),
        }
    }
    escaped
}

fn unescaped(text: &str, in_query: bool) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits = [rest.next()?, rest.next()?];
                u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?
            }
            b'+' if in_query => b' ',
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok().filter(|text| !text.is_empty())
}
