//! Query parameters. Keys may repeat. An unknown key is an error on Windlass's own routes; on the
//! protocol's, which may gain parameters, only one that looks like a typo.

use windlass_core::{
    agent::nearest,
    envelope::Labels,
    limits::{METADATA_ENTRIES, QUERY_PARAMETERS},
};

use crate::{
    error::{ApiError, Result},
    spec::check_metadata_key,
    unknown,
};

/// Who defines a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Of {
    TheProtocol,
    ThisServer,
}

/// The query parameters of each route. A route that is not here has none.
const KNOWN: [(&str, Of, &[&str]); 13] = [
    ("/approval-grants", Of::ThisServer, &["tool", "revoked", "limit"]),
    ("/models", Of::TheProtocol, &[]),
    (
        "/agent-runs",
        Of::TheProtocol,
        &[
            "status",
            "state",
            "modelId",
            "agentId",
            "sessionId",
            "parentRunId",
            "metadata",
            "limit",
            "cursor",
            "includeTotal",
            "row",
        ],
    ),
    ("/agent-runs/{id}", Of::TheProtocol, &["row", "live"]),
    ("/agent-runs/{id}/stream", Of::TheProtocol, &["lastSeq", "format"]),
    ("/agent-runs/{id}/events", Of::ThisServer, &["after", "limit"]),
    ("/agent-runs/{id}/transcript", Of::ThisServer, &["after", "limit"]),
    ("/agent-runs/{id}/tool-results", Of::TheProtocol, &[]),
    ("/agent-runs/{id}/cancel", Of::TheProtocol, &[]),
    ("/agent-sessions", Of::TheProtocol, &["status", "metadata", "limit", "offset", "cursor", "includeTotal"]),
    ("/agent-sessions/{id}", Of::TheProtocol, &[]),
    ("/agent-sessions/{id}/events", Of::TheProtocol, &["full", "lastMessages", "beforeSeq"]),
    ("/agent-sessions/{id}/messages", Of::TheProtocol, &[]),
];

fn known(path: &str) -> (Of, &'static [&'static str]) {
    let row = KNOWN.iter().find(|(known, ..)| *known == path);
    row.map_or((Of::ThisServer, &[]), |(_, of, keys)| (*of, keys))
}

