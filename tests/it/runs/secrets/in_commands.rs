//! What commands print of tools whose servers repeat their credentials, with their logs at trace level.

use std::{fs, process::Command};

use serde_json::{Value, json};

use super::{echo_server::EchoServer, planted::VARIABLE, search::Search};
use crate::{sdk::dev::binary, support::node::fixture};

pub(super) fn search_commands(search: &mut Search, server: &EchoServer) {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| fs::write(directory.path().join(name), text).unwrap();
    let reference = format!("${{env:{VARIABLE}}}");
    let program = fixture("mcp/environment.py");
    write(
        "windlass.toml",
        &format!(
            "[egress]\nallow = [\"127.0.0.1/32\"]\n\
             [mcp.stdio]\ncommand = {}\nenv = {{ KEY = \"{reference}\" }}\n\
             [mcp.remote]\nurl = \"{}\"\nheaders = {{ Authorization = \"Bearer {reference}\" }}\n",
            json!(["python3", program]),
            server.url("/mcp"),
        ),
    );
    write("agent.json", &agent(server, &reference).to_string());
    let arguments = json!({"message": "go"}).to_string();
    let mut commands = vec![
        vec!["tools", "list", "agent.json"],
        vec!["mcp", "inspect", "stdio"],
        vec!["mcp", "inspect", "remote"],
        vec!["config", "show"],
        vec!["tools", "test", "agent.json", "mate", &arguments],
    ];
    let tools = ["ok", "status_401", "stdio_echo", "stdio_fail", "remote_echo", "remote_refuse"];
    commands.extend(tools.map(|tool| vec!["tools", "test", "agent.json", tool]));
    for command in commands {
        for format in [&["--log", "trace"][..], &["--json"]] {
            let output = Command::new(binary())
                .args(&command)
                .args(["--config", "windlass.toml", "--data-dir", "data"])
                .args(format)
                .current_dir(directory.path())
                .output()
                .unwrap();
            let said =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).join("\n");
            assert!(!said.contains("Usage:") && said.len() > 20, "{command:?}: {said}");
            search.text("output and logs of commands", &said);
        }
    }
    search.files(&directory.path().join("data"));
}

fn agent(server: &EchoServer, reference: &str) -> Value {
    let headers = json!({"Authorization": format!("Bearer {reference}"), "X-Key": reference});
    let http = |name: &str, path: &str| {
        let http = json!({"url": server.url(path), "headers": headers});
        json!({"name": name, "kind": "http", "inputSchema": {"type": "object"}, "http": http})
    };
    let schema = json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]});
    let a2a = json!({"agentCardUrl": server.url("/card"), "headers": headers});
    let mate = json!({"name": "mate", "kind": "a2a", "inputSchema": schema, "a2a": a2a});
    let toolsets = json!([
        {"name": "stdio", "mcp": {"server": "stdio"}},
        {"name": "remote", "mcp": {"server": "remote"}},
        {"name": "closed", "mcp": {"url": server.url("/400"), "headers": headers}},
        {"name": "api", "openapi": {"url": server.url("/openapi.json"), "headers": headers}},
    ]);
    json!({"id": "commands", "model": "script:demo", "tools": [http("ok", "/ok"), http("status_401", "/401"), mate],
           "toolsets": toolsets})
}
