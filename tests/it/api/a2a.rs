//! Agents as A2A peers. What the SDKs of others make of them is tested with these.

mod grpc;
mod push;

use serde_json::{Value, json};
use windlass_api::auth::ApiKey;
use windlass_core::agent::{AgentDefinition, ToolSource, ToolSpec};

use super::{
    http::{Answer, Exchange},
    rig::{Rig, Stream, WORKSPACE, desk},
};
use crate::support::world::{scripts, within};

fn models() -> Value {
    let asks = |question: Value| json!({"turns": [{"await": question}, {"text": "{{last_user}}"}]});
    scripts([
        ("echo", json!({"turns": [{"text": "{{user_count}}: {{last_user}}"}], "repeat_last": true})),
        ("deltas", json!({"turns": [{"deltas": ["Ber", "gen"]}]})),
        ("ask", asks(json!({"kind": "clarification", "question": "Which city?"}))),
        ("outside", asks(json!({"kind": "external_tools", "calls": [{"name": "crm", "args": {}}]}))),
        ("keep", json!({"turns": [{"tool_calls": [{"name": "echo", "args": {"x": 1}}]}, {"text": "kept"}]})),
        ("json", json!({"turns": [{"text": "{\"city\":\"Bergen\"}"}]})),
        ("fail", json!({"turns": [{"error": {"error": "no such model", "errorClass": "invalid_request"}}]})),
    ])
}

