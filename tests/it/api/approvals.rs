//! Approvals over HTTP: roles of keys, grants, rules of runs and sessions, questions of sub-agents.

use serde_json::{Value, json};
use windlass_api::auth::ApiKey;
use windlass_core::{
    agent::{AgentDefinition, ToolSource, ToolSpec},
    ids::RunId,
};
use windlass_store::NewApiKey;

use super::{
    http::Answer,
    rig::{Rig, WORKSPACE},
};
use crate::support::world::scripts;

/// Pays three times, one call a turn, and reports the results.
fn models() -> Value {
    let pay = |n: u64| json!({"tool_calls": [{"name": "echo", "args": {"pay": n, "to": "ann"}}]});
    scripts([
        ("pay", json!({"turns": [pay(1), pay(2), pay(3), {"text": "{{last_tool_result}}"}]})),
        (
            "boss",
            json!({"turns": [{"tool_calls": [{"name": "clerk", "args": {"x": 1}}]}, {"text": "{{last_tool_result}}"}]}),
        ),
        ("once", json!({"turns": [pay(1), {"text": "paid"}]})),
    ])
}

fn payer(approvals: &Value) -> AgentDefinition {
    let agent = json!({"id": "payer", "model": "script:pay", "tools": [{"name": "echo"}], "approvals": approvals});
    serde_json::from_value(agent).unwrap()
}

async fn rig(agent: AgentDefinition) -> Rig {
    Box::pin(Rig::with(models(), |options| {
        options.agents = vec![agent];
        options.builtins = vec![ToolSpec::new("echo".into(), ToolSource::Builtin)];
    }))
    .await
}

impl Rig {
    async fn key_with(&self, scopes: &[&str], roles: &[&str]) -> ApiKey {
        let key = ApiKey::random();
        let texts = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let row = key.row(WORKSPACE.into(), "approver", texts(scopes), None);
        self.store().create_key(NewApiKey { roles: texts(roles), ..row }).await.unwrap();
        key
    }

    async fn confirm(&self, key: &ApiKey, run: &str, body: Value) -> Answer {
        self.send(key, "POST", &format!("/agent-runs/{run}/confirmations"), Some(&body)).await
    }

    /// How the run's calls were decided without a person.
    async fn decided(&self, run: &str) -> Vec<String> {
        let events = self.world.events(&RunId::new(run)).await;
        let decided = events.iter().filter(|event| event.kind == "approval_decided");
        let line = |data: &Value| format!("{} {} {}", data["toolUseId"], data["outcome"], data["reason"]["kind"]);
        decided.map(|event| line(&event.data).replace('"', "")).collect()
    }
}

