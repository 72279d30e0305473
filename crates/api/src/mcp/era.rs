//! Which revision of the protocol a request speaks, and the checks of its metadata.
//!
//! A request of revision 2026-07-28 carries the revision and the client's capabilities in `_meta`, and repeats the
//! revision, the method and the name in headers. A request of an older revision has neither; its client has sent
//! `initialize` before.

use base64::{Engine as _, prelude::BASE64_STANDARD};
use http::HeaderMap;
use serde_json::{Value, json};

use super::message::{Failure, Request};

/// The revision without sessions and handshake.
pub(super) const MODERN: &str = "2026-07-28";
/// Revisions with the handshake, the newest first.
pub(super) const LEGACY: [&str; 2] = ["2025-11-25", "2025-06-18"];
/// All revisions, the preferred first.
pub(super) const SUPPORTED: [&str; 3] = [MODERN, LEGACY[0], LEGACY[1]];

const VERSION_KEY: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES_KEY: &str = "io.modelcontextprotocol/clientCapabilities";
pub(super) const SERVER_KEY: &str = "io.modelcontextprotocol/serverInfo";
pub(super) const TASKS: &str = "io.modelcontextprotocol/tasks";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Era {
    Modern(Client),
    Legacy,
}

/// What the client of a request can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Client {
    /// It can ask a person with a form.
    pub(super) elicitation: bool,
    pub(super) tasks: bool,
}

impl Client {
    pub(super) fn of(capabilities: &Value) -> Self {
        let elicitation = match capabilities.get("elicitation") {
            // Revisions that have no other mode send an empty object.
            Some(Value::Object(modes)) => modes.is_empty() || modes.contains_key("form"),
            _ => false,
        };
        let tasks = capabilities["extensions"].get(TASKS).is_some_and(Value::is_object);
        Self { elicitation, tasks }
    }

    pub(super) fn require_tasks(self) -> Result<(), Failure> {
        if self.tasks {
            return Ok(());
        }
        let missing = json!({"extensions": {TASKS: {}}});
        Err(Failure::missing_capability(
            missing,
            format!("this request needs the client capability extensions.{TASKS}"),
        ))
    }
}

impl Era {
    pub(super) fn of(headers: &HeaderMap, request: &Request) -> Result<Self, Failure> {
        let header = one(headers, "mcp-protocol-version")?;
        let meta = request.meta(VERSION_KEY);
        let modern_header = header.is_some_and(|version| !LEGACY.contains(&version) && version >= MODERN);
        if meta.is_none() && !modern_header && request.method != "server/discover" {
            return match header {
                Some(version) if !LEGACY.contains(&version) && version != "2025-03-26" => {
                    Err(Failure::unsupported_version(&SUPPORTED, version))
                }
                _ => Ok(Self::Legacy),
            };
        }
        let Some(version) = meta.and_then(Value::as_str) else {
            return Err(Failure::metadata(format!("_meta[\"{VERSION_KEY}\"]: is required, a text")));
        };
        match header {
            None => return Err(Failure::header_mismatch("the header MCP-Protocol-Version is missing")),
            Some(header) if header != version => {
                let message = format!("the header MCP-Protocol-Version is {header:?} and the body has {version:?}");
                return Err(Failure::header_mismatch(message));
            }
            Some(_) => {}
        }
        if LEGACY.contains(&version) {
            return Ok(Self::Legacy);
        }
        if version != MODERN {
            return Err(Failure::unsupported_version(&SUPPORTED, version));
        }
        let capabilities = request.meta(CAPABILITIES_KEY).filter(|value| value.is_object());
        let Some(capabilities) = capabilities else {
            return Err(Failure::metadata(format!("_meta[\"{CAPABILITIES_KEY}\"]: is required, an object")));
        };
        check_routing(headers, request)?;
        Ok(Self::Modern(Client::of(capabilities)))
    }
}

/// Checks that the headers by which proxies route agree with the body.
fn check_routing(headers: &HeaderMap, request: &Request) -> Result<(), Failure> {
    let method = one(headers, "mcp-method")?;
    if method != Some(request.method.as_str()) {
        let message = format!("the header Mcp-Method is {method:?} and the body has {:?}", request.method);
        return Err(Failure::header_mismatch(message));
    }
    let key = match request.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        "tasks/get" | "tasks/update" | "tasks/cancel" => "taskId",
        _ => return Ok(()),
    };
    // Without it the method itself refuses the request.
    let Some(name) = request.text(key) else { return Ok(()) };
    let header = one(headers, "mcp-name")?.map(decoded).transpose()?;
    if header.as_deref() != Some(name) {
        return Err(Failure::header_mismatch(format!("the header Mcp-Name is {header:?} and the body has {name:?}")));
    }
    Ok(())
}

