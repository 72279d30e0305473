//! What is misspelt is refused with the word that was meant, where the protocol does not ask for more patience.

use std::time::Duration;

use serde_json::{Value, json};

use super::rig::{Rig, ask, ask_with_tool, desk};
use crate::support::world::{scripts, within};

fn waiting() -> Value {
    scripts([
        ("echo", json!({"turns": [{"text": "hi"}]})),
        ("wait", json!({"turns": [{"tool_calls": [{"name": "probe", "args": {}}]}, {"text": "{{last_tool_result}}"}]})),
        (
            "twice",
            json!({"turns": [
                {"tool_calls": [{"name": "probe", "args": {}}]}, {"tool_calls": [{"name": "probe", "args": {}}]},
                {"text": "{{all_tool_results}}"},
            ]}),
        ),
        (
            "busy",
            json!({"turns": [{"tool_calls": [{"name": "probe", "args": {"n": 1}}]}, {"text": "as far as I came"}]}),
        ),
    ])
}

fn probe(script: &str) -> Value {
    ask_with_tool(script, json!({"kind": "local", "name": "probe"}))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_tool_result_is_refused() {
    let rig = Rig::new(waiting()).await;
    let run = rig.run(probe("wait")).await;
    let mut stream = rig.stream(&run, None).await;
    let id = stream.until("local_tool_call").await["toolUseId"].clone();
    let results = format!("/agent-runs/{run}/tool-results");
    for (body, field, meant) in [
        (json!({"toolUseId": id, "output": "5"}), "output", "result"),
        (json!({"toolUseId": id, "resutl": "5"}), "resutl", "result"),
        (json!({"toolUseId": id, "eror": "x"}), "eror", "error"),
    ] {
        let refused = rig.post(&results, body).await;
        assert_eq!((refused.refusal(), &refused.body["field"]), ((400, "invalid_request"), &json!(field)));
        assert!(refused.body["error"].as_str().unwrap().contains(&format!("did you mean `{meant}`?")), "{refused:?}");
    }
    // A client that knows more than this server sends more; a Go client leaves an empty result out.
    let taken = rig.post(&results, json!({"toolUseId": id, "result": "5", "traceparent": "x"})).await;
    assert_eq!(taken.status, 200);
    assert_eq!(stream.until("result").await["text"], "5");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_result_has_another_code_than_an_unknown_call() {
    let rig = Rig::new(waiting()).await;
    let run = rig.run(probe("twice")).await;
    let mut stream = rig.stream(&run, None).await;
    let id = stream.until("local_tool_call").await["toolUseId"].clone();
    let results = format!("/agent-runs/{run}/tool-results");
    assert_eq!(rig.post(&results, json!({"toolUseId": id, "result": "5"})).await.status, 200);
    stream.until("local_tool_call").await;
    for again in ["5", "6"] {
        let refused = rig.post(&results, json!({"toolUseId": id, "result": again})).await;
        assert_eq!(refused.refusal(), (404, "duplicate_tool_result"), "{refused:?}");
    }
    let refused = rig.post(&results, json!({"toolUseId": "call-9-9", "result": "5"})).await;
    assert_eq!(refused.refusal(), (404, "unknown_tool_use"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_result_without_a_worker_gets_503_in_time_and_may_be_repeated() {
    let rig = Rig::with(waiting(), |options| options.limits.worker_reply_timeout = Duration::from_millis(300)).await;
    let run = rig.run(probe("wait")).await;
    let mut stream = rig.stream(&run, None).await;
    let id = stream.until("local_tool_call").await["toolUseId"].clone();
    rig.world.stop_worker().await;
    let (results, result) = (format!("/agent-runs/{run}/tool-results"), json!({"toolUseId": id, "result": "5"}));
    let refused = rig.post(&results, result.clone()).await;
    assert_eq!((refused.refusal(), refused.header("retry-after")), ((503, "unavailable"), Some("1")), "{refused:?}");
    rig.world.start_worker();
    within("a judgement", async {
        while rig.post(&results, result.clone()).await.refusal() == (503, "unavailable") {}
    })
    .await;
    assert_eq!(stream.until("result").await["text"], "5");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_request_with_a_misspelt_field_is_refused() {
    let rig = Rig::new(waiting()).await;
    let run = rig.run(probe("wait")).await;
    rig.stream(&run, None).await.until("local_tool_call").await;
    for (verb, body, field, meant) in [
        ("pause", json!({"raeson": "lunch"}), "raeson", Some("reason")),
        ("resume", json!({"mesage": "go"}), "mesage", Some("message")),
        ("steer", json!({"text": "x", "actr": "ann"}), "actr", Some("actor")),
        ("cancel", json!({"resaon": "x"}), "resaon", Some("reason")),
        ("answers", json!({"awaitId": "await-1", "anwser": "x"}), "anwser", Some("answer")),
        (
            "answers",
            json!({"awaitId": "await-1", "results": [{"toolCallId": "c", "ouput": 1}]}),
            "results[0].ouput",
            None,
        ),
        ("confirmations", json!({"awaitId": "await-1", "approvd": true}), "approvd", Some("approved")),
    ] {
        let refused = rig.post(&format!("/agent-runs/{run}/{verb}"), body).await;
        assert_eq!((refused.refusal(), &refused.body["field"]), ((400, "invalid_request"), &json!(field)), "{verb}");
        let said = refused.body["error"].as_str().unwrap();
        assert!(meant.is_none_or(|meant| said.contains(&format!("did you mean `{meant}`?"))), "{said}");
    }
    let row = rig.get(&format!("/agent-runs/{run}")).await.body;
    assert_eq!(row["status"], "running", "nothing was done");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_misspelt_filter_is_refused() {
    let rig = Rig::new(waiting()).await;
    let run = rig.run(ask("echo", "x")).await;
    rig.frames(&run).await;
    for (path, field) in [
        ("/agent-runs?statsu=failed".to_owned(), "statsu"),
        ("/agent-sessions?limt=1".to_owned(), "limt"),
        (format!("/agent-runs/{run}/events?afetr=3"), "afetr"),
        (format!("/agent-runs/{run}/events?verbose=1"), "verbose"),
        (format!("/agent-runs/{run}/awaits?verbose=1"), "verbose"),
        (format!("/agent-runs/{run}?lvie=1"), "lvie"),
    ] {
        let refused = rig.get(&path).await;
        assert_eq!((refused.refusal(), &refused.body["field"]), ((400, "invalid_request"), &json!(field)), "{path}");
    }
    // A later protocol may have more than this server knows.
    assert_eq!(rig.get("/agent-runs?archived=1").await.status, 200);
    let many: String = (0..65).map(|index| format!("x{index}=1&")).collect();
    assert_eq!(rig.get(&format!("/agent-runs?{many}")).await.refusal(), (400, "invalid_request"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_key_gets_the_same_error_for_unknown_and_for_forbidden_agents() {
    let rig = Rig::with(waiting(), |options| options.agents = vec![desk()]).await;
    let refused = rig.post("/agent-runs", json!({"agentId": "no-agent", "prompt": "q"})).await;
    assert_eq!(refused.refusal(), (403, "agent_not_allowed"));
    assert_eq!(refused.body["error"], "agentId: this server has no agent no-agent; GET /agents lists its agents");
    let bound = rig.key(super::rig::WORKSPACE, &["*"], Some(vec!["other".into()])).await;
    let said = |id: &'static str| {
        let (rig, bound) = (&rig, &bound);
        async move {
            let refused = rig.send(bound, "POST", "/agent-runs", Some(&json!({"agentId": id, "prompt": "q"}))).await;
            assert_eq!(refused.refusal(), (403, "agent_not_allowed"));
            refused.body["error"].as_str().unwrap().replace(id, "…")
        }
    };
    let existing = said("desk").await;
    assert_eq!(existing, said("no-one").await);
    assert_eq!(existing, "agentId: this key may not start agent …; GET /agents lists the agents that it may start");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_reached_a_limit_has_it_in_its_snapshot() {
    let rig = Rig::new(waiting()).await;
    let mut spec = probe("busy");
    spec["policy"] = json!({"maxToolCalls": 0});
    let run = rig.run(spec).await;
    let last = rig.ending(&run).await;
    let reason = &last["finalized"];
    assert!(reason.is_string(), "{last}");
    let row = rig.get(&format!("/agent-runs/{run}")).await.body;
    assert_eq!((&row["status"], &row["finalized"]), (&json!("succeeded"), reason), "{row}");
    let listed = rig.get("/agent-runs").await.body;
    assert_eq!(listed["runs"][0]["finalized"], *reason);
    let whole = rig.run(ask("echo", "x")).await;
    rig.frames(&whole).await;
    assert_eq!(rig.get(&format!("/agent-runs/{whole}")).await.body["finalized"], Value::Null);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unusable_schema_is_refused_before_a_model_is_called() {
    let rig = Rig::new(waiting()).await;
    for schema in
        [json!({"type": "banana"}), json!({"$ref": "https://example.com/schema.json"}), json!({"$ref": "#/$defs/none"})]
    {
        let mut spec = ask("echo", "x");
        spec["outputSchema"] = json!({"schema": schema, "enforcement": "strict"});
        let refused = rig.post("/agent-runs", spec).await;
        assert_eq!(
            (refused.refusal(), &refused.body["field"]),
            ((400, "invalid_request"), &json!("outputSchema.schema")),
            "{schema}"
        );
        let definition = json!({"id": "a", "model": "script:echo", "outputSchema": {"schema": schema}});
        let refused = rig.post("/agent-runs", json!({"definition": definition, "prompt": "x"})).await;
        assert_eq!(refused.refusal(), (400, "invalid_request"), "{schema}");
        assert!(refused.body["error"].as_str().unwrap().starts_with("definition: /outputSchema/schema"), "{refused:?}");
    }
}
