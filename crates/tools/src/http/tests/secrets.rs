//! Credentials are sent, and shown nowhere.

use super::*;

const TOKEN: &str = "sk-\"live\"/12 34+x";

fn source(server: &Server) -> HttpSource {
    let access = headers(&[("Authorization", "Bearer ${secret:TOKEN}"), ("X-Plain", "plain")]);
    HttpSource { access, ..get(server, "/") }
}

async fn call_with_token(answer: Vec<u8>) -> (Result<ToolSuccess, ToolFailure>, String) {
    let mut server = Server::start(vec![answer]).await;
    let context = knowing(&[("TOKEN", TOKEN)]);
    let outcome = tools().call(&source(&server), true, &context, &json!({}).into()).await;
    (outcome, server.answered.recv().await.unwrap())
}

#[tokio::test]
async fn a_secret_that_a_server_repeats_is_redacted() {
    let escaped = json!(TOKEN).to_string();
    let long = format!("{}{TOKEN}", "x".repeat(490));
    let many = TOKEN.repeat(2000);
    for (content_type, body, expected) in [
        ("text/plain", format!("Bearer {TOKEN} is wrong"), "Bearer [redacted] is wrong".to_owned()),
        ("application/json", format!("{{\"given\":{escaped}}}"), "{\"given\":\"[redacted]\"}".to_owned()),
        ("text/plain", "?t=sk-%22live%22%2F12+34%2Bx".to_owned(), "?t=[redacted]".to_owned()),
        ("text/plain", format!("{}\u{0}{}", &TOKEN[..5], &TOKEN[5..]), "[redacted]".to_owned()),
        ("text/plain", long, format!("{}[redacted]", "x".repeat(490))),
        ("text/plain", many, format!("{}…", "[redacted]".repeat(50))),
    ] {
        let answer = response("401 X", &format!("Content-Type: {content_type}\r\n"), body.as_bytes());
        let (outcome, request) = call_with_token(answer).await;
        assert_eq!(header(&request, "authorization").unwrap(), format!("Bearer {TOKEN}"));
        assert_eq!(outcome.unwrap_err(), failed(&format!("the server answered 401 Unauthorized: {expected}")));
    }
    let repeated = page("application/json", format!("{{\"headers\":{{\"a\":{escaped}}}}}").as_bytes());
    let (outcome, _) = call_with_token(repeated).await;
    assert_eq!(outcome.unwrap().result, json!({"headers": {"a": "[redacted]"}}));
}

#[tokio::test]
async fn no_debug_output_has_a_secret() {
    let egress = Egress::new(EgressRules::default()).unwrap();
    let access = headers(&[("Authorization", "Bearer ${secret:TOKEN}")]);
    let secrets = Known([("TOKEN", "sk-live-1234")].into());
    let headers = egress.headers(&access, &secrets).await.unwrap();
    assert_eq!(headers["authorization"], "Bearer sk-live-1234");
    let credentials = egress.credentials(&access, &secrets).await.unwrap();
    for shown in [format!("{headers:?}"), format!("{credentials:?}"), format!("{egress:?}")] {
        assert!(!shown.contains("sk-live"), "{shown}");
    }
}

#[tokio::test]
async fn a_secret_that_no_header_can_have_is_not_repeated() {
    let server = Server::start(vec![]).await;
    for (value, message) in [(
        "sk-live\r\nX-Evil: 1",
        "the header authorization cannot be sent: its value has a line break or another control character; correct the \
         secret that it refers to",
    )] {
        let context = knowing(&[("TOKEN", value)]);
        let outcome = tools().call(&source(&server), true, &context, &json!({}).into()).await;
        assert_eq!(outcome.unwrap_err(), failed(message));
    }
    let outcome = tools().call(&source(&server), true, &context(), &json!({}).into()).await;
    assert_eq!(outcome.unwrap_err().error.message, "there is no ${secret:TOKEN}");
}

fn oauth(tokens: &Server, api: &Server) -> HttpSource {
    let client = OAuthClient {
        token_url: Some(tokens.url("/token")),
        client_id: "id 1".into(),
        client_secret: SecretRef::Secret("CLIENT".into()),
        scope: Some("read write".into()),
    };
    HttpSource { access: HttpAccess { oauth: Some(client), ..HttpAccess::default() }, ..get(api, "/") }
}

fn token(value: &str, expires_in: Value) -> Vec<u8> {
    let reply = json!({"access_token": value, "token_type": "Bearer", "expires_in": expires_in});
    page("application/json", reply.to_string().as_bytes())
}

