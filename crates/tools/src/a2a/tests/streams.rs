//! Tasks that are followed by server-sent events.

use tokio::sync::mpsc;

use super::*;

fn stream(events: impl IntoIterator<Item = Value>) -> (mpsc::UnboundedSender<Value>, Answer) {
    let (sender, receiver) = mpsc::unbounded_channel();
    for event in events {
        sender.send(event).unwrap();
    }
    (sender, Answer::Events(receiver))
}

fn status(task: &Value) -> Value {
    json!({"statusUpdate": {"taskId": "t1", "contextId": "c1", "status": task["status"]}})
}

fn artifact(name: &str) -> Value {
    let artifact = json!({"artifactId": "a1", "name": name, "parts": [{"text": "h"}]});
    json!({"artifactUpdate": {"taskId": "t1", "contextId": "c1", "artifact": artifact, "lastChunk": true}})
}

#[tokio::test]
async fn a_stream_reports_progress_and_its_end_is_read_at_the_peer() {
    for dialect in DIALECTS {
        let (open, answer) = stream([
            json!({"task": task("WORKING")}),
            status(&task_saying("WORKING", "half way")),
            artifact("part one"),
            status(&task("COMPLETED")),
        ]);
        let mut peer = TestPeer::streaming(dialect)
            .await
            .on_send(Answer::Result(task("SUBMITTED")))
            .on_subscribe(answer)
            .on_get(Answer::Result(task("WORKING")))
            .on_get(Answer::Result(completed("hi")));
        let mut caller = Caller::of(&peer);
        let (sink, reports) = ProgressSink::new();
        caller.context.progress = sink;
        assert_eq!(caller.finish().await, Ok(done("hi")), "{dialect:?}");
        // The stream itself was never ended by the peer.
        drop(open);
        assert_eq!(peer.operations(), ["card", "send", "subscribe", "get", "get"]);
        let told: Vec<_> = std::iter::from_fn(|| reports.take()).filter_map(|report| report.message).collect();
        assert_eq!(told, ["half way", "the peer produced an artifact part one"]);
    }
}

#[tokio::test]
async fn a_stream_that_breaks_off_is_opened_again() {
    for dialect in DIALECTS {
        let (first, broken) = stream([status(&task_saying("WORKING", "one"))]);
        drop(first);
        let (second, answer) = stream([status(&task_saying("WORKING", "two")), status(&task("COMPLETED"))]);
        let mut peer = TestPeer::streaming(dialect)
            .await
            .on_send(Answer::Result(task("WORKING")))
            .on_subscribe(broken)
            .on_subscribe(answer)
            .on_get(Answer::Result(task("WORKING")))
            .on_get(Answer::Result(task("WORKING")))
            .on_get(Answer::Result(completed("hi")));
        let mut caller = Caller::of(&peer);
        assert_eq!(caller.finish().await, Ok(done("hi")), "{dialect:?}");
        drop(second);
        assert_eq!(peer.operations(), ["card", "send", "subscribe", "get", "subscribe", "get", "get"]);
    }
}

#[tokio::test]
async fn a_task_that_changed_before_the_stream_began_is_noticed() {
    for dialect in DIALECTS {
        let (open, answer) = stream([]);
        let peer = TestPeer::streaming(dialect)
            .await
            .on_send(Answer::Result(task("WORKING")))
            .on_subscribe(answer)
            .on_get(Answer::Result(task_saying("INPUT_REQUIRED", "which city?")));
        let mut caller = Caller::of(&peer);
        assert_eq!(continuation(caller.finish().await), asks(&peer, "which city?", None), "{dialect:?}");
        drop(open);
    }
}

#[tokio::test]
async fn a_question_comes_by_the_stream() {
    let (open, answer) = stream([status(&task_saying("INPUT_REQUIRED", "which city?"))]);
    let peer = TestPeer::streaming(Dialect::HttpJson)
        .await
        .on_send(Answer::Result(task("WORKING")))
        .on_subscribe(answer)
        .on_get(Answer::Result(task("WORKING")))
        .on_get(Answer::Result(task_saying("INPUT_REQUIRED", "which city?")));
    let mut caller = Caller::of(&peer);
    assert_eq!(continuation(caller.finish().await), asks(&peer, "which city?", None));
    drop(open);
}

#[tokio::test]
async fn a_stream_that_cannot_be_read_is_not_followed() {
    let long = format!("data: {}\n\n", "x".repeat(1024 * 1024));
    let answers = ["data: {\"result\":[]}\n\n", "data: \u{1}", "event: x\n\n", &long, "data: \u{fffd}\n\n"];
    for body in answers {
        let mut peer = TestPeer::streaming(Dialect::JsonRpc)
            .await
            .on_send(Answer::Result(task("WORKING")))
            .on_subscribe(Answer::Raw(peer::response("200 OK", "text/event-stream", body.as_bytes())))
            .on_get(Answer::Result(task("WORKING")))
            .on_get(Answer::Result(completed("hi")));
        assert_eq!(Caller::of(&peer).finish().await, Ok(done("hi")));
        assert_eq!(peer.operations(), ["card", "send", "subscribe", "get", "subscribe", "get"]);
    }
}

#[tokio::test]
async fn a_stream_does_not_outlast_its_round() {
    let (open, answer) = stream([]);
    let peer = TestPeer::streaming(Dialect::JsonRpc)
        .await
        .on_send(Answer::Result(task("WORKING")))
        .on_subscribe(answer)
        .on_get(Answer::Result(task("WORKING")));
    let mut caller = Caller::of(&peer);
    let first = continuation(caller.round().await);
    caller = caller.with_time(Duration::from_millis(800));
    assert_eq!(continuation(caller.next(&first, None).await), continues(&peer));
    drop(open);
}
