//! Conversion of every message, with the types of the A2A project as the oracle, and what is refused.

use bytes::Bytes;
use proptest::prelude::*;
use serde_json::{Value, json};
use tonic::Code;

use super::*;

const MANY: usize = 10_000;

fn method(name: &str) -> Method {
    Method::named(name).unwrap()
}

fn round_trip(message: &Message, json: &Value) -> Value {
    message.to_json(&message.to_bytes(json).unwrap(), MANY).unwrap()
}

#[test]
fn the_service_has_the_methods_of_the_protocol() {
    let methods: Vec<(String, bool)> =
        Method::all().map(|method| (method.name().to_owned(), method.is_streaming())).collect();
    let expected = [
        ("SendMessage", false),
        ("SendStreamingMessage", true),
        ("GetTask", false),
        ("ListTasks", false),
        ("CancelTask", false),
        ("SubscribeToTask", true),
        ("CreateTaskPushNotificationConfig", false),
        ("GetTaskPushNotificationConfig", false),
        ("ListTaskPushNotificationConfigs", false),
        ("GetExtendedAgentCard", false),
        ("DeleteTaskPushNotificationConfig", false),
    ];
    assert_eq!(methods, expected.map(|(name, streaming)| (name.to_owned(), streaming)));
    assert_eq!(method("GetTask").path(), "/lf.a2a.v1.A2AService/GetTask");
    assert_eq!(Method::named("Fly"), None);
}

fn message() -> Value {
    json!({
        "messageId": "m-1", "contextId": "c-1", "taskId": "t-1", "role": "ROLE_USER",
        "parts": [
            {"text": "", "metadata": {"lang": "nb"}},
            {"text": "hei, verden"},
            {"raw": "AP+A", "filename": "a.bin", "mediaType": "application/octet-stream"},
            {"url": "https://example.com/a.png", "mediaType": "image/png"},
            {"data": {"n": 1, "f": 0.5, "big": 9007199254740991i64, "list": [null, true, "x", {}], "none": null}},
            {"data": [1, 2]}, {"data": "text"}, {"data": null},
        ],
        "metadata": {"k": [1, -2.5e300]},
        "extensions": ["https://example.com/ext"],
        "referenceTaskIds": ["t-0"],
    })
}

fn task() -> Value {
    let status =
        json!({"state": "TASK_STATE_INPUT_REQUIRED", "message": message(), "timestamp": "2026-01-02T03:04:05.678Z"});
    json!({
        "id": "t-1", "contextId": "c-1", "status": status,
        "artifacts": [{"artifactId": "a-1", "name": "answer", "description": "d", "parts": [{"text": "x"}], "metadata": {},
                       "extensions": ["e"]}],
        "history": [message()], "metadata": {"a": "b"},
    })
}

fn push_config() -> Value {
    json!({"tenant": "acme/desk", "id": "p-1", "taskId": "t-1", "url": "https://example.com/hook", "token": "s",
           "authentication": {"scheme": "Bearer", "credentials": "c"}})
}

fn card() -> Value {
    let flow = json!({"authorizationCode": {"authorizationUrl": "https://i/a", "tokenUrl": "https://i/t",
                                            "scopes": {"read": "Reads."}, "pkceRequired": true}});
    json!({
        "name": "Desk", "description": "Answers.", "version": "7",
        "supportedInterfaces": [{"url": "https://example.com", "protocolBinding": "GRPC", "protocolVersion": "1.0",
                                 "tenant": "acme/desk"}],
        "provider": {"url": "https://example.com", "organization": "Acme"},
        "documentationUrl": "https://example.com/docs", "iconUrl": "https://example.com/icon.png",
        "capabilities": {"streaming": true, "pushNotifications": false, "extendedAgentCard": true,
                         "extensions": [{"uri": "u", "description": "d", "required": true, "params": {"a": 1}}]},
        "securitySchemes": {
            "key": {"httpAuthSecurityScheme": {"scheme": "bearer", "description": "a key", "bearerFormat": "opaque"}},
            "api": {"apiKeySecurityScheme": {"name": "X-Key", "location": "header"}},
            "oauth": {"oauth2SecurityScheme": {"flows": flow}},
        },
        "securityRequirements": [{"schemes": {"key": {"list": ["a"]}}}],
        "defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"],
        "skills": [{"id": "s", "name": "S", "description": "d", "tags": ["t"], "examples": ["e"], "inputModes": ["text/plain"],
                    "outputModes": ["text/plain"], "securityRequirements": [{"schemes": {"key": {"list": ["a"]}}}]}],
        "signatures": [{"protected": "e30", "signature": "c2ln", "header": {"kid": "1"}}],
    })
}

/// JSON that has been through the types of the A2A project.
fn by_oracle<T: serde::Serialize + serde::de::DeserializeOwned>(json: &Value) -> Value {
    serde_json::to_value(serde_json::from_value::<T>(json.clone()).unwrap()).unwrap()
}

