//! A key of one workspace against the runs and sessions of another: every route answers exactly as for an unknown id.

use std::process::Command;

use serde_json::{Value, json};

use super::{
    Tally,
    wire::{Answer, Caller, send},
};
use crate::{
    sdk::dev::{Dev, binary},
    support::block_on,
};

const STRANGER: &str = "stranger";

#[test]
fn runs_and_sessions_of_another_workspace_look_unknown_on_every_route() {
    block_on(async {
        let dev = Dev::start("600s");
        let victim = Caller::of_dev(&dev.listen);
        let stranger = Caller { key: key_of(&dev, STRANGER), workspace: STRANGER.to_owned(), ..victim.clone() };
        let mut tally = Tally::new("another workspace's runs and sessions");

        let tool = json!({"kind": "local", "name": "add", "parameters": {"type": "object"}});
        let open =
            json!({"runId": "chosen", "modelId": "script:add", "systemPrompt": "s", "prompt": "x", "tools": [tool]});
        let run = started(&victim, &open).await;
        let ended = json!({"modelId": "script:hello", "systemPrompt": "s", "prompt": "x", "tools": []});
        let ended = started(&victim, &ended).await;
        let session = json!({"modelId": "script:chat", "systemPrompt": "s", "tools": []});
        let session = victim.post("/agent-sessions", &session).await.unwrap().body["sessionId"].clone();
        let session = session.as_str().unwrap().to_owned();

        for (method, path) in routes(&dev).await {
            let (known, unknown): (Vec<&str>, &str) = match path.contains("agent-sessions") {
                true => (vec![&session], "session-0"),
                false => (vec![&run, &ended, "chosen"], "run-0"),
            };
            for id in known {
                let foreign = ask(&stranger, &method, &path.replace("{id}", id)).await;
                let nothing = ask(&stranger, &method, &path.replace("{id}", unknown)).await;
                tally.count("requests", 2);
                let (foreign, nothing) = (without(&foreign, id), without(&nothing, unknown));
                if foreign != nothing {
                    tally.finding(format!("{method} {path} with {id}: {foreign}, with {unknown}: {nothing}"));
                }
            }
        }
        // The same id in another workspace is another run.
        let mut same = open.clone();
        same["tools"][0]["name"] = json!("sub");
        let answer = stranger.post("/agent-runs", &same).await.unwrap();
        let own = answer.body["runId"].as_str().unwrap_or_default();
        if answer.status != 202 || own == run {
            tally.finding(format!("a run id that another workspace uses: {answer:?}"));
        }
        tally.count("requests", 1);
        tally.close();
    });
}

/// A key with every scope.
pub(super) fn key_of(dev: &Dev, workspace: &str) -> String {
    let mut command = Command::new(binary());
    command.args(["keys", "create", "--json", "--name", "hostile", "--workspace", workspace]);
    let made = command.arg("--data-dir").arg(dev.data_dir()).output().unwrap();
    let made: Value = serde_json::from_slice(&made.stdout).unwrap();
    made["key"].as_str().unwrap().to_owned()
}

async fn started(caller: &Caller, body: &Value) -> String {
    let answer = caller.post("/agent-runs", body).await.unwrap();
    assert_eq!(answer.status, 202, "{answer:?}");
    answer.body["runId"].as_str().unwrap().to_owned()
}

async fn ask(caller: &Caller, method: &str, path: &str) -> Answer {
    let body = (method == "POST").then(|| json!({"prompt": "x", "toolUseId": "call-1-1", "result": "5"}));
    caller.request(method, path, body.as_ref()).await.unwrap()
}

/// The response without the requested id, which it may repeat, and without the request's own id.
fn without(answer: &Answer, id: &str) -> String {
    let mut body = answer.body.clone();
    if let Some(fields) = body.as_object_mut() {
        fields.remove("requestId");
    }
    format!("{} {}", answer.status, body).replace(id, "ID")
}

/// The routes of the OpenAPI document that take an id, relative to the workspace.
async fn routes(dev: &Dev) -> Vec<(String, String)> {
    let request = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    let document = send(&dev.listen, request).await.unwrap().body;
    let mut routes = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        let Some((_, path)) = path.split_once("/workspaces/{slug}") else { continue };
        if path.contains("{id}") {
            let methods =
                methods.as_object().unwrap().keys().filter(|key| ["get", "post", "delete"].contains(&key.as_str()));
            routes.extend(methods.map(|method| (method.to_uppercase(), path.to_owned())));
        }
    }
    assert!(routes.len() >= 12, "{routes:?}");
    routes
}
