//! What is read of a response and how it is shown.

use super::*;

#[tokio::test]
async fn text_is_returned_with_its_bounds() {
    assert_eq!(
        fetch(page("text/html; charset=utf-8", "<p>grüß".as_bytes())).await.unwrap(),
        ToolSuccess {
            result: json!({"status": 200, "contentType": "text/html", "body": "<p>grüß", "truncated": false}).into(),
            content: Vec::new(),
            bounds: Some(Bounds { returned: 9, total: Some(9), ..Bounds::default() }),
            server_data: None,
        }
    );
}

#[tokio::test]
async fn json_is_returned_as_json_if_it_is() {
    for content_type in ["application/json", "application/problem+json; charset=utf-8", "Application/JSON"] {
        assert_eq!(fetch_result(page(content_type, b"{\"a\":[1]}")).await["json"], json!({"a": [1]}));
    }
    let broken = fetch_result(page("application/json", b"{oops")).await;
    assert_eq!(broken, json!({"status": 200, "contentType": "application/json", "body": "{oops", "truncated": false}));
}

#[tokio::test]
async fn an_older_charset_is_understood_and_an_unknown_one_refused() {
    assert_eq!(fetch_result(page("text/plain; charset=ISO-8859-1", b"gr\xfc\xdf")).await["body"], json!("grüß"));
    assert_eq!(fetch_result(page("text/plain; Charset=\"shift_jis\"", b"\x83\x65")).await["body"], json!("テ"));
    assert_eq!(
        fetch(page("text/plain; charset=klingon", b"x")).await.unwrap_err(),
        ToolFailure::new(ToolErrorKind::ToolFailed, "the response's charset klingon is not known")
    );
}

#[tokio::test]
async fn a_big_body_is_cut_between_characters() {
    let body = "é".repeat(100);
    let server = Server::start(vec![page("text/plain", body.as_bytes())]).await;
    let tool = HttpGet::new(HttpGetOptions { max_body_bytes: 7, ..options() }).unwrap();
    assert_eq!(
        get(&tool, &server.url("/")).await.unwrap(),
        ToolSuccess {
            result: json!({"status": 200, "contentType": "text/plain", "body": "ééé", "truncated": true}).into(),
            content: Vec::new(),
            bounds: Some(Bounds {
                returned: 7,
                total: Some(200),
                truncated: true,
                next_cursor: None,
                refinement_hint: Some("Only the first 7 bytes were read: ask for a smaller page.".into()),
            }),
            server_data: None,
        }
    );
}

#[tokio::test]
async fn a_body_of_exactly_the_limit_is_whole_and_cut_json_is_text() {
    let server = Server::start(vec![page("application/json", b"[1,2]"), page("application/json", b"[1,23]")]).await;
    let tool = HttpGet::new(HttpGetOptions { max_body_bytes: 5, ..options() }).unwrap();
    let whole = get(&tool, &server.url("/")).await.unwrap().result;
    assert_eq!(whole, json!({"status": 200, "contentType": "application/json", "json": [1, 2], "truncated": false}));
    let cut = get(&tool, &server.url("/")).await.unwrap().result;
    assert_eq!(cut, json!({"status": 200, "contentType": "application/json", "body": "[1,23", "truncated": true}));
}

#[tokio::test]
async fn an_endless_body_ends_at_the_default_limit() {
    let head = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\n".to_vec();
    let server = Server::that_stalls_after([head, vec![b'x'; 300 * 1024]].concat()).await;
    let fetched = get(&HttpGet::new(options()).unwrap(), &server.url("/")).await.unwrap();
    let bounds = fetched.bounds.unwrap();
    assert_eq!((bounds.returned, bounds.total, bounds.truncated), (262_144, None, true));
    assert_eq!(fetched.result.to_value()["body"].as_str().unwrap().len(), 262_144);
}

#[tokio::test]
async fn what_is_not_text_is_refused_unread() {
    assert_eq!(
        fetch(page("image/png", b"\x89PNG")).await.unwrap_err(),
        ToolFailure::new(ToolErrorKind::ToolFailed, "the response is image/png; only text and JSON can be read")
    );
    let zipped = response("200 OK", "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n", b"\x1f\x8b");
    assert_eq!(
        fetch(zipped).await.unwrap_err().error.message,
        "the response is compressed although the request did not allow it"
    );
}

#[tokio::test]
async fn a_body_without_a_type_is_text_if_it_reads_as_text() {
    assert_eq!(
        fetch_result(response("204 No Content", "", b"")).await,
        json!({"status": 204, "contentType": null, "body": "", "truncated": false})
    );
    assert_eq!(fetch_result(response("200 OK", "", b"plain")).await["body"], json!("plain"));
    assert_eq!(
        fetch(response("200 OK", "", b"\xff\xfe\x00")).await.unwrap_err().error.message,
        "the response does not say what it is and is not text"
    );
}

#[tokio::test]
async fn a_body_that_breaks_off_may_be_asked_for_again() {
    let promised = b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100\r\n\r\nonly this".to_vec();
    assert_eq!(
        fetch(promised).await.unwrap_err(),
        unavailable("the connection broke off before the response was complete")
    );
}
