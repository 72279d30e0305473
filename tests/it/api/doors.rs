//! Who gets in, how often, and with how much.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};
use windlass_api::auth::ApiKey;

use super::{
    http::Exchange,
    rig::{Rig, WORKSPACE, ask, desk, strict_rates},
};
use crate::support::world::{scripts, within};

fn echo() -> Value {
    scripts([("echo", json!({"turns": [{"text": "hi"}]}))])
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_valid_for_its_workspace_and_its_scopes() {
    let rig = Rig::new(echo()).await;
    let refused = rig.send(&ApiKey::random(), "GET", "/models", None).await;
    assert_eq!((refused.refusal(), refused.header("www-authenticate")), ((401, "unauthorized"), Some("Bearer")));

    let reader = rig.key(WORKSPACE, &["runs:read"], None).await;
    assert_eq!(rig.send(&reader, "GET", "/agent-runs", None).await.status, 200);
    let refused = rig.send(&reader, "POST", "/agent-runs", Some(&ask("echo", "x"))).await;
    assert_eq!((refused.refusal(), &refused.body["required"]), ((403, "insufficient_scope"), &json!(["runs:write"])));
    assert_eq!(refused.header("www-authenticate"), Some("Bearer error=\"insufficient_scope\", scope=\"runs:write\""));

    rig.store().revoke_key(&WORKSPACE.into(), &reader.id()).await.unwrap();
    assert_eq!(rig.send(&reader, "GET", "/agent-runs", None).await.refusal(), (401, "unauthorized"));
}

#[tokio::test(flavor = "multi_thread")]
async fn resources_of_other_workspaces_are_not_found() {
    let rig = Rig::new(echo()).await;
    let run = rig.run(ask("echo", "x")).await;
    let stranger = rig.key("elsewhere", &["*"], None).await;
    let wrong_workspace = rig.send(&stranger, "GET", &format!("/agent-runs/{run}"), None).await;
    assert_eq!(
        (wrong_workspace.refusal(), &wrong_workspace.body["hint"]),
        ((404, "not_found"), &json!("this key belongs to workspace elsewhere"))
    );

    let bearer = format!("Bearer {}", stranger.reveal());
    let elsewhere = |path: String| {
        let (bearer, address) = (bearer.clone(), rig.address);
        async move {
            let request = format!("GET /api/v1/workspaces/elsewhere{path}");
            Exchange::open(address, &request, &[("Authorization", &bearer)], None).await.finish().await
        }
    };
    let (foreign, unknown) =
        (elsewhere(format!("/agent-runs/{run}")).await, elsewhere("/agent-runs/run-0".into()).await);
    assert_eq!((foreign.refusal(), &foreign.body), ((404, "not_found"), &unknown.body));
    assert_eq!(elsewhere("/agent-runs".into()).await.body["runs"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_may_be_bound_to_agents() {
    let rig = Rig::with(echo(), |options| options.agents = vec![desk()]).await;
    let bound = rig.key(WORKSPACE, &["*"], Some(vec!["desk".into()])).await;
    let started = rig.send(&bound, "POST", "/agent-runs", Some(&json!({"agentId": "desk", "prompt": "x"}))).await;
    assert_eq!(started.status, 202);
    let free = rig.send(&bound, "POST", "/agent-runs", Some(&ask("echo", "x"))).await;
    assert_eq!(free.refusal(), (403, "agent_not_allowed"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rate_limited_key_gets_retry_after() {
    let rig = Rig::with(echo(), |options| options.rates = Some(strict_rates())).await;
    for remaining in ["1", "0"] {
        let taken = rig.post("/agent-runs", ask("echo", "x")).await;
        assert_eq!((taken.status, taken.header("x-ratelimit-remaining")), (202, Some(remaining)));
    }
    let refused = rig.post("/agent-runs", ask("echo", "x")).await;
    assert_eq!(
        (refused.refusal(), refused.header("x-ratelimit-bucket")),
        ((429, "rate_limit_exceeded"), Some("run_starts"))
    );
    assert!(refused.header("retry-after").unwrap().parse::<u64>().unwrap() > 0);
    assert_eq!(rig.get("/models").await.status, 200, "reads are counted apart");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_has_an_id() {
    let rig = Rig::new(echo()).await;
    let with_id = |id: &'static str| {
        let address = rig.address;
        async move { Exchange::open(address, "GET /healthz", &[("X-Request-Id", id)], None).await.finish().await }
    };
    assert_eq!(with_id("abc-1").await.header("x-request-id"), Some("abc-1"));
    assert_eq!(with_id("a b").await.header("x-request-id").unwrap().len(), 32);
    assert!(with_id("x").await.header("access-control-allow-origin").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn public_routes_need_no_key() {
    let rig = Rig::new(echo()).await;
    let open = |path: &'static str| {
        let address = rig.address;
        async move { Exchange::open(address, &format!("GET {path}"), &[], None).await.finish().await }
    };
    assert_eq!(open("/healthz").await.body, json!({"ok": true}));
    assert_eq!(open("/readyz").await.body, json!({"ok": true}));
    assert_eq!(open("/openapi.json").await.body["info"]["title"], "Windlass");
    assert!(open("/docs").await.body.as_str().unwrap().contains("<title>Windlass API</title>"));
    assert_eq!(open("/nothing").await.refusal(), (404, "not_found"));
    assert_eq!(open("/api/v1/workspaces/test/models").await.refusal(), (401, "unauthorized"));
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_bounded() {
    let rig = Rig::new(echo()).await;
    let run = rig.run(ask("echo", "x")).await;
    let large = json!({"reason": "x".repeat(200_000)});
    assert_eq!(rig.post(&format!("/agent-runs/{run}/pause"), large).await.refusal(), (413, "payload_too_large"));
    let bearer = format!("Bearer {}", rig.key.reveal());
    let request = format!("POST /api/v1/workspaces/{WORKSPACE}/agent-runs");
    let text = Exchange::open(rig.address, &request, &[("Authorization", &bearer)], Some(&json!("no object")))
        .await
        .finish()
        .await;
    assert_eq!((text.refusal(), &text.body["field"]), ((400, "invalid_request"), &json!("body")));
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_request_bodies_time_out() {
    let rig = Rig::with(echo(), |options| {
        options.limits.head_timeout = Duration::from_millis(200);
        options.limits.body_timeout = Duration::from_millis(200);
    })
    .await;
    let mut head = TcpStream::connect(rig.address).await.unwrap();
    head.write_all(b"GET /healthz HTTP/1.1\r\nHost:").await.unwrap();
    let mut said = Vec::new();
    within("the end of a slow head", head.read_to_end(&mut said)).await.unwrap();

    let mut body = TcpStream::connect(rig.address).await.unwrap();
    let request = format!(
        "POST /api/v1/workspaces/{WORKSPACE}/agent-runs HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\nContent-Length: 10\r\n\r\n{{",
        rig.key.reveal()
    );
    body.write_all(request.as_bytes()).await.unwrap();
    let mut said = vec![0; 12];
    within("an answer to a slow body", body.read_exact(&mut said)).await.unwrap();
    assert_eq!(said, b"HTTP/1.1 408");
}
