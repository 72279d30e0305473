//! Push notifications: who gets which, how often, and what becomes of them when something fails.

use std::sync::Arc;

use serde_json::{Value, json};
use temporalio_client::UntypedWorkflow;
use windlass_core::{
    envelope::{PushCursor, PushInput, TokenUsage},
    event::{EventBody, NewEvent},
    ids::RunId,
    limits::PUSH_CONFIGS,
};
use windlass_store::{NewPushConfig, PushTarget, ReservedRun, testing::reserved};

use super::{message, reply, rig_with, state};
use crate::{
    api::{
        http::Answer,
        rig::{Rig, WORKSPACE},
    },
    runs::secrets::search::Search,
    support::{
        receiver::{Notification, Receiver, loopback, reach_receivers},
        world::within,
    },
};

/// A rig whose worker may send to this machine.
async fn rig() -> Rig {
    let egress = loopback();
    let rig = rig_with(|options| options.check_receiver = Arc::new(move |url| egress.check_address(url))).await;
    reach_receivers(&rig.world).await;
    rig
}

impl Rig {
    /// Sends a message with a push config and returns the task at once.
    async fn notified(&self, agent: &str, message: Value, config: Value) -> Value {
        let settings = json!({"returnImmediately": true, "taskPushNotificationConfig": config});
        let sent = self.rpc(agent, "SendMessage", json!({"message": message, "configuration": settings})).await;
        assert!(sent["task"]["id"].is_string(), "{sent}");
        sent["task"].clone()
    }

    /// Waits until the workflow of a config has ended, by itself or because it was cancelled.
    async fn push_ended(&self, task: &Value, config: &str) {
        let id = PushInput::workflow_id(&RunId::new(task["id"].as_str().unwrap()), config);
        let handle = self.world.ops.client().get_workflow_handle::<UntypedWorkflow>(id);
        within("the end of the push workflow", handle.get_result(Default::default())).await.ok();
    }

    /// What the run's own route says about its configs.
    async fn push_configs(&self, task: &Value) -> Vec<Value> {
        let answer = self.get(&format!("/agent-runs/{}/push-configs", task["id"].as_str().unwrap())).await;
        answer.body["pushConfigs"].as_array().unwrap().clone()
    }
}

