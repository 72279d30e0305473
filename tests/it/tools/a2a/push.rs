//! Push notifications of `windlass dev`: to a client of the official SDK, and over the end of the server.

use std::{collections::BTreeSet, ffi::OsString};

use serde_json::{Value, json};

use crate::{
    api::http::Exchange,
    sdk::dev::{Dev, KEY, WORKSPACE, lasting_port},
    support::{
        a2a_peer::python,
        block_on,
        node::fixture,
        receiver::{Notification, Receiver},
    },
};

/// With the agents of the fixtures, and a way out to this machine.
fn dev() -> Dev {
    let option = |name: &str, file: &str| [OsString::from(name), fixture(&format!("a2a/server/{file}")).into()];
    let files =
        [option("--scripts", "scripts.json"), option("--agents", "agents"), option("--config", "windlass.toml")];
    Dev::start_with(["--port", "0"].map(OsString::from).into_iter().chain(files.into_iter().flatten()).collect())
}

#[test]
fn the_python_client_gets_signed_notifications() {
    let dev = dev();
    for (binding, seen) in [
        ("JSONRPC", json!(["WORKING", "The weather in Bergen is fine.", "COMPLETED"])),
        ("HTTP+JSON", json!(["WORKING", "The weather in Bergen is fine.", "COMPLETED"])),
        ("GRPC", json!(["WORKING", "The weather in Bergen is fine.", "COMPLETED"])),
        ("0.3", json!(["working", "completed"])),
    ] {
        let output = python("a2a/push.py").args([&dev.url, WORKSPACE, KEY, binding]).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "{binding}: {}\n{out}{err}", output.status);
        let expected = json!({
            "keys": [["OKP", "Ed25519", "EdDSA"]],
            "capability": true,
            "made": ["mine", true, "", ""],
            "same": true,
            "notifications": seen,
            "listed": ["mine"],
            "deleted": 0,
        });
        assert_eq!(serde_json::from_str::<Value>(&out).unwrap(), expected, "{binding}");
    }
}

async fn send(dev: &Dev, message: Value, settings: Value) -> Value {
    let path = format!("POST /api/v1/workspaces/{WORKSPACE}/a2a/asker");
    let bearer = format!("Bearer {KEY}");
    let headers = [("Authorization", bearer.as_str()), ("A2A-Version", "1.0")];
    let params = json!({"message": message, "configuration": settings});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": params});
    let answer = Exchange::open(dev.listen.parse().unwrap(), &path, &headers, Some(&request)).await.finish().await;
    answer.body["result"]["task"].clone()
}

#[test]
fn notifications_arrive_after_the_server_was_killed() {
    block_on(async {
        let mut dev = dev();
        // Nothing listens there yet.
        let port = lasting_port();
        let question = json!({"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "How is the weather?"}]});
        let config = json!({"taskPushNotificationConfig": {"id": "c", "url": format!("http://127.0.0.1:{port}/")}});
        let task = send(&dev, question, config).await;
        assert_eq!(task["status"]["state"], "TASK_STATE_INPUT_REQUIRED", "{task}");
        dev.kill();
        let mut receiver = Receiver::at(port, &[200]).await;
        dev.start_again();
        let mut all = receiver.until("INPUT_REQUIRED").await;
        let answer =
            json!({"messageId": "m2", "taskId": task["id"], "role": "ROLE_USER", "parts": [{"text": "Bergen"}]});
        send(&dev, answer, json!({"returnImmediately": true})).await;
        dev.kill();
        dev.start_again();
        all.extend(receiver.until("COMPLETED").await);
        // A notification may come twice if the server dies between its acceptance and the note of it. It has the same id.
        let mut seen = BTreeSet::new();
        let first: Vec<String> =
            all.iter().filter(|it| seen.insert(it.id().to_owned())).map(Notification::short).collect();
        let expected = ["WORKING", "INPUT_REQUIRED", "WORKING", "The weather in Bergen is fine.", "COMPLETED"];
        assert_eq!(first, expected);
    });
}
