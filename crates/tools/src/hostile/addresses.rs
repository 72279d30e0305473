//! Addresses that are not on the public internet, however they are written.

use futures_util::FutureExt as _;
use reqwest::{Url, header::HeaderMap};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::{A2aSource, HttpAccess, OAuthClient},
    secret::SecretRef,
};

use super::*;
use crate::{
    A2aClients, A2aPeers, SecretSource,
    openapi::{fetch, tools},
};

const PRIVATE: [&str; 42] = [
    "http://127.0.0.1/",
    "http://127.1/",
    "http://127.0.1/",
    "http://127.0.0.1./",
    "http://127.255.255.254/",
    "http://2130706433/",
    "http://017700000001/",
    "http://0x7f000001/",
    "http://0x7f.0.0.1/",
    "http://0177.0.0.1/",
    "http://0177.0.0.0x1/",
    "http://1%32%37.0.0.1/",
    "http://１２７.0.0.1/",
    "http://①②⑦.0.0.1/",
    "http://127。0。0。1/",
    "http://0/",
    "http://0.0.0.0/",
    "http://[::]/",
    "http://[::1]/",
    "http://[0:0:0:0:0:0:0:1]/",
    "http://[::ffff:127.0.0.1]/",
    "http://[::ffff:7f00:1]/",
    "http://[::127.0.0.1]/",
    "http://[64:ff9b::7f00:1]/",
    "http://[2002:7f00:1::]/",
    "http://[fe80::1]/",
    "http://[fc00::1]/",
    "http://[fd00:ec2::254]/latest/meta-data/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/v2/credentials",
    "http://2852039166/",
    "http://0xA9FEA9FE/",
    "http://0251.0376.0251.0376/",
    "http://[::ffff:169.254.169.254]/",
    "http://100.100.100.200/",
    "http://168.63.129.16/",
    "http://192.0.0.192/",
    "http://10.0.0.1:8080/",
    "https://172.31.255.255/",
    "http://192.168.1.1/",
    "http://example.com@127.0.0.1/",
    "http://127.0.0.1:80\\@example.com/",
];

/// Names that lead to private addresses.
const NAMES: [&str; 9] = [
    "http://localhost/",
    "http://LOCALHOST./",
    "http://localhost:6379/",
    "http://foo.localhost/",
    "http://127.0.0.1.nip.io/",
    "http://metadata.google.internal/computeMetadata/v1/",
    "http://kubernetes.default.svc/",
    "http://xn--nxasmq6b/",
    "http://a.b.c.d.e/",
];

const NOT_WEB: [&str; 11] = [
    "ftp://example.com/",
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_INFO",
    "data:text/plain,x",
    "javascript:alert(1)",
    "unix:///var/run/docker.sock",
    "http://me:secret@example.com/",
    "http://me@example.com/",
    "http://",
    "//example.com/",
    "example.com",
];

/// The ways out: a tool, a document, a token.
async fn every_way_out(egress: &Egress, url: &str) -> Vec<ToolFailure> {
    let secrets = Anything;
    let source = OpenApiSource { url: Some(url.to_owned()), ..OpenApiSource::default() };
    let oauth = OAuthClient {
        token_url: Some(url.to_owned()),
        client_id: "c".into(),
        client_secret: SecretRef::Secret("S".into()),
        scope: None,
    };
    let access = HttpAccess { oauth: Some(oauth), ..HttpAccess::default() };
    vec![
        call(egress, url).await.unwrap_err(),
        fetch(egress, &source, &secrets, &CancellationToken::new()).await.unwrap_err(),
        egress.headers(&access, &secrets).await.unwrap_err(),
    ]
}

struct Anything;

#[async_trait]
impl SecretSource for Anything {
    async fn secret(&self, _: &SecretRef) -> Result<secrecy::SecretString, ToolFailure> {
        Ok("value".into())
    }
}

#[tokio::test]
async fn no_way_out_leads_to_a_private_address() {
    let egress = guarded(&[], Answers::new(&[&["127.0.0.1", "::1", "10.0.0.1", "169.254.169.254", "::ffff:7f00:1"]]));
    let mut refused = 0;
    for url in PRIVATE.into_iter().chain(NAMES) {
        for failure in every_way_out(&egress, url).await {
            let is_userinfo = failure.error.message == "the URL must not contain a user name or a password";
            assert!(failure.error.kind == ToolErrorKind::PolicyDenied || is_userinfo, "{url}: {failure:?}");
            assert!(!failure.retryable, "{url}");
            refused += 1;
        }
    }
    println!("hostile: {refused} requests to private addresses were refused");
}

