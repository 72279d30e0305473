//! Calls that end in their first rounds, and what they send.

use super::*;

#[tokio::test]
async fn a_message_is_the_answer() {
    for dialect in DIALECTS {
        let message = json!({"messageId": "m", "contextId": "c1", "role": "ROLE_AGENT", "parts": [{"text": "hi"}]});
        let mut peer = TestPeer::polled(dialect).await.on_send(Answer::Result(message));
        let caller = Caller::of(&peer);
        let expected = ToolSuccess { server_data: Some(json!({"contextId": "c1"})), ..ToolSuccess::new(json!("hi")) };
        assert_eq!(caller.round().await, Ok(ToolReply::Done(expected)), "{dialect:?}");
        assert_eq!(peer.operations(), ["card", "send"]);
        let path = match dialect {
            Dialect::HttpJson => "/a2a/message:send",
            Dialect::Grpc => "/lf.a2a.v1.A2AService/SendMessage",
            _ => "/a2a",
        };
        assert_eq!(*caller.checked.lock().unwrap(), ["/.well-known/agent-card.json", path]);
    }
}

#[tokio::test]
async fn the_message_names_the_run_the_call_and_the_conversation() {
    for dialect in DIALECTS {
        let mut peer = TestPeer::polled(dialect).await.on_send(Answer::Result(completed("hi")));
        let mut caller = Caller::of(&peer);
        assert_eq!(caller.round().await, Ok(done("hi")), "{dialect:?}");
        let sent = peer.next("send").await;
        let version = sent.headers.iter().find(|(name, _)| name == "a2a-version").map(|(_, value)| value.as_str());
        let expected = match dialect {
            Dialect::JsonRpc03 => json!({
                "message": {"kind": "message", "messageId": "run-1/call_0_0/1", "role": "user", "contextId": "session-1",
                            "parts": [{"kind": "text", "text": "hello"}]},
                "configuration": {"blocking": false, "historyLength": 0},
            }),
            _ => json!({
                "message": {"messageId": "run-1/call_0_0/1", "role": "ROLE_USER", "contextId": "session-1",
                            "parts": [{"text": "hello"}]},
                "configuration": {"returnImmediately": true, "historyLength": 0},
            }),
        };
        assert_eq!(sent.params, expected);
        assert_eq!(version, (dialect != Dialect::JsonRpc03).then_some("1.0"));

        caller.source.context_id = Some("fixed".to_owned());
        caller.round().await.unwrap();
        assert_eq!(peer.next("send").await.params["message"]["contextId"], json!("fixed"));
    }
}

#[tokio::test]
async fn a_task_that_did_not_complete_is_a_failure_with_the_peers_words() {
    let outcomes = [
        ("FAILED", "the peer's task failed: no"),
        ("REJECTED", "the peer rejected the task: no"),
        ("CANCELED", "the peer's task was cancelled there: no"),
    ];
    for dialect in DIALECTS {
        for (state, message) in outcomes {
            let peer = TestPeer::polled(dialect).await.on_send(Answer::Result(task_saying(state, "no")));
            assert_eq!(Caller::of(&peer).round().await, Err(failed(message)), "{dialect:?}");
        }
    }
}

#[tokio::test]
async fn a_completed_task_without_artifacts_answers_with_its_status() {
    let peer = TestPeer::polled(Dialect::JsonRpc).await.on_send(Answer::Result(task_saying("COMPLETED", "all good")));
    assert_eq!(Caller::of(&peer).round().await, Ok(done("all good")));
}

#[tokio::test]
async fn a_card_is_fetched_once_per_address_and_credentials() {
    let mut peer = TestPeer::polled(Dialect::JsonRpc).await.on_send(Answer::Result(completed("hi")));
    let mut caller = Caller::of(&peer);
    caller.round().await.unwrap();
    caller.round().await.unwrap();
    assert_eq!(peer.operations(), ["card", "send", "send"]);
    caller.headers.insert("x-key", "other".parse().unwrap());
    caller.round().await.unwrap();
    assert_eq!(peer.operations(), ["card", "send"]);
}

#[tokio::test]
async fn the_card_says_who_the_peer_is() {
    let summary = |binding: &str, version: &str, url: String| AgentCardSummary {
        name: "Echo".to_owned(),
        description: "Says it again.".to_owned(),
        version: "7".to_owned(),
        skills: vec![AgentSkill {
            id: "echo".to_owned(),
            name: "Echo".to_owned(),
            description: "Repeats.".to_owned(),
            tags: vec!["text".to_owned()],
        }],
        interfaces: vec![AgentInterface {
            url,
            binding: binding.to_owned(),
            protocol_version: version.to_owned(),
            tenant: None,
        }],
    };
    let cases = [
        (Dialect::JsonRpc, "JSONRPC", "1.0"),
        (Dialect::HttpJson, "HTTP+JSON", "1.0"),
        (Dialect::Grpc, "GRPC", "1.0"),
        (Dialect::JsonRpc03, "JSONRPC", "0.3.0"),
    ];
    for (dialect, binding, version) in cases {
        let peer = TestPeer::polled(dialect).await;
        let caller = Caller::of(&peer);
        let [http, http2] = clients();
        let clients = A2aClients { http: &http, http2: &http2 };
        let card = caller.peers.card(&caller.source, clients, &caller.headers, &|_| Ok(())).await;
        assert_eq!(card, Ok(summary(binding, version, peer.url("/a2a"))));
    }
}

#[tokio::test]
async fn the_first_interface_that_is_spoken_is_used() {
    let peer = TestPeer::polled(Dialect::HttpJson).await.on_send(Answer::Result(completed("hi")));
    let mut card = peer.card.clone();
    let spoken = card["supportedInterfaces"][0].clone();
    let other = |binding: &str, version: &str| json!({"url": "http://127.0.0.1:1/", "protocolBinding": binding, "protocolVersion": version});
    card["supportedInterfaces"] = json!([
        other("GRPC", "0.3"),
        other("JSONRPC", "2.0"),
        other("HTTP+JSON", "0.3"),
        spoken,
        other("JSONRPC", "1.0")
    ]);
    let peer = peer.with_card(Answer::Result(card.clone()));
    assert_eq!(Caller::of(&peer).round().await, Ok(done("hi")));

    card["supportedInterfaces"] = json!([other("GRPC", "0.3"), other("HTTP+JSON", "0.3")]);
    let peer = peer.with_card(Answer::Result(card));
    let message = "the agent card names GRPC 0.3, HTTP+JSON 0.3; this client speaks JSONRPC 1.0, HTTP+JSON 1.0, GRPC 1.0 and \
                   JSONRPC 0.3";
    assert_eq!(Caller::of(&peer).round().await, Err(failed(message)));
}

#[tokio::test]
async fn a_tenant_is_named_in_the_path_or_in_the_parameters() {
    for (dialect, path, tenant) in [
        (Dialect::JsonRpc, "/a2a", json!("acme")),
        (Dialect::HttpJson, "/a2a/acme/message:send", Value::Null),
        (Dialect::Grpc, "/lf.a2a.v1.A2AService/SendMessage", json!("acme")),
    ] {
        let peer = TestPeer::polled(dialect).await.on_send(Answer::Result(completed("hi")));
        let mut card = peer.card.clone();
        card["supportedInterfaces"][0]["tenant"] = json!("acme");
        let mut peer = peer.with_card(Answer::Result(card));
        let caller = Caller::of(&peer);
        caller.round().await.unwrap();
        assert_eq!(peer.next("send").await.params["tenant"], tenant);
        assert_eq!(*caller.checked.lock().unwrap(), ["/.well-known/agent-card.json", path]);
    }
}
