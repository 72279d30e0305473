//! Tasks that take several rounds.

use super::*;

#[tokio::test]
async fn the_first_round_returns_the_task_and_the_next_one_waits_for_it() {
    for dialect in DIALECTS {
        let mut peer = TestPeer::polled(dialect)
            .await
            .on_send(Answer::Result(task("SUBMITTED")))
            .on_get(Answer::Result(task_saying("WORKING", "half way")))
            .on_get(Answer::Result(completed("hi")));
        let mut caller = Caller::of(&peer);
        let (sink, reports) = ProgressSink::new();
        caller.context.progress = sink;
        let first = continuation(caller.round().await);
        assert_eq!(first, continues(&peer), "{dialect:?}");
        assert_eq!(peer.operations(), ["card", "send"]);
        assert_eq!(caller.next(&first, None).await, Ok(done("hi")));
        assert_eq!(peer.operations(), ["get", "get"]);
        assert_eq!(reports.take(), Some(crate::Progress::message("half way")));
        assert_eq!(reports.take(), None);
    }
}

#[tokio::test]
async fn a_long_task_goes_on_in_the_next_round() {
    let peer = TestPeer::polled(Dialect::JsonRpc)
        .await
        .on_send(Answer::Result(task("WORKING")))
        .on_get(Answer::Result(task("WORKING")));
    let mut caller = Caller::of(&peer).with_time(Duration::from_secs(30));
    let first = continuation(caller.round().await);
    caller = caller.with_time(Duration::from_millis(1200));
    let second = continuation(caller.next(&first, None).await);
    assert_eq!(second, continues(&peer));
    assert!(caller.context.deadline.unwrap() > Instant::now(), "the round ends before its deadline");
    let _peer = peer.on_get(Answer::Result(completed("hi")));
    caller = caller.with_time(Duration::from_secs(30));
    assert_eq!(caller.next(&second, None).await, Ok(done("hi")));
}

#[tokio::test]
async fn a_person_is_asked_and_the_peer_gets_the_answer() {
    for dialect in DIALECTS {
        let mut peer = TestPeer::polled(dialect)
            .await
            .on_send(Answer::Result(task("WORKING")))
            .on_send(Answer::Result(task_saying("INPUT_REQUIRED", "which city?")))
            .on_get(Answer::Result(task_saying("INPUT_REQUIRED", "which city?")))
            .on_get(Answer::Result(task_saying("INPUT_REQUIRED", "which city?")))
            // The peer has not begun to work on the answer yet.
            .on_get(Answer::Result(task_saying("INPUT_REQUIRED", "which city?")))
            .on_get(Answer::Result(completed("sunny")));
        let mut caller = Caller::of(&peer);
        let asked = caller.finish().await;
        let asked = continuation(asked);
        assert_eq!(asked, asks(&peer, "which city?", None), "{dialect:?}");
        peer.operations();

        let sent = continuation(caller.next(&asked, person(InputAction::Accept, Some("Oslo"))).await);
        assert_eq!(sent, Continuation { inputs: Vec::new(), repeatable: true, ..asked });
        let message = loop {
            let seen = peer.seen.recv().await.unwrap();
            if seen.operation == "send" {
                break seen.params["message"].clone();
            }
        };
        let parts = match dialect {
            Dialect::JsonRpc03 => json!([{"kind": "text", "text": "Oslo"}]),
            _ => json!([{"text": "Oslo"}]),
        };
        let ids = [&message["messageId"], &message["taskId"], &message["contextId"]];
        assert_eq!(ids, [&json!("run-1/call_0_0/3"), &json!("t1"), &json!("c1")]);
        assert_eq!(message["parts"], parts);
        assert_eq!(caller.next(&sent, None).await, Ok(done("sunny")));
    }
}

