//! Calls that a server works on as tasks. The server is another windlass, whose tasks are runs.

use serde_json::{Value, json};

use super::super::{
    servers::{LOOPBACK, toolset},
    site::{Site, succeeded},
};
use crate::support::{calls, says, script};

/// A server with an agent that plays these turns, and a site whose agent calls it.
fn sites(turns: &[Value]) -> (Site, Site) {
    let greeter = json!({"id": "greeter", "description": "Greets.", "model": "script:greeter"});
    let far = Site::new("", &[greeter], &json!({"greeter": script(turns)}));
    let said = |field: &str| far.banner[field].as_str().unwrap();
    let headers = format!("headers = {{ Authorization = \"Bearer {}\" }}\n", said("apiKey"));
    let config = format!("[mcp.far]\nurl = \"{}/mcp\"\n{headers}{LOOPBACK}", said("api"));
    let agent = json!({"id": "caller", "model": "script:caller", "toolsets": [toolset("far", &["greeter"])]});
    let turn = calls(&[("far_greeter", json!({"message": "Greet me."}))]);
    let near = Site::new(&config, &[agent], &json!({"caller": script(&[turn, says("done")])}));
    (far, near)
}

/// The id of the only run of the server.
fn task(far: &Site) -> String {
    let listed = far.json(&["runs", "list"]);
    let [run] = listed["runs"].as_array().unwrap().as_slice() else { panic!("the tool is called once: {listed}") };
    run["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_task_is_called_once_goes_on_after_a_kill_and_asks_through_the_run() {
    let question = json!({"await": {"kind": "clarification", "question": "What is your name?"}});
    let (far, mut near) = sites(&[question, says("Hello, {{last_user}}!")]);
    let run = near.run("caller");
    let [asked] = near.awaits(&run, 1).try_into().unwrap();
    assert_eq!(asked["inputs"][0]["prompt"], "What is your name?", "{asked}");
    near.kill();
    near.start();
    let await_id = asked["id"].as_str().unwrap();
    assert_eq!(near.json(&["runs", "answer", &run, await_id, "Ada"])["status"], "accepted");
    near.completed(&run);
    assert_eq!(near.results(&run), [succeeded("call-0-0", "far_greeter", json!("Hello, Ada!"))]);
    far.completed(&task(&far));
}

#[test]
fn cancelling_a_run_cancels_the_task_that_it_waits_for() {
    let (far, near) = sites(&[json!({"delay_ms": 600_000, "text": "late"})]);
    let run = near.run("caller");
    // The call has become a task: its first round has ended.
    near.event(&run, |event| event["type"] == "tool_progress");
    near.said(&["runs", "cancel", &run]);
    far.event(&task(&far), |event| event["type"] == "cancelled");
}
