use serde_json::{Value, json};
use windlass_core::time::Millis;

use super::rig::{Rig, ask_with_tool};
use crate::support::world::scripts;

fn adding() -> Value {
    let add = |args: Value| json!({"name": "add", "args": args});
    scripts([
        (
            "add",
            json!({"turns": [{"tool_calls": [add(json!({"a": 2, "b": 3}))]}, {"text": "sum {{last_tool_result}}"}]}),
        ),
        ("invalid", json!({"turns": [{"tool_calls": [add(json!({"a": "x"}))]}, {"text": "{{last_tool_result}}"}]})),
        (
            "two",
            json!({"turns": [{"tool_calls": [add(json!({"a": 1, "b": 1})), add(json!({"a": 2, "b": 2}))]}, {"text": "{{all_tool_results}}"}]}),
        ),
        (
            "long",
            json!({"turns": [{"tool_calls": [{"name": "add", "args": {"a": 1, "b": 1, "note": "n".repeat(5000)}}]}, {"text": "ok"}]}),
        ),
    ])
}

fn add() -> Value {
    let integer = json!({"type": "integer"});
    json!({"kind": "local", "name": "add", "description": "Adds.", "parameters": {
        "type": "object", "properties": {"a": integer, "b": integer}, "required": ["a", "b"],
    }})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_goes_out_and_its_result_comes_in_once() {
    let rig = Rig::new(adding()).await;
    let run = rig.run(ask_with_tool("add", add())).await;
    let mut stream = rig.stream(&run, None).await;
    let call = stream.until("local_tool_call").await;
    assert_eq!(
        (&call["name"], &call["args"], &call["kind"]),
        (&json!("add"), &json!({"a": 2, "b": 3}), &json!("local"))
    );
    let results = format!("/agent-runs/{run}/tool-results");
    let id = call["toolUseId"].clone();
    assert_eq!(
        rig.post(&results, json!({"toolUseId": "call-9-9", "result": "5"})).await.refusal(),
        (404, "unknown_tool_use")
    );
    assert_eq!(
        rig.post(&results, json!({"toolUseId": id, "result": "5", "error": "x"})).await.refusal(),
        (400, "invalid_request")
    );
    let taken = rig.post(&results, json!({"toolUseId": id, "result": "5"})).await;
    assert_eq!((taken.status, &taken.body), (200, &json!({"ok": true})));
    let echoed = stream.until("local_tool_result_in").await;
    assert_eq!((&echoed["toolUseId"], &echoed["output"], &echoed["result"]), (&id, &json!("5"), &json!("5")));
    assert_eq!(stream.until("result").await["text"], "sum 5");
    assert_eq!(rig.post(&results, json!({"toolUseId": id, "result": "6"})).await.refusal(), (409, "run_terminal"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_reaches_the_model() {
    let rig = Rig::new(adding()).await;
    let run = rig.run(ask_with_tool("add", add())).await;
    let mut stream = rig.stream(&run, None).await;
    let id = stream.until("local_tool_call").await["toolUseId"].clone();
    rig.post(&format!("/agent-runs/{run}/tool-results"), json!({"toolUseId": id, "error": "boom"})).await;
    let text = stream.until("result").await["text"].as_str().unwrap().to_owned();
    assert!(text.contains("boom"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_do_not_fit_are_never_handed_out() {
    let rig = Rig::new(adding()).await;
    let frames = rig.frames(&rig.run(ask_with_tool("invalid", add())).await).await;
    assert!(frames.iter().all(|frame| frame["type"] != "local_tool_call"), "{frames:?}");
    let result = frames.iter().find(|frame| frame["type"] == "tool_result").unwrap();
    assert_eq!(result["ok"], false);
    assert!(result["result"].as_str().unwrap().contains("tool_input_invalid"), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_go_out_one_after_the_other_unless_they_only_read() {
    let rig = Rig::new(adding()).await;
    for read_only in [false, true] {
        let mut tool = add();
        tool["readOnly"] = json!(read_only);
        let run = rig.run(ask_with_tool("two", tool)).await;
        let mut stream = rig.stream(&run, None).await;
        let first = stream.until("local_tool_call").await;
        let answer = |id: Value, result: &'static str| {
            let (rig, run) = (&rig, &run);
            async move {
                rig.post(&format!("/agent-runs/{run}/tool-results"), json!({"toolUseId": id, "result": result})).await
            }
        };
        if !read_only {
            answer(first["toolUseId"].clone(), "A").await;
        }
        let second = stream.until("local_tool_call").await;
        assert_eq!(answer(second["toolUseId"].clone(), "B").await.status, 200);
        if read_only {
            answer(first["toolUseId"].clone(), "A").await;
        }
        assert_eq!(stream.until("result").await["text"], "A|B");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_does_not_answer_ends_the_run() {
    let rig = Rig::with(adding(), |options| options.limits.local_tool_timeout = Millis(300)).await;
    let run = rig.run(ask_with_tool("add", add())).await;
    let last = rig.ending(&run).await;
    assert_eq!((&last["type"], &last["subtype"]), (&json!("result"), &json!("error_local_tool_timeout")));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_arguments_and_large_results_arrive_whole() {
    let rig = Rig::new(adding()).await;
    let run = rig.run(ask_with_tool("long", add())).await;
    let mut stream = rig.stream(&run, None).await;
    let call = stream.until("local_tool_call").await;
    assert_eq!(call["args"]["note"].as_str().unwrap().len(), 5000);
    let result = "r".repeat(1_900_000);
    let taken = rig
        .post(&format!("/agent-runs/{run}/tool-results"), json!({"toolUseId": call["toolUseId"], "result": result}))
        .await;
    assert_eq!(taken.status, 200, "{taken:?}");
    assert_eq!(stream.until("result").await["text"], "ok");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_names_the_callers_server_and_peer() {
    let calls = scripts([
        (
            "mcp",
            json!({"turns": [{"tool_calls": [{"name": "fs_read-file", "args": {"path": "/x"}}]}, {"text": "{{tools}}"}]}),
        ),
        (
            "a2a",
            json!({"turns": [{"tool_calls": [{"name": "hr", "args": {"message": "PTO?"}}]}, {"text": "{{tool_desc:hr}}"}]}),
        ),
    ]);
    let rig = Rig::new(calls).await;
    let server = json!({"kind": "mcp_local", "name": "fs", "serverInfo": {"name": "files"}, "tools": [{"name": "fs_read-file"}]});
    let card = json!({"name": "Acme HR", "description": "Answers.", "url": "http://hr", "skills": [{"id": "s", "name": "PTO"}]});
    let peer = json!({"kind": "a2a_local", "name": "hr", "agentCard": card});
    for (script, tool, extra, text) in [
        (
            "mcp",
            server,
            json!({"kind": "mcp_local", "mcpServer": "fs", "mcpToolName": "fs_read-file", "mcpServerInfo": {"name": "files"}}),
            "fs_read-file",
        ),
        (
            "a2a",
            peer,
            json!({"kind": "a2a_local", "agentCard": card}),
            "Delegate a task to Acme HR: Answers.\n\nSkills:\n- PTO",
        ),
    ] {
        let run = rig.run(ask_with_tool(script, tool)).await;
        let mut stream = rig.stream(&run, None).await;
        let call = stream.until("local_tool_call").await;
        for (key, value) in extra.as_object().unwrap() {
            assert_eq!(&call[key], value, "{key}");
        }
        rig.post(&format!("/agent-runs/{run}/tool-results"), json!({"toolUseId": call["toolUseId"], "result": "x"}))
            .await;
        assert_eq!(stream.until("result").await["text"], text);
    }
}
