//! Messages for errors of the API client: what the server said, and what the user can do next.

use windlass_client::{Error, Refusal};

use super::{DETACHED, FAILED, REFUSED};

const KEY: &str = "check WINDLASS_API_KEY or --api-key-file; create a key with `windlass keys create`";

/// The exit code and the message for an error of the client. `None` if the error's own text says enough.
pub(super) fn explained(error: &Error) -> Option<(u8, String)> {
    match error {
        Error::Refused(refusal) => {
            let code = if refusal.code == "run_terminal" { REFUSED } else { FAILED };
            Some((code, sentence(refusal)))
        }
        // The run continues.
        Error::GaveUp { .. } => Some((DETACHED, error.to_string())),
        Error::InvalidResponse { .. } => {
            Some((FAILED, format!("{error}; check that --server is the URL of a Windlass API server")))
        }
        _ => None,
    }
}

fn sentence(refusal: &Refusal) -> String {
    let Refusal { status, code, message, hint, .. } = refusal;
    let (said, next) = match (*status, code.as_str()) {
        // The server gives the reason, revoked or expired, only to the holder of the key.
        (401, _) if message.starts_with("this key ") => (message.as_str(), String::new()),
        (401, _) => ("this API key is not valid", KEY.to_owned()),
        (_, code) if code.starts_with("http_") => {
            (message.as_str(), "check that --server is the URL of a Windlass API server".to_owned())
        }
        (404, "not_found") => match hint {
            Some(hint) => (message.as_str(), format!("{hint}: set --workspace, or use another key")),
            None => (message.as_str(), "see `windlass runs list`".to_owned()),
        },
        (409, "run_exists") => (message.as_str(), "choose another --run-id".to_owned()),
        (409, "run_terminal") => (message.as_str(), "nothing was changed; see `windlass runs show`".to_owned()),
        // The server's message already says what to do.
        _ => (message.as_str(), String::new()),
    };
    let next = if next.is_empty() { next } else { format!("; {next}") };
    format!("CLT0003: the server refused ({status} {code}): {said}{next}")
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::{Value, json};

    use super::*;

    fn said(status: u16, body: Value) -> (u8, String) {
        let refusal = Refusal::new(status, None, body.to_string().as_bytes());
        explained(&Error::Refused(Box::new(refusal))).unwrap()
    }

    #[test]
    fn every_rejection_says_what_to_do_next() {
        let cases = [
            (
                (401, json!({"code": "unauthorized", "message": "send a key"})),
                (
                    1,
                    "(401 unauthorized): this API key is not valid; check WINDLASS_API_KEY or --api-key-file; create a key with `windlass keys create`",
                ),
            ),
            (
                (
                    403,
                    json!({"code": "insufficient_scope", "message": "this key does not have the scope runs:write; create one", "required": ["runs:write"]}),
                ),
                (1, "(403 insufficient_scope): this key does not have the scope runs:write; create one"),
            ),
            (
                (401, json!({"code": "unauthorized", "message": "this key has expired; make one"})),
                (1, "(401 unauthorized): this key has expired; make one"),
            ),
            (
                (403, json!({"code": "agent_not_allowed", "message": "there is no agent x", "field": "agentId"})),
                (1, "(403 agent_not_allowed): there is no agent x"),
            ),
            (
                (403, json!({"code": "agent_not_allowed", "message": "modelId: leave it out", "field": "modelId"})),
                (1, "(403 agent_not_allowed): modelId: leave it out"),
            ),
            (
                (404, json!({"code": "not_found", "message": "this workspace has no such run"})),
                (1, "(404 not_found): this workspace has no such run; see `windlass runs list`"),
            ),
            (
                (
                    404,
                    json!({"code": "not_found", "message": "no workspace", "hint": "this key belongs to workspace a"}),
                ),
                (
                    1,
                    "(404 not_found): no workspace; this key belongs to workspace a: set --workspace, or use another key",
                ),
            ),
            (
                (409, json!({"code": "run_exists", "message": "a run with this id already exists"})),
                (1, "(409 run_exists): a run with this id already exists; choose another --run-id"),
            ),
            (
                (409, json!({"code": "run_terminal", "message": "the run has ended (failed)"})),
                (5, "(409 run_terminal): the run has ended (failed); nothing was changed; see `windlass runs show`"),
            ),
            (
                (429, json!({"code": "rate_limit_exceeded", "message": "too often; try again in 3 s"})),
                (1, "(429 rate_limit_exceeded): too often; try again in 3 s"),
            ),
            (
                (503, json!({"code": "unavailable", "message": "the store is not available; try again"})),
                (1, "(503 unavailable): the store is not available; try again"),
            ),
            (
                (403, json!("<html>")),
                (1, "(403 http_403): HTTP 403; check that --server is the URL of a Windlass API server"),
            ),
            (
                (502, json!("<html>")),
                (1, "(502 http_502): HTTP 502; check that --server is the URL of a Windlass API server"),
            ),
        ];
        for ((status, body), (code, rest)) in cases {
            assert_eq!(said(status, body), (code, format!("CLT0003: the server refused {rest}")));
        }
    }

    #[test]
    fn other_client_errors_are_explained_if_their_text_is_not_enough() {
        let error = Error::InvalidResponse { url: "http://h".into(), reason: "no JSON".into() };
        let (code, said) = explained(&error).unwrap();
        assert_eq!(
            (code, said.ends_with("no JSON; check that --server is the URL of a Windlass API server")),
            (1, true),
            "{said}"
        );
        let away = Error::GaveUp { run: "run-1".into(), away: Duration::from_secs(9), reason: "no".into() };
        assert_eq!(explained(&away), Some((4, away.to_string())), "the run continues");
        assert_eq!(explained(&Error::Unusable { what: "x".into() }), None);
    }
}
