//! Secrets in the headers, OAuth clients and variables of tools and toolsets, whose servers repeat them.

use std::collections::BTreeMap;

use base64::{Engine as _, prelude::BASE64_STANDARD};
use serde_json::{Value, json};
use windlass_core::{agent::AgentDefinition, canonical::Digest, ids::RunId, secret::SecretText};
use windlass_tools::{Egress, EgressRules, McpServerConfig, Toolbox};

use super::{echo_server::EchoServer, planted::VARIABLE, search::Search};
use crate::support::{World, agent_with, calls, node::fixture, says, script};

/// The secrets that the tools refer to, beside the variable.
const NAMES: [&str; 6] = ["http.key", "openapi.key", "a2a.key", "mcp.key", "configured.key", "stdio.key"];
const CLIENT: &str = "client-1";

/// Kinds of tools, each with a script of its own name.
pub(super) const KINDS: [&str; 4] = ["http", "openapi", "a2a", "mcp"];

/// An address at which nothing listens.
const REFUSING: &str = "http://127.0.0.1:1";

/// Every tool of a kind, in one turn.
pub(super) fn script_of(kind: &str) -> Value {
    let tools: &[&str] = match kind {
        "http" => &["ok", "text", "status_401", "status_500", "refused", "oauth", "oauth_refused"],
        "openapi" => &["api_ok", "api_text", "api_unauthorized", "api_broken", "closed_unavailable"],
        "a2a" => &["mate", "failing", "status_401", "status_500", "card_401", "refused", "oauth"],
        _ => &[
            "url_echo",
            "url_fail",
            "url_refuse",
            "url_break",
            "oauth_echo",
            "oauth_fail",
            "configured_echo",
            "configured_refuse",
            "stdio_digest",
            "stdio_echo",
            "stdio_fail",
            "stdio_refuse",
            "status_400_unavailable",
            "status_401_unavailable",
            "status_403_unavailable",
            "status_500_unavailable",
            "refused_unavailable",
            "token_unavailable",
        ],
    };
    let args = if kind == "a2a" { json!({"message": "go"}) } else { json!({}) };
    let all: Vec<(&str, Value)> = tools.iter().map(|tool| (*tool, args.clone())).collect();
    script(&[calls(&all), says("{{last_tool_result}}")])
}

/// The worker's tools with the servers of the config, on loopback.
pub(super) fn toolbox(world: &World, server: &EchoServer) -> Toolbox {
    let headers = [("Authorization".to_owned(), SecretText::new("Bearer ${secret:configured.key}"))];
    let access = windlass_core::agent::HttpAccess { headers: headers.into(), ..Default::default() };
    let program = fixture("mcp/environment.py").to_str().unwrap().to_owned();
    let stdio = McpServerConfig::Command {
        command: vec!["python3".to_owned(), program],
        env: BTreeMap::from([("KEY".to_owned(), SecretText::new("${secret:stdio.key}"))]),
        cwd: None,
    };
    let servers = BTreeMap::from([
        ("configured".to_owned(), McpServerConfig::Http { url: server.url("/mcp"), access }),
        ("stdio".to_owned(), stdio),
    ]);
    let allow = vec!["127.0.0.1/32".parse().unwrap()];
    Toolbox::new(world.ports.tools.builtins().clone(), Egress::new(EgressRules { allow }).unwrap(), servers)
}

/// What is planted for one round of runs.
pub(super) struct Planted {
    secrets: BTreeMap<&'static str, String>,
    /// The secrets of the OAuth clients, one for each kind of tool.
    clients: Vec<String>,
    /// What the server issues for them.
    token: String,
}

impl Planted {
    pub(super) async fn plant(world: &World, search: &mut Search, server: &EchoServer) -> Self {
        let mut secrets = BTreeMap::new();
        for name in NAMES {
            let value = search.plant(name);
            world.set_secret(name, &value).await;
            secrets.insert(name, value);
        }
        let mut clients = Vec::new();
        for name in ["http.client", "a2a.client", "mcp.client"] {
            let value = search.plant(name);
            world.set_secret(name, &value).await;
            clients.push(value);
        }
        let token = search.plant("access-token");
        server.issue(&token);
        Self { secrets, clients, token }
    }

