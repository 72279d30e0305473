//! `windlass mcp serve`: agents as tools over stdin and stdout.

use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::binary;
use crate::support::process::Process;

/// Agents for the conformance tests of the protocol.
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures/mcp-conformance");

fn command(dir: &TempDir, args: &[&str]) -> Command {
    let mut command = Command::new(binary());
    command.args(args).arg("--data-dir").arg(dir.path()).stdin(Stdio::piped());
    command
}

fn dev(dir: &TempDir) -> Process {
    let mut dev = command(dir, &["dev", "--json", "--port", "0", "--listen", "127.0.0.1:0"]);
    dev.arg("--agents").arg(format!("{FIXTURES}/agents")).arg("--scripts").arg(format!("{FIXTURES}/scripts.json"));
    let dev = Process::spawn(dev);
    dev.line(|line| line.contains("\"api\""));
    dev
}

/// Sends a message.
fn tell(client: &mut Process, message: &Value) {
    client.tell(&message.to_string()).unwrap();
}

/// The next message that has this in it.
fn hear(client: &Process, part: &str) -> Value {
    serde_json::from_str(&client.line(|line| line.contains(part))).unwrap()
}

/// Sends a request of revision 2026-07-28.
fn request(client: &mut Process, id: u64, method: &str, mut params: Value) {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    tell(client, &json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}));
}

fn call(tool: &str, message: &str) -> Value {
    json!({"name": tool, "arguments": {"message": message}})
}

#[test]
fn without_a_server_the_command_serves_its_own_agents_until_stdin_ends() {
    let dir = TempDir::new().unwrap();
    let mut client = Process::spawn(command(&dir, &["mcp", "serve"]));
    request(&mut client, 1, "server/discover", json!({}));
    assert_eq!(hear(&client, "\"id\":1")["result"]["supportedVersions"][0], "2026-07-28");
    request(&mut client, 2, "tools/list", json!({}));
    let list = hear(&client, "\"id\":2");
    let names: Vec<&str> =
        list["result"]["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert!(names.contains(&"echo"), "{names:?}");
    request(&mut client, 3, "tools/call", call("echo", "hi there"));
    let answer = hear(&client, "\"id\":3");
    assert!(answer["result"]["content"][0]["text"].as_str().unwrap().contains("hi there"), "{answer}");
    client.tell("{").unwrap();
    assert_eq!(hear(&client, "-32700")["id"], Value::Null);
    assert_eq!(client.exit_code(), Some(0));
}

#[test]
fn a_client_of_the_older_revision_is_asked_over_stdio() {
    let dir = TempDir::new().unwrap();
    let dev = dev(&dir);
    let mut client = Process::spawn(command(&dir, &["mcp", "serve"]));
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {"elicitation": {}}, "clientInfo": {"name": "it", "version": "1"}});
    tell(&mut client, &json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}));
    assert_eq!(hear(&client, "\"id\":1")["result"]["protocolVersion"], "2025-11-25");
    tell(&mut client, &json!({"jsonrpc": "2.0", "method": "notifications/initialized"}));
    tell(
        &mut client,
        &json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": call("test_elicitation", "x")}),
    );
    let asked = hear(&client, "elicitation/create");
    let result = json!({"action": "accept", "content": {"text": "Ada"}});
    tell(&mut client, &json!({"jsonrpc": "2.0", "id": asked["id"], "result": result}));
    assert_eq!(hear(&client, "\"id\":2")["result"]["content"][0]["text"], "User response: Ada");
    assert_eq!(client.exit_code(), Some(0));
    dev.terminate();
}

#[test]
fn a_call_that_is_cancelled_over_stdio_cancels_its_run() {
    let dir = TempDir::new().unwrap();
    let dev = dev(&dir);
    let mut client = Process::spawn(command(&dir, &["mcp", "serve"]));
    let mut params = call("slow_compute", "x");
    params["_meta"] = json!({"progressToken": 1});
    request(&mut client, 1, "tools/call", params);
    hear(&client, "The run has started.");
    tell(&mut client, &json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}));
    let listed = command(&dir, &["runs", "list", "--json"]).output().unwrap();
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let run = listed["runs"][0]["id"].as_str().unwrap();
    let followed = command(&dir, &["runs", "attach", run]).output().unwrap();
    assert_eq!(followed.status.code(), Some(3), "{}", String::from_utf8_lossy(&followed.stderr));
    // The bridge goes on.
    request(&mut client, 2, "tools/call", call("greet", "Ada"));
    assert_eq!(hear(&client, "\"id\":2")["result"]["content"][0]["text"], "Hello, Ada!");
    dev.terminate();
}
