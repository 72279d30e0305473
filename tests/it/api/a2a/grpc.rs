//! The gRPC binding, HTTP/2 on the API's port, and tenants in every binding.

use std::time::Duration;

use futures_util::StreamExt as _;
use reqwest::{Client, header::HeaderMap};
use tonic::{
    Code, Request, Response, Status,
    client::Grpc,
    codec::{CompressionEncoding, Streaming},
    metadata::MetadataMap,
    transport::Channel,
};
use windlass_a2a_grpc::{BytesCodec, Method, details, reason};
use windlass_core::limits::BODY_BYTES;

use super::*;

/// A caller of the service. `version` is that of the protocol.
#[derive(Clone)]
struct Caller {
    channel: Channel,
    key: Option<ApiKey>,
    version: Option<&'static str>,
    compressed: bool,
}

impl Rig {
    async fn grpc(&self) -> Caller {
        let channel = Channel::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap();
        Caller { channel, key: Some(self.key.clone()), version: Some("1.0"), compressed: false }
    }
}

impl Caller {
    fn with_key(&self, key: Option<&ApiKey>) -> Self {
        Self { key: key.cloned(), ..self.clone() }
    }

    async fn client(&self) -> Grpc<Channel> {
        let mut grpc = Grpc::new(self.channel.clone());
        if self.compressed {
            grpc = grpc.send_compressed(CompressionEncoding::Gzip);
        }
        grpc.ready().await.unwrap();
        grpc
    }

    fn request(&self, method: &Method, params: &Value) -> Request<prost::bytes::Bytes> {
        let mut request = Request::new(method.request().to_bytes(params).unwrap());
        let metadata = request.metadata_mut();
        if let Some(key) = &self.key {
            metadata.insert("authorization", format!("Bearer {}", key.reveal()).parse().unwrap());
        }
        if let Some(version) = self.version {
            metadata.insert("a2a-version", version.parse().unwrap());
        }
        request
    }

    async fn respond(&self, name: &str, params: Value) -> Result<Response<Value>, Status> {
        let method = Method::named(name).unwrap();
        let request = self.request(&method, &params);
        let mut client = self.client().await;
        let response = within("a response", client.unary(request, method.path(), BytesCodec)).await?;
        Ok(response.map(|message| method.response().to_json(&message, 10_000).unwrap()))
    }

    async fn call(&self, name: &str, params: Value) -> Result<Value, Status> {
        self.respond(name, params).await.map(Response::into_inner)
    }

    async fn stream(&self, name: &str, params: Value) -> Result<Updates, Status> {
        let method = Method::named(name).unwrap();
        let request = self.request(&method, &params);
        let answered = self.client().await.server_streaming(request, method.path(), BytesCodec).await?;
        Ok(Updates { method, messages: answered.into_inner() })
    }
}

struct Updates {
    method: Method,
    messages: Streaming<prost::bytes::Bytes>,
}

impl Updates {
    async fn next(&mut self) -> Option<Result<Value, Status>> {
        let next = within("an update", self.messages.next()).await?;
        Some(next.map(|message| self.method.response().to_json(&message, 10_000).unwrap()))
    }
}

/// The code, the protocol's reason, and the field that is wrong.
fn about(status: &Status) -> (Code, Option<String>, Option<String>) {
    let field = |detail: Value| detail["fieldViolations"][0]["field"].as_str().map(str::to_owned);
    (status.code(), reason(status), details(status).into_iter().find_map(field))
}

fn tenant(agent: &str) -> String {
    format!("{WORKSPACE}/{agent}")
}

