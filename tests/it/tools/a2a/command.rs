//! `windlass tools test` with a tool of kind `a2a`: one call, in several rounds, without a run.

use std::{fs, process::Command};

use serde_json::{Value, json};
use tempfile::TempDir;

use super::super::servers::LOOPBACK;
use crate::{
    sdk::dev::binary,
    support::a2a_peer::{Language, Peer},
};

#[test]
fn each_answer_of_the_shell_is_a_message_of_its_own_round() {
    let peer = Peer::start(Language::Python, &[]);
    let dir = TempDir::new().unwrap();
    let schema = json!({"type": "object", "properties": {"message": {"type": "string"}}, "required": ["message"]});
    let mate = json!({"name": "mate", "kind": "a2a", "inputSchema": schema, "a2a": {"agentCardUrl": peer.url()}});
    let agent = json!({"id": "skipper", "model": "script:skipper", "tools": [mate]});
    fs::write(dir.path().join("agent.json"), agent.to_string()).unwrap();
    fs::write(dir.path().join("windlass.toml"), LOOPBACK).unwrap();
    let call = |answers: &[&str]| {
        let mut command = Command::new(binary());
        command.current_dir(dir.path()).args(["--config", "windlass.toml", "--data-dir", "data"]);
        command.args(["tools", "test", "agent.json", "mate", r#"{"message": "ask twice"}"#, "--json"]);
        command.args(answers.iter().flat_map(|answer| ["--answer", answer]));
        let output = command.output().unwrap();
        (output.status.code(), [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()))
    };

    let (code, [out, err]) = call(&["Bergen", "Monday"]);
    assert_eq!(code, Some(0), "{out}{err}");
    let document: Value = serde_json::from_str(&out).unwrap();
    let result = &document["result"];
    assert_eq!(result["got"], json!(["ask twice", "Bergen", "Monday"]), "{document}");
    // A peer may take two messages with the same id for one.
    let ids: Vec<&str> = result["ids"].as_array().unwrap().iter().map(|id| id.as_str().unwrap()).collect();
    let (calls, rounds): (Vec<&str>, Vec<&str>) = ids.iter().map(|id| id.rsplit_once('/').unwrap()).unzip();
    let rounds: Vec<u32> = rounds.iter().map(|round| round.parse().unwrap()).collect();
    assert_eq!(calls, [calls[0]; 3], "the messages of one call");
    assert!(rounds[0] == 1 && rounds.is_sorted_by(|earlier, later| earlier < later), "{rounds:?}");

    let (code, [out, err]) = call(&["Bergen"]);
    assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
    assert!(err.contains("which day?") && err.contains("call it again with --answer for each request"), "{err}");
}
