//! Peers that are broken, overloaded or hostile.

use super::*;

fn unreadable(what: &str) -> ToolFailure {
    failed(&format!("the peer's {what} cannot be read as A2A; check that agentCardUrl leads to an A2A agent"))
}

#[tokio::test]
async fn what_is_no_card_is_refused() {
    let cases: [(Vec<u8>, ToolFailure); 6] = [
        (b"<html>".to_vec(), unreadable("agent card")),
        (b"{}".to_vec(), unreadable("agent card")),
        (b"[\"Echo\"]".to_vec(), unreadable("agent card")),
        (b"{\"name\": \"\xff\"}".to_vec(), unreadable("response")),
        ("[".repeat(100_000).into_bytes(), unreadable("agent card")),
        (vec![b' '; 4 * 1024 * 1024 + 1], failed("the peer's response has more than 4194304 bytes")),
    ];
    for (body, expected) in cases {
        let card = Answer::Raw(peer::response("200 OK", "application/json", &body));
        let peer = TestPeer::polled(Dialect::JsonRpc).await.with_card(card);
        assert_eq!(Caller::of(&peer).round().await, Err(expected));
    }
}

#[tokio::test]
async fn what_is_no_answer_of_a2a_is_refused() {
    let long = json!({"jsonrpc": "2.0", "id": 1, "result": {"task": {"id": "x".repeat(2000), "status": {}}}});
    let bodies = [
        ("null".to_owned(), unreadable("response")),
        ("{}".to_owned(), unreadable("response")),
        (r#"{"result": {}}"#.to_owned(), unreadable("response")),
        (r#"{"result": {"task": {"status": {"state": 3}}}}"#.to_owned(), unreadable("response")),
        (r#"{"result": {"statusUpdate": {"status": {}}}}"#.to_owned(), unreadable("response")),
        (r#"{"result": {"task": {"id": "", "status": {}}}}"#.to_owned(), bad_id()),
        (long.to_string(), bad_id()),
    ];
    for (body, expected) in bodies {
        let answer = Answer::Raw(peer::response("200 OK", "application/json", body.as_bytes()));
        let peer = TestPeer::polled(Dialect::JsonRpc).await.on_send(answer);
        assert_eq!(Caller::of(&peer).round().await, Err(expected), "{body:.100}");
    }
}

fn bad_id() -> ToolFailure {
    failed("the peer's task has an id that is empty, not text, or longer than 1024 bytes")
}

#[tokio::test]
async fn a_refusal_says_whether_the_message_may_have_been_accepted() {
    let cases = [
        (429, ToolErrorKind::RateLimited, true, "the peer limits how often it is asked (429): no"),
        (503, ToolErrorKind::ToolUnavailable, true, "the peer is not available now (503): no"),
        (
            500,
            ToolErrorKind::OutcomeUnknown,
            true,
            "the peer failed (500): no; it may have accepted the message and work on it",
        ),
        (
            401,
            ToolErrorKind::ToolFailed,
            false,
            "the peer refused the credentials (401): no; check the tool's headers and oauth",
        ),
        (400, ToolErrorKind::ToolFailed, false, "the peer refused the request (400): no"),
        (
            302,
            ToolErrorKind::ToolFailed,
            false,
            "the peer answered with a redirect (302), which is not followed; set agentCardUrl to its new address",
        ),
    ];
    for (status, kind, retryable, message) in cases {
        let peer = TestPeer::polled(Dialect::HttpJson).await.on_send(Answer::Error(0, status, "no"));
        let failure = Caller::of(&peer).round().await.unwrap_err();
        assert_eq!(failure.error, windlass_core::envelope::ToolError::new(kind, message));
        assert_eq!(failure.retryable, retryable, "{status}");
    }
    let peer = TestPeer::polled(Dialect::JsonRpc).await.on_send(Answer::Raw(Vec::new()));
    let failure = Caller::of(&peer).round().await.unwrap_err();
    assert_eq!(failure.error.kind, ToolErrorKind::OutcomeUnknown);
}

#[tokio::test]
async fn a_failed_card_can_be_asked_for_again() {
    for (answer, kind) in [
        (Answer::Error(0, 500, "no"), ToolErrorKind::ToolUnavailable),
        (Answer::Raw(Vec::new()), ToolErrorKind::ToolUnavailable),
    ] {
        let peer = TestPeer::polled(Dialect::HttpJson).await.with_card(answer);
        let failure = Caller::of(&peer).round().await.unwrap_err();
        assert_eq!((failure.error.kind, failure.retryable), (kind, true));
    }
    let mut caller = Caller::of(&TestPeer::polled(Dialect::JsonRpc).await);
    caller.source.agent_card_url = "http://127.0.0.1:1".to_owned();
    let failure = caller.round().await.unwrap_err();
    assert_eq!(failure.error.message, "the peer cannot be connected to");
    assert!(failure.retryable);
}

#[tokio::test]
async fn a_peer_that_does_not_answer_in_time_may_have_accepted_the_message() {
    let peer = TestPeer::polled(Dialect::JsonRpc).await.on_send(Answer::Silence);
    let caller = Caller::of(&peer).with_time(Duration::from_millis(500));
    assert_eq!(caller.round().await.unwrap_err().error.kind, ToolErrorKind::OutcomeUnknown);
    let peer = TestPeer::polled(Dialect::JsonRpc).await.with_card(Answer::Silence);
    let caller = Caller::of(&peer).with_time(Duration::from_millis(500));
    assert_eq!(caller.round().await.unwrap_err().error.kind, ToolErrorKind::Timeout);
}

#[tokio::test]
async fn a_continuation_fits_whatever_the_peer_says() {
    let worst = "\"".repeat(1024);
    for char in ["é", "\"", "\u{1b}"] {
        let mut task = task_saying("AUTH_REQUIRED", &char.repeat(100_000));
        (task["id"], task["contextId"]) = (json!(worst), json!(worst));
        let parts = task["status"]["message"]["parts"].as_array_mut().unwrap();
        parts.push(json!({"url": format!("https://{}", "x".repeat(2000))}));
        let peer = TestPeer::polled(Dialect::JsonRpc).await.on_send(Answer::Result(task));
        let mut card = peer.card.clone();
        card["supportedInterfaces"][0]["tenant"] = json!("\"".repeat(256));
        card["supportedInterfaces"][0]["url"] = json!(format!("{}?{}", peer.url("/a2a"), "x".repeat(4000)));
        let peer = peer.with_card(Answer::Result(card));
        let asked = continuation(Caller::of(&peer).round().await);
        assert!(asked.inputs[0].url.is_some());
        let bytes = CanonicalJson::of(&asked).unwrap().bytes();
        assert!(bytes <= Continuation::MAX_BYTES, "{char:?}: {bytes}");
    }
}