#[test]
fn every_message_comes_back_as_it_was_and_as_the_oracle_reads_it() {
    type Oracle = fn(&Value) -> Value;
    let send = json!({"tenant": "acme/desk", "message": message(), "metadata": {"a": 1},
                      "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 0, "returnImmediately": true,
                                        "taskPushNotificationConfig": push_config()}});
    let list = json!({"tenant": "acme/desk", "contextId": "c", "status": "TASK_STATE_WORKING", "pageSize": 5, "pageToken": "p",
                      "historyLength": 0, "statusTimestampAfter": "2026-01-02T03:04:05Z", "includeArtifacts": false});
    let listed = json!({"tasks": [task()], "nextPageToken": "n", "pageSize": 1, "totalSize": 2});
    let status_update = json!({"taskId": "t", "contextId": "c", "status": task()["status"], "metadata": {"a": 1}});
    let artifact_update = json!({"taskId": "t", "contextId": "c", "artifact": task()["artifacts"][0], "append": true,
                                 "lastChunk": true, "metadata": {"a": 1}});
    let of_config = json!({"tenant": "acme/desk", "taskId": "t-1", "id": "p-1"});
    let (request, response) = (|name: &str| method(name).request(), |name: &str| method(name).response());
    let cases: Vec<(Message, Value, Oracle)> = vec![
        (request("SendMessage"), send, by_oracle::<a2a::SendMessageRequest>),
        (request("GetTask"), json!({"tenant": "x", "id": "t", "historyLength": 3}), by_oracle::<a2a::GetTaskRequest>),
        (request("ListTasks"), list, by_oracle::<a2a::ListTasksRequest>),
        (
            request("CancelTask"),
            json!({"tenant": "x", "id": "t", "metadata": {"a": 1}}),
            by_oracle::<a2a::CancelTaskRequest>,
        ),
        (request("SubscribeToTask"), json!({"tenant": "x", "id": "t"}), by_oracle::<a2a::SubscribeToTaskRequest>),
        (request("GetExtendedAgentCard"), json!({"tenant": "x"}), Value::clone),
        (request("CreateTaskPushNotificationConfig"), push_config(), Value::clone),
        (request("GetTaskPushNotificationConfig"), of_config.clone(), Value::clone),
        (request("DeleteTaskPushNotificationConfig"), of_config, Value::clone),
        (
            request("ListTaskPushNotificationConfigs"),
            json!({"taskId": "t", "pageSize": 3, "pageToken": "p", "tenant": "x"}),
            Value::clone,
        ),
        (response("SendMessage"), json!({"task": task()}), by_oracle::<a2a::SendMessageResponse>),
        (response("SendMessage"), json!({"message": message()}), by_oracle::<a2a::SendMessageResponse>),
        (response("SendStreamingMessage"), json!({"task": task()}), by_oracle::<a2a::StreamResponse>),
        (response("SendStreamingMessage"), json!({"message": message()}), by_oracle::<a2a::StreamResponse>),
        (response("SubscribeToTask"), json!({"statusUpdate": status_update}), by_oracle::<a2a::StreamResponse>),
        (response("SubscribeToTask"), json!({"artifactUpdate": artifact_update}), by_oracle::<a2a::StreamResponse>),
        (response("GetTask"), task(), by_oracle::<a2a::Task>),
        (response("CancelTask"), task(), by_oracle::<a2a::Task>),
        (response("ListTasks"), listed, by_oracle::<a2a::ListTasksResponse>),
        (response("CreateTaskPushNotificationConfig"), push_config(), Value::clone),
        (
            response("ListTaskPushNotificationConfigs"),
            json!({"configs": [push_config()], "nextPageToken": "n"}),
            Value::clone,
        ),
        (response("GetExtendedAgentCard"), card(), by_oracle::<a2a::AgentCard>),
        (response("DeleteTaskPushNotificationConfig"), json!({}), Value::clone),
    ];
    for (message, json, oracle) in cases {
        let converted = round_trip(&message, &json);
        assert_eq!(converted, json, "{message:?}");
        // The oracle writes times and empty texts in its own way, so both sides go through it.
        assert_eq!(oracle(&converted), oracle(&json), "{message:?}");
        assert_eq!(
            round_trip(&message, &oracle(&json)),
            round_trip(&message, &json),
            "{message:?}: what the oracle writes"
        );
    }
    assert_eq!(method("DeleteTaskPushNotificationConfig").response().to_bytes(&Value::Null).unwrap(), Bytes::new());
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        "[^\u{0}]{0,8}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let fields = prop::collection::hash_map("[a-z@]{0,4}", inner.clone(), 0..4);
        prop_oneof![
            prop::collection::vec(inner, 0..4).prop_map(Value::from),
            fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn data_comes_back_as_it_was(data in any_json(), text in "\\PC{0,20}", raw in prop::collection::vec(any::<u8>(), 0..40)) {
        let raw = a2a::Part { content: a2a::PartContent::Raw(raw), metadata: None, filename: None, media_type: None };
        let parts = json!([{"data": data}, {"text": text}, serde_json::to_value(raw).unwrap()]);
        let json = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": parts}});
        prop_assert_eq!(round_trip(&method("SendMessage").request(), &json), json);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        for method in Method::all() {
            let _ = method.request().to_json(&bytes, 100);
        }
    }

    #[test]
    fn a_message_with_a_changed_byte_is_read_or_refused(at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let request = method("SendMessage").request();
        let mut bytes = request.to_bytes(&json!({"message": message()})).unwrap().to_vec();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let _ = request.to_json(&bytes, 1000);
    }
}

