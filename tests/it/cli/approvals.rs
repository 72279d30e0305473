//! Grants and rules from the shell, with a real `windlass dev`.

use serde_json::{Value, json};

use crate::support::{project::Project, server::Backend};

const AGENT: &str = r#"
id = "desk"
model = "script:pay"
[[tools]]
name = "notes.add"
[[approvals]]
name = "notes"
tool = "notes.add"
outcome = "ask"
"#;

fn project() -> Project {
    let put = |key: &str| json!({"tool_calls": [{"name": "notes.add", "args": {"key": key, "text": "x"}}]});
    let scripts = json!({"pay": {"turns": [put("a"), put("b"), {"text": "done"}]}});
    Project::start(Backend::Embedded, &[("desk".to_owned(), AGENT.to_owned())], &scripts)
}

fn kinds(decided: &[Value]) -> Vec<String> {
    decided.iter().map(|data| format!("{} {}", data["toolUseId"], data["reason"]["kind"]).replace('"', "")).collect()
}

#[test]
fn a_grant_for_an_agent_holds_in_its_later_runs_and_survives_a_kill_until_it_is_revoked() {
    let mut project = project();
    project.run("desk", "one");
    let item = project.follow("one", "await_opened")["item"].clone();
    let id = item["id"].as_str().unwrap();
    let bad = project.command(&["runs", "approve", "one", id, "--yes", "--grant", "planet"]).output().unwrap();
    assert!(String::from_utf8_lossy(&bad.stderr).contains("write run, session or agent"));
    let accepted = project.json(&["runs", "approve", "one", id, "--yes", "--grant", "agent", "--grant-for", "7d"]);
    assert_eq!(accepted["status"], "accepted");
    project.follow("one", "result");
    assert_eq!(kinds(&project.events("one", "approval_decided")), ["call-1-0 grant"]);

    project.kill();
    project.start_again();
    project.run("desk", "two");
    project.follow("two", "result");
    assert_eq!(kinds(&project.events("two", "approval_decided")), ["call-0-0 grant", "call-1-0 grant"]);
    let grants = project.json(&["approvals", "list"])["grants"].clone();
    assert_eq!((&grants[0]["scope"], grants.as_array().unwrap().len()), (&json!({"kind": "agent", "id": "desk"}), 1));
    let grant = grants[0]["id"].as_str().unwrap();
    let explained = project.json(&["approvals", "explain", "two", "call-0-0"]);
    assert_eq!(explained["recorded"][0]["reason"], json!({"kind": "grant", "id": grant}));
    let text = project.command(&["approvals", "explain", "two", "call-9-9"]).output().unwrap();
    assert!(String::from_utf8_lossy(&text.stderr).contains("has no call call-9-9"), "{text:?}");

    assert_eq!(project.json(&["approvals", "revoke", grant])["revoked"], true);
    project.run("desk", "three");
    project.follow("three", "await_opened");
    assert_eq!(project.json(&["approvals", "list"])["grants"], json!([]));
    assert_eq!(project.json(&["approvals", "list", "--all"])["grants"][0]["revoked"], true);
}

#[test]
fn rules_of_a_run_are_set_shown_and_removed_from_the_shell() {
    let project = project();
    project.run("desk", "one");
    let item = project.follow("one", "await_opened")["item"].clone();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rules.toml");
    let file = file.to_str().unwrap();
    std::fs::write(file, "[[approvals]]\ntol = \"notes.add\"\noutcome = \"deny\"\n").unwrap();
    let refused = project.command(&["approvals", "set", "--run", "one", file]).output().unwrap();
    assert!(String::from_utf8_lossy(&refused.stderr).contains("rules.toml:2"), "{refused:?}");
    std::fs::write(file, "[[approvals]]\ntool = \"notes.*\"\noutcome = \"deny\"\n").unwrap();
    let set = project.json(&["approvals", "set", "--run", "one", file]);
    assert_eq!(set["rules"]["rules"], json!([{"tool": "notes.*", "outcome": "deny"}]));
    assert_eq!(project.json(&["approvals", "show", "--run", "one"]), set);
    project.json(&["runs", "approve", "one", item["id"].as_str().unwrap(), "--yes"]);
    project.follow("one", "result");
    assert_eq!(kinds(&project.events("one", "approval_decided")), ["call-1-0 rule"]);
    project.json(&["approvals", "clear", "--run", "one"]);
    assert_eq!(project.json(&["approvals", "show", "--run", "one"]), json!({"rules": null}));
}
