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
            json!({"turns": [{"tool_calls": [{"name": "add", "args": {"a": 1, "b": 1, "note": "n".repeat(5000)}}]}, {"text": "{{last_tool_result}}"}]}),
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
async fn a_local_call_takes_one_result() {
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

/// The types of the frames that are about calls and their results.
async fn calls_and_results(rig: &Rig, run: &str) -> Vec<String> {
    let types = rig.frames(run).await.into_iter().map(|frame| frame["type"].as_str().unwrap().to_owned());
    types.filter(|kind| kind.contains("tool_") && kind != "tool_budget_exceeded").collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_the_caller_executes_has_no_tool_result_event() {
    let rig = Rig::new(adding()).await;
    for answer in [json!({"result": "5"}), json!({"error": "boom"})] {
        let run = rig.run(ask_with_tool("add", add())).await;
        let mut answer = answer.clone();
        answer["toolUseId"] = rig.stream(&run, None).await.until("local_tool_call").await["toolUseId"].clone();
        assert_eq!(rig.post(&format!("/agent-runs/{run}/tool-results"), answer).await.status, 200);
        assert_eq!(calls_and_results(&rig, &run).await, ["local_tool_call", "local_tool_result_in"]);
        // The log keeps it: operators see every result there.
        let log = rig.get(&format!("/agent-runs/{run}/events")).await.body;
        let logged = log["events"].as_array().unwrap().iter().filter(|event| event["type"] == "tool_result").count();
        assert_eq!(logged, 1, "{log}");
    }
    let run = rig.run(ask_with_tool("invalid", add())).await;
    assert_eq!(calls_and_results(&rig, &run).await, ["tool_result"], "a synthetic result is sent");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_reaches_the_model() {
    let rig = Rig::new(adding()).await;
    let run = rig.run(ask_with_tool("add", add())).await;
    let mut stream = rig.stream(&run, None).await;
    let id = stream.until("local_tool_call").await["toolUseId"].clone();
    let failed = json!({"toolUseId": id, "error": "boom"});
    assert_eq!(rig.post(&format!("/agent-runs/{run}/tool-results"), failed).await.status, 200);
    let echoed = stream.until("local_tool_result_in").await;
    assert_eq!((&echoed["toolUseId"], &echoed["error"], echoed.get("output")), (&id, &json!("boom"), None));
    let text = stream.until("result").await["text"].as_str().unwrap().to_owned();
    assert_eq!(text, "sum ERROR: boom");
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_arguments_are_not_sent_to_the_caller() {
    let rig = Rig::new(adding()).await;
    let frames = rig.frames(&rig.run(ask_with_tool("invalid", add())).await).await;
    assert!(frames.iter().all(|frame| frame["type"] != "local_tool_call"), "{frames:?}");
    let result = frames.iter().find(|frame| frame["type"] == "tool_result").unwrap();
    assert_eq!(result["ok"], false);
    assert!(result["result"].as_str().unwrap().contains("tool_input_invalid"), "{result}");
}

#[tokio::test(flavor = "multi_thread")]
async fn local_calls_are_sequential_unless_they_are_read_only() {
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
        let awaits = rig.get(&format!("/agent-runs/{run}/awaits")).await.body;
        let open = awaits["awaits"].as_array().unwrap().len();
        assert_eq!(open, if read_only { 2 } else { 1 }, "{awaits}");
        if !read_only {
            assert_eq!(answer(first["toolUseId"].clone(), "A").await.status, 200);
        }
        let second = stream.until("local_tool_call").await;
        assert_eq!(answer(second["toolUseId"].clone(), "B").await.status, 200);
        if read_only {
            assert_eq!(answer(first["toolUseId"].clone(), "A").await.status, 200);
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
async fn large_arguments_and_large_results_arrive_unchanged() {
    let rig = Rig::new(adding()).await;
    let run = rig.run(ask_with_tool("long", add())).await;
    let mut stream = rig.stream(&run, None).await;
    let call = stream.until("local_tool_call").await;
    assert_eq!(call["args"], json!({"a": 1, "b": 1, "note": "n".repeat(5000)}));
    let result: String = (0..300_000).map(|line| format!("{line}\n")).collect();
    let taken = rig
        .post(&format!("/agent-runs/{run}/tool-results"), json!({"toolUseId": call["toolUseId"], "result": result}))
        .await;
    assert_eq!(taken.status, 200, "{taken:?}");
    let read_by_the_model = stream.until("result").await["text"].clone();
    assert!(read_by_the_model == json!(result), "the model read {} bytes", read_by_the_model.to_string().len());
    let transcript = rig.get(&format!("/agent-runs/{run}/transcript")).await.body;
    let parts = transcript["messages"].as_array().unwrap().iter().flat_map(|message| message["parts"].as_array());
    let stored = parts.flatten().find(|part| part["kind"] == "tool_result").unwrap();
    assert!(stored["content"] == json!(result), "the stored result differs from the one that was sent");
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
