//! Where the tool's headers go, and which addresses are reached.

use super::*;

const TOKEN: &str = "Bearer sk-very-secret-token";

fn with_token(mut caller: Caller) -> Caller {
    caller.headers.insert("authorization", TOKEN.parse().unwrap());
    caller
}

/// A card of one peer that names the interface of another one.
async fn card_elsewhere(interface: &TestPeer) -> TestPeer {
    let card = peer::card(Dialect::JsonRpc, &interface.url("/a2a"), false);
    TestPeer::polled(Dialect::JsonRpc).await.with_card(Answer::Result(card))
}

#[tokio::test]
async fn headers_go_to_the_card_and_to_an_interface_of_its_origin() {
    let mut peer = TestPeer::polled(Dialect::JsonRpc).await.on_send(Answer::Result(completed("hi")));
    assert_eq!(with_token(Caller::of(&peer)).round().await, Ok(done("hi")));
    for operation in ["card", "send"] {
        let seen = peer.next(operation).await;
        assert!(seen.headers.contains(&("authorization".to_owned(), TOKEN.to_owned())), "{seen:?}");
    }
}

#[tokio::test]
async fn headers_do_not_go_to_another_origin() {
    let mut interface = TestPeer::polled(Dialect::JsonRpc).await.on_send(Answer::Result(completed("hi")));
    let card = card_elsewhere(&interface).await;
    let failure = with_token(Caller::of(&card)).round().await.unwrap_err();
    let message = format!(
        "the agent card of {} names an interface at {}, and the tool's headers are only sent to the origin of the card; \
         set agentCardUrl to a card on the interface's origin, or remove the headers and oauth",
        card.url(""),
        interface.url("")
    );
    assert_eq!(failure, ToolFailure::new(ToolErrorKind::PolicyDenied, message));
    assert_eq!(interface.operations(), [""; 0]);

    // Nor in a later round, whatever the state of the call says.
    let mut caller = with_token(Caller::of(&card));
    let failure = caller.next(&continues(&interface), None).await.unwrap_err();
    assert_eq!(failure.error.kind, ToolErrorKind::PolicyDenied);
    assert_eq!(interface.operations(), [""; 0]);
}

#[tokio::test]
async fn without_headers_an_interface_may_be_elsewhere() {
    let interface = TestPeer::polled(Dialect::JsonRpc).await.on_send(Answer::Result(completed("hi")));
    let card = card_elsewhere(&interface).await;
    assert_eq!(Caller::of(&card).round().await, Ok(done("hi")));
}

#[tokio::test]
async fn an_interface_of_the_cards_origin_is_preferred_if_there_are_headers() {
    let elsewhere = TestPeer::polled(Dialect::JsonRpc).await;
    let peer = TestPeer::polled(Dialect::JsonRpc).await.on_send(Answer::Result(completed("hi")));
    let mut card = peer.card.clone();
    let first = json!({"url": elsewhere.url("/a2a"), "protocolBinding": "JSONRPC", "protocolVersion": "1.0"});
    card["supportedInterfaces"].as_array_mut().unwrap().insert(0, first);
    let peer = peer.with_card(Answer::Result(card));
    assert_eq!(with_token(Caller::of(&peer)).round().await, Ok(done("hi")));
}

#[tokio::test]
async fn an_address_that_the_check_refuses_is_not_requested() {
    let refused = || ToolFailure::new(ToolErrorKind::PolicyDenied, "not there");
    let mut peer = TestPeer::polled(Dialect::JsonRpc).await.on_send(Answer::Result(completed("hi")));
    for (path, seen) in [("/.well-known/agent-card.json", vec![]), ("/a2a", vec!["card"])] {
        let caller = Caller::of(&peer);
        let check = |url: &Url| if url.path() == path { Err(refused()) } else { Ok(()) };
        let args = json!({"message": "hello"}).into();
        let context = &caller.context;
        let [http, http2] = clients();
        let clients = A2aClients { http: &http, http2: &http2 };
        let called = caller.peers.call(&caller.source, clients, &caller.headers, &check, None, context, &args).await;
        assert_eq!(called, Err(refused()));
        assert_eq!(peer.operations(), seen);
    }
}

#[tokio::test]
async fn what_a_peer_repeats_of_a_secret_is_hidden() {
    let echo = "you are sk-very-secret-token and key-0123456789";
    let shown = "you are [secret] and [secret]";
    let mut caller_headers = HeaderMap::new();
    caller_headers.insert("authorization", TOKEN.parse().unwrap());
    let mut key = reqwest::header::HeaderValue::from_static("key-0123456789");
    key.set_sensitive(true);
    caller_headers.insert("x-api-key", key);

    let peer = TestPeer::polled(Dialect::JsonRpc).await.on_send(Answer::Result(completed(echo)));
    let mut caller = Caller::of(&peer);
    caller.headers = caller_headers.clone();
    assert_eq!(caller.round().await, Ok(done(shown)));

    for answer in [Answer::Result(task_saying("FAILED", echo)), Answer::Error(-32602, 400, echo)] {
        let peer = TestPeer::polled(Dialect::HttpJson).await.on_send(answer);
        let mut caller = Caller::of(&peer);
        caller.headers = caller_headers.clone();
        let message = caller.round().await.unwrap_err().error.message;
        assert!(message.ends_with(shown), "{message}");
    }
}
