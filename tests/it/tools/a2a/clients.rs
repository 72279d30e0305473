//! Clients of the official SDKs, on the agents of `windlass dev`.

use std::{ffi::OsString, process::Command};

use serde_json::{Value, json};

use crate::{
    sdk::dev::{Dev, KEY, WORKSPACE},
    support::{
        a2a_peer::python,
        node::{Programs, fixture},
    },
};

/// What the client saw of the agents, by each binding.
fn seen_by(client: impl Fn() -> Command) -> [Value; 4] {
    let args = ["--port", "0", "--scripts"].map(OsString::from).into_iter();
    let files = [fixture("a2a/server/scripts.json").into(), "--agents".into(), fixture("a2a/server/agents").into()];
    let dev = Dev::start_with(args.chain(files).collect());
    let url = format!("{}/api/v1/workspaces/{WORKSPACE}", dev.url);
    ["JSONRPC", "HTTP+JSON", "GRPC", "0.3"].map(|binding| {
        let output = client().args([&url, KEY, binding]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{binding}: {}\n{out}{err}", output.status);
        serde_json::from_str(&out).unwrap()
    })
}

#[test]
fn the_python_client_sees_agents_as_peers() {
    let mut expected = json!({
        "stream": ["COMPLETED", "You said: hello"],
        "answer": ["COMPLETED", "You said: hello"],
        "history": ["hello", "You said: hello"],
        "no history": 0,
        "terminal": "UnsupportedOperationError",
        "blocking": [["COMPLETED", "You said: again"], true, true],
        "another message with this id": "InvalidParamsError",
        "asked": ["INPUT_REQUIRED", ""],
        "question": "Which city?",
        "answered": ["COMPLETED", "The weather in Bergen is fine."],
        "call": ["notes.add", {"key": "k", "text": "hello"}],
        "wrong digest": "InvalidParamsError",
        "approved": ["COMPLETED", "kept"],
        "subscribed": ["WORKING", "one "],
        "cancelled": "CANCELED",
        "cancelled twice": "TaskNotCancelableError",
        "unknown": "TaskNotFoundError",
        "push": "TaskNotFoundError",
        "extended card": "peer",
    });
    let of_0_3 = expected.clone();
    // Version 0.3 has no list of tasks.
    expected["list"] = json!([1, true, ""]);
    assert_eq!(seen_by(|| python("a2a/client.py")), [expected.clone(), expected.clone(), expected, of_0_3]);
}

#[test]
fn the_javascript_client_sees_agents_as_peers() {
    // It has errors of each binding.
    let expected = |errors: &str| {
        json!({
            "stream": ["COMPLETED", "You said: hello"],
            "history": ["hello", "You said: hello"],
            "terminal": format!("{errors}UnsupportedOperationError"),
            "blocking": ["COMPLETED", true, true],
            "question": ["INPUT_REQUIRED", "Which city?"],
            "answered": ["COMPLETED", "The weather in Bergen is fine."],
            "call": ["notes.add", {"key": "k", "text": "hello"}],
            "wrongDigest": format!("{errors}RequestMalformedError"),
            "approved": ["COMPLETED", "kept"],
            "subscribed": ["WORKING", "one "],
            "cancelled": "CANCELED",
            "cancelledTwice": format!("{errors}TaskNotCancelableError"),
            "unknown": format!("{errors}TaskNotFoundError"),
        })
    };
    let programs = Programs::new("WINDLASS_NODE_A2A", &["a2a/client.mjs"]);
    assert_eq!(seen_by(|| programs.command("client.mjs")), ["JsonRpc", "Rest", "Grpc", "JsonRpc"].map(expected));
}