/// The approval of an await's first call.
fn approval(item: &Value) -> Value {
    json!({"awaitId": item["id"], "approved": true, "digest": item["calls"][0]["digest"]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_with_roles_is_answered_by_a_key_that_has_one() {
    let rule = json!([{"tool": "echo", "outcome": "ask", "roles": ["finance", "board"]}]);
    let rig = rig(payer(&rule)).await;
    let run = rig.run(json!({"agentId": "payer", "prompt": "go"})).await;
    let item = rig.stream(&run, None).await.until("await_opened").await["item"].clone();
    assert_eq!(item["roles"], json!(["finance", "board"]));
    let refused = "this is for an actor with one of the roles finance, board; answer with a key that has one";
    for roles in [[].as_slice(), &["desk"]] {
        let key = rig.key_with(&["runs:approve"], roles).await;
        for body in [approval(&item), json!({"awaitId": item["id"], "approved": false})] {
            let answer = rig.confirm(&key, &run, body).await;
            assert_eq!((answer.status, &answer.body["reason"]), (400, &json!(refused)), "{answer:?}");
        }
    }
    let key = rig.key_with(&["runs:approve"], &["desk", "board"]).await;
    assert_eq!(rig.confirm(&key, &run, approval(&item)).await.status, 200);
    let closed = rig.stream(&run, None).await.until("await_closed").await;
    assert_eq!(closed["actor"], json!({"id": key.id(), "name": "approver", "roles": ["desk", "board"]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_answers_later_calls_of_its_run_until_it_is_revoked() {
    let rig = rig(payer(&json!([{"name": "pay", "tool": "echo", "outcome": "ask", "roles": ["finance"]}]))).await;
    let key = rig.key_with(&["runs:approve", "runs:read"], &["finance"]).await;
    let run = rig.run(json!({"agentId": "payer", "prompt": "go"})).await;
    let mut stream = rig.stream(&run, None).await;
    let first = stream.until("await_opened").await["item"].clone();
    let with = |grant: Value| {
        let mut body = approval(&first);
        body["grant"] = grant;
        body
    };
    for (grant, problem) in [
        (json!({"scope": "planet"}), "unknown variant"),
        (json!({"scope": "run", "shape": 1}), "unknown field"),
        (json!({"scope": "session"}), "the run has no session"),
        (json!({"scope": "run", "arguments": {"at": ["/from"]}}), "no value at"),
    ] {
        let refused = rig.confirm(&key, &run, with(grant.clone())).await;
        assert_eq!(refused.status, 400, "{grant}: {refused:?}");
        assert!(refused.body.to_string().contains(problem), "{grant}: {refused:?}");
    }
    let granted = rig.confirm(&key, &run, with(json!({"scope": "run", "arguments": {"at": ["/to"]}}))).await;
    assert_eq!(granted.status, 200, "{granted:?}");
    assert_eq!(rig.ending(&run).await["type"], "result");
    assert_eq!(rig.decided(&run).await, ["call-1-0 allow grant", "call-2-0 allow grant"]);

    let grants = rig.send(&key, "GET", "/approval-grants?tool=echo", None).await.body["grants"].clone();
    let grant = grants[0].clone();
    assert_eq!(
        (&grant["scope"], &grant["shape"], &grant["tool"], grants.as_array().map(Vec::len)),
        (
            &json!({"kind": "run", "id": run}),
            &json!({"kind": "same_values", "values": {"/to": "ann"}}),
            &json!("echo"),
            Some(1)
        )
    );
    let explained = rig.send(&key, "GET", &format!("/agent-runs/{run}/calls/call-1-0/approval"), None).await.body;
    assert_eq!(
        explained["recorded"],
        json!([
            {"kind": "decided", "outcome": "allow", "reason": {"kind": "grant", "id": grant["id"]}},
        ])
    );
    assert_eq!(explained["now"]["decision"]["outcome"], "allow");

    let path = format!("/approval-grants/{}/revoke", grant["id"].as_str().unwrap());
    let reader = rig.key_with(&["runs:read"], &[]).await;
    assert_eq!(rig.send(&reader, "POST", &path, None).await.status, 403);
    for _ in 0..2 {
        assert_eq!(rig.send(&key, "POST", &path, None).await.body["revoked"], true);
    }
    assert_eq!(rig.send(&key, "POST", "/approval-grants/grant-none/revoke", None).await.status, 404);
    assert_eq!(rig.send(&key, "GET", "/approval-grants", None).await.body, json!({"grants": []}));
    assert_eq!(rig.get("/approval-grants?revoked=1").await.body["grants"][0]["id"], grant["id"]);
    let explained = rig.get(&format!("/agent-runs/{run}/calls/call-0-0/approval")).await.body;
    assert_eq!(
        explained["recorded"],
        json!([
            {"kind": "asked", "awaitId": first["id"]},
            {"kind": "answered", "awaitId": first["id"], "outcome": "approved",
             "actor": {"id": key.id(), "name": "approver", "roles": ["finance"]}},
        ])
    );
    assert_eq!(explained["now"]["grants"], json!([{"id": grant["id"], "unmet": "it was revoked"}]));
    assert_eq!(explained["now"]["decision"]["outcome"], "ask");
    assert_eq!(rig.get(&format!("/agent-runs/{run}/calls/call-9-9/approval")).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn rules_that_are_set_while_a_run_waits_apply_to_its_next_call() {
    let rig = rig(payer(&json!([{"tool": "echo", "outcome": "ask"}]))).await;
    let run = rig.run(json!({"agentId": "payer", "prompt": "go"})).await;
    let mut stream = rig.stream(&run, None).await;
    let first = stream.until("await_opened").await["item"].clone();
    let path = format!("/agent-runs/{run}/approvals");
    assert_eq!(rig.get(&path).await.body, json!({"rules": [], "mayRelax": false}));
    let wrong = [
        (json!({"rules": [{"outcome": "maybe"}]}), "rules.0.outcome"),
        (json!({"rules": [{"outcome": "deny", "tol": "x"}]}), "did you mean tool?"),
        (json!({"rules": [{"outcome": "deny"}], "role": 1}), "unknown field"),
        (json!({}), "rules"),
    ];
    for (body, problem) in wrong {
        let refused = rig.send(&rig.key, "PUT", &path, Some(&body)).await;
        assert_eq!(refused.status, 400, "{body} {refused:?}");
        assert!(refused.body.to_string().contains(problem), "{problem}: {refused:?}");
    }
    let writer = rig.key_with(&["runs:read", "runs:write"], &[]).await;
    let second = json!([
        {"name": "the second", "when": [{"at": "/pay", "op": "==", "value": 2}], "outcome": "allow"},
        {"name": "the third", "when": [{"at": "/pay", "op": "==", "value": 3}], "outcome": "deny"},
    ]);
    let body = json!({"rules": second});
    assert_eq!(rig.send(&writer, "PUT", &path, Some(&body)).await.status, 403);
    assert_eq!(rig.send(&rig.key, "PUT", &path, Some(&body)).await.status, 200);
    let shown = rig.get(&path).await.body;
    assert_eq!(
        (&shown["rules"], &shown["mayRelax"], &shown["setBy"]["name"]),
        (&second, &json!(true), &json!("tests"))
    );
    assert_eq!(rig.confirm(&rig.key, &run, approval(&first)).await.status, 200);
    assert_eq!(rig.ending(&run).await["type"], "result");
    assert_eq!(rig.decided(&run).await, ["call-1-0 allow rule", "call-2-0 deny rule"]);
    assert_eq!(rig.send(&rig.key, "DELETE", &path, None).await.body, json!({"ok": true}));
    assert_eq!(rig.get(&path).await.body, json!({"rules": [], "mayRelax": false}));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_that_a_caller_sends_with_a_run_only_narrow_unless_its_key_may_approve() {
    let ask = json!([{"tool": "echo", "outcome": "ask"}]);
    let rig = rig(payer(&ask)).await;
    let body = |rules: Value| json!({"agentId": "payer", "prompt": "go", "approvals": rules});
    let refused = rig.post("/agent-runs", body(json!([{"outcome": "allow", "tols": 1}]))).await;
    assert_eq!(refused.refusal(), (400, "invalid_request"), "{refused:?}");
    assert!(refused.body["message"].as_str().unwrap().starts_with("approvals.0.tols:"), "{refused:?}");

    let writer = rig.key_with(&["runs:write", "runs:read"], &[]).await;
    let start = async |key: &ApiKey, rules: Value| {
        let taken = rig.send(key, "POST", "/agent-runs", Some(&body(rules))).await;
        taken.body["runId"].as_str().unwrap().to_owned()
    };
    let widened = start(&writer, json!([{"outcome": "allow"}])).await;
    rig.stream(&widened, None).await.until("await_opened").await;
    assert_eq!(rig.decided(&widened).await, [""; 0]);

    let narrowed = start(&writer, json!([{"outcome": "deny"}])).await;
    rig.ending(&narrowed).await;
    assert_eq!(rig.decided(&narrowed).await, ["call-0-0 deny rule", "call-1-0 deny rule", "call-2-0 deny rule"]);

    let trusted = start(&rig.key, json!([{"outcome": "allow"}])).await;
    rig.ending(&trusted).await;
    assert_eq!(rig.decided(&trusted).await, ["call-0-0 allow rule", "call-1-0 allow rule", "call-2-0 allow rule"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_of_a_session_apply_to_all_of_its_runs() {
    let rig = rig(payer(&json!([]))).await;
    let session =
        rig.post("/agent-sessions", json!({"agentId": "payer"})).await.body["sessionId"].as_str().unwrap().to_owned();
    let path = format!("/agent-sessions/{session}/approvals");
    let rules = json!({"rules": [{"tool": "echo", "outcome": "deny"}]});
    assert_eq!(rig.send(&rig.key, "PUT", &path, Some(&rules)).await.status, 200);
    for _ in 0..2 {
        let taken = rig.post(&format!("/agent-sessions/{session}/messages"), json!({"prompt": "go"})).await;
        let run = taken.body["runId"].as_str().unwrap().to_owned();
        rig.ending(&run).await;
        assert_eq!(rig.decided(&run).await.len(), 3);
    }
    assert_eq!(rig.send(&rig.key, "PUT", "/agent-sessions/none/approvals", Some(&rules)).await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_of_a_sub_agent_reaches_the_root_and_is_answered_there() {
    let boss = json!({
        "id": "boss", "model": "script:boss", "tools": [{"name": "clerk", "kind": "agent", "agent": "clerk"}],
        "agents": [{"id": "clerk", "model": "script:once", "tools": [{"name": "echo", "confirmation": {"prompt": "Pay {pay}?"}}]}],
    });
    let rig = rig(serde_json::from_value(boss).unwrap()).await;
    let run = rig.run(json!({"agentId": "boss", "prompt": "go"})).await;
    let opened = rig.world.event(&RunId::new(&run), |body| body.kind() == "child_await_opened").await;
    let opened = serde_json::to_value(opened).unwrap()["item"].clone();
    let child = format!("{run}/call-0-0");
    assert_eq!(
        (&opened["id"], &opened["prompt"], &opened["child"]),
        (&json!("call-0-0:await-1"), &json!("Pay 1?"), &json!({"runId": child, "path": ["boss", "clerk"]}))
    );
    let shown = rig.get(&format!("/agent-runs/{run}/awaits")).await.body["awaits"].clone();
    assert_eq!(shown, json!([opened]), "the root shows it while it waits for its sub-agent");
    let wrong = json!({"awaitId": "call-0-9:await-1", "approved": false});
    assert_eq!(rig.confirm(&rig.key, &run, wrong).await.status, 404);
    assert_eq!(rig.confirm(&rig.key, &run, approval(&opened)).await.status, 200);
    assert_eq!(rig.ending(&run).await["text"], "paid");
    let closed = rig.world.event(&RunId::new(&run), |body| body.kind() == "child_await_closed").await;
    let closed = serde_json::to_value(closed).unwrap();
    assert_eq!((&closed["awaitId"], &closed["outcome"]), (&json!("call-0-0:await-1"), &json!("approved")));
    assert_eq!(rig.get(&format!("/agent-runs/{run}/awaits")).await.body, json!({"awaits": []}));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_rules_of_a_run_apply_to_its_sub_agents() {
    let boss = json!({
        "id": "boss", "model": "script:boss", "tools": [{"name": "clerk", "kind": "agent", "agent": "clerk"}],
        "agents": [{"id": "clerk", "model": "script:once", "tools": [{"name": "echo"}]}],
    });
    let rig = rig(serde_json::from_value(boss).unwrap()).await;
    let rules = json!([{"tool": "echo", "outcome": "deny"}]);
    let run = rig.run(json!({"agentId": "boss", "prompt": "go", "approvals": rules})).await;
    rig.ending(&run).await;
    assert_eq!(rig.decided(&format!("{run}/call-0-0")).await, ["call-0-0 deny rule"]);
}
