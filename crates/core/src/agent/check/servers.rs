//! What reaches other systems: endpoints, MCP servers, A2A peers, task queues and toolsets.

use std::collections::BTreeMap;

use super::{
    Pointer, Problems, check_length,
    limits::check_span,
    nearest,
    tools::{check_expiry, check_tags, placeholders},
};
use crate::{
    agent::{A2aSource, AgentDefinition, HttpAccess, HttpSource, McpSource, TemporalSource, ToolSpec},
    limits::{CONFIRMATION_CHARS, NAME_CHARS},
};

const METHODS: [&str; 6] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"];
/// The longest value of a header, as the agent-runs protocol has it.
const HEADER_BYTES: usize = 8 * 1024;
const HEADERS: usize = 32;
const URL_BYTES: usize = 4096;
/// Toolsets of one agent.
const TOOLSETS: usize = 32;
const PATTERNS: usize = 256;

pub(super) fn check_http(http: &HttpSource, tool: &ToolSpec, at: &Pointer, problems: &mut Problems) {
    let method = http.method.to_ascii_uppercase();
    if !method.is_empty() && !METHODS.contains(&method.as_str()) {
        problems.add(&at.field("method"), format!("write one of {}", METHODS.join(", ")));
    }
    check_url(&http.url, &at.field("url"), problems);
    let host =
        http.url.split_once("://").map_or("", |(_, rest)| rest.split(['/', '?', '#']).next().unwrap_or_default());
    if host.contains('{') {
        let message = "the host must not depend on arguments: the model would decide which system is called";
        problems.add(&at.field("url"), message);
    }
    check_access_with_token_url(&http.access, at, problems);
    let schema = tool.schema();
    let declared: Vec<&str> = match schema.get("properties").and_then(serde_json::Value::as_object) {
        Some(properties) => properties.keys().map(String::as_str).collect(),
        None => Vec::new(),
    };
    let mut templates = vec![(at.field("url"), http.url.as_str())];
    templates.extend(http.query.iter().map(|(name, text)| (at.field("query").field(name), text.as_str())));
    let headers = http.header_arguments.iter();
    templates.extend(headers.map(|(name, text)| (at.field("headerArguments").field(name), text.as_str())));
    for (at, template) in templates {
        for name in placeholders(template).filter(|name| !declared.contains(name)) {
            problems.add(&at, unknown_argument(&format!("{{{name}}}"), name, &declared));
        }
    }
    if let Some(body) = http.body.as_deref().filter(|body| !declared.contains(body)) {
        problems.add(&at.field("body"), unknown_argument(&format!("{body:?}"), body, &declared));
    }
    if http.next_cursor.as_ref().is_some_and(|pointer| !pointer.starts_with('/')) {
        problems.add(&at.field("nextCursor"), "write a JSON pointer, for example \"/meta/next\"");
    }
}

fn unknown_argument(shown: &str, name: &str, declared: &[&str]) -> String {
    let advice = match nearest(name, declared.iter().copied()) {
        Some(known) => format!("did you mean {known:?}?"),
        None => "declare it under properties of the input schema".to_owned(),
    };
    format!("{shown} is not an argument of this tool; {advice}")
}

pub(super) fn check_mcp(mcp: &McpSource, agent: &AgentDefinition, at: &Pointer, problems: &mut Problems) {
    let names = || agent.toolsets.iter().map(|toolset| toolset.name.as_str());
    if mcp.tool.is_empty() {
        problems.add(&at.field("tool"), "say which tool of the server this is");
    }
    if !names().any(|name| name == mcp.toolset) {
        let advice = match nearest(&mcp.toolset, names()) {
            Some(known) => format!("did you mean {known:?}?"),
            None => "define it in toolsets".to_owned(),
        };
        problems.add(&at.field("toolset"), format!("this agent has no toolset {:?}; {advice}", mcp.toolset));
    }
}

pub(super) fn check_a2a(a2a: &A2aSource, at: &Pointer, problems: &mut Problems) {
    check_url(&a2a.agent_card_url, &at.field("agentCardUrl"), problems);
    check_length(a2a.context_id.as_deref().unwrap_or_default(), NAME_CHARS, &at.field("contextId"), problems);
    check_access_with_token_url(&a2a.access, at, problems);
}

pub(super) fn check_temporal(temporal: &TemporalSource, at: &Pointer, problems: &mut Problems) {
    if temporal.activity.is_some() == temporal.workflow.is_some() {
        problems.add(at, "name either an activity or a workflow");
    }
    let names = [
        ("activity", temporal.activity.as_deref()),
        ("workflow", temporal.workflow.as_deref()),
        ("taskQueue", Some(temporal.task_queue.as_str())),
    ];
    for (field, name) in names.into_iter().filter_map(|(field, name)| Some((field, name?))) {
        if name.trim().is_empty() {
            problems.add(&at.field(field), "this is never empty; write the name that its worker registers");
        }
        check_length(name, NAME_CHARS, &at.field(field), problems);
    }
    if temporal.workflow.is_some() && temporal.heartbeat_timeout_ms.is_some() {
        problems.add(&at.field("heartbeatTimeoutMs"), "workflows send no heartbeats; remove this");
    }
    check_span(temporal.heartbeat_timeout_ms, &at.field("heartbeatTimeoutMs"), problems);
    if let Some(retry) = &temporal.retry {
        let at = at.field("retry");
        check_span(retry.initial_interval_ms, &at.field("initialIntervalMs"), problems);
        check_span(retry.max_interval_ms, &at.field("maxIntervalMs"), problems);
        if retry.max_attempts == Some(0) {
            problems.add(&at.field("maxAttempts"), "this must be at least 1; Temporal reads 0 as no limit");
        }
    }
}

