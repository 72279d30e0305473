//! Calls and their ends.

use std::{net::Ipv4Addr, time::Instant};

use axum::response::IntoResponse as _;
use reqwest::{
    StatusCode,
    header::{AUTHORIZATION, HeaderMap, WWW_AUTHENTICATE},
};
use tokio::{net::TcpListener, sync::mpsc};
use tokio_util::sync::CancellationToken;

use super::*;
use crate::{Progress, ProgressSink};

#[tokio::test]
async fn a_call_sends_its_arguments_and_its_key() {
    for revision in Revision::BOTH {
        let server = Server::start(revision).await;
        let reply = call(&McpServers::default(), server.endpoint(), "echo", &context(), json!({"n": 1})).await;
        assert_eq!(reply, done(json!({"arguments": {"n": 1}, "callId": "run-1/call_0_0"})));
    }
}

#[tokio::test]
async fn a_server_that_refuses_a_request_is_quoted() {
    for revision in Revision::BOTH {
        let server = Server::start(revision).await;
        let servers = McpServers::default();
        let refused = call(&servers, server.endpoint(), "refuse", &context(), json!({})).await;
        let message = "the MCP server refused the request (-32602): there is no such thing";
        assert_eq!(refused, Err(ToolFailure::new(ToolErrorKind::ToolInputInvalid, message)));
        let broken = call(&servers, server.endpoint(), "break", &context(), json!({})).await;
        assert_eq!(broken, Err(failed("the MCP server refused the request (-32603): out of order")));
    }
}

#[tokio::test]
async fn progress_reaches_the_call() {
    for revision in Revision::BOTH {
        let server = Server::start(revision).await;
        let (progress, reports) = ProgressSink::new();
        let context = CallContext { progress, ..context() };
        let servers = McpServers::default();
        let watch = async {
            let report = reports.next().await;
            server.shared.go.notify_one();
            report
        };
        let (reply, report) = tokio::join!(call(&servers, server.endpoint(), "progress", &context, json!({})), watch);
        assert_eq!(reply, done(json!("whole")));
        assert_eq!(report, Progress::message("half").of(1.0, 2.0));
    }
}

#[tokio::test]
async fn a_cancelled_call_tells_the_server_and_leaves_other_calls_alone() {
    for revision in Revision::BOTH {
        let mut server = Server::start(revision).await;
        let servers = McpServers::default();
        let cancel = CancellationToken::new();
        let cancelled = CallContext { cancel: cancel.clone(), ..context() };
        let endpoint = server.endpoint();
        let (reply, ()) = tokio::join!(call(&servers, endpoint, "hang", &cancelled, json!({})), async {
            while server.event().await != "hangs" {}
            let other = call(&servers, server.endpoint(), "echo", &context(), json!({})).await;
            assert_eq!(other, done(json!({"arguments": {}, "callId": "run-1/call_0_0"})));
            cancel.cancel();
        });
        assert_eq!(reply, Err(ToolFailure::new(ToolErrorKind::Cancelled, "the call was cancelled")));
        assert_eq!(server.event().await, "cancelled");
    }
}

#[tokio::test]
async fn a_call_on_a_server_that_hangs_ends_at_its_deadline() {
    for revision in Revision::BOTH {
        let mut server = Server::start(revision).await;
        let servers = McpServers::default();
        servers.tools("key", server.endpoint(), &toolset(), LONG).await.unwrap();
        let limited = CallContext { deadline: Some(Instant::now() + Duration::from_millis(300)), ..context() };
        let reply = call(&servers, server.endpoint(), "hang", &limited, json!({})).await;
        assert_eq!(reply, Err(timed_out()));
        while server.event().await != "cancelled" {}
        let other = call(&servers, server.endpoint(), "echo", &context(), json!({})).await;
        assert_eq!(other, done(json!({"arguments": {}, "callId": "run-1/call_0_0"})));
    }
}

#[tokio::test]
async fn a_server_that_is_gone_fails_the_call_in_flight_and_serves_later_ones_when_it_is_back() {
    for revision in Revision::BOTH {
        let mut server = Server::start(revision).await;
        let servers = McpServers::default();
        let endpoint = server.endpoint();
        let context = context();
        let (reply, ()) = tokio::join!(call(&servers, endpoint, "hang", &context, json!({})), async {
            while server.event().await != "hangs" {}
            server.stop();
        });
        let failure = reply.unwrap_err();
        assert_eq!((failure.error.kind, failure.retryable), (ToolErrorKind::ToolUnavailable, true), "{failure:?}");
        server.listen().await;
        let reply = call(&servers, server.endpoint(), "echo", &context, json!({})).await;
        assert_eq!(reply, done(json!({"arguments": {}, "callId": "run-1/call_0_0"})), "{revision:?}");
    }
}

#[tokio::test]
async fn an_address_that_no_server_listens_on_is_unavailable() {
    let mut server = Server::start(Revision::Stateless).await;
    server.stop();
    server.stopped().await;
    let failure = call(&McpServers::default(), server.endpoint(), "echo", &context(), json!({})).await.unwrap_err();
    assert_eq!(failure, unavailable("the MCP server cannot be connected to: Connection refused (os error 111)"));
}

#[tokio::test]
async fn headers_are_sent_and_a_server_that_refuses_them_says_so() {
    let (sender, mut received) = mpsc::unbounded_channel();
    let refuse = move |headers: HeaderMap| async move {
        let _ = sender.send(headers[AUTHORIZATION].to_str().unwrap().to_owned());
        (StatusCode::UNAUTHORIZED, [(WWW_AUTHENTICATE, "Bearer")])
    };
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let url = format!("http://{}/?key=s3cret", listener.local_addr().unwrap()).parse().unwrap();
    let router = axum::Router::new().fallback(refuse);
    tokio::spawn(async move { axum::serve(listener, router).await });
    let headers = HeaderMap::from_iter([(AUTHORIZATION, "Bearer s3cret".parse().unwrap())]);
    let endpoint = McpEndpoint::Http { url, client: server::client(), headers };
    assert_eq!(format!("{endpoint:?}"), "Http { host: Some(\"127.0.0.1\"), .. }");
    let reply = call(&McpServers::default(), endpoint, "echo", &context(), json!({})).await;
    let message = "the MCP server refused the credentials; check the headers of its configuration";
    assert_eq!(reply, Err(ToolFailure::new(ToolErrorKind::ToolUnavailable, message)));
    assert_eq!(received.recv().await.unwrap(), "Bearer s3cret");
}

/// Some servers of older revisions answer every request that they do not know with an empty result.
#[tokio::test]
async fn a_server_that_answers_server_discover_with_an_empty_result_is_an_older_one() {
    let answer = |request: axum::Json<Value>| async move {
        let result = match request["method"].as_str() {
            Some("initialize") => json!({
                "protocolVersion": "2025-03-26", "capabilities": {"tools": {}},
                "serverInfo": {"name": "old", "version": "1"},
            }),
            Some("tools/call") => json!({"content": [{"type": "text", "text": "called"}]}),
            _ => json!({}),
        };
        match &request["id"] {
            Value::Null => (StatusCode::ACCEPTED, String::new()).into_response(),
            id => axum::Json(json!({"jsonrpc": "2.0", "id": id, "result": result})).into_response(),
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap()).parse().unwrap();
    let router = axum::Router::new().route("/mcp", axum::routing::post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let endpoint = McpEndpoint::Http { url, client: super::server::client(), headers: HeaderMap::new() };
    let reply = call(&McpServers::default(), endpoint, "anything", &context(), json!({})).await;
    assert_eq!(reply, done(json!("called")));
}
