//! Completion callbacks of a start request. Pure functions.

use temporalio_protos::temporal::api::common::v1::{Callback, Link, callback::Variant};

use crate::{service::nexus::SYSTEM_CALLBACK, service_error::ServiceError};

const URL_LENGTH: usize = 1000;
const HEADER_BYTES: usize = 8192;

/// Rejects callbacks that cannot be made. Names of headers become lower case.
pub(super) fn check(callbacks: &mut [Callback], limit: usize) -> Result<(), ServiceError> {
    if callbacks.len() > limit {
        return Err(ServiceError::invalid(format!("cannot attach more than {limit} callbacks to an execution")));
    }
    for callback in callbacks {
        match &mut callback.variant {
            Some(Variant::Nexus(nexus)) => {
                check_url(&nexus.url)?;
                let size: usize = nexus.header.iter().map(|(name, value)| name.len() + value.len()).sum();
                if size > HEADER_BYTES {
                    return Err(ServiceError::invalid(format!(
                        "invalid header: header size longer than max allowed size of {HEADER_BYTES}"
                    )));
                }
                nexus.header = nexus.header.drain().map(|(name, value)| (name.to_lowercase(), value)).collect();
            }
            None => return Err(ServiceError::NotServed("unknown callback variant: <nil>".to_owned())),
            Some(_) => return Err(ServiceError::Unimplemented("callbacks other than those of Nexus".to_owned())),
        }
    }
    Ok(())
}

/// Only callbacks to the engine itself can be made.
fn check_url(url: &str) -> Result<(), ServiceError> {
    if url.len() > URL_LENGTH {
        return Err(ServiceError::invalid(format!(
            "invalid url: url length longer than max length allowed of {URL_LENGTH}"
        )));
    }
    if url == SYSTEM_CALLBACK {
        return Ok(());
    }
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    Err(ServiceError::invalid(if !matches!(scheme, "http" | "https") {
        format!("invalid url: unknown scheme: {url}")
    } else if rest.is_empty() || rest.starts_with('/') {
        "invalid url: missing host".to_owned()
    } else {
        format!("invalid url: url does not match any configured callback address: {url}")
    }))
}

/// Links that a callback has, too, are stored only there.
pub(super) fn without_links_of_callbacks(mut links: Vec<Link>, callbacks: &[Callback]) -> Vec<Link> {
    links.retain(|link| !callbacks.iter().any(|callback| callback.links.contains(link)));
    links
}

#[cfg(test)]
mod tests {
    use temporalio_protos::temporal::api::common::v1::callback::Nexus;

    use super::*;

    #[test]
    fn only_the_engine_itself_can_be_called_back() {
        let cases = [
            ("temporal://system", "fine"),
            ("temporal://system/", "invalid url: unknown scheme: temporal://system/"),
            ("ftp://example.com", "invalid url: unknown scheme: ftp://example.com"),
            ("http://", "invalid url: missing host"),
            (
                "http://example.com/a",
                "invalid url: url does not match any configured callback address: http://example.com/a",
            ),
        ];
        for (url, expected) in cases {
            let nexus = Nexus { url: url.to_owned(), header: [("A".to_owned(), "b".to_owned())].into() };
            let mut callbacks = [Callback { variant: Some(Variant::Nexus(nexus)), links: Vec::new() }];
            let checked = check(&mut callbacks, 1).map_or_else(|error| error.to_string(), |()| "fine".to_owned());
            assert_eq!(checked, expected, "{url}");
        }
        assert!(check(&mut [Callback::default(), Callback::default()], 1).is_err());
    }
}
