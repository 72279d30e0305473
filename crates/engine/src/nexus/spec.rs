//! What an endpoint may be. The texts are the real server's.

use prost::Message as _;
use temporalio_protos::temporal::api::nexus::v1::{EndpointSpec, endpoint_target::Variant};

use crate::service_error::ServiceError;

const NAME_LENGTH: usize = 200;
const DESCRIPTION_BYTES: usize = 20_000;
const URL_LENGTH: usize = 4096;
const QUEUE_LENGTH: usize = 1000;

/// Checks what is to be created or changed. `exists` says whether there is a namespace of this name.
pub(crate) fn check_spec(spec: &EndpointSpec, exists: impl Fn(&str) -> bool) -> Result<(), ServiceError> {
    let mut issues = name_issues(&spec.name);
    match spec.target.as_ref().and_then(|target| target.variant.as_ref()) {
        None => {
            issues.push("empty target variant".to_owned());
            return verdict(&issues);
        }
        Some(Variant::Worker(worker)) => {
            if worker.namespace.is_empty() {
                issues.push("target namespace not set".to_owned());
            } else if !exists(&worker.namespace) {
                return Err(ServiceError::FailedPrecondition(format!(
                    "could not verify namespace referenced by target exists: Namespace {} is not found.",
                    worker.namespace
                )));
            }
            if let Some(problem) = queue_problem(&worker.task_queue) {
                issues.push(format!("invalid target task queue: {problem:?}"));
            }
        }
        Some(Variant::External(external)) => issues.extend(url_issue(&external.url)),
    }
    if spec.description.as_ref().is_some_and(|description| description.encoded_len() > DESCRIPTION_BYTES) {
        issues.push(format!("description size exceeds limit of {DESCRIPTION_BYTES}"));
    }
    verdict(&issues)
}

fn verdict(issues: &[String]) -> Result<(), ServiceError> {
    if issues.is_empty() { Ok(()) } else { Err(ServiceError::invalid(issues.join(", "))) }
}

fn name_issues(name: &str) -> Vec<String> {
    let mut issues = Vec::new();
    if name.is_empty() {
        return vec!["endpoint name not set".to_owned()];
    }
    if name.len() > NAME_LENGTH {
        issues.push(format!("endpoint name exceeds length limit of {NAME_LENGTH}"));
    }
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'-';
    let bytes = name.as_bytes();
    let well_formed = bytes.len() >= 2
        && bytes.iter().all(allowed)
        && bytes.first().is_some_and(u8::is_ascii_alphabetic)
        && bytes.last().is_some_and(u8::is_ascii_alphanumeric);
    if !well_formed {
        issues.push(r#"endpoint name must match the regex: "^[a-zA-Z][a-zA-Z0-9\\-]*[a-zA-Z0-9]$""#.to_owned());
    }
    issues
}

fn queue_problem(name: &str) -> Option<&'static str> {
    if name.is_empty() {
        Some("missing task queue name")
    } else if name.len() > QUEUE_LENGTH {
        Some("taskQueue length exceeds limit")
    } else if name.starts_with("/_sys/") {
        Some("task queue name cannot start with reserved prefix /_sys/")
    } else {
        None
    }
}

fn url_issue(url: &str) -> Option<String> {
    if url.is_empty() {
        return Some("empty target URL".to_owned());
    }
    if url.len() > URL_LENGTH {
        return Some(format!("target URL length exceeds limit of {URL_LENGTH}"));
    }
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    let known = ["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    (!known).then(|| format!("invalid target URL scheme: {scheme:?}, expected http or https"))
}

#[cfg(test)]
mod tests {
    use temporalio_protos::temporal::api::nexus::v1::{EndpointTarget, endpoint_target};

    use super::*;

    fn worker(namespace: &str, task_queue: &str) -> Variant {
        Variant::Worker(endpoint_target::Worker { namespace: namespace.to_owned(), task_queue: task_queue.to_owned() })
    }

    fn external(url: &str) -> Variant {
        Variant::External(endpoint_target::External { url: url.to_owned() })
    }

    fn checked(name: &str, variant: Option<Variant>) -> String {
        let target = Some(EndpointTarget { variant });
        let spec = EndpointSpec { name: name.to_owned(), target, ..EndpointSpec::default() };
        check_spec(&spec, |name| name == "here").map_or_else(|error| error.to_string(), |()| "fine".to_owned())
    }

    #[test]
    fn names_targets_and_urls_follow_the_rules_of_the_real_server() {
        let regex = r#"endpoint name must match the regex: "^[a-zA-Z][a-zA-Z0-9\\-]*[a-zA-Z0-9]$""#;
        let long = "a".repeat(201);
        let cases = [
            ("a-b", Some(worker("here", "q")), "fine".to_owned()),
            ("a", Some(worker("here", "q")), regex.to_owned()),
            ("1a", Some(worker("here", "q")), regex.to_owned()),
            ("a-", Some(worker("here", "q")), regex.to_owned()),
            ("a_b", Some(worker("here", "q")), regex.to_owned()),
            (&long, Some(worker("here", "q")), "endpoint name exceeds length limit of 200".to_owned()),
            ("", None, "endpoint name not set, empty target variant".to_owned()),
            (
                "ab",
                Some(worker("", "")),
                "target namespace not set, invalid target task queue: \"missing task queue name\"".to_owned(),
            ),
            (
                "ab",
                Some(worker("there", "q")),
                "could not verify namespace referenced by target exists: Namespace there is not found.".to_owned(),
            ),
            ("ab", Some(external("https://example.com/nexus")), "fine".to_owned()),
            ("ab", Some(external("")), "empty target URL".to_owned()),
            (
                "ab",
                Some(external("ftp://example.com")),
                "invalid target URL scheme: \"ftp\", expected http or https".to_owned(),
            ),
        ];
        for (name, variant, expected) in cases {
            assert_eq!(checked(name, variant.clone()), expected, "{name}: {variant:?}");
        }
    }
}
