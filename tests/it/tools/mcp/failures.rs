//! Servers that die, are dead or hang: one call fails, and the run goes on.

use std::{net::TcpListener, process::Command};

use serde_json::{Value, json};

use super::{
    super::{
        servers::{HttpPeer, LOOPBACK, everything_over_http, from_npm, peer_over_stdio, toolset},
        site::{Site, failed, succeeded, tool_names},
    },
    found,
};
use crate::support::{block_on, calls, says, script, server::lasting_port};

fn is_result(event: &Value) -> bool {
    event["type"] == "tool_result"
}

/// An error that says that another attempt may help.
/// The tool is not idempotent, and its server got the call.
const UNANSWERED: &str = "outcome unknown: the MCP server took too long to answer; the call may have taken effect";

fn error(kind: &str, message: &str) -> Value {
    json!({"error": message, "kind": kind, "hint": {"reason": kind, "restrictToTool": false}})
}

#[test]
fn a_server_that_is_killed_in_a_call_fails_that_call_and_is_started_again_for_the_next_one() {
    let config = [from_npm("everything", &["stdio"]), peer_over_stdio("mortal")].concat();
    let toolsets = [toolset("everything", &["echo"]), toolset("mortal", &["add", "report_and_hang"])];
    let agent = json!({"id": "agent", "model": "script:calling", "toolsets": toolsets});
    let turns = [
        calls(&[
            ("mortal_add", json!({"a": 1, "b": 1})),
            ("mortal_report_and_hang", json!({})),
            ("everything_echo", json!({"message": "still here"})),
        ]),
        calls(&[("mortal_add", json!({"a": 1, "b": 2}))]),
        says("done"),
    ];
    let site = Site::new(&config, &[agent], &json!({"calling": script(&turns)}));
    let run = site.run("agent");
    site.events(&run, 2, is_result);
    let progress = site.event(&run, |event| event["type"] == "tool_progress");
    let process = progress["data"]["message"].as_str().unwrap().strip_prefix("process ").unwrap();
    assert!(Command::new("kill").args(["-9", process]).status().unwrap().success());
    site.completed(&run);

    let lost = "the MCP server closed the connection before it answered";
    let expected = [
        succeeded("call-0-0", "mortal_add", json!({"result": 2})),
        failed("call-0-1", "mortal_report_and_hang", error("tool_unavailable", lost)),
        succeeded("call-0-2", "everything_echo", json!("Echo: still here")),
        succeeded("call-1-0", "mortal_add", json!({"result": 3})),
    ];
    assert_eq!(site.results(&run), expected);
}

#[test]
fn a_run_whose_servers_are_dead_when_it_opens_has_a_tool_that_says_so() {
    // The listener is dropped at once.
    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = [
        from_npm("everything", &["stdio"]),
        "[mcp.ended]\ncommand = [\"false\"]\n".to_owned(),
        "[mcp.missing]\ncommand = [\"/no/such/program\"]\n".to_owned(),
        "[mcp.mute]\ncommand = [\"sleep\", \"600\"]\n".to_owned(),
        format!("[mcp.refusing]\nurl = \"http://{closed}/mcp\"\n"),
        LOOPBACK.to_owned(),
    ];
    let mut mute = toolset("mute", &[]);
    mute["timeoutMs"] = json!(1000);
    let toolsets = json!([
        toolset("everything", &["echo"]),
        toolset("ended", &[]),
        toolset("missing", &[]),
        mute,
        toolset("refusing", &[])
    ]);
    let agent = json!({"id": "agent", "model": "script:calling", "toolsets": toolsets});
    let turn = calls(&[("ended_unavailable", json!({})), ("everything_echo", json!({"message": "I am here"}))]);
    let site = Site::new(&config.concat(), &[agent], &json!({"calling": script(&[turn, says("done")])}));
    let run = site.run("agent");
    site.completed(&run);

    let definition = block_on(site.definition(&run));
    let names =
        ["everything_echo", "ended_unavailable", "missing_unavailable", "mute_unavailable", "refusing_unavailable"];
    assert_eq!(tool_names(&definition), names);
    let ended = "the MCP server's process ended during the handshake (exit status: 1); its standard error is in the \
                 worker's log at level debug";
    let missing =
        "the MCP server's program \"/no/such/program\" cannot be started: No such file or directory (os error 2)";
    let refusing = "the MCP server cannot be connected to: Connection refused (os error 111)";
    let servers = [
        json!(["everything", {"server": "mcp-servers/everything", "version": "2.0.0", "protocol": "2025-11-25"}]),
        json!(["ended", {"error": ended}]),
        json!(["missing", {"error": missing}]),
        json!(["mute", {"error": "the MCP server took too long to answer"}]),
        json!(["refusing", {"error": refusing}]),
    ];
    assert_eq!(found(&definition), servers);
    let told = format!("the server could not be reached when the run opened: {ended}");
    let expected = [
        failed("call-0-0", "ended_unavailable", json!({"error": told, "kind": "tool_unavailable"})),
        succeeded("call-0-1", "everything_echo", json!("Echo: I am here")),
    ];
    assert_eq!(site.results(&run), expected);
}