#[test]
fn unknown_fields_are_left_out() {
    let request = method("GetTask").request();
    let bytes = request.to_bytes(&json!({"id": "t", "other": {"a": 1}})).unwrap();
    assert_eq!(&bytes[..], b"\x12\x01t");
    // Field 99 as a number and as bytes.
    let newer = [&bytes[..], b"\x98\x06\x01", b"\x9a\x06\x02hi"].concat();
    assert_eq!(request.to_json(&newer, MANY), Ok(json!({"id": "t"})));
}

#[test]
fn an_enum_value_of_a_newer_version_is_its_number() {
    let task = method("GetTask").response();
    // status.state = 77
    assert_eq!(task.to_json(b"\x0a\x01t\x1a\x02\x08\x4d", MANY), Ok(json!({"id": "t", "status": {"state": 77}})));
}

#[test]
fn bytes_that_are_no_message_are_refused() {
    let request = method("SendMessage").request();
    for bytes in [
        &b"\xff"[..],
        b"\x0a",
        b"\x0a\x05ab",
        // The wrong wire type for `message`, text that is not UTF-8, a group.
        b"\x10\x01",
        b"\x0a\x01\xff",
        b"\x13\x14",
    ] {
        assert!(matches!(request.to_json(bytes, MANY), Err(Malformed::Message { .. })), "{bytes:?}");
    }
    for json in [json!([]), json!("x"), json!({"message": 1}), json!({"message": {"parts": [{"raw": "*"}]}})] {
        assert!(matches!(request.to_bytes(&json), Err(Malformed::Message { .. })), "{json}");
    }
}

#[test]
fn values_are_counted_before_they_are_built() {
    let request = method("SendMessage").request();
    let parts = |count: usize| json!({"message": {"parts": vec![json!({}); count]}});
    let bytes = |count| request.to_bytes(&parts(count)).unwrap();
    assert_eq!(bytes(1000).len(), 2 * 1000 + 3, "two bytes for each part");
    // The message is one, too.
    assert_eq!(request.to_json(&bytes(99), 100), Ok(parts(99)));
    assert_eq!(request.to_json(&bytes(100), 100), Err(Malformed::TooManyValues(100)));
}

#[test]
fn nesting_is_limited() {
    let request = method("SendMessage").request();
    let nested = |levels: usize| (0..levels).fold(json!(1), |inner, _| json!([inner]));
    let sent = |levels: usize| json!({"message": {"parts": [{"data": nested(levels)}]}});
    assert_eq!(round_trip(&request, &sent(40)), sent(40));
    assert!(matches!(request.to_bytes(&sent(60)), Err(Malformed::Message { .. })));
    // As a client of another kind might send it: `data` with lists in lists.
    let wrapped = |field: u8, inner: Vec<u8>| {
        let mut outer = vec![field << 3 | 2];
        prost::encoding::encode_varint(inner.len() as u64, &mut outer);
        outer.extend(inner);
        outer
    };
    for (levels, read) in [(40, true), (60, false), (2000, false)] {
        let data = (0..levels).fold(Vec::new(), |inner, _| wrapped(6, wrapped(1, inner)));
        let bytes = wrapped(2, wrapped(5, wrapped(4, data)));
        assert_eq!(request.to_json(&bytes, MANY).is_ok(), read, "{levels}");
    }
}

#[test]
fn a_status_has_its_details() {
    let info = json!({"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "TASK_NOT_FOUND", "domain": "a2a-protocol.org",
                      "metadata": {"a": "b"}});
    let violation = json!({"@type": "type.googleapis.com/google.rpc.BadRequest",
                           "fieldViolations": [{"field": "tenant", "description": "is wrong"}]});
    let whole = status(Code::NotFound, "no such task", &json!([violation, info]));
    assert_eq!((whole.code(), whole.message()), (Code::NotFound, "no such task"));
    assert_eq!(details(&whole), [violation, info.clone()]);
    assert_eq!(reason(&whole).as_deref(), Some("TASK_NOT_FOUND"));

    let mut other = info;
    other["domain"] = json!("example.com");
    assert_eq!(reason(&status(Code::NotFound, "x", &json!([other]))), None);
    assert_eq!(reason(&tonic::Status::not_found("x")), None);
    assert_eq!(
        details(&tonic::Status::with_details(Code::NotFound, "x", Bytes::from_static(b"\xff"))),
        Vec::<Value>::new()
    );
    // A detail of a type that is not known here does not hide the message.
    let unknown = json!([{"@type": "type.googleapis.com/example.Unknown", "a": 1}]);
    assert_eq!(status(Code::Internal, "x", &unknown).message(), "x");
}
