use serde_json::{Value, json};

use super::rig::{Rig, ask};
use crate::support::world::scripts;

fn chatting() -> Value {
    scripts([
        ("chat", json!({"turns": [{"text": "{{user_count}}: {{last_user}}"}], "repeat_last": true})),
        ("slow", json!({"turns": [{"deltas": ["a", "b"], "delta_delay_ms": 60_000}]})),
        ("broken", json!({"turns": [{"error": {"error": "no", "errorClass": "auth", "retryable": false}}]})),
        ("tools", json!({"turns": [{"text": "{{tools}}"}], "repeat_last": true})),
    ])
}

fn spec(script: &str) -> Value {
    let mut spec = ask(script, "");
    spec.as_object_mut().unwrap().remove("prompt");
    spec
}

impl Rig {
    async fn session(&self, spec: Value) -> String {
        let created = self.post("/agent-sessions", spec).await;
        assert_eq!(created.status, 201, "{created:?}");
        created.body["sessionId"].as_str().unwrap().to_owned()
    }

    /// Says something and waits for the answer.
    async fn say(&self, session: &str, message: Value) -> Value {
        let taken = self.post(&format!("/agent-sessions/{session}/messages"), message).await;
        assert_eq!(taken.status, 202, "{taken:?}");
        self.ending(taken.body["runId"].as_str().unwrap()).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_created_without_a_prompt_and_takes_an_empty_one() {
    let rig = Rig::new(chatting()).await;
    for (key, value) in [("prompt", json!("hi")), ("messages", json!([{"role": "user", "content": "hi"}]))] {
        let mut body = spec("chat");
        body[key] = value;
        let refused = rig.post("/agent-sessions", body).await;
        assert_eq!((refused.refusal(), &refused.body["field"]), ((400, "invalid_request"), &json!(key)));
    }
    let session = rig.session(spec("chat")).await;
    assert_eq!(rig.say(&session, json!({"prompt": ""})).await["text"], "1: ");
    assert_eq!(rig.ending(&rig.run(ask("chat", "")).await).await["text"], "1: ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_conversation_grows_with_every_answer() {
    let rig = Rig::new(chatting()).await;
    let mut body = spec("chat");
    body["name"] = json!("chat");
    body["metadata"] = json!({"k": "v"});
    let session = rig.session(body.clone()).await;
    assert_eq!(rig.say(&session, json!({"prompt": "one"})).await["text"], "1: one");
    assert_eq!(rig.say(&session, json!({"prompt": "two"})).await["text"], "2: two");
    let shown = rig.get(&format!("/agent-sessions/{session}")).await.body;
    assert_eq!(
        (&shown["id"], &shown["name"], &shown["status"], &shown["metadata"]),
        (&json!(session), &json!("chat"), &json!("active"), &json!({"k": "v"}))
    );
    assert_eq!(shown["agentSpec"], body);
    let said = |role: &str, content: &str| json!({"role": role, "content": content});
    assert_eq!(
        shown["messages"],
        json!([said("user", "one"), said("assistant", "1: one"), said("user", "two"), said("assistant", "2: two")])
    );

    let page = rig.get(&format!("/agent-sessions/{session}/events?lastMessages=2")).await.body;
    let expected = json!({"sessionId": session, "total": 4, "nextBeforeSeq": 3, "truncated": true, "events": [
        {"seq": 3, "type": "user_message", "text": "two"}, {"seq": 4, "type": "assistant_message", "text": "2: two"},
    ]});
    assert_eq!(page, expected);
    let before = rig.get(&format!("/agent-sessions/{session}/events?beforeSeq=3&lastMessages=5")).await.body;
    assert_eq!((before["events"].as_array().unwrap().len(), &before["nextBeforeSeq"]), (2, &Value::Null));
    let all = rig.get(&format!("/agent-sessions/{session}/events")).await.body;
    assert_eq!((all["events"].as_array().unwrap().len(), &all["truncated"]), (4, &json!(false)));
}

#[tokio::test(flavor = "multi_thread")]
async fn overrides_last_for_one_message() {
    let rig = Rig::new(chatting()).await;
    let mut body = spec("tools");
    body["tools"] = json!([{"kind": "local", "name": "old"}]);
    body["metadata"] = json!({"env": "prod", "a": "1"});
    let session = rig.session(body.clone()).await;
    let message = json!({"prompt": "x", "tools": [{"kind": "local", "name": "new"}], "metadata": {"env": "test"}});
    assert_eq!(rig.say(&session, message).await["text"], "new");
    assert_eq!(rig.say(&session, json!({"prompt": "x"})).await["text"], "old");
    assert_eq!(rig.get(&format!("/agent-sessions/{session}")).await.body["agentSpec"], body);
    let runs = rig.get(&format!("/agent-runs?sessionId={session}")).await.body;
    let metadata: Vec<&Value> = runs["runs"].as_array().unwrap().iter().map(|run| &run["metadata"]).collect();
    assert_eq!(metadata, [&json!({"env": "prod", "a": "1"}), &json!({"env": "test", "a": "1"})]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_turn_is_not_part_of_the_conversation() {
    let rig = Rig::new(chatting()).await;
    let session = rig.session(spec("broken")).await;
    assert_eq!(rig.say(&session, json!({"prompt": "x"})).await["type"], "error");
    assert_eq!(rig.get(&format!("/agent-sessions/{session}")).await.body["messages"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn ending_a_session_cancels_its_open_runs() {
    let rig = Rig::new(chatting()).await;
    let session = rig.session(spec("slow")).await;
    let taken = rig.post(&format!("/agent-sessions/{session}/messages"), json!({"prompt": "x"})).await;
    let run = taken.body["runId"].as_str().unwrap().to_owned();
    let mut stream = rig.stream(&run, None).await;
    stream.until("assistant_delta").await;
    let path = format!("/agent-sessions/{session}");
    let ended = rig.send(&rig.key, "DELETE", &path, None).await;
    assert_eq!((ended.status, &ended.body), (200, &json!({"ok": true})));
    assert_eq!(stream.rest().await.pop().unwrap()["type"], "cancelled");
    assert_eq!(rig.get(&path).await.body["status"], "ended");
    let late = rig.post(&format!("{path}/messages"), json!({"prompt": "late"})).await;
    assert_eq!(late.refusal(), (409, "session_ended"));
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_listed_by_metadata_the_last_used_first() {
    let rig = Rig::new(chatting()).await;
    let mut ids = Vec::new();
    for index in 0..3 {
        let mut body = spec("chat");
        body["metadata"] = json!({"tag": "t", "n": index.to_string(), "odd": "a:b:ø"});
        ids.push(rig.session(body).await);
    }
    rig.say(&ids[0], json!({"prompt": "bump"})).await;
    let listed = |body: &Value| -> Vec<String> {
        body["sessions"].as_array().unwrap().iter().map(|row| row["sessionId"].as_str().unwrap().to_owned()).collect()
    };
    let all = rig.get("/agent-sessions?metadata=tag:t").await.body;
    assert_eq!(
        (listed(&all)[0].as_str(), &all["total"], &all["sessions"][0]["summary"]),
        (ids[0].as_str(), &json!(3), &json!("bump"))
    );
    assert_eq!(
        listed(&rig.get("/agent-sessions?metadata=odd%3Aa%3Ab%3A%C3%B8&metadata=n:2").await.body),
        [ids[2].clone()]
    );
    assert_eq!(listed(&rig.get("/agent-sessions?metadata=n:7").await.body), Vec::<String>::new());
    assert_eq!(rig.get("/agent-sessions?metadata=bad").await.refusal(), (400, "invalid_request"));
    let first = rig.get("/agent-sessions?limit=2").await.body;
    let second =
        rig.get(&format!("/agent-sessions?limit=2&cursor={}", first["nextCursor"].as_str().unwrap())).await.body;
    assert_eq!([listed(&first), listed(&second)].concat(), listed(&all));
    let offset = rig.get("/agent-sessions?limit=2&offset=2").await.body;
    assert_eq!(listed(&offset), listed(&second));
}