fn agent(id: &str, more: Value) -> AgentDefinition {
    let mut whole = json!({"id": id, "model": format!("script:{id}")});
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

async fn rig() -> Rig {
    rig_with(|_| {}).await
}

async fn rig_with(change: impl FnOnce(&mut windlass_api::Options)) -> Rig {
    Rig::with(models(), |options| {
        let city = json!({"type": "object", "properties": {"city": {"type": "string"}}});
        options.agents = vec![
            desk(),
            agent("deltas", json!({})),
            agent("ask", json!({})),
            agent("outside", json!({})),
            agent("keep", json!({"tools": [{"name": "echo", "confirmation": {"title": "Keep it?"}}]})),
            agent("json", json!({"outputSchema": {"name": "city", "schema": city}})),
            agent("fail", json!({})),
        ];
        options.builtins = vec![ToolSpec::new("echo".into(), ToolSource::Builtin)];
        change(options);
    })
    .await
}

/// A message of a user with this id.
fn message(id: &str, text: &str) -> Value {
    json!({"messageId": id, "role": "ROLE_USER", "parts": [{"text": text}]})
}

impl Rig {
    async fn rpc_as(&self, key: &ApiKey, agent: &str, method: &str, params: Value) -> Answer {
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        self.send(key, "POST", &format!("/a2a/{agent}?A2A-Version=1.0"), Some(&request)).await
    }

    /// The result, or the error, of a method.
    async fn rpc(&self, agent: &str, method: &str, params: Value) -> Value {
        let mut answer = self.rpc_as(&self.key, agent, method, params).await.body;
        assert_eq!((&answer["jsonrpc"], &answer["id"]), (&json!("2.0"), &json!(7)), "{answer}");
        if answer["error"].is_null() { answer["result"].take() } else { answer["error"].take() }
    }

    /// The task of a message, when it has ended or waits for input.
    async fn task(&self, agent: &str, message: Value) -> Value {
        let answered = self.rpc(agent, "SendMessage", json!({"message": message})).await;
        assert!(answered["task"]["id"].is_string(), "{answered}");
        answered["task"].clone()
    }

    async fn updates(&self, agent: &str, method: &str, params: Value) -> Stream {
        let bearer = format!("Bearer {}", self.key.reveal());
        let headers = [("Authorization", bearer.as_str()), ("A2A-Version", "1.0")];
        let request = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let path = format!("POST /api/v1/workspaces/{WORKSPACE}/a2a/{agent}");
        Stream::of(within("a stream", Exchange::open(self.address, &path, &headers, Some(&request))).await)
    }
}

fn state(task: &Value) -> &str {
    task["status"]["state"].as_str().unwrap().trim_start_matches("TASK_STATE_")
}

/// A message that belongs to this task.
fn reply(task: &Value, id: &str, part: Value) -> Value {
    json!({"messageId": id, "taskId": task["id"], "role": "ROLE_USER", "parts": [part]})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_sent_again_is_the_same_task_and_another_one_with_its_id_is_refused() {
    let rig = rig().await;
    let (one, other) = tokio::join!(rig.task("desk", message("m", "hi")), rig.task("desk", message("m", "hi")));
    assert_eq!(one, other);
    assert_eq!((state(&one), &one["artifacts"][0]["parts"]), ("COMPLETED", &json!([{"text": "1: hi"}])));
    assert_eq!(rig.task("desk", message("m", "hi")).await, one, "also when it has ended");
    let refused = rig.rpc("desk", "SendMessage", json!({"message": message("m", "ho")})).await;
    assert_eq!(
        (&refused["code"], &refused["data"][0]["fieldViolations"][0]["field"]),
        (&json!(-32602), &json!("message.messageId"))
    );
    assert_eq!(rig.rpc("desk", "ListTasks", json!({})).await["totalSize"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_context_is_a_conversation_and_each_task_has_its_own_history() {
    let rig = rig().await;
    let first = rig.task("desk", message("m1", "hi")).await;
    let mut next = message("m2", "and you?");
    next["contextId"] = first["contextId"].clone();
    let second = rig.task("desk", next).await;
    assert_eq!(second["contextId"], first["contextId"]);
    assert_eq!(second["artifacts"][0]["parts"][0]["text"], "2: and you?");
    let said: Vec<_> =
        second["history"].as_array().unwrap().iter().map(|it| (&it["role"], &it["parts"][0]["text"])).collect();
    let (user, agent) = (json!("ROLE_USER"), json!("ROLE_AGENT"));
    assert_eq!(said, [(&user, &json!("and you?")), (&agent, &json!("2: and you?"))]);
    assert_eq!(second["history"][0]["messageId"], "m2");
    for (length, expected) in [(0, 0), (1, 1), (9, 2)] {
        let shown = rig.rpc("desk", "GetTask", json!({"id": second["id"], "historyLength": length})).await;
        assert_eq!(shown["history"].as_array().map_or(0, Vec::len), expected, "{length}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_begins_with_the_task_and_ends_with_its_answer() {
    let rig = rig().await;
    // The run begins when the stream is open, so that the stream has all of it.
    rig.world.stop_worker().await;
    let mut stream = rig.updates("deltas", "SendStreamingMessage", json!({"message": message("m", "x")})).await;
    let begun = stream.next().await.unwrap().unwrap();
    assert_eq!((state(&begun["result"]["task"]), &begun["id"]), ("SUBMITTED", &json!(7)));
    rig.world.start_worker();
    let short = |event: &Value| match &event["result"] {
        result if result["statusUpdate"].is_object() => json!(state(&result["statusUpdate"])),
        result => {
            let update = &result["artifactUpdate"];
            json!([update["artifact"]["parts"][0]["text"], update["append"], update["lastChunk"]])
        }
    };
    let rest: Vec<Value> = stream.rest().await.iter().map(short).collect();
    let expected = [
        json!("WORKING"),
        json!(["Ber", false, false]),
        json!(["gen", true, false]),
        json!(["Bergen", false, true]),
        json!("COMPLETED"),
    ];
    assert_eq!(rest, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_subscription_continues_at_the_next_server() {
    let mut rig = rig().await;
    let task = rig.task("ask", message("m", "x")).await;
    let subscribe = json!({"id": task["id"]});
    let mut stream = rig.updates("ask", "SubscribeToTask", subscribe.clone()).await;
    assert_eq!(state(&stream.next().await.unwrap().unwrap()["result"]["task"]), "INPUT_REQUIRED");
    rig.stop().await;
    assert_eq!(stream.next().await, Err("cut off"));
    rig.start_again().await;
    let mut stream = rig.updates("ask", "SubscribeToTask", subscribe.clone()).await;
    assert_eq!(state(&stream.next().await.unwrap().unwrap()["result"]["task"]), "INPUT_REQUIRED");
    rig.task("ask", reply(&task, "m2", json!({"text": "Bergen"}))).await;
    let rest = stream.rest().await;
    assert_eq!(state(&rest.last().unwrap()["result"]["statusUpdate"]), "COMPLETED", "{rest:?}");
    let refused = rig.rpc("ask", "SubscribeToTask", subscribe).await;
    assert_eq!(refused["code"], -32004, "the task has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_with_a_message_to_the_task() {
    let rig = rig().await;
    let task = rig.task("ask", message("m", "x")).await;
    assert_eq!(
        (state(&task), &task["status"]["message"]["parts"][0]["text"]),
        ("INPUT_REQUIRED", &json!("Which city?"))
    );
    let starter = rig.key(WORKSPACE, &["runs:write", "runs:read"], None).await;
    let answer = json!({"message": reply(&task, "m2", json!({"text": "Bergen"}))});
    assert_eq!(rig.rpc_as(&starter, "ask", "SendMessage", answer.clone()).await.status, 403, "it needs runs:answer");
    let mut elsewhere = answer.clone();
    elsewhere["message"]["contextId"] = json!("another");
    assert_eq!(rig.rpc("ask", "SendMessage", elsewhere).await["code"], -32602);
    let empty = json!({"message": reply(&task, "m2", json!({"text": " "}))});
    assert_eq!(rig.rpc("ask", "SendMessage", empty).await["code"], -32602);
    assert_eq!(state(&rig.rpc("ask", "GetTask", json!({"id": task["id"]})).await), "INPUT_REQUIRED");
    let answerer = rig.key(WORKSPACE, &["runs:answer"], None).await;
    let answered = rig.rpc_as(&answerer, "ask", "SendMessage", answer.clone()).await.body["result"]["task"].clone();
    assert_eq!((state(&answered), &answered["artifacts"][0]["parts"][0]["text"]), ("COMPLETED", &json!("Bergen")));
    assert_eq!(rig.rpc("ask", "SendMessage", answer).await["code"], -32004, "the task has ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_approved_by_the_digest_of_the_arguments_that_were_shown() {
    let rig = rig().await;
    let task = rig.task("keep", message("m", "x")).await;
    let call = &task["status"]["message"]["parts"][1]["data"];
    assert_eq!((&call["toolName"], &call["arguments"]), (&json!("echo"), &json!({"x": 1})));
    let decide = |part: Value| json!({"message": reply(&task, "m2", part)});
    let approve = decide(json!({"data": {"approve": true, "digest": call["digest"]}}));
    let answerer = rig.key(WORKSPACE, &["runs:answer"], None).await;
    assert_eq!(
        rig.rpc_as(&answerer, "keep", "SendMessage", approve.clone()).await.status,
        403,
        "it needs runs:approve"
    );
    for wrong in [
        json!({"data": {"approve": true}}),
        json!({"data": {"approve": true, "digest": "00"}}),
        json!({"text": "sure"}),
    ] {
        assert_eq!(rig.rpc("keep", "SendMessage", decide(wrong.clone())).await["code"], -32602, "{wrong}");
    }
    let done = rig.rpc("keep", "SendMessage", approve).await["task"].clone();
    assert_eq!((state(&done), rig.world.watch.count("echo")), ("COMPLETED", 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_waits_for_a_system_works_and_can_be_cancelled() {
    let rig = rig().await;
    let now = json!({"message": message("m", "x"), "configuration": {"returnImmediately": true}});
    let task = rig.rpc("outside", "SendMessage", now).await["task"].clone();
    assert!(["SUBMITTED", "WORKING"].contains(&state(&task)), "{task}");
    let run = task["id"].as_str().unwrap();
    rig.stream(run, None).await.until("await_opened").await;
    let working = |task: &Value| assert_eq!(state(task), "WORKING", "{task}");
    working(&rig.rpc("outside", "GetTask", json!({"id": run})).await);
    let more = rig.rpc("outside", "SendMessage", json!({"message": reply(&task, "m2", json!({"text": "x"}))})).await;
    assert_eq!(more["code"], -32004);
    let cancelled = rig.rpc("outside", "CancelTask", json!({"id": run})).await;
    assert_eq!(
        (state(&cancelled), &cancelled["status"]["message"]["parts"]),
        ("CANCELED", &json!([{"text": "cancelled by tests"}]))
    );
    assert_eq!(rig.rpc("outside", "CancelTask", json!({"id": run})).await["code"], -32002);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_with_a_schema_is_data_and_a_failure_has_its_code() {
    let rig = rig().await;
    let task = rig.task("json", message("m", "x")).await;
    let part = json!({"data": {"city": "Bergen"}, "mediaType": "application/json"});
    assert_eq!(task["artifacts"][0]["parts"], json!([part]));
    let failed = rig.task("fail", message("m", "x")).await;
    let said = &failed["status"]["message"];
    assert_eq!(state(&failed), "FAILED");
    assert!(said["parts"][0]["text"].as_str().unwrap().contains("no such model"), "{failed}");
    assert!(said["metadata"]["code"].is_string(), "{failed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_listed_by_their_last_change() {
    let rig = rig().await;
    let waiting = rig.task("ask", message("m1", "x")).await;
    let other = rig.task("ask", message("m2", "x")).await;
    rig.task("desk", message("m3", "x")).await;
    let ids =
        |page: &Value| page["tasks"].as_array().unwrap().iter().map(|task| task["id"].clone()).collect::<Vec<_>>();
    let all = rig.rpc("ask", "ListTasks", json!({})).await;
    assert_eq!((ids(&all), &all["nextPageToken"]), (vec![other["id"].clone(), waiting["id"].clone()], &json!("")));
    rig.task("ask", reply(&waiting, "m4", json!({"text": "Bergen"}))).await;
    let first = rig.rpc("ask", "ListTasks", json!({"pageSize": 1})).await;
    assert_eq!(
        (ids(&first), &first["totalSize"], &first["pageSize"]),
        (vec![waiting["id"].clone()], &json!(2), &json!(1))
    );
    assert_eq!(first["tasks"][0].get("artifacts"), None);
    let rest = rig.rpc("ask", "ListTasks", json!({"pageSize": 1, "pageToken": first["nextPageToken"]})).await;
    assert_eq!((ids(&rest), &rest["nextPageToken"]), (vec![other["id"].clone()], &json!("")));
    for (filter, expected) in [
        (json!({"contextId": other["contextId"]}), vec![&other]),
        (json!({"status": "TASK_STATE_INPUT_REQUIRED"}), vec![&other]),
        (json!({"status": "TASK_STATE_COMPLETED"}), vec![&waiting]),
        (json!({"status": "TASK_STATE_REJECTED"}), vec![]),
        (json!({"statusTimestampAfter": "2999-01-01T00:00:00Z"}), vec![]),
    ] {
        let expected: Vec<_> = expected.into_iter().map(|task| task["id"].clone()).collect();
        assert_eq!(ids(&rig.rpc("ask", "ListTasks", filter.clone()).await), expected, "{filter}");
    }
    for bad in
        [json!({"pageSize": 0}), json!({"pageSize": 101}), json!({"pageToken": "x"}), json!({"historyLength": -1})]
    {
        assert_eq!(rig.rpc("ask", "ListTasks", bad.clone()).await["code"], -32602, "{bad}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_of_other_agents_and_workspaces_are_not_found() {
    let rig = rig().await;
    let task = rig.task("desk", message("m", "x")).await;
    let get = json!({"id": task["id"]});
    assert_eq!(rig.rpc("ask", "GetTask", get.clone()).await["code"], -32001);
    let stranger = rig.key("elsewhere", &["*"], None).await;
    let request = json!({"jsonrpc": "2.0", "id": 7, "method": "GetTask", "params": get});
    let path = "/a2a/desk?A2A-Version=1.0";
    let found = rig.send_to("elsewhere", &stranger, "POST", path, Some(&request)).await;
    assert_eq!(found.body["error"]["code"], -32001);
    assert_eq!(rig.send_to(WORKSPACE, &stranger, "POST", path, Some(&request)).await.status, 404);
    let bound = rig.key(WORKSPACE, &["*"], Some(vec!["ask".into()])).await;
    assert_eq!(rig.send(&bound, "POST", path, Some(&request)).await.status, 404);
    let reader = rig.key(WORKSPACE, &["runs:read"], None).await;
    let start = rig.rpc_as(&reader, "desk", "SendMessage", json!({"message": message("m2", "x")})).await;
    assert_eq!((start.status, &start.body["error"]["code"]), (403, &json!(-32600)));
    assert!(start.header("www-authenticate").unwrap().contains("runs:write"), "{start:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_http_binding_has_the_same_tasks_and_the_status_of_each_error() {
    let rig = rig().await;
    let at = |path: &str| format!("/a2a/desk/v1/{path}{}A2A-Version=1.0", if path.contains('?') { '&' } else { '?' });
    let sent = rig.post(&at("message:send"), json!({"message": message("m", "hi")})).await;
    assert_eq!((sent.status, sent.header("content-type")), (200, Some("application/a2a+json")));
    let task = &sent.body["task"];
    assert_eq!(rig.get(&at(&format!("tasks/{}", task["id"].as_str().unwrap()))).await.body, *task);
    assert_eq!(rig.get(&at("tasks?pageSize=5")).await.body["tasks"][0]["id"], task["id"]);
    let cancel = format!("tasks/{}:cancel", task["id"].as_str().unwrap());
    for (answer, status, reason) in [
        (rig.get(&at("tasks/none")).await, 404, "TASK_NOT_FOUND"),
        (rig.post(&at(&cancel), json!({})).await, 400, "TASK_NOT_CANCELABLE"),
        (rig.get(&at("tasks/none/pushNotificationConfigs")).await, 404, "TASK_NOT_FOUND"),
        (rig.post(&at("message:send"), json!({"message": {}})).await, 400, "INVALID_PARAMS"),
        (rig.get("/a2a/desk/v1/tasks").await, 400, "VERSION_NOT_SUPPORTED"),
    ] {
        let details = answer.body["error"]["details"].as_array().unwrap().last().unwrap();
        assert_eq!((answer.status, &details["reason"]), (status, &json!(reason)), "{answer:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_without_a_version_is_one_of_0_3() {
    let rig = rig().await;
    let call = async |method: &str, params: Value| {
        let request = json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": params});
        rig.post("/a2a/ask", request).await.body
    };
    let sent = |id: &str, task: Option<&Value>, text: &str| {
        let parts = json!([{"kind": "text", "text": text}]);
        json!({"message": {"kind": "message", "messageId": id, "taskId": task, "role": "user", "parts": parts}})
    };
    let asked = call("message/send", sent("m", None, "x")).await["result"].clone();
    assert_eq!((&asked["kind"], &asked["status"]["state"]), (&json!("task"), &json!("input-required")));
    let done = call("message/send", sent("m2", Some(&asked["id"]), "Bergen")).await["result"].clone();
    let answer = json!({"kind": "text", "text": "Bergen"});
    assert_eq!((&done["status"]["state"], &done["artifacts"][0]["parts"][0]), (&json!("completed"), &answer));
    assert_eq!(call("tasks/get", json!({"id": asked["id"]})).await["result"], done);
    let newer = call("GetTask", json!({"id": asked["id"]})).await;
    assert_eq!((&newer["error"]["code"], &newer["id"]), (&json!(-32009), &json!("a")));
    assert_eq!(call("tasks/fly", json!({})).await["error"]["code"], -32601);
    assert_eq!(rig.post("/a2a/ask", json!([])).await.body["error"]["code"], -32600);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_card_is_for_keys_that_may_start_its_agent() {
    let card = "/a2a/desk/.well-known/agent-card.json";
    let rig = rig().await;
    let shown = rig.get(card).await;
    let url = format!("http://windlass/api/v1/workspaces/{WORKSPACE}/a2a/desk");
    let interfaces: Vec<_> = shown.body["supportedInterfaces"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| {
            [&it["protocolBinding"], &it["protocolVersion"], &it["url"]].map(|it| it.as_str().unwrap().to_owned())
        })
        .collect();
    let interface = |binding: &str, version: &str, url: &str| [binding, version, url].map(str::to_owned);
    let expected = [
        interface("JSONRPC", "1.0", &url),
        interface("HTTP+JSON", "1.0", &format!("{url}/v1")),
        interface("GRPC", "1.0", "windlass"),
        interface("JSONRPC", "0.3", &url),
    ];
    assert_eq!((shown.status, interfaces), (200, expected.to_vec()));
    assert_eq!(rig.rpc("desk", "GetExtendedAgentCard", json!({})).await, shown.body);
    assert_eq!(rig.send(&ApiKey::random(), "GET", card, None).await.status, 401);
    let bound = rig.key(WORKSPACE, &[], Some(vec!["ask".into()])).await;
    assert_eq!(rig.send(&bound, "GET", card, None).await.status, 404);

    let only = async |key: &ApiKey| {
        let bearer = format!("Bearer {}", key.reveal());
        let request = "GET /.well-known/agent-card.json";
        Exchange::open(rig.address, request, &[("Authorization", &bearer)], None).await.finish().await
    };
    assert_eq!(only(&bound).await.body["skills"][0]["id"], "ask");
    let several = only(&rig.key).await;
    assert_eq!(several.status, 404);
    assert!(several.body["error"]["message"].as_str().unwrap().contains("/a2a/AGENT/.well-known"), "{several:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn public_cards_need_no_key_and_have_the_configured_address() {
    let rig = rig_with(|options| {
        options.public_cards = true;
        options.public_url = Some("https://agents.example.com/".parse().unwrap());
    })
    .await;
    let request = format!("GET /api/v1/workspaces/{WORKSPACE}/a2a/desk/.well-known/agent-card.json");
    let forwarded = [("X-Forwarded-Host", "evil.example.com")];
    let card = Exchange::open(rig.address, &request, &forwarded, None).await.finish().await;
    let url = format!("https://agents.example.com/api/v1/workspaces/{WORKSPACE}/a2a/desk");
    assert_eq!((card.status, &card.body["url"]), (200, &json!(url)));
    assert_eq!(card.body["supportedInterfaces"][2]["url"], "https://agents.example.com");
    let request = format!("POST /api/v1/workspaces/{WORKSPACE}/a2a/desk");
    let body = json!({"jsonrpc": "2.0", "id": 7, "method": "GetExtendedAgentCard"});
    let extended = Exchange::open(rig.address, &request, &[("A2A-Version", "1.0")], Some(&body)).await.finish().await;
    assert_eq!(extended.status, 401);
}