#[tokio::test]
async fn a_second_question_is_asked_although_the_first_was_answered() {
    let peer = TestPeer::polled(Dialect::JsonRpc)
        .await
        .on_send(Answer::Result(task_saying("INPUT_REQUIRED", "which city?")))
        .on_send(Answer::Result(task_saying("INPUT_REQUIRED", "which day?")))
        .on_get(Answer::Result(task_saying("INPUT_REQUIRED", "which city?")));
    let mut caller = Caller::of(&peer);
    let asked = continuation(caller.round().await);
    assert_eq!(asked, asks(&peer, "which city?", None));
    let again = continuation(caller.next(&asked, person(InputAction::Accept, Some("Oslo"))).await);
    assert_eq!(again, asks(&peer, "which day?", None));
}

#[tokio::test]
async fn an_answer_is_not_sent_to_a_task_that_went_on() {
    let mut peer = TestPeer::polled(Dialect::JsonRpc)
        .await
        .on_send(Answer::Result(task_saying("AUTH_REQUIRED", "sign in at https://idp.example/x.")))
        .on_get(Answer::Result(task("WORKING")));
    let mut caller = Caller::of(&peer);
    let asked = continuation(caller.round().await);
    assert_eq!(asked, asks(&peer, "sign in at https://idp.example/x.", Some("https://idp.example/x")));
    peer.operations();
    let next = continuation(caller.next(&asked, person(InputAction::Accept, None)).await);
    assert_eq!(next, Continuation { inputs: Vec::new(), repeatable: true, ..asked });
    assert_eq!(peer.operations(), ["get"]);
}

#[tokio::test]
async fn an_answer_is_not_sent_to_another_question() {
    let mut peer = TestPeer::polled(Dialect::JsonRpc)
        .await
        .on_send(Answer::Result(task_saying("INPUT_REQUIRED", "which city?")))
        .on_get(Answer::Result(task_saying("INPUT_REQUIRED", "which day?")));
    let mut caller = Caller::of(&peer);
    let asked = continuation(caller.round().await);
    let again = continuation(caller.next(&asked, person(InputAction::Accept, Some("Oslo"))).await);
    assert_eq!(again, asks(&peer, "which day?", None));
    assert_eq!(peer.operations(), ["card", "send", "get"]);
}

#[tokio::test]
async fn a_task_that_waits_for_authorisation_is_told_that_it_is_there() {
    let mut peer = TestPeer::polled(Dialect::HttpJson)
        .await
        .on_send(Answer::Result(task_saying("AUTH_REQUIRED", "sign in")))
        .on_send(Answer::Result(completed("hi")))
        .on_get(Answer::Result(task_saying("AUTH_REQUIRED", "sign in")));
    let mut caller = Caller::of(&peer);
    let asked = continuation(caller.round().await);
    assert_eq!(asked, asks(&peer, "sign in", None));
    peer.operations();
    assert_eq!(caller.next(&asked, person(InputAction::Accept, None)).await, Ok(done("hi")));
    assert_eq!(peer.next("send").await.params["message"]["parts"], json!([{"text": "Done."}]));
}

#[tokio::test]
async fn a_person_who_declines_cancels_the_task() {
    let cases = [
        (InputAction::Decline, ToolErrorKind::Denied, "a person declined what the peer asked for"),
        (InputAction::Cancel, ToolErrorKind::ToolFailed, "the peer's request was closed without an answer"),
    ];
    for dialect in DIALECTS {
        for (action, kind, message) in cases {
            let mut peer = TestPeer::polled(dialect)
                .await
                .on_send(Answer::Result(task_saying("INPUT_REQUIRED", "which city?")))
                .on_cancel(Answer::Result(task("CANCELED")));
            let mut caller = Caller::of(&peer);
            let asked = continuation(caller.round().await);
            let failure = caller.next(&asked, person(action, None)).await.unwrap_err();
            assert_eq!(
                failure,
                ToolFailure::new(kind, format!("{message}; the peer's task was cancelled")),
                "{dialect:?}"
            );
            assert_eq!(peer.operations(), ["card", "send", "cancel"]);
        }
    }
}

fn cancelled() -> ToolFailure {
    ToolFailure::new(ToolErrorKind::Cancelled, "the call was cancelled; the peer's task was cancelled")
}