/// A header that is sent at most once, as text.
fn one<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, Failure> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    match (first.to_str(), values.next()) {
        (Ok(text), None) => Ok(Some(text.trim())),
        _ => Err(Failure::header_mismatch(format!("the header {name} must be sent once, as ASCII text"))),
    }
}

/// Names that are no ASCII text are sent as `=?base64?…?=`.
fn decoded(text: &str) -> Result<String, Failure> {
    let Some(encoded) = text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) else {
        return Ok(text.to_owned());
    };
    let bytes = BASE64_STANDARD.decode(encoded).ok();
    bytes
        .and_then(|bytes| String::from_utf8(bytes).ok())
        .ok_or_else(|| Failure::header_mismatch("the header Mcp-Name is not valid base64 of a UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(method: &str, params: Value) -> Request {
        Request { id: json!(1), method: method.to_owned(), params }
    }

    fn meta(version: &str) -> Value {
        json!({VERSION_KEY: version, CAPABILITIES_KEY: {"elicitation": {}, "extensions": {TASKS: {}}}})
    }

    fn of(headers: &[(&str, &str)], request: &Request) -> Result<Era, i64> {
        let map = headers.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect();
        Era::of(&map, request).map_err(|failure| failure.code)
    }

    const VERSION: (&str, &str) = ("mcp-protocol-version", MODERN);

    #[test]
    fn a_request_with_metadata_is_of_the_stateless_revision() {
        let list = request("tools/list", json!({"_meta": meta(MODERN)}));
        let client = Client { elicitation: true, tasks: true };
        assert_eq!(of(&[VERSION, ("mcp-method", "tools/list")], &list), Ok(Era::Modern(client)));
        assert_eq!(of(&[("mcp-method", "tools/list")], &list), Err(-32020));
        assert_eq!(of(&[("mcp-protocol-version", "2025-11-25"), ("mcp-method", "tools/list")], &list), Err(-32020));
        assert_eq!(of(&[VERSION], &list), Err(-32020));
        assert_eq!(of(&[VERSION, ("mcp-method", "tools/call")], &list), Err(-32020));
        assert_eq!(of(&[VERSION], &request("tools/list", json!({}))), Err(-32602));
        assert_eq!(of(&[], &request("server/discover", json!({}))), Err(-32602));
        let old = request("tools/list", json!({"_meta": meta("1900-01-01")}));
        assert_eq!(of(&[("mcp-protocol-version", "1900-01-01")], &old), Err(-32022));
    }

    #[test]
    fn the_name_in_the_header_is_decoded_and_compared() {
        let call = request("tools/call", json!({"name": "später", "_meta": meta(MODERN)}));
        let method = ("mcp-method", "tools/call");
        assert!(of(&[VERSION, method, ("mcp-name", "=?base64?c3DDpHRlcg==?=")], &call).is_ok());
        for wrong in ["other", "=?base64?!?=", "=?base64?b3RoZXI=?="] {
            assert_eq!(of(&[VERSION, method, ("mcp-name", wrong)], &call), Err(-32020), "{wrong}");
        }
        assert_eq!(of(&[VERSION, method], &call), Err(-32020));
    }

    #[test]
    fn a_request_without_metadata_is_of_an_older_revision() {
        let list = request("tools/list", json!({}));
        assert_eq!(of(&[], &list), Ok(Era::Legacy));
        assert_eq!(of(&[("mcp-protocol-version", "2025-06-18")], &list), Ok(Era::Legacy));
        assert_eq!(of(&[("mcp-protocol-version", "1900-01-01")], &list), Err(-32022));
    }

    #[test]
    fn only_clients_with_forms_can_ask_a_person() {
        let able = |capabilities: Value| Client::of(&capabilities).elicitation;
        assert!(able(json!({"elicitation": {}})) && able(json!({"elicitation": {"form": {}, "url": {}}})));
        assert!(!able(json!({"elicitation": {"url": {}}})) && !able(json!({})));
    }
}
