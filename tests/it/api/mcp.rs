//! Agents as tools of the Model Context Protocol, on the wire.

use std::collections::HashSet;

use serde_json::{Value, json};
use windlass_api::auth::ApiKey;
use windlass_core::{agent::AgentDefinition, event::EventBody, ids::RunId, run::RunStatus};

use super::{
    http::{Answer, Exchange},
    rig::{Rig, Stream},
};
use crate::support::world::{scripts, within};

const MODERN: &str = "2026-07-28";
const TASKS: &str = "io.modelcontextprotocol/tasks";

fn agent(fields: Value) -> AgentDefinition {
    serde_json::from_value(fields).unwrap()
}

async fn rig() -> Rig {
    let scripts = scripts([
        ("answer", json!({"turns": [{"text": "You said: {{last_user}}"}]})),
        ("city", json!({"turns": [{"text": "{\"city\": \"Bergen\"}"}]})),
        ("fail", json!({"turns": [{"error": {"error": "no key", "errorClass": "auth"}}]})),
        ("call", json!({"turns": [{"tool_calls": [{"name": "echo", "args": {"n": 1}}]}, {"text": "done"}]})),
        (
            "ask",
            json!({"turns": [{"await": {"kind": "clarification", "question": "Which city?"}}, {"text": "{{last_user}}"}]}),
        ),
        ("slow", json!({"turns": [{"deltas": ["a", "b"], "delta_delay_ms": 60_000}]})),
    ]);
    let agents = [
        json!({"id": "team/desk", "name": "Desk", "description": "Answers questions.", "model": "script:answer"}),
        json!({
            "id": "city", "model": "script:city",
            "outputSchema": {"schema": {"type": "object", "properties": {"city": {"type": "string"}}}},
        }),
        json!({"id": "fail", "model": "script:fail"}),
        json!({"id": "ask", "model": "script:ask"}),
        json!({"id": "slow", "model": "script:slow"}),
        json!({"id": "plain", "model": "script:call", "tools": [{"name": "echo"}]}),
        json!({"id": "confirm", "model": "script:call", "tools": [{"name": "echo", "confirmation": {"title": "Echo it?"}}]}),
    ];
    Rig::with(scripts, |options| options.agents = agents.map(agent).into()).await
}

/// A request of revision 2026-07-28 from a client with these capabilities.
async fn open(rig: &Rig, key: &ApiKey, method: &str, mut params: Value, capabilities: Value) -> Exchange {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = json!(MODERN);
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
    let name = params["name"].as_str().or_else(|| params["taskId"].as_str()).unwrap_or_default().to_owned();
    let bearer = format!("Bearer {}", key.reveal());
    let headers = [
        ("Authorization", bearer.as_str()),
        ("Accept", "application/json, text/event-stream"),
        ("MCP-Protocol-Version", MODERN),
        ("Mcp-Method", method),
        ("Mcp-Name", &name),
    ];
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
    Exchange::open(rig.address, "POST /mcp", &headers, Some(&body)).await
}

/// The response. A call that takes longer than the keep-alive interval comes as an event stream, whose last message it is.
async fn send(rig: &Rig, key: &ApiKey, method: &str, params: Value, capabilities: Value) -> Answer {
    let response = async { open(rig, key, method, params, capabilities).await.finish().await };
    let mut answer = within("an answer", response).await;
    if answer.header("content-type") == Some("text/event-stream") {
        let text = answer.body.as_str().unwrap();
        let last = text.lines().filter_map(|line| line.strip_prefix("data: ")).next_back();
        answer.body = serde_json::from_str(last.unwrap_or_else(|| panic!("{text:?}"))).unwrap();
    }
    answer
}

/// The result of a request.
async fn result(rig: &Rig, method: &str, params: Value, capabilities: Value) -> Value {
    let answer = send(rig, &rig.key, method, params, capabilities).await;
    assert_eq!((answer.status, answer.body.get("error")), (200, None), "{answer:?}");
    answer.body["result"].clone()
}