#[tokio::test]
async fn no_way_out_takes_what_is_not_a_plain_web_address() {
    let egress = only_local();
    let mut refused = 0;
    for url in NOT_WEB {
        for failure in every_way_out(&egress, url).await {
            assert_eq!((failure.error.kind, failure.retryable), (ToolErrorKind::ToolFailed, false), "{url}");
            assert!(!failure.error.message.contains("secret"), "{failure:?}");
            refused += 1;
        }
    }
    println!("hostile: {refused} requests to what is no web address were refused");
}

#[tokio::test]
async fn a_name_that_changes_its_address_reaches_only_allowed_ones() {
    let server = Server::start(vec![page("text/plain", b"mine"), page("text/plain", b"mine")]).await;
    let url = format!("http://rebind.test:{}/", server.address.port());
    let cases: [(&[&[&str]], &[bool]); 4] = [
        (&[&["127.0.0.1"], &["127.0.0.2"]], &[true, false, false]),
        (&[&["127.0.0.2", "::1", "127.0.0.1"], &["169.254.169.254"]], &[true, false]),
        (&[&["127.0.0.2"], &["10.0.0.1"]], &[false, false]),
        (&[&["::ffff:127.0.0.2"], &["::ffff:a9fe:a9fe"]], &[false, false]),
    ];
    let mut calls = 0;
    for (answers, expected) in cases {
        let egress = guarded(&["127.0.0.1/32"], Answers::new(answers));
        for reached in expected {
            let outcome = call(&egress, &url).await;
            match outcome {
                Ok(_) => assert!(reached, "{answers:?}"),
                Err(failure) => {
                    assert!(!reached, "{answers:?}: {failure:?}");
                    assert_eq!(failure.error.kind, ToolErrorKind::PolicyDenied);
                }
            }
            calls += 1;
        }
    }
    println!("hostile: {calls} calls of names that change their addresses");
}

#[tokio::test]
async fn a_private_address_stays_refused_although_an_open_client_reached_it() {
    let server = Server::start(vec![page("text/plain", b"mine"), page("text/plain", b"mine")]).await;
    let egress = guarded(&[], Answers::new(&[&["127.0.0.1"]]));
    let url = format!("http://api.test:{}/", server.address.port());
    let open = HttpAccess { allow_private: true, ..HttpAccess::default() };
    let source = HttpSource { url: url.clone(), access: open, ..HttpSource::default() };
    HttpTools::new(egress.clone()).call(&source, true, &context(), &json!({}).into()).await.unwrap();
    assert_eq!(call(&egress, &url).await.unwrap_err().error.kind, ToolErrorKind::PolicyDenied);
}

#[tokio::test]
async fn a_document_does_not_lead_its_tools_to_a_private_address() {
    let egress = guarded(&[], Answers::new(&[&["10.0.0.1"]]));
    for server in ["http://169.254.169.254", "http://2130706433", "http://metadata.internal", "http://[::1]"] {
        let document = json!({
            "openapi": "3.1.0", "servers": [{"url": server}], "paths": {"/latest/{x}": {"get": {}}},
        });
        let tools = tools(&document, &toolset(OpenApiSource::default())).unwrap();
        let windlass_core::agent::ToolSource::Http(source) = &tools[0].source else { panic!("{tools:?}") };
        let args = json!({"x": "meta-data"}).into();
        let outcome = HttpTools::new(egress.clone()).call(source, true, &context(), &args).await;
        assert_eq!(outcome.unwrap_err().error.kind, ToolErrorKind::PolicyDenied, "{server}");
    }
}

#[tokio::test]
async fn an_interface_of_an_agent_card_is_guarded_like_every_address() {
    let egress = only_local();
    let private = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let port = private.local_addr().unwrap().port();
    for (binding, url, kind) in [
        ("JSONRPC", format!("http://peer.example:{port}/"), ToolErrorKind::ToolUnavailable),
        ("GRPC", format!("http://peer.example:{port}/"), ToolErrorKind::ToolUnavailable),
        ("GRPC", format!("peer.example:{port}"), ToolErrorKind::ToolUnavailable),
        ("GRPC", format!("127.0.0.2:{port}"), ToolErrorKind::PolicyDenied),
    ] {
        let interface = json!({"url": url, "protocolBinding": binding, "protocolVersion": "1.0"});
        let card = json!({"name": "x", "supportedInterfaces": [interface]}).to_string();
        let server = Server::start(vec![page("application/json", card.as_bytes())]).await;
        let source = A2aSource { agent_card_url: server.url("/card"), ..A2aSource::default() };
        let clients = A2aClients { http: egress.client(false), http2: egress.http2_client(false) };
        let (check, args) = (|url: &Url| egress.check(url, false), json!({"message": "x"}).into());
        let called =
            A2aPeers::default().call(&source, clients, &HeaderMap::new(), &check, None, &context(), &args).await;
        assert_eq!(called.unwrap_err().error.kind, kind, "{binding} {url}");
        assert!(private.accept().now_or_never().is_none(), "{binding} {url}: connected");
    }
}
