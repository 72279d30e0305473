//! What is sent.

use super::*;

#[tokio::test]
async fn arguments_go_where_the_templates_say_and_the_rest_is_the_body() {
    let mut server = Server::start(vec![ok()]).await;
    let source = HttpSource {
        query: texts(&[("q", "{q}"), ("tag", "{tags}"), ("gone", "{gone}"), ("fixed", "1&2")]),
        header_arguments: texts(&[("X-Trace", "t-{trace}"), ("X-Gone", "{gone}")]),
        ..post(&server, "/v1/{id}/items")
    };
    let args = json!({"id": "a/b", "q": "x y", "tags": ["s", "t"], "trace": 7, "name": "n", "deep": {"a": [1]}});
    call(&source, args).await.unwrap();
    let request = server.answered.recv().await.unwrap();
    assert_eq!(request.lines().next().unwrap(), "POST /v1/a%2Fb/items?fixed=1%262&q=x+y&tag=s&tag=t HTTP/1.1");
    assert_eq!((header(&request, "x-trace"), header(&request, "x-gone")), (Some("t-7"), None));
    assert_eq!(header(&request, "content-type"), Some("application/json"));
    assert_eq!(body_of(&request), r#"{"deep":{"a":[1]},"name":"n"}"#);
}

#[tokio::test]
async fn a_named_argument_is_the_whole_body() {
    let source = |server: &Server| HttpSource { body: Some("body".into()), ..post(server, "/") };
    for (args, expected, content_type) in [
        (json!({"body": [1, "x"], "other": 1}), "[1,\"x\"]", Some("application/json")),
        (json!({"body": null}), "null", Some("application/json")),
        (json!({"other": 1}), "", None),
    ] {
        let mut server = Server::start(vec![ok()]).await;
        call(&source(&server), args.clone()).await.unwrap();
        let request = server.answered.recv().await.unwrap();
        assert_eq!((body_of(&request), header(&request, "content-type")), (expected, content_type), "{args}");
    }
}

#[tokio::test]
async fn a_definition_may_set_the_type_of_the_body() {
    let mut server = Server::start(vec![ok()]).await;
    let patch = texts(&[("content-type", "application/merge-patch+json")]);
    let source = HttpSource { method: "patch".into(), header_arguments: patch, ..get(&server, "/") };
    call(&source, json!({"a": 1})).await.unwrap();
    let request = server.answered.recv().await.unwrap();
    assert!(request.starts_with("PATCH / HTTP/1.1"));
    assert_eq!(header(&request, "content-type"), Some("application/merge-patch+json"));
}

#[tokio::test]
async fn calls_that_change_something_have_a_key_of_their_run_and_call() {
    for (method, key) in [
        ("", None),
        ("HEAD", None),
        ("POST", Some("run-1/call_0_0")),
        ("PUT", Some("run-1/call_0_0")),
        ("PATCH", Some("run-1/call_0_0")),
        ("DELETE", Some("run-1/call_0_0")),
    ] {
        let mut server = Server::start(vec![response("204 No Content", "", b"")]).await;
        call(&HttpSource { method: method.into(), ..get(&server, "/") }, json!({})).await.unwrap();
        assert_eq!(header(&server.answered.recv().await.unwrap(), "idempotency-key"), key, "{method}");
    }
    let mut server = Server::start(vec![ok()]).await;
    let long = CallContext { run_id: "r".repeat(256).as_str().into(), ..context() };
    tools().call(&post(&server, "/"), false, &long, &json!({}).into()).await.unwrap();
    assert_eq!(header(&server.answered.recv().await.unwrap(), "idempotency-key").unwrap().len(), 64);
}

#[tokio::test]
async fn what_cannot_be_sent_is_refused_before_anything_is_sent() {
    let server = Server::start(vec![]).await;
    let with_header = |name: &str| HttpSource { header_arguments: texts(&[(name, "{v}")]), ..get(&server, "/") };
    for (source, args, message) in [
        (
            with_header("X-A"),
            json!({"v": "a\r\nX-Evil: 1"}),
            "the argument v must not have line breaks or other control characters",
        ),
        (
            with_header("X-A"),
            json!({"v": "\u{0}"}),
            "the argument v must not have line breaks or other control characters",
        ),
        (with_header("Host"), json!({"v": "evil"}), "a tool's definition must not set the header host; remove it"),
        (
            with_header("Content-Length"),
            json!({"v": "0"}),
            "a tool's definition must not set the header content-length; remove it",
        ),
        (with_header("a b"), json!({"v": "x"}), "\"a b\" is not the name of a header; correct the tool's definition"),
        (
            HttpSource { method: "TRACE".into(), ..get(&server, "/") },
            json!({}),
            "the method \"TRACE\" is not supported; write GET, HEAD, POST, PUT, PATCH or DELETE",
        ),
        (get(&server, "/{id}"), json!({"id": ".."}), "the argument id must not be \"..\""),
        (get(&server, "/{id}"), json!({}), "the argument id is missing; it is a part of the address"),
        (get(&server, "/"), json!([1]), "the arguments are wrong: they must be an object"),
    ] {
        assert_eq!(call(&source, args).await.unwrap_err().error.message, message);
    }
}
