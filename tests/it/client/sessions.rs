use serde_json::{Value, json};
use windlass_client::{AgentSpec, Error, MessageSpec, SessionFilter, Settings, Tools};

use super::client;
use crate::{api::rig::Rig, support::world::scripts};

fn chatting() -> Value {
    scripts([
        ("chat", json!({"turns": [{"text": "{{user_count}}: {{last_user}}"}], "repeat_last": true})),
        (
            "look",
            json!({"turns": [{"tool_calls": [{"name": "look", "args": {}}]}, {"text": "{{last_tool_result}}"}], "repeat_last": true}),
        ),
    ])
}

fn spec(script: &str, room: &str) -> AgentSpec {
    AgentSpec {
        system_prompt: Some("You are a test agent.".into()),
        model_id: Some(format!("script:{script}")),
        settings: Settings { metadata: [("room".to_owned(), room.to_owned())].into(), ..Settings::default() },
        ..AgentSpec::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_continues_by_its_id() {
    let rig = Rig::new(chatting()).await;
    let (client, none) = (client(&rig), Tools::new());
    let session = client.create_session(&spec("chat", "blue"), &none).await.unwrap();
    let other = client.create_session(&spec("chat", "red"), &none).await.unwrap();
    assert_eq!(client.say(&session, &MessageSpec::new("one"), &none).await.unwrap().text, "1: one");
    // Another process knows nothing but the id.
    let elsewhere = super::client(&rig);
    assert_eq!(elsewhere.say(&session, &MessageSpec::new("two"), &none).await.unwrap().text, "2: two");
    let shown = elsewhere.session(&session).await.unwrap();
    let said: Vec<_> = shown.messages.iter().map(|message| (message.role.as_str(), message.content.as_str())).collect();
    assert_eq!(said, [("user", "one"), ("assistant", "1: one"), ("user", "two"), ("assistant", "2: two")]);
    let last = client.session_history(&session, Some(1), None).await.unwrap();
    assert_eq!((last.total, last.next_before_seq, &last.events[0]["text"]), (4, Some(4), &json!("2: two")));
    let before = client.session_history(&session, Some(2), Some(3)).await.unwrap();
    assert_eq!((before.events.len(), before.next_before_seq), (2, None));

    let blue = SessionFilter { metadata: [("room".into(), "blue".into())].into(), ..SessionFilter::default() };
    let listed = client.sessions(&blue).await.unwrap();
    let listed: Vec<_> = listed.sessions.into_iter().map(|item| (item.session_id, item.summary)).collect();
    assert_eq!(listed, [(session.clone(), "one".to_owned())]);
    assert_eq!(client.sessions(&SessionFilter::default()).await.unwrap().sessions.len(), 2);

    client.end_session(&session).await.unwrap();
    let Err(Error::Refused(refusal)) = client.say(&session, &MessageSpec::new("three"), &none).await else {
        panic!("it has ended")
    };
    assert_eq!((refusal.status, refusal.code.as_str()), (409, "session_ended"));
    assert_eq!(client.say(&other, &MessageSpec::new("hi"), &none).await.unwrap().text, "1: hi");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_may_replace_the_sessions_tools() {
    let rig = Rig::new(chatting()).await;
    let client = client(&rig);
    let tools =
        |seen: &'static str| {
            Tools::new()
                .add("look", json!({"type": "object"}), "Looks.", move |_: Value| async move { Ok::<_, String>(seen) })
        };
    let session = client.create_session(&spec("look", "blue"), &tools("a cat")).await.unwrap();
    let say = async |tools: &Tools| client.say(&session, &MessageSpec::new("look"), tools).await.unwrap().text;
    assert_eq!((say(&tools("a cat")).await, say(&tools("a dog")).await), ("a cat".to_owned(), "a dog".to_owned()));
}
