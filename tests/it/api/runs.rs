use serde_json::{Value, json};

use super::rig::{Rig, WORKSPACE, ask, ask_with_tool, desk};
use crate::support::world::scripts;

fn hello() -> Value {
    scripts([
        ("hello", json!({"turns": [{"deltas": ["Hello", ", world"]}]})),
        ("echo", json!({"turns": [{"text": "{{system}} / {{last_user}}"}]})),
        ("thinker", json!({"turns": [{"thinking": "hm", "text": "done"}]})),
        ("truncated", json!({"turns": [{"text": "{\"city\": \"Ber", "stop": "max_tokens"}]})),
        (
            "broken",
            json!({"turns": [{"error": {"error": "no credit", "errorClass": "auth", "retryable": false, "apiStatus": 402, "apiCode": "insufficient_quota"}}]}),
        ),
    ])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_accepted_streamed_and_stored() {
    let rig = Rig::new(hello()).await;
    let mut spec = ask("hello", "hi");
    spec["name"] = json!("greeter");
    spec["metadata"] = json!({"customer": "acme"});
    let taken = rig.post("/agent-runs", spec.clone()).await;
    let run = taken.body["runId"].as_str().unwrap();
    assert_eq!(taken.status, 202);
    assert_eq!(taken.body["streamUrl"], format!("/api/v1/workspaces/{WORKSPACE}/agent-runs/{run}/stream"));

    let frames = rig.frames(run).await;
    let seqs: Vec<u64> = frames.iter().map(|frame| frame["seq"].as_u64().unwrap()).collect();
    assert_eq!(seqs, (1..=frames.len() as u64).collect::<Vec<_>>());
    let deltas: String = frames
        .iter()
        .filter(|frame| frame["type"] == "assistant_delta")
        .map(|frame| frame["text"].as_str().unwrap())
        .collect();
    assert_eq!(deltas, "Hello, world");
    let message = frames.iter().find(|frame| frame["type"] == "assistant_message").unwrap();
    assert_eq!((&message["turn"], &message["model"]["vendorModelId"]), (&json!(0), &json!("hello")));
    let last = frames.last().unwrap();
    assert_eq!(
        (&last["type"], &last["subtype"], &last["text"]),
        (&json!("result"), &json!("success"), &json!("Hello, world"))
    );
    assert_eq!(
        (&last["turns"], &last["model"]["id"], &last["data"]["text"]),
        (&json!(1), &json!("script:hello"), &json!("Hello, world"))
    );
    assert!(last["tokens"]["outputTokens"].as_u64().unwrap() > 0);

    let snapshot = rig.get(&format!("/agent-runs/{run}")).await.body;
    let expected = [
        ("status", json!("succeeded")),
        ("finalText", json!("Hello, world")),
        ("error", Value::Null),
        ("failureReason", Value::Null),
        ("metadata", json!({"customer": "acme"})),
        ("specName", json!("greeter")),
        ("turns", json!(1)),
        ("runId", json!(run)),
    ];
    for (key, value) in expected {
        assert_eq!(snapshot[key], value, "{key}");
    }
    assert_eq!(snapshot["spec"]["systemPrompt"], "You are a test agent.");
    assert_eq!(snapshot["tokens"], last["tokens"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_truncated_answer_is_kept() {
    let rig = Rig::new(hello()).await;
    let run = rig.run(ask("truncated", "x")).await;
    let frames = rig.frames(&run).await;
    let [.., message, last] = &frames
        .iter()
        .filter(|frame| ["assistant_message", "error"].contains(&frame["type"].as_str().unwrap()))
        .collect::<Vec<_>>()[..]
    else {
        panic!("{frames:?}")
    };
    assert_eq!((&message["text"], &message["finishReason"]), (&json!("{\"city\": \"Ber"), &json!("max_tokens")));
    assert_eq!(
        (&last["errorClass"], &last["code"], &last["partialText"]),
        (&json!("truncation"), &json!("truncation"), &json!("{\"city\": \"Ber"))
    );
    let snapshot = rig.get(&format!("/agent-runs/{run}")).await.body;
    assert_eq!((&snapshot["status"], &snapshot["finalText"]), (&json!("failed"), &json!("{\"city\": \"Ber")));
    assert_eq!(snapshot["failureReason"], json!({"errorClass": "truncation", "finishReason": "max_tokens"}));
    assert_eq!(snapshot["error"], last["error"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_providers_error_has_its_class_status_and_code() {
    let rig = Rig::new(hello()).await;
    let last = rig.ending(&rig.run(ask("broken", "x")).await).await;
    assert_eq!(
        (&last["type"], &last["errorClass"], &last["retryable"], &last["apiStatus"], &last["apiCode"]),
        (&json!("error"), &json!("auth"), &json!(false), &json!(402), &json!("insufficient_quota"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn thinking_is_streamed_only_above_reasoning_level_0() {
    let rig = Rig::new(hello()).await;
    for (level, thinks) in
        [(json!(null), false), (json!("off"), false), (json!(0), false), (json!(1), true), (json!("high"), true)]
    {
        let mut spec = ask("thinker", "x");
        spec["reasoningLevel"] = level.clone();
        let frames = rig.frames(&rig.run(spec).await).await;
        assert_eq!(frames.iter().any(|frame| frame["type"] == "thinking_delta"), thinks, "{level}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_filtered_and_listed_in_pages() {
    let rig = Rig::new(hello()).await;
    let mut ids = Vec::new();
    for index in 0..3 {
        let mut spec = ask("echo", &format!("p{index}"));
        spec["metadata"] = json!({"n": index.to_string(), "all": "yes"});
        let run = rig.run(spec).await;
        rig.frames(&run).await;
        ids.insert(0, run);
    }
    let listed = |answer: &super::http::Answer| -> Vec<String> {
        answer.body["runs"].as_array().unwrap().iter().map(|run| run["id"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(listed(&rig.get("/agent-runs").await), ids);
    assert_eq!(listed(&rig.get("/agent-runs?metadata=all:yes&metadata=n:1").await), [ids[1].clone()]);
    assert_eq!(listed(&rig.get("/agent-runs?status=failed").await), Vec::<String>::new());
    let first = rig.get("/agent-runs?limit=2&includeTotal=1").await;
    assert_eq!((listed(&first), &first.body["total"]), (ids[..2].to_vec(), &json!(3)));
    let cursor = first.body["nextCursor"].as_str().unwrap();
    let second = rig.get(&format!("/agent-runs?limit=2&cursor={cursor}")).await;
    assert_eq!((listed(&second), &second.body["nextCursor"]), (ids[2..].to_vec(), &Value::Null));
    let stray = rig.get("/agent-runs?cursor=nonsense").await;
    assert_eq!((stray.refusal(), &stray.body["field"]), ((400, "invalid_request"), &json!("cursor")));
    assert_eq!(
        stray.body["message"],
        "cursor: is not a valid cursor; send the nextCursor of the previous page unchanged"
    );
    assert_eq!(rig.get("/agent-runs?status=odd").await.refusal(), (400, "invalid_request"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stored_agent_is_started_by_its_id() {
    let rig = Rig::with(hello(), |options| options.agents = vec![desk()]).await;
    let last = rig.ending(&rig.run(json!({"agentId": "desk", "prompt": "q"})).await).await;
    assert_eq!(last["text"], "You are the desk. / q");
    assert_eq!(
        rig.post("/agent-runs", json!({"agentId": "no-agent", "prompt": "q"})).await.refusal(),
        (403, "agent_not_allowed")
    );
    assert_eq!(rig.get("/agents").await.body["agents"][0]["id"], "desk");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_invalid_field_of_a_spec_is_named() {
    let rig = Rig::new(hello()).await;
    let mut spec = ask("hello", "x");
    spec["tools"] = json!([{"kind": "local", "name": "a b"}]);
    let refused = rig.post("/agent-runs", spec).await;
    assert_eq!(refused.refusal(), (400, "invalid_request"));
    assert_eq!(refused.body["field"], "tools[0].name");
    assert_eq!(refused.body["error"], "tools[0].name: must have 1 to 64 characters of A-Z a-z 0-9 _");
    let model = rig.post("/agent-runs", ask("nope", "x")).await;
    assert_eq!(model.refusal(), (400, "invalid_model"));
    let scripts = ["broken", "echo", "hello", "thinker", "truncated"].map(|name| format!("script:{name}"));
    assert_eq!(model.body["candidates"], json!(scripts));
    assert_eq!(rig.get("/agent-runs").await.body["runs"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn models_and_identity() {
    let rig = Rig::new(hello()).await;
    let models = rig.get("/models").await.body;
    assert_eq!(models["defaultModelId"], "script:broken");
    assert_eq!(models["models"][1]["id"], "script:echo");
    assert_eq!(rig.get("/identity").await.body["workspace"], WORKSPACE);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_is_read_in_pages() {
    let call = json!({"thinking": "hm", "text": "Let me see.", "tool_calls": [{"name": "probe", "args": {"n": 1}}]});
    let rig = Rig::new(scripts([("call", json!({"turns": [call, {"text": "{{last_tool_result}}"}]}))])).await;
    let probe = json!({"kind": "local", "name": "probe", "description": "", "parameters": {"type": "object"}});
    let mut spec = ask_with_tool("call", probe);
    spec["reasoningLevel"] = json!("low");
    let run = rig.run(spec).await;
    let mut stream = rig.stream(&run, None).await;
    let call = stream.until("local_tool_call").await;
    let path = format!("/agent-runs/{run}/transcript");
    let so_far = rig.get(&path).await;
    assert_eq!((so_far.status, &so_far.body["total"], &so_far.body["more"]), (200, &json!(2), &json!(false)));
    let result = json!({"toolUseId": call["toolUseId"], "result": "42"});
    assert_eq!(rig.post(&format!("/agent-runs/{run}/tool-results"), result).await.status, 200);
    stream.until("result").await;

    let parts = |message: &Value| -> Vec<String> {
        message["parts"].as_array().unwrap().iter().map(|part| part["kind"].as_str().unwrap().to_owned()).collect()
    };
    let first = rig.get(&format!("{path}?limit=3")).await.body;
    let heads = json!([first["total"], first["opening"], first["earlier"], first["more"]]);
    assert_eq!(heads, json!([4, 1, 0, true]), "{first}");
    let messages = first["messages"].as_array().unwrap();
    assert_eq!(messages.iter().map(|message| message["index"].as_u64().unwrap()).collect::<Vec<_>>(), [1, 2, 3]);
    assert_eq!(parts(&messages[1]), ["thinking", "text", "tool_use"]);
    assert_eq!(parts(&messages[2]), ["tool_result"]);
    let last = rig.get(&format!("{path}?limit=3&after=3")).await.body;
    assert_eq!((&last["more"], &last["messages"][0]["index"]), (&json!(false), &json!(4)), "{last}");
    assert_eq!(last["messages"][0]["parts"][0]["text"], "42");

    let strange = rig.get(&format!("{path}?limt=3")).await;
    assert_eq!((strange.refusal(), &strange.body["field"]), ((400, "invalid_request"), &json!("limt")));
    assert_eq!(rig.get(&format!("{path}?limit=0")).await.refusal(), (400, "invalid_request"));
    assert_eq!(rig.get("/agent-runs/run-none/transcript").await.refusal(), (404, "not_found"));
}
