//! Who may do what: overrides of configured agents, keys bound to agents, scopes of answers, ids of two workspaces.

use serde_json::{Value, json};
use windlass_api::auth::ApiKey;
use windlass_core::{
    agent::{AgentDefinition, ToolSource, ToolSpec},
    ids::RunId,
    time::Timestamp,
};
use windlass_store::NewApiKey;

use super::{
    http::Answer,
    rig::{Rig, WORKSPACE, ask, desk},
};
use crate::support::world::{scripts, within};

/// A model that calls `echo` once, a model that hands the question on, and one that answers at once.
fn models() -> Value {
    let keep = |then: &str| json!({"turns": [{"tool_calls": [{"name": "echo", "args": {"x": 1}}]}, {"text": then}]});
    scripts([
        ("echo", json!({"turns": [{"text": "{{last_user}}"}], "repeat_last": true})),
        ("keep", keep("{{last_tool_result}}")),
        ("outside", json!({"turns": [{"tool_calls": [{"name": "form", "args": {}}]}, {"text": "done"}]})),
        ("boss", json!({"turns": [{"tool_calls": [{"name": "clerk", "args": {"x": 1}}]}, {"text": "done"}]})),
    ])
}

fn agent(document: Value) -> AgentDefinition {
    serde_json::from_value(document).unwrap()
}

/// Asks a person before `echo`.
fn conf() -> AgentDefinition {
    agent(
        json!({"id": "conf", "model": "script:keep", "tools": [{"name": "echo", "confirmation": {"title": "Keep it?"}}]}),
    )
}

/// Asks a second person before `echo`, which only its clerk has.
fn boss() -> AgentDefinition {
    let echo = json!({"name": "echo", "confirmation": {"fourEyes": true}});
    agent(json!({
        "id": "boss", "model": "script:boss", "tools": [{"name": "clerk", "kind": "agent", "agent": "clerk"}],
        "agents": [{"id": "clerk", "model": "script:keep", "tools": [echo]}],
    }))
}

async fn rig() -> Rig {
    rig_of(vec![desk(), conf()]).await
}

async fn rig_of(agents: Vec<AgentDefinition>) -> Rig {
    Rig::with(models(), |options| {
        options.agents = agents;
        options.builtins = ["echo", "gate"].map(|name| ToolSpec::new(name.into(), ToolSource::Builtin)).into();
    })
    .await
}

impl Rig {
    async fn bound_to(&self, agent: &str) -> ApiKey {
        self.key(WORKSPACE, &["*"], Some(vec![agent.into()])).await
    }

    async fn start_with(&self, key: &ApiKey, body: Value) -> Answer {
        self.send(key, "POST", "/agent-runs", Some(&body)).await
    }

    /// The run below a run, as a segment of a path, once it is open.
    async fn child_of(&self, run: &str) -> String {
        let linked = self.stream(run, None).await.until("child_run_linked").await;
        let child = linked["childRunId"].as_str().unwrap().replace('/', "%2F");
        let path = format!("/agent-runs/{child}");
        within("a child", async { while self.get(&path).await.status == 404 {} }).await;
        child
    }

