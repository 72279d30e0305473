//! The addresses and documents of discovery, and the token that they lead to.

use async_trait::async_trait;
use secrecy::SecretString;
use serde_json::Value;
use windlass_core::{
    agent::{HttpAccess, OAuthClient},
    secret::SecretRef,
};

use super::{
    super::{
        EgressRules,
        peer::{Server, listener, page, response},
    },
    *,
};
use crate::SecretSource;

fn url(text: &str) -> Url {
    text.parse().unwrap()
}

fn texts(urls: Vec<Url>) -> Vec<String> {
    urls.into_iter().map(String::from).collect()
}

#[test]
fn documents_are_looked_for_where_the_standards_put_them() {
    assert_eq!(
        texts(well_known(&url("https://a.example/team/mcp?x=1"), "oauth-protected-resource")),
        [
            "https://a.example/.well-known/oauth-protected-resource/team/mcp",
            "https://a.example/.well-known/oauth-protected-resource",
        ]
    );
    assert_eq!(
        texts(well_known(&url("https://a.example/"), "oauth-protected-resource")),
        ["https://a.example/.well-known/oauth-protected-resource"]
    );
    assert_eq!(
        texts(issuer_places(&url("https://o.example/tenant"))),
        [
            "https://o.example/.well-known/oauth-authorization-server/tenant",
            "https://o.example/.well-known/openid-configuration/tenant",
            "https://o.example/tenant/.well-known/openid-configuration",
        ]
    );
    assert_eq!(
        texts(issuer_places(&url("https://o.example"))),
        [
            "https://o.example/.well-known/oauth-authorization-server",
            "https://o.example/.well-known/openid-configuration",
        ]
    );
}

#[test]
fn metadata_must_be_about_the_server() {
    let cases = [
        ("https://a.example/mcp", true),
        ("https://a.example", true),
        ("https://a.example/", true),
        ("https://a.example/mc", false),
        ("https://a.example/mcp/more", false),
        ("https://a.example:8443/mcp", false),
        ("http://a.example/mcp", false),
        ("https://evil.example/mcp", false),
        ("mcp", false),
    ];
    for (resource, expected) in cases {
        assert_eq!(covers(resource, &url("https://a.example/mcp")), expected, "{resource}");
    }
}

