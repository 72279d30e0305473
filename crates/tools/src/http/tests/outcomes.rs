//! Statuses, redirects, broken connections and time.

use std::time::{Duration, Instant};

use super::*;

#[tokio::test]
async fn a_status_of_400_and_above_is_a_failure_that_says_whether_to_try_again() {
    let unavailable = |message: &str, advice: Option<&str>| {
        passing(ToolErrorKind::ToolUnavailable, RetryReason::ToolUnavailable, message, advice)
    };
    for (status, headers, body, expected) in [
        ("404 X", "", "no such\u{7} pet\n", failed("the server answered 404 Not Found: no such pet")),
        ("422 X", "", "", failed("the server answered 422 Unprocessable Entity")),
        ("499 X", "", "x", failed("the server answered 499: x")),
        ("408 X", "", "", unavailable("the server answered 408 Request Timeout", None)),
        ("425 X", "", "", unavailable("the server answered 425 Too Early", None)),
        ("500 X", "", "oops", unavailable("the server answered 500 Internal Server Error: oops", None)),
        (
            "503 X",
            "Retry-After: 7\r\n",
            "",
            unavailable("the server answered 503 Service Unavailable", Some("Try again in 7 seconds.")),
        ),
        (
            "503 X",
            "Retry-After: Wed, 21 Oct 2015 07:28:00 GMT\r\n",
            "",
            unavailable("the server answered 503 Service Unavailable", Some("Try again in 0 seconds.")),
        ),
        (
            "429 X",
            "Retry-After: 3\r\n",
            "slow down",
            passing(
                ToolErrorKind::RateLimited,
                RetryReason::RateLimited,
                "the server answered 429 Too Many Requests: slow down",
                Some("Try again in 3 seconds."),
            ),
        ),
    ] {
        let headers = format!("Content-Type: text/plain\r\n{headers}");
        assert_eq!(answered(response(status, &headers, body.as_bytes())).await.unwrap_err(), expected, "{status}");
    }
    let picture = response("400 X", "Content-Type: image/png\r\n", b"\x89PNG");
    assert_eq!(answered(picture).await.unwrap_err(), failed("the server answered 400 Bad Request"));
    let long = response("400 X", "Content-Type: text/plain\r\n", "x".repeat(100_000).as_bytes());
    let message = format!("the server answered 400 Bad Request: {}…", "x".repeat(500));
    assert_eq!(answered(long).await.unwrap_err().error.message, message);
}

#[tokio::test]
async fn only_get_and_head_follow_redirects() {
    let mut server = Server::start(vec![redirect("/a"), redirect("/b"), redirect("/c"), ok()]).await;
    call(&get(&server, "/"), json!({})).await.unwrap();
    for path in ["/", "/a", "/b", "/c"] {
        assert!(server.answered.recv().await.unwrap().starts_with(&format!("GET {path} HTTP")));
    }
    let server = Server::start(vec![redirect("/"), redirect("/"), redirect("/"), redirect("/")]).await;
    let failure = call(&get(&server, "/"), json!({})).await.unwrap_err();
    assert_eq!(failure, failed("the server redirected more than 3 times"));

    let server = Server::start(vec![redirect("/a")]).await;
    assert_eq!(
        call(&post(&server, "/"), json!({})).await.unwrap_err(),
        failed(
            "the server redirects POST to another address (302), and only GET and HEAD follow redirects; correct the \
             URL in the tool's definition"
        )
    );
}

#[tokio::test]
async fn another_origin_gets_none_of_the_headers() {
    let first = listener().await;
    let back = redirect(&format!("http://{}/back", first.local_addr().unwrap()));
    let mut second = Server::start(vec![back]).await;
    let mut first = Server::on(first, vec![redirect("/same"), redirect(&second.url("/other")), ok()]);
    let source = HttpSource {
        header_arguments: texts(&[("X-Account", "{account}")]),
        access: headers(&[("Authorization", "Bearer ${secret:TOKEN}"), ("X-Key", "${secret:TOKEN}")]),
        ..get(&first, "/")
    };
    let context = knowing(&[("TOKEN", "sk-live-1234")]);
    tools().call(&source, true, &context, &json!({"account": "a1"}).into()).await.unwrap();
    for _ in 0..2 {
        let request = first.answered.recv().await.unwrap();
        assert_eq!(header(&request, "authorization"), Some("Bearer sk-live-1234"));
        assert_eq!((header(&request, "x-key"), header(&request, "x-account")), (Some("sk-live-1234"), Some("a1")));
    }
    // The way back is the other server's choice, so the first one gets none of them again.
    for request in [second.answered.recv().await.unwrap(), first.answered.recv().await.unwrap()] {
        for name in ["authorization", "x-key", "x-account"] {
            assert_eq!(header(&request, name), None, "{name}");
        }
    }
}

fn unknown(message: &str) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::OutcomeUnknown, message)
}

#[tokio::test]
async fn a_request_that_breaks_off_may_be_repeated_only_if_that_is_harmless() {
    let broken = |message| passing(ToolErrorKind::ToolUnavailable, RetryReason::ToolUnavailable, message, None);
    let half = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nhalf".to_vec();
    for (method, idempotent, answer, expected) in [
        ("GET", false, vec![], broken("the connection broke off before the response was complete")),
        ("POST", true, vec![], broken("the connection broke off before the response was complete")),
        (
            "POST",
            false,
            vec![],
            unknown("the connection broke off after the request was sent; the server may have executed it"),
        ),
        ("GET", false, half.clone(), broken("the connection broke off before the response was complete")),
        (
            "POST",
            false,
            half,
            unknown(
                "the connection broke off before the response was complete; the server may have executed the request",
            ),
        ),
    ] {
        let server = Server::start(vec![answer]).await;
        let source = HttpSource { method: method.into(), ..get(&server, "/") };
        let outcome = tools().call(&source, idempotent, &context(), &json!({}).into()).await;
        assert_eq!(outcome.unwrap_err(), expected, "{method} {idempotent}");
    }
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let source = HttpSource { method: "POST".into(), url: format!("http://{closed}/"), ..HttpSource::default() };
    assert_eq!(call(&source, json!({})).await.unwrap_err(), broken("the host cannot be connected to"));
}

#[tokio::test]
async fn a_call_ends_at_its_deadline() {
    let slow = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nslow".to_vec();
    let timeout = passing(ToolErrorKind::Timeout, RetryReason::Timeout, "the server took too long to answer", None);
    for (method, expected) in [
        ("GET", timeout),
        ("POST", unknown("the server took too long to answer; the server may have executed the request")),
    ] {
        let server = Server::that_stalls_after(slow.clone()).await;
        let context = CallContext { deadline: Some(Instant::now() + Duration::from_millis(200)), ..context() };
        let source = HttpSource { method: method.into(), ..get(&server, "/") };
        assert_eq!(tools().call(&source, false, &context, &json!({}).into()).await.unwrap_err(), expected);
    }
}

#[tokio::test]
async fn cancelling_ends_a_call() {
    let mut server = Server::that_stalls_after(b"HTTP/1.1 200 OK\r\n".to_vec()).await;
    let (tools, context, source) = (tools(), context(), get(&server, "/"));
    let args = json!({}).into();
    let (outcome, ()) = tokio::join!(tools.call(&source, false, &context, &args), async {
        server.answered.recv().await.unwrap();
        context.cancel.cancel();
    });
    assert_eq!(outcome.unwrap_err(), ToolFailure::new(ToolErrorKind::Cancelled, "the request was cancelled"));
}