fn shorts(notifications: &[Notification]) -> Vec<String> {
    notifications.iter().map(Notification::short).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_update_is_accepted_once_and_in_order_although_the_receiver_fails_at_first() {
    let rig = rig().await;
    let mut receiver = Receiver::answering(&[500, 503, 429, 200]).await;
    let config = json!({"id": "c", "url": receiver.url("/hook?key=1"), "token": "t0ken",
        "authentication": {"scheme": "Bearer", "credentials": "s3cret"}});
    let task = rig.notified("deltas", message("m", "x"), config).await;
    let all = receiver.until("COMPLETED").await;
    let (refused, accepted) = all.split_at(3);
    assert_eq!(shorts(accepted), ["WORKING", "Bergen", "COMPLETED"], "the pieces of the answer are not sent");
    assert_eq!(refused.iter().map(|it| it.status).collect::<Vec<_>>(), [500, 503, 429]);
    for again in refused {
        assert_eq!((again.id(), &again.body), (accepted[0].id(), &accepted[0].body), "it is the same notification");
    }
    let mut ids: Vec<&str> = accepted.iter().map(Notification::id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 3, "each has an id of its own");
    for one in &all {
        let header = |name: &str| one.headers[name].as_str();
        assert_eq!(
            (one.target.as_str(), header("content-type"), header("x-a2a-notification-token"), header("authorization")),
            ("/hook?key=1", "application/a2a+json", "t0ken", "Bearer s3cret")
        );
    }
    rig.push_ended(&task, "c").await;
    assert_eq!(shorts(&receiver.rest()), Vec::<String>::new());
    let configs = rig.push_configs(&task).await;
    assert_eq!((configs.len(), &configs[0]["id"], &configs[0]["error"]), (1, &json!("c"), &Value::Null));
    assert!(configs[0]["endedAt"].is_u64(), "{configs:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_gets_what_happens_after_it_was_made_and_always_the_end() {
    let rig = rig().await;
    let (mut early, mut late) = (Receiver::answering(&[200]).await, Receiver::answering(&[200]).await);
    let task = rig.task("ask", message("m", "x")).await;
    let create = |url: String| json!({"taskId": task["id"], "url": url});
    let made = rig.rpc("ask", "CreateTaskPushNotificationConfig", create(early.url("/"))).await;
    let again = rig.rpc("ask", "CreateTaskPushNotificationConfig", create(early.url("/"))).await;
    assert_eq!(made, again, "a repeat without an id finds the config that it made");
    rig.task("ask", reply(&task, "m2", json!({"text": "Bergen"}))).await;
    assert_eq!(shorts(&early.until("COMPLETED").await), ["WORKING", "Bergen", "COMPLETED"]);
    let ended = rig.rpc("ask", "CreateTaskPushNotificationConfig", create(late.url("/"))).await;
    assert_eq!(shorts(&late.until("COMPLETED").await), ["Bergen", "COMPLETED"], "the task had ended");
    for config in [made, ended] {
        rig.push_ended(&task, config["id"].as_str().unwrap()).await;
    }
    assert_eq!((shorts(&early.rest()), shorts(&late.rest())), (vec![], vec![]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_gone_gets_no_more_and_the_config_says_why() {
    let rig = rig().await;
    let mut receiver = Receiver::answering(&[410]).await;
    let task = rig.notified("ask", message("m", "x"), json!({"id": "c", "url": receiver.url("/")})).await;
    rig.push_ended(&task, "c").await;
    assert_eq!(receiver.next().await.status, 410);
    assert_eq!(receiver.rest().len(), 0, "it was not tried again");
    let configs = rig.push_configs(&task).await;
    assert_eq!(configs[0]["error"], "the receiver answered 410");
    assert!(configs[0]["endedAt"].is_u64(), "{configs:?}");

    // The same config, made again, is tried again.
    let again = json!({"taskId": task["id"], "id": "c", "url": receiver.url("/")});
    rig.rpc("ask", "CreateTaskPushNotificationConfig", again).await;
    assert_eq!(rig.push_configs(&task).await[0]["error"], Value::Null);
    rig.rpc("ask", "CancelTask", json!({"id": task["id"]})).await;
    assert_eq!(receiver.next().await.status, 410);
}

#[tokio::test(flavor = "multi_thread")]
async fn configs_are_made_shown_listed_and_deleted_in_every_binding_without_their_credentials() {
    let rig = rig().await;
    let mut receiver = Receiver::answering(&[200]).await;
    let task = rig.task("ask", message("m", "x")).await;
    let full = json!({"taskId": task["id"], "id": "a", "url": receiver.url("/?key=1"), "token": "t",
        "authentication": {"scheme": "Bearer", "credentials": "x"}});
    let shown = json!({"taskId": task["id"], "id": "a", "url": receiver.url("/?key=1"), "authentication": {"scheme": "Bearer"}});
    assert_eq!(rig.rpc("ask", "CreateTaskPushNotificationConfig", full.clone()).await, shown);
    let one = json!({"taskId": task["id"], "id": "a"});
    assert_eq!(rig.rpc("ask", "GetTaskPushNotificationConfig", one.clone()).await, shown);

    let run = task["id"].as_str().unwrap();
    let at = |rest: &str| format!("/a2a/ask/v1/tasks/{run}/pushNotificationConfigs{rest}?A2A-Version=1.0");
    let mut other = full.clone();
    other["id"] = json!("b");
    let made = rig.post(&at(""), other).await;
    assert_eq!((made.status, &made.body["id"]), (200, &json!("b")));
    assert_eq!(rig.get(&at("/a")).await.body, shown);
    let listed = rig.get(&at("")).await.body;
    assert_eq!(rig.rpc("ask", "ListTaskPushNotificationConfigs", json!({"taskId": run})).await, listed);
    assert_eq!(listed["configs"], json!([shown, made.body]));

    let old = async |method: &str, params: Value| -> Answer {
        let method = format!("tasks/pushNotificationConfig/{method}");
        rig.post("/a2a/ask", json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})).await
    };
    let config =
        json!({"id": "c", "url": receiver.url("/"), "authentication": {"schemes": ["Bearer"], "credentials": "x"}});
    let set = old("set", json!({"taskId": run, "pushNotificationConfig": config})).await.body["result"].clone();
    assert_eq!(set["pushNotificationConfig"]["authentication"], json!({"schemes": ["Bearer"]}));
    assert_eq!(old("get", json!({"id": run, "pushNotificationConfigId": "c"})).await.body["result"], set);
    assert_eq!(old("list", json!({"id": run})).await.body["result"].as_array().unwrap().len(), 3);
    let deleted = old("delete", json!({"id": run, "pushNotificationConfigId": "c"})).await.body;
    assert_eq!((deleted.get("result"), deleted.get("error")), (Some(&Value::Null), None));

    assert_eq!(rig.rpc("ask", "DeleteTaskPushNotificationConfig", one.clone()).await, json!({}));
    assert_eq!(rig.rpc("ask", "DeleteTaskPushNotificationConfig", one.clone()).await, json!({}), "again");
    assert_eq!(rig.send(&rig.key, "DELETE", &at("/b"), None).await.status, 200);
    assert_eq!(rig.rpc("ask", "GetTaskPushNotificationConfig", one).await["code"], -32001);
    for config in ["a", "b", "c"] {
        rig.push_ended(&task, config).await;
    }
    rig.task("ask", reply(&task, "m2", json!({"text": "Bergen"}))).await;
    assert_eq!(shorts(&receiver.rest()), Vec::<String>::new(), "a config that was deleted gets nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_of_0_3_gets_the_task() {
    let rig = rig().await;
    let mut receiver = Receiver::answering(&[200]).await;
    let parts = json!([{"kind": "text", "text": "hi"}]);
    let params = json!({"message": {"kind": "message", "messageId": "m", "role": "user", "parts": parts},
        "configuration": {"blocking": true, "pushNotificationConfig": {"url": receiver.url("/")}}});
    let request = json!({"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": params});
    let task = rig.post("/a2a/desk", request).await.body["result"].clone();
    let states = async || {
        let next = receiver.next().await;
        assert_eq!(next.headers["content-type"], "application/json");
        assert_eq!((&next.body["kind"], &next.body["id"]), (&json!("task"), &task["id"]));
        next.body
    };
    let mut states = states;
    assert_eq!(states().await["status"]["state"], "working");
    let last = states().await;
    assert_eq!((&last["status"]["state"], &last["artifacts"]), (&json!("completed"), &task["artifacts"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_config_that_cannot_be_used_is_refused_and_starts_nothing() {
    let rig = rig_with(|_| {}).await;
    let task = rig.task("ask", message("m", "x")).await;
    for (url, field, more) in [
        ("http://127.0.0.1:9/", "url", json!({})),
        ("http://169.254.169.254/latest", "url", json!({})),
        ("ftp://example.com/", "url", json!({})),
        ("https://user:pass@example.com/", "url", json!({})),
        ("nothing", "url", json!({})),
        (&format!("https://example.com/{}", "x".repeat(2048)), "url", json!({})),
        ("https://example.com/", "id", json!({"id": "a/b"})),
        ("https://example.com/", "token", json!({"token": "a\r\nX-Other: 1"})),
        (
            "https://example.com/",
            "authentication.credentials",
            json!({"authentication": {"scheme": "Bearer", "credentials": "ü"}}),
        ),
        (
            "https://example.com/",
            "authentication.scheme",
            json!({"authentication": {"scheme": "", "credentials": "x"}}),
        ),
    ] {
        let mut config = json!({"url": url});
        config.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let settings = json!({"taskPushNotificationConfig": config});
        let sent = json!({"message": message("m2", "x"), "configuration": settings});
        let refused = rig.rpc("desk", "SendMessage", sent).await;
        let violation = &refused["data"][0]["fieldViolations"][0]["field"];
        assert_eq!(
            (&refused["code"], violation),
            (&json!(-32602), &json!(format!("configuration.taskPushNotificationConfig.{field}"))),
            "{refused}"
        );
        config["taskId"] = task["id"].clone();
        assert_eq!(rig.rpc("ask", "CreateTaskPushNotificationConfig", config).await["code"], -32602);
    }
    assert_eq!(rig.rpc("desk", "ListTasks", json!({})).await["totalSize"], 0);
    let fine = json!({"taskId": task["id"], "url": "https://example.com/"});
    assert_eq!(rig.rpc("desk", "CreateTaskPushNotificationConfig", fine.clone()).await["code"], -32001, "not its task");
    let reader = rig.key(WORKSPACE, &["runs:read"], None).await;
    assert_eq!(rig.rpc_as(&reader, "ask", "CreateTaskPushNotificationConfig", fine.clone()).await.status, 403);
    for number in 0..PUSH_CONFIGS {
        let config = json!({"taskId": task["id"], "id": number.to_string(), "url": "https://example.com/"});
        assert_eq!(rig.rpc("ask", "CreateTaskPushNotificationConfig", config).await["id"], number.to_string());
    }
    let more = json!({"taskId": task["id"], "id": "more", "url": "https://example.com/"});
    assert_eq!(rig.rpc("ask", "CreateTaskPushNotificationConfig", more).await["code"], -32004);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_without_a_place_for_secrets_has_no_push_notifications() {
    let rig = rig_with(|options| options.vault = None).await;
    let card = rig.get("/a2a/desk/.well-known/agent-card.json").await.body;
    assert_eq!(card["capabilities"]["pushNotifications"], false);
    let config = json!({"taskId": "x", "id": "x", "url": "https://example.com/"});
    let settings = json!({"taskPushNotificationConfig": {"url": "https://example.com/"}});
    let sent = json!({"message": message("m", "x"), "configuration": settings});
    assert_eq!(rig.rpc("desk", "SendMessage", sent).await["code"], -32003);
    let task = rig.task("desk", message("m", "x")).await;
    assert_eq!(state(&task), "COMPLETED");
    for method in ["Create", "Get", "Delete"] {
        let mut config = config.clone();
        config["taskId"] = task["id"].clone();
        assert_eq!(rig.rpc("desk", &format!("{method}TaskPushNotificationConfig"), config).await["code"], -32003);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_and_the_credentials_are_found_nowhere() {
    let rig = rig().await;
    let mut search = Search::default();
    let mut receiver = Receiver::answering(&[500, 200]).await;
    let (key, token, credentials) = (search.plant("key"), search.plant("token"), search.plant("credentials"));
    let config = json!({"id": "c", "url": receiver.url(&format!("/hook?key={key}")), "token": token,
        "authentication": {"scheme": "Bearer", "credentials": credentials}});
    let task = rig.notified("desk", message("m", "x"), config).await;
    let sent = receiver.until("COMPLETED").await;
    assert!(sent[0].target.contains(&key) && sent[0].headers["authorization"].contains(&credentials));
    rig.push_ended(&task, "c").await;
    let run = RunId::new(task["id"].as_str().unwrap());
    for workflow in [run.to_string(), PushInput::workflow_id(&run, "c")] {
        let handle = rig.world.ops.client().get_workflow_handle::<UntypedWorkflow>(workflow);
        search.bytes("histories", &handle.fetch_history(Default::default()).to_json().await.unwrap());
    }
    search.text("events", &format!("{:?}", rig.world.events(&run).await));
    for file in std::fs::read_dir(rig.world.directory()).unwrap() {
        search.bytes("files of the store", &std::fs::read(file.unwrap().path()).unwrap());
    }
    search.text("rows", &json!(rig.push_configs(&task).await).to_string());
    println!("{}", search.report());
}

/// The log of a run that asks so many questions, and has all the answers.
fn long_log(questions: usize) -> Vec<NewEvent> {
    let event = |key: String, body: Value| NewEvent::new(key, serde_json::from_value::<EventBody>(body).unwrap());
    let mut log = vec![
        event(
            "a".into(),
            json!({"type": "started", "agentId": "desk", "workspace": WORKSPACE, "modelId": "script:echo"}),
        ),
        event("b".into(), json!({"type": "status", "status": "waiting", "phase": "waiting"})),
    ];
    for number in 0..questions {
        let id = format!("await-{number}");
        let item = json!({"id": id, "kind": "clarification", "prompt": id, "openedAt": 0, "onExpiry": "replan"});
        log.push(event(format!("open/{id}"), json!({"type": "await_opened", "item": item})));
        log.push(event(format!("close/{id}"), json!({"type": "await_closed", "awaitId": id, "outcome": "answered"})));
    }
    let result = json!({"type": "result", "text": "done", "subtype": "success", "finishReason": null, "turns": 1,
        "toolCalls": 0, "activeMs": 1, "usage": TokenUsage::default()});
    log.push(event("end".into(), result));
    log
}

#[tokio::test(flavor = "multi_thread")]
async fn many_updates_are_sent_by_several_executions_of_the_workflow_in_order_and_once() {
    const QUESTIONS: usize = 120;
    let rig = rig().await;
    let mut receiver = Receiver::answering(&[200]).await;
    let (store, run) = (rig.store(), RunId::new("run-long"));
    let workspace = rig.world.ops.workspace().clone();
    let target = PushTarget { url: receiver.url("/"), token: None, scheme: None, credentials: None };
    store
        .reserve_run(ReservedRun { id: run.clone(), workspace: workspace.clone(), ..reserved("run-long", "x") })
        .await
        .unwrap();
    store.append_events(&run, long_log(QUESTIONS)).await.unwrap();
    let secret = rig.world.ports.vault.as_ref().unwrap().seal_push_target(&workspace, &run, &target).await.unwrap();
    let (id, version) = ("c".to_owned(), "1.0".to_owned());
    store.put_push_config(NewPushConfig { run: run.clone(), id, workspace, version, secret }).await.unwrap();
    rig.world.ops.start_push(&run, "c", PushCursor::default()).await.unwrap();

    let sent = receiver.until("COMPLETED").await;
    let questions = ["INPUT_REQUIRED", "WORKING"].into_iter().cycle().take(2 * QUESTIONS);
    let expected: Vec<&str> = ["WORKING"].into_iter().chain(questions).chain(["done", "COMPLETED"]).collect();
    assert_eq!(shorts(&sent), expected);
    let ids: std::collections::BTreeSet<&str> = sent.iter().map(Notification::id).collect();
    assert_eq!(ids.len(), expected.len());
    let id = PushInput::workflow_id(&run, "c");
    let handle = rig.world.ops.client().get_workflow_handle::<UntypedWorkflow>(id);
    within("the end", handle.get_result(Default::default())).await.unwrap();
    let events = handle.describe(Default::default()).await.unwrap().raw_description.workflow_execution_info.unwrap();
    assert!(events.history_length < 1_000, "{} events", events.history_length);
}

#[tokio::test(flavor = "multi_thread")]
async fn receivers_that_do_not_answer_leave_the_worker_to_runs() {
    const TASKS: usize = 11;
    let rig = rig().await;
    let tarpit = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", tarpit.local_addr().unwrap());
    let held = Arc::new(tokio::sync::Mutex::new(Vec::new()));
    let holding = Arc::clone(&held);
    tokio::spawn(async move {
        while let Ok((stream, _)) = tarpit.accept().await {
            holding.lock().await.push(stream);
        }
    });
    for number in 0..TASKS {
        let task = rig.task("desk", message(&format!("m{number}"), "x")).await;
        for config in 0..PUSH_CONFIGS {
            let config = json!({"taskId": task["id"], "id": config.to_string(), "url": url});
            assert!(rig.rpc("desk", "CreateTaskPushNotificationConfig", config).await["id"].is_string());
        }
    }
    // A worker has 100 places for activities.
    let task = rig.task("desk", message("last", "x")).await;
    assert_eq!(state(&task), "COMPLETED");
    let held = held.lock().await.len();
    assert!((1..=16).contains(&held), "{held} requests of {}", TASKS * PUSH_CONFIGS);
}