#[test]
fn a_challenge_names_the_metadata_and_the_scope() {
    let read = |values: &[&str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(WWW_AUTHENTICATE, value.parse().unwrap());
        }
        let Challenge { resource_metadata, scope } = read_challenge(&headers);
        (resource_metadata.unwrap_or_default(), scope.unwrap_or_default())
    };
    let both = ("https://a.example/m".to_owned(), "read write".to_owned());
    assert_eq!(
        read(&[r#"Bearer error="invalid_token", scope="read write", resource_metadata="https://a.example/m""#]),
        both
    );
    assert_eq!(
        read(&["Basic realm=\"x\"", r#"bearer resource_metadata=https://a.example/m, scope="read write""#]),
        both
    );
    let none = (String::new(), String::new());
    for value in ["Bearer", "Bearer realm", "Bearerish scope=\"a\"", "Basic scope=\"a\"", "Bearer scope=\"a"] {
        assert_eq!(read(&[value]), none, "{value}");
    }
    assert_eq!(read(&[]), none);
}

struct Secret;

#[async_trait]
impl SecretSource for Secret {
    async fn secret(&self, _: &SecretRef) -> Result<SecretString, ToolFailure> {
        Ok("s1".into())
    }
}

fn document(body: &Value) -> Vec<u8> {
    page("application/json", body.to_string().as_bytes())
}

fn missing() -> Vec<u8> {
    response("404 Not Found", "", b"")
}

/// The token for a server that answers like this, and the requests that it and its OAuth server got. `HERE` in an answer
/// stands for the address of both.
async fn token(answers: Vec<Vec<u8>>, scope: Option<&str>) -> (Result<String, String>, Vec<String>) {
    let listener = listener().await;
    let here = format!("http://{}", listener.local_addr().unwrap());
    let count = answers.len();
    let placed = answers.into_iter().map(|answer| {
        let answer = String::from_utf8(answer).unwrap().replace("HERE", &here);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let head: Vec<&str> = head.lines().filter(|line| !line.starts_with("Content-Length")).collect();
        format!("{}\r\nContent-Length: {}\r\n\r\n{body}", head.join("\r\n"), body.len()).into_bytes()
    });
    let mut server = Server::on(listener, placed.collect());
    let oauth = OAuthClient {
        token_url: None,
        client_id: "c1".into(),
        client_secret: SecretRef::Secret("S".into()),
        scope: scope.map(str::to_owned),
    };
    let access = HttpAccess { oauth: Some(oauth), allow_private: true, ..HttpAccess::default() };
    let egress = Egress::new(EgressRules::default()).unwrap();
    let headers = egress.mcp_headers(&url(&server.url("/mcp")), &access, &Secret).await;
    let token = headers.map(|headers| headers["authorization"].to_str().unwrap().to_owned());
    let mut requests = Vec::new();
    while let Ok(request) = server.answered.try_recv() {
        requests.push(request.replace(&here, "HERE"));
    }
    assert!(requests.len() <= count);
    (token.map_err(|failure| failure.error.message), requests)
}

fn resource() -> Value {
    json!({"resource": "HERE/mcp", "authorization_servers": ["HERE/tenant"], "scopes_supported": ["read", "write"]})
}

fn issuer() -> Value {
    json!({"issuer": "HERE/tenant", "token_endpoint": "HERE/token"})
}

fn issued() -> Vec<u8> {
    document(&json!({"access_token": "t-1", "token_type": "Bearer", "expires_in": 3600}))
}

fn first_lines(requests: &[String]) -> Vec<&str> {
    requests.iter().map(|request| request.lines().next().unwrap().trim_end_matches(" HTTP/1.1")).collect()
}

fn body_of(request: &str) -> &str {
    request.split_once("\r\n\r\n").unwrap().1
}

#[tokio::test]
async fn a_server_without_a_challenge_is_asked_at_the_well_known_addresses() {
    let open = json!({"jsonrpc": "2.0", "id": 0, "result": {}});
    let answers =
        vec![document(&open), missing(), document(&resource()), missing(), missing(), document(&issuer()), issued()];
    let (token, requests) = token(answers, None).await;
    assert_eq!(token.as_deref(), Ok("Bearer t-1"));
    assert_eq!(
        first_lines(&requests),
        [
            "POST /mcp",
            "GET /.well-known/oauth-protected-resource/mcp",
            "GET /.well-known/oauth-protected-resource",
            "GET /.well-known/oauth-authorization-server/tenant",
            "GET /.well-known/openid-configuration/tenant",
            "GET /tenant/.well-known/openid-configuration",
            "POST /token",
        ]
    );
    let form: Vec<_> = form_urlencoded::parse(body_of(&requests[6]).as_bytes()).into_owned().collect();
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    assert_eq!(form[..2], [field("grant_type", "client_credentials"), field("scope", "read write")]);
    assert_eq!(form[2].0, "resource", "the token is for this server only");
    assert!(requests[6].contains("authorization: Basic "), "{}", requests[6]);
}

#[tokio::test]
async fn a_challenge_names_the_metadata_and_its_scope_comes_before_those_of_the_metadata() {
    let refused = |scope: &str| {
        let challenge = format!("WWW-Authenticate: Bearer resource_metadata=\"HERE/about\"{scope}\r\n");
        response("401 Unauthorized", &challenge, b"")
    };
    let cases =
        [(", scope=\"admin\"", None, "admin"), ("", None, "read+write"), (", scope=\"admin\"", Some("own"), "own")];
    for (challenged, configured, expected) in cases {
        let answers = vec![refused(challenged), document(&resource()), document(&issuer()), issued()];
        let (token, requests) = token(answers, configured).await;
        assert_eq!(token.as_deref(), Ok("Bearer t-1"));
        assert_eq!(
            first_lines(&requests),
            ["POST /mcp", "GET /about", "GET /.well-known/oauth-authorization-server/tenant", "POST /token"]
        );
        assert!(body_of(&requests[3]).contains(&format!("&scope={expected}&")), "{}", requests[3]);
    }
}

#[tokio::test]
async fn the_secret_is_in_the_body_only_for_a_server_that_takes_no_other() {
    for (methods, in_body) in [
        (json!(["client_secret_post"]), true),
        (json!(["client_secret_post", "client_secret_basic"]), false),
        (json!(["none"]), false),
    ] {
        let mut issuer = issuer();
        issuer["token_endpoint_auth_methods_supported"] = methods.clone();
        let answers = vec![missing(), document(&resource()), document(&issuer), issued()];
        let (token, requests) = token(answers, None).await;
        assert_eq!(token.as_deref(), Ok("Bearer t-1"));
        assert_eq!(body_of(&requests[3]).ends_with("&client_id=c1&client_secret=s1"), in_body, "{methods}");
        assert_eq!(requests[3].contains("authorization: Basic "), !in_body, "{methods}");
    }
}

#[tokio::test]
async fn metadata_that_does_not_belong_together_is_not_used_and_the_secret_is_not_sent() {
    let about = |field: &str, value: Value| {
        let mut resource = resource();
        resource[field] = value;
        document(&resource)
    };
    let of_issuer = |field: &str, value: &str| {
        let mut issuer = issuer();
        issuer[field] = json!(value);
        document(&issuer)
    };
    let cases = [
        (
            vec![missing(), missing(), missing()],
            "the MCP server does not say where its tokens come from (RFC 9728); set tokenUrl",
        ),
        (
            vec![missing(), about("resource", json!("https://evil.example/mcp"))],
            "the resource metadata of the MCP server is for another address; set tokenUrl",
        ),
        (
            vec![missing(), about("authorization_servers", json!([]))],
            "the resource metadata of the MCP server names no OAuth server; set tokenUrl",
        ),
        (
            vec![missing(), document(&resource()), missing(), missing(), missing()],
            "the OAuth server of the MCP server publishes no metadata (RFC 8414); set tokenUrl",
        ),
        (
            vec![missing(), document(&resource()), of_issuer("issuer", "HERE/tenant/")],
            "the metadata of the OAuth server is that of another issuer; set tokenUrl",
        ),
        (
            vec![missing(), document(&resource()), of_issuer("token_endpoint", "/token")],
            "the token endpoint of the OAuth server is not an https URL; set tokenUrl",
        ),
    ];
    for (answers, message) in cases {
        let expected = answers.len();
        let (token, requests) = token(answers, None).await;
        assert_eq!(token, Err(message.to_owned()));
        assert_eq!(requests.len(), expected);
        assert!(!requests.iter().any(|request| request.contains("s1") || request.contains("authorization:")));
    }
}