fn limits(metadata: &MetadataMap) -> Option<(&str, &str)> {
    let text = |name: &str| metadata.get(name).map(|value| value.to_str().unwrap());
    text("x-ratelimit-bucket").zip(text("x-ratelimit-remaining"))
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_has_the_tasks_of_the_other_bindings() {
    let rig = rig().await;
    let grpc = rig.grpc().await;
    let sent =
        grpc.call("SendMessage", json!({"tenant": tenant("desk"), "message": message("m", "hi")})).await.unwrap();
    assert_eq!(sent["task"], rig.task("desk", message("m", "hi")).await, "the same message is the same task");
    let get = json!({"tenant": tenant("desk"), "id": sent["task"]["id"]});
    assert_eq!(grpc.call("GetTask", get.clone()).await.unwrap(), rig.rpc("desk", "GetTask", get).await);
    let list = json!({"tenant": tenant("desk"), "pageSize": 5});
    let listed = grpc.call("ListTasks", list.clone()).await.unwrap();
    assert_eq!((&listed["tasks"][0]["id"], &listed["totalSize"]), (&sent["task"]["id"], &json!(1)));
    let card = grpc.call("GetExtendedAgentCard", json!({"tenant": tenant("desk")})).await.unwrap();
    let interfaces = card["supportedInterfaces"].as_array().unwrap();
    let own = interfaces.iter().find(|it| it["protocolBinding"] == "GRPC").unwrap();
    let expected = json!({"url": rig.address.to_string(), "protocolBinding": "GRPC", "protocolVersion": "1.0", "tenant": "test/desk"});
    assert_eq!(*own, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compressed_message_is_read() {
    let rig = rig().await;
    let grpc = Caller { compressed: true, ..rig.grpc().await };
    let long = "x".repeat(100_000);
    let sent = json!({"tenant": "desk", "message": message("m", &long)});
    let task = grpc.call("SendMessage", sent).await.unwrap()["task"].clone();
    assert_eq!(task["artifacts"][0]["parts"][0]["text"], format!("1: {long}"));
    // A few bytes that become more than a request may have.
    let bomb = json!({"tenant": "desk", "message": message("m2", &"x".repeat(BODY_BYTES))});
    assert_eq!(grpc.call("SendMessage", bomb).await.unwrap_err().code(), Code::ResourceExhausted);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_stream_over_grpc_continues_at_the_next_server() {
    let mut rig = rig().await;
    let grpc = rig.grpc().await;
    let start = json!({"tenant": tenant("ask"), "message": message("m", "x")});
    let mut stream = grpc.stream("SendStreamingMessage", start).await.unwrap();
    let mut last = Value::Null;
    while let Some(update) = stream.next().await {
        last = update.unwrap();
    }
    // A run may be quicker than the client: what it has done by then is in the first update.
    let (of, state_of_last) = match &last["task"] {
        Value::Null => (&last["statusUpdate"]["taskId"], state(&last["statusUpdate"])),
        task => (&task["id"], state(task)),
    };
    assert_eq!(state_of_last, "INPUT_REQUIRED", "{last}");
    let subscribe = json!({"tenant": tenant("ask"), "id": of});
    let mut stream = grpc.stream("SubscribeToTask", subscribe.clone()).await.unwrap();
    assert_eq!(state(&stream.next().await.unwrap().unwrap()["task"]), "INPUT_REQUIRED");
    rig.stop().await;
    assert_eq!(stream.next().await.unwrap().unwrap_err().code(), Code::Unavailable);
    rig.start_again().await;
    let grpc = rig.grpc().await;
    let mut stream = grpc.stream("SubscribeToTask", subscribe.clone()).await.unwrap();
    assert_eq!(state(&stream.next().await.unwrap().unwrap()["task"]), "INPUT_REQUIRED");
    let answer = json!({"messageId": "m2", "taskId": of, "role": "ROLE_USER", "parts": [{"text": "Bergen"}]});
    grpc.call("SendMessage", json!({"tenant": tenant("ask"), "message": answer})).await.unwrap();
    let mut last = Value::Null;
    while let Some(update) = stream.next().await {
        last = update.unwrap();
    }
    assert_eq!(state(&last["statusUpdate"]), "COMPLETED");
    let refused = grpc.stream("SubscribeToTask", subscribe).await.err().unwrap();
    assert_eq!(about(&refused), (Code::FailedPrecondition, Some("UNSUPPORTED_OPERATION".into()), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_has_its_status_and_its_reason() {
    let rig = rig().await;
    let grpc = rig.grpc().await;
    let task = grpc.call("SendMessage", json!({"tenant": "desk", "message": message("m", "hi")})).await.unwrap();
    let of = |id: &Value| json!({"tenant": "desk", "id": id});
    let ended = of(&task["task"]["id"]);
    let code = |code, reason: &str| (code, Some(reason.to_owned()), None);
    for (method, params, expected) in [
        ("GetTask", of(&json!("none")), code(Code::NotFound, "TASK_NOT_FOUND")),
        ("CancelTask", ended, code(Code::FailedPrecondition, "TASK_NOT_CANCELABLE")),
        ("GetTask", json!({"tenant": "desk"}), code(Code::InvalidArgument, "INVALID_PARAMS")),
        (
            "ListTasks",
            json!({"tenant": "desk", "pageSize": 101}),
            (Code::InvalidArgument, Some("INVALID_PARAMS".to_owned()), Some("pageSize".to_owned())),
        ),
    ] {
        assert_eq!(about(&grpc.call(method, params).await.unwrap_err()), expected, "{method}");
    }
    let list = || json!({"tenant": "desk"});
    for version in [None, Some("0.3"), Some("2.0")] {
        let caller = Caller { version, ..grpc.clone() };
        let refused = caller.call("ListTasks", list()).await.unwrap_err();
        assert_eq!(about(&refused), code(Code::FailedPrecondition, "VERSION_NOT_SUPPORTED"), "{version:?}");
    }
    let (wrong, none) = (ApiKey::random(), rig.key(WORKSPACE, &["runs:answer"], None).await);
    for (key, code) in
        [(None, Code::Unauthenticated), (Some(&wrong), Code::Unauthenticated), (Some(&none), Code::PermissionDenied)]
    {
        let refused = grpc.with_key(key).call("ListTasks", list()).await.unwrap_err();
        assert_eq!(about(&refused), (code, None, None));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn grpc_counts_against_the_rate_limits_of_its_key() {
    let rig = rig_with(|options| options.rates = Some(windlass_api::Rates { reads: 2, ..Default::default() })).await;
    let grpc = rig.grpc().await;
    let list = || json!({"tenant": "desk"});
    let first = grpc.respond("ListTasks", list()).await.unwrap();
    assert_eq!(limits(first.metadata()), Some(("reads", "1")));
    assert_eq!(rig.rpc("desk", "ListTasks", json!({})).await["totalSize"], 0, "the same limit as in JSON-RPC");
    let refused = grpc.call("ListTasks", list()).await.unwrap_err();
    assert_eq!(refused.code(), Code::ResourceExhausted);
    assert_eq!(limits(refused.metadata()), Some(("reads", "0")));
    assert!(refused.metadata().get("retry-after").is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_names_the_agent_in_every_binding() {
    let rig = rig().await;
    let grpc = rig.grpc().await;
    let wrong = (Code::InvalidArgument, Some("INVALID_PARAMS".to_owned()), Some("tenant".to_owned()));
    for (tenant, right) in [
        ("desk", true),
        ("test/desk", true),
        ("ask", false),
        ("test/ask", false),
        ("elsewhere/desk", false),
        ("test", false),
        ("none", false),
    ] {
        let params = json!({"tenant": tenant});
        let by_rpc = rig.rpc("desk", "ListTasks", params.clone()).await;
        let by_path = rig.get(&format!("/a2a/desk/v1/{tenant}/tasks?A2A-Version=1.0")).await;
        let encoded = tenant.replace('/', "%2F");
        let by_segment = rig.get(&format!("/a2a/desk/v1/{encoded}/tasks?A2A-Version=1.0")).await;
        if right {
            assert_eq!((&by_rpc["totalSize"], by_path.status, by_segment.status), (&json!(0), 200, 200), "{tenant}");
            grpc.call("ListTasks", params).await.unwrap();
        } else {
            assert_eq!((&by_rpc["code"], by_path.status, by_segment.status), (&json!(-32602), 400, 400), "{tenant}");
            let violation = &by_path.body["error"]["details"][0]["fieldViolations"][0];
            assert_eq!(violation["field"], "tenant", "{by_path:?}");
        }
    }
    for tenant in ["", "none", "elsewhere/desk", "test"] {
        let refused = grpc.call("ListTasks", json!({"tenant": tenant})).await.unwrap_err();
        assert_eq!(about(&refused), wrong, "{tenant:?}");
    }
    // A key for one agent needs no tenant.
    let bound = rig.key(WORKSPACE, &["*"], Some(vec!["ask".into()])).await;
    let bound = grpc.with_key(Some(&bound));
    let sent = bound.call("SendMessage", json!({"message": message("m", "x")})).await.unwrap();
    assert_eq!(state(&sent["task"]), "INPUT_REQUIRED");
    assert_eq!(about(&bound.call("ListTasks", json!({"tenant": "desk"})).await.unwrap_err()), wrong);
    let sent =
        rig.post("/a2a/desk/v1/test/desk/message:send?A2A-Version=1.0", json!({"message": message("m", "hi")})).await;
    assert_eq!((sent.status, state(&sent.body["task"])), (200, "COMPLETED"));
}

fn http2() -> Client {
    Client::builder().http2_prior_knowledge().no_proxy().build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_port_speaks_http_2_with_the_limits_of_http_1() {
    let rig = rig().await;
    let client = http2();
    let url = |path: &str| format!("http://{}{path}", rig.address);
    let card = url(&format!("/api/v1/workspaces/{WORKSPACE}/a2a/desk/.well-known/agent-card.json"));
    let get = || client.get(&card).bearer_auth(rig.key.reveal());
    let shown = get().send().await.unwrap();
    assert_eq!((shown.status().as_u16(), shown.version()), (200, reqwest::Version::HTTP_2));
    let shown: Value = serde_json::from_slice(&shown.bytes().await.unwrap()).unwrap();
    assert_eq!(
        shown["url"],
        url(&format!("/api/v1/workspaces/{WORKSPACE}/a2a/desk")),
        "the host is that of the request"
    );
    let many = |count: usize| -> HeaderMap {
        (0..count).map(|number| (format!("x-{number}").parse().unwrap(), "1".parse().unwrap())).collect()
    };
    assert_eq!(get().headers(many(101)).send().await.unwrap().status(), 431);
    let large = get().header("x-large", "x".repeat(70_000)).send().await;
    assert!(large.is_err() || large.is_ok_and(|large| large.status() == 431));
    let start = client.post(url(&format!("/api/v1/workspaces/{WORKSPACE}/agent-runs"))).bearer_auth(rig.key.reveal());
    assert_eq!(start.body("x".repeat(BODY_BYTES + 1)).send().await.unwrap().status(), 413);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_sends_its_first_bytes_slowly_is_served() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let rig = rig_with(|options| options.limits.head_timeout = Duration::from_millis(500)).await;
    // `P` may begin both.
    let mut socket = tokio::net::TcpStream::connect(rig.address).await.unwrap();
    socket.set_nodelay(true).unwrap();
    for piece in ["P", "OST /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"] {
        socket.write_all(piece.as_bytes()).await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut answer = String::new();
    within("an answer", socket.read_to_string(&mut answer)).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 405"), "{answer}");
    // One that sends nothing more is closed.
    let mut socket = tokio::net::TcpStream::connect(rig.address).await.unwrap();
    socket.write_all(b"PRI").await.unwrap();
    assert_eq!(within("the end", socket.read(&mut [0; 1])).await.unwrap_or_default(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_not_grpc_is_refused() {
    let rig = rig().await;
    let path = "/lf.a2a.v1.A2AService/GetTask";
    let bearer = format!("Bearer {}", rig.key.reveal());
    let headers = [("Authorization", bearer.as_str()), ("Content-Type", "application/grpc")];
    let over_http1 = Exchange::open(rig.address, &format!("POST {path}"), &headers, None).await.finish().await;
    assert_eq!(over_http1.status, 415, "{over_http1:?}");
    let client = http2();
    let post = |path: &str, kind: &str, body: Vec<u8>| {
        let request = client.post(format!("http://{}{path}", rig.address)).bearer_auth(rig.key.reveal());
        request.header("content-type", kind).header("a2a-version", "1.0").body(body).send()
    };
    for kind in ["application/json", "application/grpc-web", "application/grpc+json"] {
        assert_eq!(post(path, kind, Vec::new()).await.unwrap().status(), 415, "{kind}");
    }
    let status = async |path: &str, body: Vec<u8>| {
        let response = post(path, "application/grpc", body).await.unwrap();
        assert_eq!(response.status(), 200);
        Code::from_bytes(response.headers().get("grpc-status").unwrap().as_bytes())
    };
    let frame = |flag: u8, length: usize, message: &[u8]| {
        [&[flag], &u32::try_from(length).unwrap().to_be_bytes()[..], message].concat()
    };
    assert_eq!(status("/lf.a2a.v1.A2AService/Fly", frame(0, 0, b"")).await, Code::Unimplemented);
    for (body, code) in [
        (Vec::new(), Code::Internal),
        (b"\0\0".to_vec(), Code::Internal),
        (frame(0, 9, b"\x12\x01t"), Code::Internal),
        (frame(7, 3, b"\x12\x01t"), Code::Internal),
        // Compressed, and nothing says how.
        (frame(1, 3, b"\x12\x01t"), Code::Internal),
        (frame(0, BODY_BYTES + 1, b""), Code::OutOfRange),
        (frame(0, 2, b"\xff\xff"), Code::InvalidArgument),
        (vec![0; BODY_BYTES + 6], Code::InvalidArgument),
    ] {
        assert_eq!(status(path, body.clone()).await, code, "{:?}", &body[..body.len().min(8)]);
    }
}
