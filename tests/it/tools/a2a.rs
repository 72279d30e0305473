//! Tools of kind `a2a`: agents on the official SDKs, and agents of another Windlass. The SDKs' clients on our server are
//! in `clients`.

mod clients;
mod command;
mod push;

use serde_json::{Value, json};

use crate::support::{
    a2a_peer::{Language, Peer},
    calls,
    project::Project,
    says, script,
    server::Backend,
    world::scripts,
};

/// Peers that stream, and peers whose tasks are polled.
const STREAMING_OR_NOT: [(Language, &[&str]); 6] = [
    (Language::Python, &[]),
    (Language::JavaScript, &[]),
    (Language::Python, &["--dialect", "grpc"]),
    (Language::JavaScript, &["--dialect", "grpc"]),
    (Language::Python, &["--no-streaming"]),
    (Language::JavaScript, &["--no-streaming"]),
];
const WORKING: &str = "TASK_STATE_WORKING";

/// An agent whose tool `peer` is the agent with this card.
fn agent(id: &str, card: &str, headers: &str) -> (String, String) {
    let definition = format!(
        r#"
id = "{id}"
model = "script:{id}"

[[tools]]
name = "peer"
kind = "a2a"
description = "Another agent."
[tools.a2a]
agent_card_url = "{card}"
allow_private = true
{headers}
"#
    );
    (id.to_owned(), definition)
}

fn message(text: &str) -> (&'static str, Value) {
    ("peer", json!({"message": text}))
}

/// The results of a run's calls by their ids: whether it succeeded, and what it returned.
fn results(project: &Project, run: &str) -> Vec<Value> {
    let mut results = project.events(run, "tool_result");
    results.sort_by_key(|event| event["toolUseId"].to_string());
    let fields = |event: &Value| json!([event["status"], event["result"], event["error"]["message"]]);
    results.iter().map(fields).collect()
}

fn every_dialect(language: Language) {
    let dialects = ["jsonrpc", "http", "grpc", "jsonrpc03"];
    let options: [&[&str]; 4] =
        [&["--dialect", "jsonrpc"], &["--dialect", "http"], &["--dialect", "grpc"], &["--dialect", "jsonrpc03"]];
    let peers = options.map(|options| Peer::start(language, options));
    let agents: Vec<(String, String)> =
        dialects.iter().zip(&peers).map(|(dialect, peer)| agent(dialect, &peer.url(), "")).collect();
    let first = calls(&[message("hello"), message("work 2"), message("data"), message("reject")]);
    let turns = script(&[first, calls(&[message("ask")]), says("done")]);
    let scripts = scripts(dialects.map(|dialect| (dialect, turns.clone())));
    let mut project = Project::start(Backend::Embedded, &agents, &scripts);
    for dialect in dialects {
        project.run(dialect, dialect);
    }
    let asked = dialects.map(|dialect| project.follow(dialect, "await_opened"));
    project.kill();
    project.start_again();
    for (dialect, asked) in dialects.iter().zip(asked) {
        assert_eq!(asked["item"]["prompt"], "which city?", "{dialect}: {asked}");
        project.json(&["runs", "answer", dialect, asked["item"]["id"].as_str().unwrap(), "Bergen"]);
        let end = project.follow(dialect, "result");
        assert_eq!(end["subtype"], "success", "{dialect}: {end}");
        let expected = [
            json!(["ok", "echo: hello", null]),
            json!(["ok", "part 1\npart 2", null]),
            json!(["ok", {"n": 1}, null]),
            json!(["failed", null, "the peer rejected the task: this is not for me"]),
            json!(["ok", "the answer was: Bergen", null]),
        ];
        assert_eq!(results(&project, dialect), expected, "{dialect}");
    }
}

#[test]
fn an_agent_on_the_python_sdk_is_a_tool_in_every_dialect() {
    every_dialect(Language::Python);
}

#[test]
fn an_agent_on_the_javascript_sdk_is_a_tool_in_every_dialect() {
    every_dialect(Language::JavaScript);
}

