//! Arguments, statuses and time: what becomes of a fetch apart from its body.

use super::*;

fn unusable(message: &str) -> ToolFailure {
    let issue = FieldIssue { field: "/url".into(), constraint: "format".into(), message: message.into() };
    let hint = RetryHint { issues: vec![issue], ..RetryHint::new(RetryReason::InvalidArguments) };
    ToolFailure::new(ToolErrorKind::ToolInputInvalid, message).with_hint(hint)
}

#[tokio::test]
async fn only_plain_web_urls_are_fetched() {
    let tool = HttpGet::new(options()).unwrap();
    for (url, message) in [
        ("ftp://example.com/", "only http and https URLs can be fetched"),
        ("file:///etc/passwd", "only http and https URLs can be fetched"),
        ("http://me:secret@example.com/", "the URL must not contain a user name or a password"),
        ("http://me@example.com/", "the URL must not contain a user name or a password"),
        ("/relative", "this is not an absolute URL"),
    ] {
        assert_eq!(get(&tool, url).await.unwrap_err(), unusable(message), "{url}");
    }
}

#[test]
fn its_schema_takes_what_it_takes() {
    let schema = HttpGet::new(options()).unwrap().spec().schema();
    assert!(coerce_and_validate(&schema, json!({"url": "https://example.com/"})).is_ok());
    for args in [json!({}), json!({"url": "gopher://x"}), json!({"url": "https://x", "method": "POST"})] {
        assert!(coerce_and_validate(&schema, args.clone()).is_err(), "{args}");
    }
}

#[tokio::test]
async fn an_error_page_is_a_result() {
    for status in [404, 410, 500] {
        let answer = response(&format!("{status} X"), "Content-Type: text/plain\r\n", b"sorry");
        let result = fetch_result(answer).await;
        assert_eq!(result, json!({"status": status, "contentType": "text/plain", "body": "sorry", "truncated": false}));
    }
}

#[tokio::test]
async fn not_now_is_a_failure_worth_another_attempt() {
    let limited = response("429 Too Many Requests", "Retry-After: 7\r\nContent-Type: image/png\r\n", b"");
    let advice = Some("Try again in 7 seconds.".to_owned());
    let hint = RetryHint { message: advice, ..RetryHint::new(RetryReason::RateLimited) };
    let message = "the server limits how often it is asked (429)";
    assert_eq!(
        fetch(limited).await.unwrap_err(),
        ToolFailure::new(ToolErrorKind::RateLimited, message).retryable().with_hint(hint)
    );
    assert_eq!(
        fetch(response("503 Service Unavailable", "", b"")).await.unwrap_err(),
        unavailable("the server is not available now (503)")
    );
}

fn first_half() -> Vec<u8> {
    b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nfirst half".to_vec()
}

#[tokio::test]
async fn cancelling_ends_a_slow_body() {
    let mut server = Server::that_stalls_after(first_half()).await;
    let tool = HttpGet::new(HttpGetOptions { timeout: Duration::MAX, ..options() }).unwrap();
    let context = context();
    let cancel = context.cancel.clone();
    let call = tool.call(context, json!({"url": server.url("/")}).into());
    let (outcome, ()) = tokio::join!(call, async {
        server.answered.recv().await.unwrap();
        cancel.cancel();
    });
    assert_eq!(outcome.unwrap_err(), ToolFailure::new(ToolErrorKind::Cancelled, "the fetch was cancelled"));
}

#[tokio::test]
async fn a_slow_body_runs_into_the_timeout() {
    let server = Server::that_stalls_after(first_half()).await;
    let tool = HttpGet::new(HttpGetOptions { timeout: Duration::from_millis(100), ..options() }).unwrap();
    assert_eq!(
        get(&tool, &server.url("/")).await.unwrap_err(),
        ToolFailure::new(ToolErrorKind::Timeout, "the server took too long to answer")
            .retryable()
            .with_hint(RetryHint::new(RetryReason::Timeout))
    );
}

#[test]
fn the_activity_waits_a_little_longer_than_the_tool() {
    let tool = HttpGet::new(HttpGetOptions { timeout: Duration::from_secs(7), ..options() }).unwrap();
    assert_eq!(tool.spec().timeout_ms, Some(Millis::from_secs(17)));
}