#[tokio::test]
async fn a_cancelled_call_cancels_its_task() {
    for dialect in DIALECTS {
        let mut peer = TestPeer::polled(dialect)
            .await
            .on_send(Answer::Result(task("WORKING")))
            .on_get(Answer::Silence)
            .on_cancel(Answer::Result(task("CANCELED")));
        let mut caller = Caller::of(&peer);
        let first = continuation(caller.round().await);
        let cancel = caller.context.cancel.clone();
        let (outcome, ()) = tokio::join!(caller.next(&first, None), async {
            peer.next("get").await;
            cancel.cancel();
        });
        assert_eq!(outcome, Err(cancelled()), "{dialect:?}");
        assert_eq!(peer.operations(), ["cancel"]);
    }
}

#[tokio::test]
async fn a_call_that_is_cancelled_while_it_sends_cancels_what_comes_of_it() {
    let (release, events) = tokio::sync::oneshot::channel::<()>();
    let mut peer = TestPeer::polled(Dialect::JsonRpc)
        .await
        .on_send(Answer::Later(events, task("WORKING")))
        .on_cancel(Answer::Result(task("CANCELED")));
    let caller = Caller::of(&peer);
    let cancel = caller.context.cancel.clone();
    let (outcome, ()) = tokio::join!(caller.round(), async {
        peer.next("send").await;
        cancel.cancel();
        release.send(()).unwrap();
    });
    assert_eq!(outcome, Err(cancelled()));
    assert_eq!(peer.operations(), ["cancel"]);
}

#[tokio::test]
async fn a_peer_that_is_away_for_a_while_is_asked_again() {
    let mut peer = TestPeer::polled(Dialect::HttpJson)
        .await
        .on_send(Answer::Result(task("WORKING")))
        .on_get(Answer::Raw(Vec::new()))
        .on_get(Answer::Error(0, 503, "restarting"))
        .on_get(Answer::Result(completed("hi")));
    let mut caller = Caller::of(&peer);
    assert_eq!(caller.finish().await, Ok(done("hi")));
    assert_eq!(peer.operations(), ["card", "send", "get", "get", "get"]);
}

#[tokio::test]
async fn a_peer_is_asked_again_when_it_says() {
    let busy = "HTTP/1.1 429 X\r\nConnection: close\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n";
    let peer = TestPeer::polled(Dialect::JsonRpc)
        .await
        .on_send(Answer::Result(task("WORKING")))
        .on_get(Answer::Raw(busy.as_bytes().to_vec()))
        .on_get(Answer::Result(completed("hi")));
    let mut caller = Caller::of(&peer);
    let begun = Instant::now();
    assert_eq!(caller.finish().await, Ok(done("hi")));
    assert!(begun.elapsed() >= Duration::from_secs(1));
}

#[tokio::test]
async fn a_round_in_which_the_peer_never_answered_fails_and_can_be_retried() {
    let peer = TestPeer::polled(Dialect::HttpJson)
        .await
        .on_send(Answer::Result(task("WORKING")))
        .on_get(Answer::Error(0, 503, "restarting"));
    let mut caller = Caller::of(&peer);
    let first = continuation(caller.round().await);
    caller = caller.with_time(Duration::from_millis(800));
    let failure = caller.next(&first, None).await.unwrap_err();
    assert_eq!(failure.error.message, "the peer is not available now (503): restarting");
    assert_eq!((failure.error.kind, failure.retryable), (ToolErrorKind::ToolUnavailable, true));
}

#[tokio::test]
async fn a_task_that_the_peer_does_not_know_is_a_failure() {
    for dialect in DIALECTS {
        let peer = TestPeer::polled(dialect).await.on_send(Answer::Result(task("WORKING"))).on_get(Answer::Error(
            -32001,
            404,
            "task not found",
        ));
        let failure = Caller::of(&peer).finish().await.unwrap_err();
        let message = match dialect {
            Dialect::HttpJson => "the peer refused the request (404): task not found",
            Dialect::Grpc => "the peer answered with an error (NOT_FOUND): task not found",
            _ => "the peer answered with an error (-32001): task not found",
        };
        assert_eq!(failure, failed(message));
    }
}