#[tokio::test]
async fn an_oauth_token_is_requested_once_and_replaced_before_it_expires() {
    for (expires_in, second) in [(json!(3600), "t-1"), (json!("3600"), "t-1"), (json!(30), "t-2"), (json!(null), "t-2")]
    {
        let mut tokens = Server::start(vec![token("t-1", expires_in.clone()), token("t-2", expires_in)]).await;
        let mut api = Server::start(vec![ok(), ok()]).await;
        let (tools, context) = (tools(), knowing(&[("CLIENT", "s:1")]));
        for expected in ["t-1", second] {
            tools.call(&oauth(&tokens, &api), true, &context, &json!({}).into()).await.unwrap();
            let request = api.answered.recv().await.unwrap();
            assert_eq!(header(&request, "authorization").unwrap(), format!("Bearer {expected}"));
        }
        let request = tokens.answered.recv().await.unwrap();
        assert!(request.starts_with("POST /token HTTP/1.1\r\n"));
        // base64 of id+1:s%3A1
        assert_eq!(header(&request, "authorization"), Some("Basic aWQrMTpzJTNBMQ=="));
        assert_eq!(body_of(&request), "grant_type=client_credentials&scope=read+write");
    }
}

#[tokio::test]
async fn calls_at_the_same_time_share_a_request_for_a_token_and_another_secret_does_not() {
    let tokens = Server::start(vec![token("t-1", json!(3600)), token("t-2", json!(3600))]).await;
    let mut api = Server::start(vec![ok(), ok(), ok()]).await;
    let (tools, source, args) = (tools(), oauth(&tokens, &api), json!({}).into());
    let (one, other) = (knowing(&[("CLIENT", "s1")]), knowing(&[("CLIENT", "s2")]));
    let both = tokio::join!(tools.call(&source, true, &one, &args), tools.call(&source, true, &one, &args));
    assert!(both.0.is_ok() && both.1.is_ok());
    tools.call(&source, true, &other, &args).await.unwrap();
    for expected in ["Bearer t-1", "Bearer t-1", "Bearer t-2"] {
        assert_eq!(header(&api.answered.recv().await.unwrap(), "authorization"), Some(expected));
    }
}

#[tokio::test]
async fn a_token_that_the_server_does_not_accept_is_replaced_in_the_next_call() {
    let tokens = Server::start(vec![token("token-1", json!(3600)), token("token-2", json!(3600))]).await;
    let refusal = response("401 X", "Content-Type: text/plain\r\n", b"token-1 was revoked");
    let mut api = Server::start(vec![refusal, ok()]).await;
    let (tools, source, context) = (tools(), oauth(&tokens, &api), knowing(&[("CLIENT", "secret")]));
    let first = tools.call(&source, true, &context, &json!({}).into()).await;
    assert_eq!(first.unwrap_err(), failed("the server answered 401 Unauthorized: [redacted] was revoked"));
    tools.call(&source, true, &context, &json!({}).into()).await.unwrap();
    api.answered.recv().await.unwrap();
    assert_eq!(header(&api.answered.recv().await.unwrap(), "authorization"), Some("Bearer token-2"));
}

#[tokio::test]
async fn a_token_that_is_refused_is_a_failure_without_the_secret() {
    let not_now = passing(
        ToolErrorKind::ToolUnavailable,
        RetryReason::ToolUnavailable,
        "the OAuth server gives no token now (503)",
        Some("Try again in 5 seconds."),
    );
    let check = "check tokenUrl, clientId, clientSecret and scope in the tool's definition";
    let no_token = "the OAuth server gave no bearer token; check tokenUrl in the tool's definition";
    for (answer, expected) in [
        (
            response("401 X", "", br#"{"error":"invalid_client","error_description":"client-secret"}"#),
            failed(&format!("the OAuth server refused a token (401, invalid_client); {check}")),
        ),
        (
            response("400 X", "", br#"{"error":"client-secret"}"#),
            failed(&format!("the OAuth server refused a token (400, no reason that is known); {check}")),
        ),
        (response("503 X", "Retry-After: 5\r\n", b"client-secret"), not_now),
        (page("application/json", br#"{"token_type":"mac","access_token":"client-secret"}"#), failed(no_token)),
        (page("text/html", b"<html>client-secret"), failed(no_token)),
        (
            redirect("/elsewhere"),
            failed(&format!("the OAuth server refused a token (302, no reason that is known); {check}")),
        ),
    ] {
        let (tokens, api) = (Server::start(vec![answer]).await, Server::start(vec![]).await);
        let context = knowing(&[("CLIENT", "client-secret")]);
        let outcome = tools().call(&oauth(&tokens, &api), true, &context, &json!({}).into()).await;
        assert_eq!(outcome.unwrap_err(), expected);
    }
}
