//! An agent with more tools than a run can carry.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::{
    api::{
        http::Exchange,
        rig::{Rig, ask},
    },
    proofs::scale,
    support::world::{scripts, within},
};

fn echo() -> Value {
    scripts([("echo", json!({"turns": [{"text": "hi"}]}))])
}

fn local_tools(many: usize) -> Value {
    (0..many).map(|index| json!({"kind": "local", "name": format!("tool_{index}")})).collect()
}

/// The slowest response of `/healthz` during the request; all of them must be 200.
async fn slowest_while<T>(rig: &Rig, request: impl Future<Output = T>) -> (T, Duration) {
    let mut request = std::pin::pin!(request);
    let mut slowest = Duration::ZERO;
    loop {
        let asked = Instant::now();
        let alive = async { Exchange::open(rig.address, "GET /healthz", &[], None).await.finish().await };
        tokio::select! {
            biased;
            answer = &mut request => return (answer, slowest),
            alive = within("/healthz", alive) => {
                assert_eq!(alive.status, 200, "{alive:?}");
                slowest = slowest.max(asked.elapsed());
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_too_many_tools_is_rejected_without_blocking_other_requests() {
    let rig = Rig::new(echo()).await;
    let many = scale("WINDLASS_HOSTILE_TOOLS", 1_000);
    let mut spec = ask("echo", "x");
    spec["tools"] = local_tools(many);
    let servers = (0..many.div_ceil(64)).map(|server| {
        let tools: Vec<Value> = (0..64).map(|tool| json!({"name": format!("s{server}_{tool}")})).collect();
        json!({"kind": "mcp_local", "name": format!("s{server}"), "tools": tools})
    });
    let mut by_servers = ask("echo", "x");
    by_servers["tools"] = servers.collect();
    let tools: Vec<Value> = (0..many).map(|index| json!({"name": format!("t{index}"), "kind": "external"})).collect();
    let whole = json!({"definition": {"id": "a", "model": "script:echo", "tools": tools}, "prompt": "x"});
    for (body, field) in [(spec.clone(), "tools"), (by_servers, "tools"), (whole, "definition")] {
        let (refused, slowest) = slowest_while(&rig, rig.post("/agent-runs", body)).await;
        assert_eq!((refused.refusal(), &refused.body["field"]), ((400, "invalid_request"), &json!(field)));
        let said = refused.body["error"].as_str().unwrap();
        assert!(said.contains("256"), "the limit is named: {said}");
        println!("{many} tools in `{field}`: /healthz took at most {slowest:?} meanwhile");
    }
    let refused = rig.post("/agent-sessions", json!({"systemPrompt": "s", "tools": spec["tools"]})).await;
    assert_eq!((refused.refusal(), &refused.body["field"]), ((400, "invalid_request"), &json!("tools")));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_with_the_maximum_number_of_tools_runs() {
    let rig = Rig::new(echo()).await;
    let mut spec = ask("echo", "x");
    spec["tools"] = local_tools(256);
    assert_eq!(rig.ending(&rig.run(spec).await).await["text"], "hi");
}