/// Checks the query of a route.
pub(crate) fn check(path: &str, uri: &http::Uri) -> Result<()> {
    let Some(text) = uri.query() else { return Ok(()) };
    let pairs = form_urlencoded::parse(text.as_bytes());
    let (of, keys) = known(path);
    for (index, (key, _)) in pairs.enumerate() {
        if index == QUERY_PARAMETERS {
            return Err(
                ApiError::invalid(format!("query: send at most {QUERY_PARAMETERS} parameters")).with("field", "query")
            );
        }
        if keys.contains(&&*key) {
            continue;
        }
        if of == Of::ThisServer || nearest(&key, keys.iter().copied()).is_some() {
            let (key, problem) = unknown::key("query parameter", &key, keys);
            return Err(invalid(&key, &problem));
        }
    }
    Ok(())
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Query(Vec<(String, String)>);

impl Query {
    pub(crate) fn of(uri: &http::Uri) -> Self {
        let pairs = form_urlencoded::parse(uri.query().unwrap_or_default().as_bytes());
        Self(pairs.map(|(key, value)| (key.into_owned(), value.into_owned())).collect())
    }

    /// The last value of a key; an empty one counts as absent.
    pub(crate) fn get(&self, key: &str) -> Option<&str> {
        let found = self.0.iter().rev().find(|(name, _)| name == key);
        found.map(|(_, value)| value.as_str()).filter(|value| !value.is_empty())
    }

    pub(crate) fn number<N: std::str::FromStr>(&self, key: &str) -> Result<Option<N>> {
        let parse = |text: &str| text.parse().map_err(|_| invalid(key, "must be a whole number"));
        self.get(key).map(parse).transpose()
    }

    pub(crate) fn flag(&self, key: &str) -> Result<bool> {
        match self.get(key) {
            None | Some("0" | "false") => Ok(false),
            Some("1" | "true") => Ok(true),
            Some(_) => Err(invalid(key, "must be 1 or 0")),
        }
    }

    /// A page's size, 1 to 200, default 50.
    pub(crate) fn limit(&self) -> Result<u32> {
        match self.number::<u32>("limit")? {
            None => Ok(50),
            Some(limit @ 1..=200) => Ok(limit),
            Some(_) => Err(invalid("limit", "must be from 1 to 200")),
        }
    }

    /// Repeated `metadata=key:value`; the value may contain colons.
    pub(crate) fn metadata(&self) -> Result<Labels> {
        let mut wanted = Labels::new();
        if self.0.iter().filter(|(key, _)| key == "metadata").count() > METADATA_ENTRIES {
            return Err(invalid("metadata", &format!("send at most {METADATA_ENTRIES} filters")));
        }
        for (_, filter) in self.0.iter().filter(|(key, _)| key == "metadata") {
            let (key, value) =
                filter.split_once(':').ok_or_else(|| invalid("metadata", "must be of the form key:value"))?;
            check_metadata_key(key).map_err(|problem| invalid("metadata", &problem))?;
            wanted.insert(key.to_owned(), value.to_owned());
        }
        Ok(wanted)
    }
}

pub(crate) fn invalid(key: &str, problem: &str) -> ApiError {
    ApiError::invalid(format!("{key}: {problem}")).with("field", key)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(text: &str) -> Query {
        Query::of(&format!("/x?{text}").parse().unwrap())
    }

    #[test]
    fn filters_repeat_and_split_at_the_first_colon() {
        let wanted = query("metadata=a%3Ab:%C3%B8+1&metadata=n:1&limit=7").metadata().unwrap();
        let expected: Labels =
            [("a", "b:ø 1"), ("n", "1")].map(|(key, value)| (key.to_owned(), value.to_owned())).into();
        assert_eq!(wanted, expected);
        for bad in ["metadata=novalue", "metadata=:x", "metadata=a%20b:x"] {
            assert_eq!(query(bad).metadata().unwrap_err().code, "invalid_request", "{bad}");
        }
    }

    #[test]
    fn an_unknown_query_parameter_is_refused_on_own_routes() {
        let said = |path: &str, text: &str| {
            let refused = check(path, &format!("/x?{text}").parse().unwrap());
            refused.err().map(|error| error.message)
        };
        let cases = [
            ("/agent-runs", "status=failed&metadata=a:b&metadata=c:d&limit=", None),
            ("/agent-runs", "archived=1", None),
            ("/agent-runs", "statsu=failed", Some("statsu: unknown query parameter `statsu`; did you mean `status`?")),
            ("/agent-runs/{id}/events", "after=1&limit=2", None),
            (
                "/agent-runs/{id}/events",
                "archived=1",
                Some("archived: unknown query parameter `archived`; known are `after`, `limit`"),
            ),
            ("/agent-runs/{id}/awaits", "x=1", Some("x: unknown query parameter `x`; there are none here")),
            ("/agent-runs/{id}/stream", "lastSeq=3&trace=x", None),
        ];
        for (path, text, expected) in cases {
            assert_eq!(said(path, text).as_deref(), expected, "{path}?{text}");
        }
        let many = "limit=1&".repeat(65);
        assert_eq!(said("/agent-runs", &many).as_deref(), Some("query: send at most 64 parameters"));
        assert!(query(&"metadata=a:b&".repeat(17)).metadata().is_err());
    }

    #[test]
    fn the_document_has_the_keys_of_every_route() {
        let document: serde_json::Value = serde_json::from_str(&crate::document_json()).unwrap();
        for (path, item) in document["paths"].as_object().unwrap() {
            let path = path.replace(crate::routes::PREFIX, "");
            let parameters = item["get"]["parameters"].as_array().cloned().unwrap_or_default();
            let mut documented: Vec<&str> = parameters
                .iter()
                .filter(|parameter| parameter["in"] == "query")
                .map(|parameter| parameter["name"].as_str().unwrap())
                .collect();
            let mut keys = known(&path).1.to_vec();
            documented.sort_unstable();
            keys.sort_unstable();
            assert_eq!(keys, documented, "{path}");
        }
    }

    #[test]
    fn numbers_and_flags_are_checked() {
        assert_eq!(query("limit=&x=1").limit().unwrap(), 50);
        assert_eq!(query("limit=200").limit().unwrap(), 200);
        for bad in ["limit=0", "limit=201", "limit=x", "limit=-1"] {
            assert!(query(bad).limit().is_err(), "{bad}");
        }
        assert_eq!(query("full=1").flag("full"), Ok(true));
        assert_eq!(query("").flag("full"), Ok(false));
        assert!(query("full=maybe").flag("full").is_err());
    }
}