    /// Each secret reached the server that it is for.
    pub(super) async fn arrived(&self, world: &World, server: &EchoServer, variable: &str, of_mcp: &RunId) {
        for (name, value) in self.secrets.iter().filter(|(name, _)| **name != "stdio.key") {
            assert!(server.received(&format!("Bearer {value}")), "{name} arrived");
        }
        assert!(server.received(&format!("x-env: {variable}")), "the variable arrived");
        assert!(server.received(&format!("Bearer {}", self.token)), "the access token arrived");
        for secret in &self.clients {
            let basic = BASE64_STANDARD.encode(format!("{CLIENT}:{secret}"));
            assert!(server.received(&format!("Basic {basic}")), "the secret of a client arrived");
        }
        let digest = Digest::of_bytes(self.secrets["stdio.key"].as_bytes()).to_string();
        let transcript = format!("{:?}", world.transcript(of_mcp).await);
        assert!(transcript.contains(&digest), "the variable of the process arrived: {transcript}");
    }
}

/// An agent with the tools of one kind.
pub(super) fn agent(kind: &str, server: &EchoServer) -> AgentDefinition {
    let fields = match kind {
        "http" => json!({"tools": http_tools(server)}),
        "openapi" => json!({"toolsets": openapi_toolsets(server)}),
        "a2a" => json!({"tools": a2a_tools(server)}),
        _ => json!({"toolsets": mcp_toolsets(server)}),
    };
    agent_with(kind, fields)
}

fn headers(kind: &str) -> Value {
    json!({"Authorization": format!("Bearer ${{secret:{kind}.key}}"), "X-Env": format!("${{env:{VARIABLE}}}")})
}

fn oauth(kind: &str, token_url: &str) -> Value {
    json!({"tokenUrl": token_url, "clientId": CLIENT, "clientSecret": {"secret": format!("{kind}.client")}})
}

fn http_tools(server: &EchoServer) -> Vec<Value> {
    let tool = |name: &str, url: String, access: (&str, Value)| {
        let (field, access) = access;
        let http = json!({"url": url, field: access});
        json!({"name": name, "kind": "http", "inputSchema": {"type": "object"}, "http": http})
    };
    vec![
        tool("ok", server.url("/ok"), ("headers", headers("http"))),
        tool("text", server.url("/text"), ("headers", headers("http"))),
        tool("status_401", server.url("/401"), ("headers", headers("http"))),
        tool("status_500", server.url("/500"), ("headers", headers("http"))),
        tool("refused", REFUSING.to_owned(), ("headers", headers("http"))),
        tool("oauth", server.url("/ok"), ("oauth", oauth("http", &server.url("/token")))),
        tool("oauth_refused", server.url("/ok"), ("oauth", oauth("http", &server.url("/token/refused")))),
    ]
}

fn openapi_toolsets(server: &EchoServer) -> Value {
    let openapi = |url: String| json!({"url": url, "headers": headers("openapi")});
    json!([
        {"name": "api", "openapi": openapi(server.url("/openapi.json"))},
        {"name": "closed", "openapi": openapi(server.url("/401"))},
    ])
}

fn a2a_tools(server: &EchoServer) -> Vec<Value> {
    let schema = json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]});
    let tool = |name: &str, url: String, access: (&str, Value)| {
        let (field, access) = access;
        json!({"name": name, "kind": "a2a", "inputSchema": schema, "a2a": {"agentCardUrl": url, field: access}})
    };
    vec![
        tool("mate", server.url("/card"), ("headers", headers("a2a"))),
        tool("failing", server.url("/card/failing"), ("headers", headers("a2a"))),
        tool("status_401", server.url("/card/401"), ("headers", headers("a2a"))),
        tool("status_500", server.url("/card/500"), ("headers", headers("a2a"))),
        tool("card_401", server.url("/401"), ("headers", headers("a2a"))),
        tool("refused", format!("{REFUSING}/card"), ("headers", headers("a2a"))),
        tool("oauth", server.url("/card"), ("oauth", oauth("a2a", &server.url("/token")))),
    ]
}

fn mcp_toolsets(server: &EchoServer) -> Vec<Value> {
    let toolset = |name: &str, mcp: Value| json!({"name": name, "mcp": mcp});
    let at = |path: &str| json!({"url": server.url(path), "headers": headers("mcp")});
    let mut toolsets = vec![
        toolset("url", at("/mcp")),
        toolset("oauth", json!({"url": server.url("/mcp"), "oauth": oauth("mcp", &server.url("/token"))})),
        toolset("configured", json!({"server": "configured"})),
        toolset("stdio", json!({"server": "stdio"})),
        toolset("refused", json!({"url": REFUSING, "headers": headers("mcp")})),
        toolset("token", json!({"url": server.url("/mcp"), "oauth": oauth("mcp", &server.url("/token/refused"))})),
    ];
    toolsets.extend(
        ["400", "401", "403", "500"].map(|status| toolset(&format!("status_{status}"), at(&format!("/{status}")))),
    );
    toolsets
}