#[test]
fn a_call_that_its_server_never_answers_fails_after_its_timeout_and_other_calls_do_not_wait_for_it() {
    let peer = HttpPeer::start();
    let config = [from_npm("everything", &["stdio"]), peer.config("peer"), LOOPBACK.to_owned()].concat();
    let mut hanging = toolset("peer", &["hang", "add"]);
    hanging["timeoutMs"] = json!(3000);
    let agent =
        json!({"id": "agent", "model": "script:calling", "toolsets": [hanging, toolset("everything", &["echo"])]});
    let turns = [
        calls(&[
            ("peer_hang", json!({})),
            ("peer_add", json!({"a": 1, "b": 2})),
            ("everything_echo", json!({"message": "at once"})),
        ]),
        calls(&[("peer_add", json!({"a": 2, "b": 2}))]),
        says("done"),
    ];
    let site = Site::new(&config, &[agent], &json!({"calling": script(&turns)}));
    let run = site.run("agent");
    let ended = site.events(&run, 3, is_result);
    site.completed(&run);

    let order: Vec<&str> = ended.iter().map(|event| event["data"]["toolUseId"].as_str().unwrap()).collect();
    assert_eq!(order[2], "call-0-0", "the others ended first: {order:?}");
    let took = ended[2]["data"]["telemetry"]["durationMs"].as_u64().unwrap();
    assert!((2_900..10_000).contains(&took), "{took} ms");
    let expected = [
        failed("call-0-0", "peer_hang", json!({"error": UNANSWERED, "kind": "outcome_unknown"})),
        succeeded("call-0-1", "peer_add", json!({"result": 3})),
        succeeded("call-0-2", "everything_echo", json!("Echo: at once")),
        succeeded("call-1-0", "peer_add", json!({"result": 4})),
    ];
    assert_eq!(site.results(&run), expected);
}

/// It answers 400 to a session that it does not know, with an error that has no id.
#[test]
fn a_server_with_sessions_that_was_restarted_is_used_in_a_new_session() {
    let port = lasting_port();
    let server = everything_over_http(port);
    let config = format!("[mcp.everything]\nurl = \"http://127.0.0.1:{port}/mcp\"\n{LOOPBACK}");
    let agent = |id: &str| {
        let toolsets = [toolset("everything", &["echo", "toggle-subscriber-updates"])];
        let tools = json!([{"name": "pilot", "kind": "external"}]);
        json!({"id": id, "model": format!("script:{id}"), "tools": tools, "toolsets": toolsets})
    };
    let echo = |message: &str| calls(&[("everything_echo", json!({"message": message}))]);
    let toggle = calls(&[("everything_toggle-subscriber-updates", json!({}))]);
    let pilot = calls(&[("pilot", json!({}))]);
    let scripts = json!({
        "waiting": script(&[echo("one"), pilot, toggle, echo("two"), says("done")]),
        "later": script(&[echo("three"), says("done")]),
    });
    let site = Site::new(&config, &[agent("waiting"), agent("later")], &scripts);
    let run = site.run("waiting");
    let asked = site.awaits(&run, 1);
    drop(server);
    let server = everything_over_http(port);
    let answer = ["runs", "answer", &run, asked[0]["id"].as_str().unwrap(), "--result", "call-1-0=1"];
    assert_eq!(site.json(&answer)["status"], "accepted");
    site.completed(&run);

    // It is not idempotent, so it is not repeated in the new session.
    let lost = "the MCP server is not available now: it refused the request (-32000): Bad Request: No valid session ID \
                provided";
    let expected = [
        succeeded("call-0-0", "everything_echo", json!("Echo: one")),
        succeeded("call-1-0", "pilot", json!(1)),
        failed("call-2-0", "everything_toggle-subscriber-updates", error("tool_unavailable", lost)),
        succeeded("call-3-0", "everything_echo", json!("Echo: two")),
    ];
    assert_eq!(site.results(&run), expected);

    drop(server);
    let _server = everything_over_http(port);
    let later = site.run("later");
    site.completed(&later);
    assert_eq!(site.results(&later), [succeeded("call-0-0", "everything_echo", json!("Echo: three"))]);
}