/// A run whose one call works for some seconds, until the peer has reported that it works.
fn working(peer: &Peer) -> Project {
    let scripts = scripts([("worker", script(&[calls(&[message("work 5")]), says("done")]))]);
    let project = Project::start(Backend::Embedded, &[agent("worker", &peer.url(), "")], &scripts);
    project.run("worker", "run-1");
    project.follow("run-1", "tool_progress");
    project
}

/// The call has the result of the one task that the peer has.
fn has_worked(project: &Project, peer: &Peer) {
    let end = project.follow("run-1", "result");
    assert_eq!(end["subtype"], "success", "{end}");
    let parts: Vec<String> = (1..=5).map(|number| format!("part {number}")).collect();
    assert_eq!(results(project, "run-1"), [json!(["ok", parts.join("\n"), null])]);
    assert_eq!(project.events("run-1", "tool_call").len(), 1);
    assert_eq!(peer.tasks(), ["TASK_STATE_COMPLETED"], "the message was sent once");
}

#[test]
fn a_peer_that_is_killed_while_it_works_is_waited_for() {
    for (language, options) in STREAMING_OR_NOT {
        let mut peer = Peer::start(language, options);
        let project = working(&peer);
        peer.kill();
        assert_eq!(peer.tasks(), [WORKING]);
        peer.start_again();
        has_worked(&project, &peer);
    }
}

#[test]
fn a_peer_s_task_is_found_again_after_windlass_was_killed() {
    for (language, options) in STREAMING_OR_NOT {
        let peer = Peer::start(language, options);
        let mut project = working(&peer);
        project.kill();
        assert_eq!(peer.tasks(), [WORKING]);
        project.start_again();
        has_worked(&project, &peer);
    }
}

#[test]
fn an_agent_of_another_windlass_asks_and_gets_its_answer_although_both_are_killed() {
    for binding in ["JSONRPC", "HTTP+JSON", "GRPC"] {
        asks_another_windlass(binding);
    }
}

fn asks_another_windlass(binding: &str) {
    let question = json!({"await": {"kind": "clarification", "question": "Which city?"}});
    let weather = script(&[question, says("The weather in {{last_user}} is fine.")]);
    let asker = "id = \"asker\"\ndescription = \"Tells the weather.\"\nmodel = \"script:asker\"\n".to_owned();
    let mut callee = Project::start(Backend::Embedded, &[("asker".to_owned(), asker)], &scripts([("asker", weather)]));
    let card = format!("{}/api/v1/workspaces/default/a2a/asker/.well-known/agent-card.json", callee.url());
    let more = format!("binding = \"{binding}\"\nheaders = {{ Authorization = \"Bearer ${{secret:PEER_KEY}}\" }}");
    let caller = agent("caller", &card, &more);
    let turns = script(&[calls(&[message("How is the weather?")]), says("It said: {{last_tool_result}}")]);
    let mut project = Project::start(Backend::Embedded, &[caller], &scripts([("caller", turns)]));
    project.set_secret("PEER_KEY", &callee.key());

    project.run("caller", "run-1");
    let asked = project.follow("run-1", "await_opened");
    assert_eq!(asked["item"]["prompt"], "Which city?", "{binding}: {asked}");
    callee.kill();
    project.kill();
    callee.start_again();
    project.start_again();
    project.json(&["runs", "answer", "run-1", asked["item"]["id"].as_str().unwrap(), "Bergen"]);
    let end = project.follow("run-1", "result");
    assert_eq!(end["text"], "It said: The weather in Bergen is fine.", "{binding}: {end}");
    assert_eq!(results(&project, "run-1"), [json!(["ok", "The weather in Bergen is fine.", null])]);
    let runs = callee.json(&["runs", "list"]);
    assert_eq!(runs["runs"].as_array().unwrap().len(), 1, "{runs}");
    assert_eq!(runs["runs"][0]["status"], "completed", "{runs}");
}