pub(super) fn check_toolsets(agent: &AgentDefinition, at: &Pointer, problems: &mut Problems) {
    let list = at.field("toolsets");
    if agent.toolsets.len() > TOOLSETS {
        problems.add(&list, format!("{} toolsets are too many; keep at most {TOOLSETS}", agent.toolsets.len()));
        return;
    }
    let mut seen = BTreeMap::new();
    for (index, set) in agent.toolsets.iter().enumerate() {
        if problems.full() {
            return;
        }
        let at = list.index(index);
        let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if !(1..=64).contains(&set.name.len()) || !set.name.chars().all(word) {
            problems.add(&at.field("name"), "this must be 1 to 64 characters of A-Z a-z 0-9 _ -");
        }
        if let Some(first) = seen.insert(&set.name, index) {
            let message = format!("toolset {:?} is already number {} of this list", set.name, first + 1);
            problems.add(&at.field("name"), message);
        }
        match (&set.mcp, &set.openapi) {
            (Some(mcp), None) => {
                let at = at.field("mcp");
                match (&mcp.server, &mcp.url) {
                    (Some(_), None) if mcp.access != HttpAccess::default() => {
                        let message = "the config says how a named server is reached; remove the other fields here";
                        problems.add(&at, message);
                    }
                    (Some(_), None) => {}
                    (None, Some(url)) => check_url(url, &at.field("url"), problems),
                    _ => problems.add(&at, "write either server, the name of one in windlass.toml, or url"),
                }
                check_access(&mcp.access, &at, problems);
            }
            (None, Some(openapi)) => {
                let at = at.field("openapi");
                if openapi.url.is_some() == openapi.document.is_some() {
                    problems.add(&at, "write either url or document");
                }
                for (field, url) in [("url", &openapi.url), ("baseUrl", &openapi.base_url)] {
                    if let Some(url) = url {
                        check_url(url, &at.field(field), problems);
                    }
                }
                check_access_with_token_url(&openapi.access, &at, problems);
            }
            _ => problems.add(&at, "a toolset has either mcp or openapi"),
        }
        if set.only.len() > PATTERNS {
            problems.add(&at.field("only"), format!("keep at most {PATTERNS} patterns"));
        }
        check_tags(&set.tags, &at.field("tags"), problems);
        check_span(set.timeout_ms, &at.field("timeoutMs"), problems);
        if let Some(confirmation) = &set.confirmation {
            let at = at.field("confirmation");
            check_expiry(confirmation.expires_in_ms, confirmation.on_expiry, &at, problems);
            for (field, text) in [("title", &confirmation.title), ("prompt", &confirmation.prompt)] {
                check_length(text.as_deref().unwrap_or_default(), CONFIRMATION_CHARS, &at.field(field), problems);
            }
        }
    }
}

fn check_url(url: &str, at: &Pointer, problems: &mut Problems) {
    let rest = url.strip_prefix("https://").or_else(|| url.strip_prefix("http://"));
    let host = rest.map(|rest| rest.split(['/', '?', '#']).next().unwrap_or_default());
    if host.is_none_or(str::is_empty) || url.contains(char::is_whitespace) {
        problems.add(at, "write an address that begins with https:// or http://");
    } else if host.is_some_and(|host| host.contains('@')) {
        // It may hold a password, so it is not repeated.
        problems
            .add(at, "an address must not hold a user or a password; put them in headers, as references to secrets");
    }
    if url.len() > URL_BYTES {
        problems.add(at, format!("this has {} bytes; write at most {URL_BYTES}", url.len()));
    }
}

/// Of servers that cannot be asked where their tokens are issued.
fn check_access_with_token_url(access: &HttpAccess, at: &Pointer, problems: &mut Problems) {
    check_access(access, at, problems);
    if access.oauth.as_ref().is_some_and(|oauth| oauth.token_url.is_none()) {
        let message =
            "this needs tokenUrl, for example \"https://auth.example.com/token\"; only MCP servers say it themselves";
        problems.add(&at.field("oauth"), message);
    }
}

fn check_access(access: &HttpAccess, at: &Pointer, problems: &mut Problems) {
    let headers = at.field("headers");
    if access.headers.len() > HEADERS {
        problems.add(&headers, format!("{} headers are too many; keep at most {HEADERS}", access.headers.len()));
    }
    for (name, value) in &access.headers {
        let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
        if name.is_empty() || !name.chars().all(token) {
            problems.add(&headers.field(name), "this is not the name of a header");
        }
        // The value may hold a secret, so it is not repeated.
        if value.as_str().len() > HEADER_BYTES {
            problems.add(&headers.field(name), format!("the value is longer than {HEADER_BYTES} bytes"));
        } else if value.as_str().chars().any(char::is_control) {
            problems.add(&headers.field(name), "the value has a control character");
        }
    }
    if let Some(oauth) = &access.oauth {
        let at = at.field("oauth");
        if let Some(url) = &oauth.token_url {
            check_url(url, &at.field("tokenUrl"), problems);
        }
        if oauth.client_id.is_empty() {
            problems.add(&at.field("clientId"), "this is never empty");
        }
        if access.headers.keys().any(|name| name.eq_ignore_ascii_case("authorization")) {
            problems
                .add(&at, "the token is sent as the header authorization, which is set as well; remove one of them");
        }
    }
}