/// The code of a refused request.
async fn refused(rig: &Rig, key: &ApiKey, method: &str, params: Value, capabilities: Value) -> i64 {
    let answer = send(rig, key, method, params, capabilities).await;
    answer.body["error"]["code"].as_i64().unwrap_or_else(|| panic!("{answer:?}"))
}

fn call(tool: &str, message: &str) -> Value {
    json!({"name": tool, "arguments": {"message": message}})
}

fn run_of(result: &Value) -> String {
    result["_meta"]["windlass/runId"].as_str().unwrap_or_else(|| panic!("{result}")).to_owned()
}

fn forms() -> Value {
    json!({"elicitation": {}})
}

fn tasks() -> Value {
    json!({"elicitation": {}, "extensions": {TASKS: {}}})
}

/// Waits until the run has this event.
async fn until(rig: &Rig, run: &str, fits: impl Fn(&EventBody) -> bool) -> EventBody {
    rig.world.event(&RunId::new(run), fits).await
}

/// The one run of this agent.
async fn only_run(rig: &Rig, agent: &str) -> String {
    let list = rig.get(&format!("/agent-runs?agentId={agent}")).await.body;
    assert_eq!(list["runs"].as_array().unwrap().len(), 1, "{list}");
    list["runs"][0]["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn agents_are_tools_in_the_order_of_their_names() {
    let rig = rig().await;
    let found = result(&rig, "server/discover", json!({}), json!({})).await;
    assert_eq!(found["supportedVersions"], json!([MODERN, "2025-11-25", "2025-06-18"]));
    assert_eq!(found["capabilities"], json!({"tools": {}, "extensions": {TASKS: {}}}));
    let list = result(&rig, "tools/list", json!({}), json!({})).await;
    assert_eq!(
        (&list["resultType"], &list["ttlMs"], &list["cacheScope"]),
        (&json!("complete"), &json!(60_000), &json!("private"))
    );
    let names: Vec<&str> =
        list["tools"].as_array().unwrap().iter().map(|tool| tool["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["ask", "city", "confirm", "fail", "plain", "slow", "team_desk"]);
    assert_eq!(list["tools"][6]["description"], "Answers questions.");
    let bound = rig.key("test", &["*"], Some(vec!["city".into()])).await;
    let list = send(&rig, &bound, "tools/list", json!({}), json!({})).await;
    assert_eq!(list.body["result"]["tools"].as_array().unwrap().len(), 1, "a key sees the agents that it may start");
    assert_eq!(refused(&rig, &bound, "tools/call", call("team_desk", "hi"), json!({})).await, -32602);
    assert_eq!(refused(&rig, &rig.key, "prompts/list", json!({}), json!({})).await, -32601);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_is_a_run_and_its_answer_the_result() {
    let rig = rig().await;
    let answer = result(&rig, "tools/call", call("team_desk", "hi"), json!({})).await;
    assert_eq!(
        (&answer["content"], &answer["isError"]),
        (&json!([{"type": "text", "text": "You said: hi"}]), &json!(false))
    );
    let run = rig.get(&format!("/agent-runs/{}", run_of(&answer))).await.body;
    assert_eq!((&run["status"], &run["agentId"]), (&json!("succeeded"), &json!("team/desk")));

    let structured = result(&rig, "tools/call", call("city", "where"), json!({})).await;
    assert_eq!(structured["structuredContent"], json!({"city": "Bergen"}));

    let failed = result(&rig, "tools/call", call("fail", "hi"), json!({})).await;
    assert_eq!((&failed["isError"], &failed["_meta"]["windlass/code"]), (&json!(true), &json!("auth")), "{failed}");
    let mistaken = result(&rig, "tools/call", json!({"name": "team_desk", "arguments": {}}), json!({})).await;
    assert_eq!(mistaken["isError"], true, "a model can correct its arguments: {mistaken}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_needs_a_key_with_its_scope() {
    let rig = rig().await;
    let no_key = Exchange::open(rig.address, "POST /mcp", &[], Some(&json!({}))).await.finish().await;
    assert_eq!((no_key.status, no_key.header("www-authenticate")), (401, Some("Bearer")));
    let reader = rig.key("test", &["models:read"], None).await;
    let refused = send(&rig, &reader, "tools/call", call("team_desk", "hi"), json!({})).await;
    assert_eq!((refused.status, refused.body["error"]["data"]["code"].as_str()), (403, Some("insufficient_scope")));
    assert_eq!(refused.header("www-authenticate"), Some("Bearer error=\"insufficient_scope\", scope=\"runs:write\""));
    let page =
        Exchange::open(rig.address, "POST /mcp", &[("Origin", "http://evil.example")], None).await.finish().await;
    assert_eq!(page.refusal(), (403, "origin_not_allowed"));
    let elsewhere = rig.send_to("other", &rig.key, "POST", "/mcp", Some(&json!({}))).await;
    assert_eq!(elsewhere.refusal(), (404, "not_found"));
    let here = rig.post("/mcp", json!({"jsonrpc": "2.0", "id": 1, "method": "ping"})).await;
    assert_eq!(here.body, json!({"jsonrpc": "2.0", "id": 1, "result": {}}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_with_a_progress_token_reports_progress_before_its_result() {
    let rig = rig().await;
    let mut params = call("plain", "hi");
    params["_meta"] = json!({"progressToken": "p1"});
    let mut stream = Stream::of(open(&rig, &rig.key, "tools/call", params, json!({})).await);
    let messages = stream.rest().await;
    let (last, progress) = messages.split_last().unwrap();
    assert_eq!(last["result"]["content"][0]["text"], "done");
    let said: Vec<&str> = progress.iter().map(|message| message["params"]["message"].as_str().unwrap()).collect();
    assert_eq!(
        said,
        [
            "The run has started.",
            "Turn 1: the model calls echo.",
            "echo runs.",
            "echo is done.",
            "Turn 2: the model has answered.",
        ]
    );
    let amounts: Vec<u64> = progress.iter().map(|message| message["params"]["progress"].as_u64().unwrap()).collect();
    assert!(amounts.is_sorted_by(|one, other| one < other), "{amounts:?}");
    assert!(progress.iter().all(|message| message["params"]["progressToken"] == "p1"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_takes_long_is_kept_alive_without_a_progress_token() {
    let rig = rig().await;
    let mut stream = Stream::of(open(&rig, &rig.key, "tools/call", call("slow", "x"), json!({})).await);
    assert_eq!(stream.comment().await, ": keep-alive");
    let run = only_run(&rig, "slow").await;
    assert_eq!(rig.post(&format!("/agent-runs/{run}/cancel"), json!({"reason": "enough"})).await.status, 200);
    let messages = stream.rest().await;
    assert_eq!(messages.len(), 1, "{messages:?}");
    assert_eq!(messages[0]["result"]["content"][0]["text"], "the run was cancelled: enough (cancelled)");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeat_with_the_same_idempotency_key_starts_no_second_run() {
    let rig = rig().await;
    let mut params = call("team_desk", "hi");
    params["_meta"] = json!({"windlass/idempotencyKey": "order-7"});
    let first = result(&rig, "tools/call", params.clone(), json!({})).await;
    let again = result(&rig, "tools/call", params.clone(), json!({})).await;
    assert_eq!(again, first);
    params["arguments"]["message"] = json!("something else");
    let other = result(&rig, "tools/call", params, json!({})).await;
    assert_eq!((&other["isError"], &other["_meta"]["windlass/code"]), (&json!(true), &json!("run_exists")));
    only_run(&rig, "team/desk").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_and_answered_with_the_state_that_came_with_it() {
    let mut rig = rig().await;
    let asked = result(&rig, "tools/call", call("ask", "x"), forms()).await;
    assert_eq!(asked["resultType"], "input_required");
    assert_eq!(asked["inputRequests"]["await-1"]["params"]["message"], "Which city?");
    let state = asked["requestState"].as_str().unwrap();
    let repeat = |state: &str, content: Value| {
        let mut params = call("ask", "x");
        params["requestState"] = json!(state);
        params["inputResponses"] = json!({"await-1": {"action": "accept", "content": content}, "other": 1});
        params
    };
    let answer = json!({"text": "Bergen"});
    // Not by another key, of this workspace or another; not changed; not for another call.
    let foreign = [rig.key("test", &["*"], None).await, rig.key("other", &["*"], None).await];
    for key in &foreign {
        assert_eq!(refused(&rig, key, "tools/call", repeat(state, answer.clone()), forms()).await, -32602);
    }
    assert_eq!(
        refused(&rig, &rig.key, "tools/call", repeat(&format!("{state}A"), answer.clone()), forms()).await,
        -32602
    );
    let mut other = repeat(state, answer.clone());
    other["arguments"]["message"] = json!("y");
    assert_eq!(refused(&rig, &rig.key, "tools/call", other, forms()).await, -32602);
    // A form that is not filled in is asked again.
    let again = result(&rig, "tools/call", repeat(state, json!({"name": "x"})), forms()).await;
    assert_eq!(again["resultType"], "input_required");
    // The state belongs to no server.
    rig.stop().await;
    rig.start_again().await;
    let done = result(&rig, "tools/call", repeat(state, answer), forms()).await;
    assert_eq!((&done["content"][0]["text"], run_of(&done)), (&json!("Bergen"), run_of(&asked)));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_approval_is_bound_to_the_arguments_that_were_shown_and_needs_its_scope() {
    let rig = rig().await;
    let key = rig.key("test", &["runs:write", "runs:read", "runs:answer"], None).await;
    let asked = send(&rig, &key, "tools/call", call("confirm", "x"), forms()).await.body["result"].clone();
    let (id, form) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(form["params"]["message"], "Echo it?\nAllow echo?\nTool: echo\nArguments: {\n  \"n\": 1\n}");
    let mut params = call("confirm", "x");
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!({id: {"action": "accept", "content": {"approve": true}}});
    let unable = send(&rig, &key, "tools/call", params, forms()).await;
    assert_eq!((unable.status, unable.body["error"]["data"]["required"].clone()), (403, json!(["runs:approve"])));

    let asked = result(&rig, "tools/call", call("confirm", "x"), forms()).await;
    let (id, _) = asked["inputRequests"].as_object().unwrap().iter().next().unwrap();
    let mut params = call("confirm", "x");
    params["requestState"] = asked["requestState"].clone();
    params["inputResponses"] = json!({id: {"action": "accept", "content": {"approve": true}}});
    let done = result(&rig, "tools/call", params, forms()).await;
    assert_eq!(done["content"][0]["text"], "done");
    let closed = until(&rig, &run_of(&done), |body| matches!(body, EventBody::AwaitClosed { .. })).await;
    let EventBody::AwaitClosed { outcome, .. } = closed else { unreachable!() };
    assert_eq!(json!(outcome), "approved");

    let created = result(&rig, "tools/call", call("confirm", "x"), tasks()).await;
    let task = created["taskId"].as_str().unwrap();
    until(&rig, task, |body| matches!(body, EventBody::AwaitOpened { .. })).await;
    let other_arguments = format!("await-1.{}", "0".repeat(64));
    let responses = json!({other_arguments: {"action": "accept", "content": {"approve": true}}});
    let update = json!({"taskId": task, "inputResponses": responses});
    assert_eq!(refused(&rig, &rig.key, "tasks/update", update, tasks()).await, -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_cannot_ask_is_told_how_to_continue() {
    let rig = rig().await;
    let waiting = result(&rig, "tools/call", call("ask", "x"), json!({})).await;
    let run = run_of(&waiting);
    assert_eq!((&waiting["isError"], &waiting["_meta"]["windlass/status"]), (&json!(false), &json!("waiting")));
    let told = waiting["content"][0]["text"].as_str().unwrap();
    assert!(told.contains("Which city?") && told.contains(&run), "{told}");
    let params = json!({"name": "ask", "arguments": {"message": "Bergen", "session": run}});
    let done = result(&rig, "tools/call", params, json!({})).await;
    assert_eq!((&done["content"][0]["text"], run_of(&done)), (&json!("Bergen"), run));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_a_run_that_any_server_finds() {
    let mut rig = rig().await;
    let created = result(&rig, "tools/call", call("ask", "x"), tasks()).await;
    assert_eq!((&created["resultType"], &created["status"]), (&json!("task"), &json!("working")), "{created}");
    let task = json!({"taskId": created["taskId"]});
    rig.stop().await;
    rig.start_again().await;
    until(&rig, created["taskId"].as_str().unwrap(), |body| {
        matches!(body, EventBody::Status { status: RunStatus::Waiting, .. })
    })
    .await;
    let waiting = result(&rig, "tasks/get", task.clone(), tasks()).await;
    assert_eq!(
        (&waiting["resultType"], &waiting["status"]),
        (&json!("complete"), &json!("input_required")),
        "{waiting}"
    );
    let mut update = task.clone();
    update["inputResponses"] = json!({"await-1": {"action": "accept", "content": {"text": "Bergen"}}});
    let taken = result(&rig, "tasks/update", update, tasks()).await;
    assert_eq!(taken["resultType"], "complete");
    rig.ending(created["taskId"].as_str().unwrap()).await;
    let done = result(&rig, "tasks/get", task.clone(), tasks()).await;
    assert_eq!((&done["status"], &done["result"]["content"][0]["text"]), (&json!("completed"), &json!("Bergen")));

    assert_eq!(refused(&rig, &rig.key, "tasks/get", task.clone(), forms()).await, -32021);
    let foreign = rig.key("other", &["*"], None).await;
    assert_eq!(refused(&rig, &foreign, "tasks/get", task, tasks()).await, -32602);
    assert_eq!(refused(&rig, &rig.key, "tasks/get", json!({"taskId": "run-0"}), tasks()).await, -32602);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_task_is_cancelled_and_its_subscriber_is_told() {
    let rig = rig().await;
    let created = result(&rig, "tools/call", call("slow", "x"), tasks()).await;
    let id = created["taskId"].clone();
    let params = json!({"notifications": {"taskIds": [id, "unknown"], "toolsListChanged": true}});
    let mut stream = Stream::of(open(&rig, &rig.key, "subscriptions/listen", params, tasks()).await);
    let first = stream.next().await.unwrap().unwrap();
    assert_eq!(first["method"], "notifications/subscriptions/acknowledged");
    assert_eq!(first["params"]["notifications"], json!({"taskIds": [id]}));
    assert_eq!(stream.next().await.unwrap().unwrap()["params"]["status"], "working");
    let cancelled = result(&rig, "tasks/cancel", json!({"taskId": id}), tasks()).await;
    assert_eq!(cancelled["resultType"], "complete");
    let told = stream.next().await.unwrap().unwrap();
    assert_eq!((&told["method"], &told["params"]["status"]), (&json!("notifications/tasks"), &json!("cancelled")));
    assert_eq!(told["params"]["_meta"]["io.modelcontextprotocol/subscriptionId"], 1);
    let again = result(&rig, "tasks/cancel", json!({"taskId": id}), tasks()).await;
    assert_eq!(again["resultType"], "complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_closed_connection_cancels_the_call_unless_it_may_be_repeated() {
    let rig = rig().await;
    let start = async |meta: Value| {
        let mut params = call("slow", "x");
        params["_meta"] = meta;
        let mut stream = Stream::of(open(&rig, &rig.key, "tools/call", params, json!({})).await);
        stream.next().await.unwrap();
        stream
    };
    let stream = start(json!({"progressToken": 1})).await;
    let run = only_run(&rig, "slow").await;
    drop(stream);
    assert_eq!(rig.ending(&run).await["type"], "cancelled");

    let stream = start(json!({"progressToken": 1, "windlass/idempotencyKey": "k"})).await;
    drop(stream);
    let list = rig.get("/agent-runs?agentId=slow").await.body;
    let kept = list["runs"].as_array().unwrap().iter().find(|item| item["id"] != run.as_str()).unwrap();
    assert_eq!(kept["status"], "running");
    let mut params = call("slow", "x");
    params["_meta"] = json!({"progressToken": 1, "windlass/idempotencyKey": "k"});
    let mut again = Stream::of(open(&rig, &rig.key, "tools/call", params, json!({})).await);
    assert_eq!(again.next().await.unwrap().unwrap()["params"]["message"], "The run has started.");
    let runs: HashSet<String> = rig.get("/agent-runs?agentId=slow").await.body["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["id"].to_string())
        .collect();
    assert_eq!(runs.len(), 2);
}

/// A client of revision 2025-11-25.
struct Legacy<'a> {
    rig: &'a Rig,
    session: String,
}

impl<'a> Legacy<'a> {
    async fn new(rig: &'a Rig, capabilities: Value) -> Self {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": {"name": "it", "version": "1"}});
        let begun = Self { rig, session: String::new() };
        let answer = begun
            .open(&json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
            .await
            .finish()
            .await;
        assert_eq!(answer.body["result"]["protocolVersion"], "2025-11-25", "{answer:?}");
        let session = answer.header("mcp-session-id").unwrap().to_owned();
        let begun = Self { rig, session };
        assert_eq!(begun.send(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await.status, 202);
        begun
    }

    async fn open(&self, body: &Value) -> Exchange {
        let bearer = format!("Bearer {}", self.rig.key.reveal());
        let mut headers = vec![
            ("Authorization", bearer.as_str()),
            ("Accept", "application/json, text/event-stream"),
            ("MCP-Protocol-Version", "2025-11-25"),
        ];
        if !self.session.is_empty() {
            headers.push(("Mcp-Session-Id", &self.session));
        }
        Exchange::open(self.rig.address, "POST /mcp", &headers, Some(body)).await
    }

    async fn send(&self, body: &Value) -> Answer {
        within("an answer", async { self.open(body).await.finish().await }).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_older_revision_is_asked_on_the_stream_of_its_call() {
    let rig = rig().await;
    let client = Legacy::new(&rig, forms()).await;
    let mut stream = Stream::of(
        client.open(&json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": call("ask", "x")})).await,
    );
    let asked = stream.next().await.unwrap().unwrap();
    assert_eq!((&asked["method"], &asked["params"]["message"]), (&json!("elicitation/create"), &json!("Which city?")));
    let forged = json!({"jsonrpc": "2.0", "id": "x", "result": {"action": "accept", "content": {"text": "Oslo"}}});
    assert_eq!(client.send(&forged).await.status, 400);
    let reply =
        json!({"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"text": "Bergen"}}});
    assert_eq!(client.send(&reply).await.status, 202);
    let done = stream.next().await.unwrap().unwrap();
    assert_eq!((&done["id"], &done["result"]["content"][0]["text"]), (&json!(5), &json!("Bergen")));
    assert_eq!(done["result"].get("resultType"), None, "the older revision does not have it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_of_the_older_revision_cancels_by_the_id_of_its_request() {
    let rig = rig().await;
    let client = Legacy::new(&rig, json!({})).await;
    let mut params = call("slow", "x");
    params["_meta"] = json!({"progressToken": 1});
    let body = json!({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params});
    let mut stream = Stream::of(client.open(&body).await);
    stream.next().await.unwrap();
    let run = only_run(&rig, "slow").await;
    let cancel = |id: u64| json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": id, "reason": "enough"}});
    assert_eq!(client.send(&cancel(6)).await.status, 202, "an unknown request is ignored");
    let stranger = Legacy::new(&rig, json!({})).await;
    assert_eq!(stranger.send(&cancel(5)).await.status, 202, "another session has its own requests");
    drop(stream);
    let again = Stream::of(client.open(&body).await).next().await.unwrap().unwrap();
    assert_eq!(again["method"], "notifications/progress", "a closed connection cancels nothing");
    assert_eq!(only_run(&rig, "slow").await, run, "and a repeat of the request starts no second run");
    assert_eq!(client.send(&cancel(5)).await.status, 202);
    let ending = rig.ending(&run).await;
    assert_eq!((&ending["type"], &ending["reason"]), (&json!("cancelled"), &json!("enough")));
    let lost = Legacy { rig: &rig, session: format!("{}A", client.session) };
    assert_eq!(lost.send(&json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})).await.status, 404);
}
