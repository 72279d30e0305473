//! How a request changes the archival of a namespace. Once a URI is set, it never changes.

use temporalio_protos::temporal::api::enums::v1::ArchivalState;

use crate::{persist::ArchivalConfig, service_error::ServiceError};

/// The configuration after a request. `default_uri` is used if archival is enabled without a URI; `check` tests a URI.
pub(crate) fn next(
    current: &ArchivalConfig,
    state: i32,
    uri: &str,
    default_uri: &str,
    check: impl Fn(&str) -> Result<(), ServiceError>,
) -> Result<ArchivalConfig, ServiceError> {
    if !current.uri.is_empty() && !uri.is_empty() && current.uri != uri {
        return Err(ServiceError::invalid("Cannot update existing archival URI"));
    }
    let state = ArchivalState::try_from(state).unwrap_or_default();
    let enabled = match state {
        ArchivalState::Unspecified => current.enabled,
        ArchivalState::Disabled => false,
        ArchivalState::Enabled => true,
    };
    let uri = match (current.uri.as_str(), uri) {
        ("", "") if enabled => default_uri,
        ("", given) => given,
        (kept, _) => kept,
    };
    if !uri.is_empty() {
        check(uri)?;
    }
    Ok(ArchivalConfig { enabled, uri: uri.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_is_set_once() {
        let config = |enabled, uri: &str| ArchivalConfig { enabled, uri: uri.to_owned() };
        let (unspecified, disabled, enabled) = (0, 1, 2);
        let immutable = Err("Cannot update existing archival URI".to_owned());
        for (current, state, uri, expected) in [
            (config(false, ""), unspecified, "", Ok(config(false, ""))),
            (config(false, ""), unspecified, "a", Ok(config(false, "a"))),
            (config(false, ""), disabled, "", Ok(config(false, ""))),
            (config(false, ""), disabled, "a", Ok(config(false, "a"))),
            (config(false, ""), enabled, "", Ok(config(true, "default"))),
            (config(false, ""), enabled, "a", Ok(config(true, "a"))),
            (config(false, "a"), enabled, "", Ok(config(true, "a"))),
            (config(false, "a"), enabled, "a", Ok(config(true, "a"))),
            (config(false, "a"), unspecified, "b", immutable.clone()),
            (config(true, "a"), disabled, "", Ok(config(false, "a"))),
            (config(true, "a"), disabled, "a", Ok(config(false, "a"))),
            (config(true, "a"), unspecified, "a", Ok(config(true, "a"))),
            (config(true, "a"), enabled, "b", immutable),
        ] {
            let next = next(&current, state, uri, "default", |_| Ok(())).map_err(|error| error.to_string());
            assert_eq!(next, expected, "{current:?} {state} {uri:?}");
        }
        let refused = next(&config(false, ""), enabled, "x", "default", |uri| Err(ServiceError::invalid(uri)));
        assert_eq!(refused, Err(ServiceError::invalid("x")));
    }
}