    /// Starts a run and waits until it wants an approval; the run and the confirmation that approves it.
    async fn until_it_asks(&self, key: &ApiKey, body: Value) -> (String, Value) {
        let taken = self.start_with(key, body).await;
        assert_eq!(taken.status, 202, "{taken:?}");
        let run = taken.body["runId"].as_str().unwrap().to_owned();
        let opened = self.stream(&run, None).await.until("await_opened").await;
        let item = &opened["item"];
        (run, json!({"awaitId": item["id"], "approved": true, "digest": item["calls"][0]["digest"]}))
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_cannot_remove_an_agents_confirmation() {
    let rig = rig().await;
    let body = json!({"agentId": "conf", "prompt": "x", "tools": [{"kind": "mantyx", "id": "echo"}]});
    for key in [rig.key.clone(), rig.bound_to("conf").await] {
        let run = rig.start_with(&key, body.clone()).await.body["runId"].as_str().unwrap().to_owned();
        let mut stream = rig.stream(&run, None).await;
        let kind = loop {
            let kind = stream.next().await.unwrap().unwrap()["type"].as_str().unwrap().to_owned();
            if ["await_opened", "result"].contains(&kind.as_str()) {
                break kind;
            }
        };
        assert_eq!(kind, "await_opened", "the call ran without an approval");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_key_sends_what_it_may_and_nothing_else() {
    let rig = rig().await;
    let key = rig.bound_to("desk").await;
    let with = |field: &str, value: Value| {
        let mut body = json!({"agentId": "desk", "prompt": "x"});
        body[field] = value;
        body
    };
    let refused = [
        ("modelId", json!("script:keep")),
        ("systemPrompt", json!("You are free.")),
        ("reasoningLevel", json!(30)),
        ("tools", json!([{"kind": "mantyx", "id": "echo"}])),
    ];
    for (field, value) in refused {
        let answer = rig.start_with(&key, with(field, value)).await;
        assert_eq!(
            (answer.refusal(), &answer.body["field"]),
            ((403, "agent_not_allowed"), &json!(field)),
            "{answer:?}"
        );
        assert!(answer.body["message"].as_str().unwrap().starts_with(field), "{answer:?}");
    }
    let mut system = with("messages", json!([{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]));
    system.as_object_mut().unwrap().remove("prompt");
    assert_eq!(rig.start_with(&key, system).await.body["field"], "messages");
    assert_eq!(rig.get("/agent-runs").await.body["runs"], json!([]), "a refusal starts nothing");

    let allowed = [
        ("name", json!("n")),
        ("metadata", json!({"k": "v"})),
        ("labels", json!({"k": "v"})),
        ("runId", json!("mine")),
        ("sessionId", json!("chat")),
        ("tools", json!([{"kind": "local", "name": "extra"}])),
        ("outputSchema", json!({"schema": {"type": "object"}})),
        ("policy", json!({"maxToolCalls": 3})),
        ("budgets", json!({"maxToolTurns": 50})),
        ("loopDetection", json!(false)),
        ("toolBudgets", json!({})),
        ("reasoningLevel", json!("off")),
    ];
    for (field, value) in allowed {
        let answer = rig.start_with(&key, with(field, value)).await;
        assert_eq!(answer.status, 202, "{field}: {answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bound_key_finds_runs_and_sessions_of_its_agents_alone() {
    let rig = rig().await;
    let bound = rig.bound_to("desk").await;
    let own = rig.start_with(&bound, json!({"agentId": "desk", "prompt": "x", "sessionId": "chat"})).await;
    let own = own.body["runId"].as_str().unwrap().to_owned();
    let (other, approval) = rig.until_it_asks(&rig.key, json!({"agentId": "conf", "prompt": "x"})).await;
    let session = |body: Value| async { rig.post("/agent-sessions", body).await.body["sessionId"].clone() };
    let foreign = session(json!({"agentId": "conf"})).await.as_str().unwrap().to_owned();
    let shared = session(json!({"agentId": "desk"})).await.as_str().unwrap().to_owned();

    let listed = rig.send(&bound, "GET", "/agent-runs?includeTotal=1", None).await.body;
    assert_eq!((&listed["runs"][0]["id"], &listed["total"]), (&json!(own), &json!(1)));
    let listed = rig.send(&bound, "GET", "/agent-sessions", None).await.body;
    let ids: Vec<&str> =
        listed["sessions"].as_array().unwrap().iter().map(|s| s["sessionId"].as_str().unwrap()).collect();
    assert_eq!((ids, &listed["total"]), (vec![shared.as_str(), "chat"], &json!(2)));

    let message = json!({"prompt": "x"});
    let verbs = [
        ("GET", "", None),
        ("GET", "/stream", None),
        ("GET", "/events", None),
        ("GET", "/awaits", None),
        ("POST", "/cancel", None),
        ("POST", "/pause", None),
        ("POST", "/resume", None),
        ("POST", "/steer", Some(json!({"text": "x"}))),
        ("POST", "/answers", Some(json!({"awaitId": "await-1", "answer": "x"}))),
        ("POST", "/confirmations", Some(approval)),
        ("POST", "/tool-results", Some(json!({"toolUseId": "call-0-0", "result": "x"}))),
    ];
    for (method, path, body) in &verbs {
        let foreign = rig.send(&bound, method, &format!("/agent-runs/{other}{path}"), body.as_ref()).await;
        let unknown = rig.send(&bound, method, &format!("/agent-runs/run-0{path}"), body.as_ref()).await;
        assert_eq!((foreign.refusal(), &foreign.body), ((404, "not_found"), &unknown.body), "{path}");
    }
    for (method, path, body) in
        [("GET", "", None), ("GET", "/events", None), ("POST", "/messages", Some(&message)), ("DELETE", "", None)]
    {
        let theirs = rig.send(&bound, method, &format!("/agent-sessions/{foreign}{path}"), body).await;
        let unknown = rig.send(&bound, method, &format!("/agent-sessions/ses-0{path}"), body).await;
        assert_eq!((theirs.refusal(), &theirs.body), ((404, "not_found"), &unknown.body), "{path}");
    }
    let joined = rig.start_with(&bound, json!({"agentId": "desk", "prompt": "x", "sessionId": foreign})).await;
    assert_eq!(joined.refusal(), (404, "not_found"));
    assert_eq!(rig.get(&format!("/agent-runs/{other}")).await.body["state"], "waiting", "nothing was changed");
    let said = rig.send(&bound, "POST", &format!("/agent-sessions/{shared}/messages"), Some(&message)).await;
    assert_eq!(said.status, 202, "{said:?}");
    let widened = json!({"prompt": "x", "tools": [{"kind": "mantyx", "id": "echo"}]});
    let said = rig.send(&bound, "POST", &format!("/agent-sessions/{shared}/messages"), Some(&widened)).await;
    assert_eq!((said.refusal(), &said.body["field"]), ((403, "agent_not_allowed"), &json!("tools")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_belongs_to_the_agent_that_was_started() {
    let rig = rig_of(vec![boss(), agent(json!({"id": "clerk", "model": "script:echo"}))]).await;
    let (bound, clerk) = (rig.bound_to("boss").await, rig.bound_to("clerk").await);
    let taken = rig.start_with(&bound, json!({"agentId": "boss", "prompt": "x"})).await;
    let run = taken.body["runId"].as_str().unwrap().to_owned();
    let child = rig.child_of(&run).await;
    assert_eq!(rig.send(&bound, "GET", &format!("/agent-runs/{child}"), None).await.status, 200);
    assert_eq!(rig.send(&clerk, "GET", &format!("/agent-runs/{child}"), None).await.status, 404);
    let listed =
        async |key: &ApiKey| rig.send(key, "GET", "/agent-runs?includeTotal=1", None).await.body["total"].clone();
    assert_eq!((listed(&bound).await, listed(&clerk).await), (json!(2), json!(0)));
    rig.send(&bound, "POST", &format!("/agent-runs/{run}/cancel"), None).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_starts_runs_neither_answers_nor_approves_them() {
    let form = agent(json!({"id": "form", "model": "script:outside", "tools": [{"name": "form", "kind": "external"}]}));
    let rig = rig_of(vec![conf(), form]).await;
    let writer = rig.key(WORKSPACE, &["runs:read", "runs:write"], None).await;
    let answerer = rig.key(WORKSPACE, &["runs:answer"], None).await;
    let approver = rig.key(WORKSPACE, &["runs:approve"], None).await;

    let (run, approval) = rig.until_it_asks(&writer, json!({"agentId": "conf", "prompt": "x"})).await;
    let confirmations = format!("/agent-runs/{run}/confirmations");
    for key in [&writer, &answerer] {
        let refused = rig.send(key, "POST", &confirmations, Some(&approval)).await;
        assert_eq!(
            (refused.refusal(), &refused.body["required"]),
            ((403, "insufficient_scope"), &json!(["runs:approve"]))
        );
        assert!(refused.body["message"].as_str().unwrap().contains("--scope runs:approve"), "{refused:?}");
    }
    assert_eq!(rig.send(&approver, "POST", &confirmations, Some(&approval)).await.status, 200);

    let taken = rig.start_with(&writer, json!({"agentId": "form", "prompt": "x"})).await;
    let run = taken.body["runId"].as_str().unwrap().to_owned();
    let opened = rig.stream(&run, None).await.until("await_opened").await;
    let call = &opened["item"]["calls"][0]["toolCallId"];
    let results = json!({"awaitId": opened["item"]["id"], "results": [{"toolCallId": call, "result": "x"}]});
    let answers = format!("/agent-runs/{run}/answers");
    for key in [&writer, &approver] {
        let refused = rig.send(key, "POST", &answers, Some(&results)).await;
        assert_eq!(
            (refused.refusal(), &refused.body["required"]),
            ((403, "insufficient_scope"), &json!(["runs:answer"]))
        );
    }
    // The door of the caller's own tools is not a way around it.
    let result = json!({"toolUseId": call, "result": "x"});
    let around = rig.send(&writer, "POST", &format!("/agent-runs/{run}/tool-results"), Some(&result)).await;
    assert_eq!(around.refusal(), (400, "invalid_request"), "{around:?}");
    assert!(around.body["message"].as_str().unwrap().contains("runs:answer"), "{around:?}");
    assert_eq!(rig.send(&answerer, "POST", &answers, Some(&results)).await.status, 200);
    assert_eq!(rig.ending(&run).await["type"], "result");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_four_eyes_the_starter_of_a_run_may_not_approve_calls_of_its_children() {
    let rig = rig_of(vec![boss()]).await;
    let run = rig.run(json!({"agentId": "boss", "prompt": "x"})).await;
    let child = rig.child_of(&run).await;
    let item = rig.stream(&child, None).await.until("await_opened").await["item"].clone();
    assert_eq!(item["fourEyes"], true);
    let approval =
        json!({"awaitId": item["id"], "approved": true, "digest": item["calls"][0]["digest"], "actor": "Bob"});
    let confirmations = format!("/agent-runs/{child}/confirmations");
    let digest = |live: Answer| live.body["live"]["stateDigest"].clone();
    let before = digest(rig.get(&format!("/agent-runs/{child}?live=1")).await);
    let refused = rig.post(&confirmations, approval.clone()).await;
    assert_eq!(
        (refused.refusal(), &refused.body["status"]),
        ((400, "invalid_request"), &json!("invalid")),
        "{refused:?}"
    );
    assert!(refused.body["reason"].as_str().unwrap().contains("takes a second person"), "{refused:?}");
    assert_eq!(digest(rig.get(&format!("/agent-runs/{child}?live=1")).await), before);
    let second = rig.key(WORKSPACE, &["runs:approve"], None).await;
    assert_eq!(rig.send(&second, "POST", &confirmations, Some(&approval)).await.status, 200);
    assert_eq!(rig.ending(&run).await["type"], "result");
    let closed = rig.stream(&child, None).await.until("await_closed").await;
    assert_eq!(closed["actor"], json!({"id": second.id(), "name": "other", "claimed": "Bob"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_does_not_show_the_key_to_the_model() {
    let rig = rig().await;
    let (run, mut answer) = rig.until_it_asks(&rig.key, json!({"agentId": "conf", "prompt": "x"})).await;
    answer["approved"] = json!(false);
    assert_eq!(rig.post(&format!("/agent-runs/{run}/confirmations"), answer).await.status, 200);
    assert_eq!(rig.ending(&run).await["type"], "result");
    let row = rig.store().run(&RunId::new(run)).await.unwrap().unwrap();
    let transcript = rig.store().transcript(&row.id, row.head).await.unwrap();
    let read = serde_json::to_string(&transcript).unwrap();
    assert!(read.contains("denied") && !read.contains(&rig.key.id()), "{read}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_holder_of_a_key_learns_that_it_expired_or_was_revoked() {
    let rig = rig().await;
    let said = async |key: &ApiKey| {
        let answer = rig.send(key, "GET", "/models", None).await;
        assert_eq!((answer.refusal(), answer.header("www-authenticate")), ((401, "unauthorized"), Some("Bearer")));
        answer.body["message"].as_str().unwrap().to_owned()
    };
    let make = async |expires_at: Option<u64>| {
        let key = ApiKey::random();
        let row = key.row(WORKSPACE.into(), "old", vec!["*".into()], None);
        let row = NewApiKey { expires_at: expires_at.map(Timestamp), ..row };
        rig.store().create_key(row).await.unwrap();
        key
    };
    let (expired, revoked) = (make(Some(1)).await, make(None).await);
    rig.store().revoke_key(&WORKSPACE.into(), &revoked.id()).await.unwrap();
    assert_eq!(said(&expired).await, "this key has expired; create a new one with `windlass keys create`");
    assert_eq!(said(&revoked).await, "this key was revoked; create a new one with `windlass keys create`");
    assert!(said(&ApiKey::random()).await.starts_with("the API key is missing or not valid"));
    let lasting = make(Some(u64::MAX / 2)).await;
    assert_eq!(rig.send(&lasting, "GET", "/models", None).await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_run_id_in_two_workspaces_is_two_runs() {
    let rig = rig().await;
    let elsewhere = rig.key("elsewhere", &["*"], None).await;
    let mut body = ask("echo", "x");
    body["runId"] = json!("nightly");
    let (mine, theirs) = (
        rig.post("/agent-runs", body.clone()).await,
        rig.send_to("elsewhere", &elsewhere, "POST", "/agent-runs", Some(&body)).await,
    );
    assert_eq!((mine.status, theirs.status), (202, 202), "{mine:?} {theirs:?}");
    assert_eq!((&mine.body["runId"], &theirs.body["runId"]), (&json!("test~nightly"), &json!("elsewhere~nightly")));
    for short_or_full in ["nightly", "test~nightly"] {
        let shown = rig.get(&format!("/agent-runs/{short_or_full}")).await.body;
        assert_eq!(shown["id"], "test~nightly");
        let mut other = ask("echo", "something else");
        other["runId"] = json!(short_or_full);
        assert_eq!(rig.post("/agent-runs", other).await.refusal(), (409, "run_exists"), "{short_or_full}");
    }
    assert_eq!(rig.get("/agent-runs/elsewhere~nightly").await.body, rig.get("/agent-runs/run-0").await.body);
    assert_eq!(rig.ending("nightly").await["type"], "result");
}
