//! Questions to a person.

use rmcp::model::CallToolRequestParams;
use windlass_core::{canonical::CanonicalJson, envelope::InputRequest};

use super::*;
use crate::mcp::input::Resumed;

fn name_question(key: &str) -> InputRequest {
    InputRequest {
        key: key.into(),
        prompt: "Who are you?".into(),
        schema: Some(json!({"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]})),
        url: None,
    }
}

fn page_question(key: &str) -> InputRequest {
    let url = Some("https://example.com/sign-in".into());
    InputRequest { key: key.into(), prompt: "Sign in.".into(), schema: None, url }
}

fn accepted(content: Option<Value>) -> InputResponse {
    InputResponse { action: InputAction::Accept, content: content.map(CanonicalJson::from) }
}

fn declined() -> InputResponse {
    InputResponse { action: InputAction::Decline, content: None }
}

fn resumed(round: u32, continuation: &Continuation, responses: &[(&str, InputResponse)]) -> CallContext {
    let responses = responses.iter().map(|(key, response)| ((*key).to_owned(), response.clone())).collect();
    CallContext {
        resumption: Some(Resumption { round, state: continuation.state.clone(), responses, repeatable: false }),
        ..context()
    }
}

fn continuation(reply: Result<ToolReply, ToolFailure>) -> Continuation {
    match reply {
        Ok(ToolReply::Continue(continuation)) => continuation,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_stateless_server_gets_the_answers_and_its_own_state() {
    let server = Server::start(Revision::Stateless).await;
    let servers = McpServers::default();
    let asked = continuation(call(&servers, server.endpoint(), "ask", &context(), json!({})).await);
    let expected = Continuation {
        repeatable: false,
        state: json!({"requestState": "sealed"}).into(),
        inputs: vec![name_question("name"), page_question("visit")],
    };
    assert_eq!(asked, expected);
    let answers = [("name", accepted(Some(json!({"name": "Ada"})))), ("visit", declined())];
    let reply = call(&servers, server.endpoint(), "ask", &resumed(2, &asked, &answers), json!({})).await;
    let responses = json!({"name": {"action": "accept", "content": {"name": "Ada"}}, "visit": {"action": "decline"}});
    assert_eq!(reply, done(json!({"responses": responses, "state": "sealed"})));
}

#[tokio::test]
async fn a_server_with_sessions_is_called_again_with_all_answers_so_far() {
    let mut server = Server::start(Revision::Sessions).await;
    let servers = McpServers::default();
    let first = continuation(call(&servers, server.endpoint(), "ask", &context(), json!({})).await);
    let expected = Continuation {
        state: json!({"legacy": true}).into(),
        inputs: vec![name_question("question-1")],
        repeatable: false,
    };
    assert_eq!(first, expected);
    assert_eq!([server.event().await, server.event().await], ["started", "cancelled"], "no connection is held");

    let name = accepted(Some(json!({"name": "Ada"})));
    let context = resumed(2, &first, &[("question-1", name.clone())]);
    let second = continuation(call(&servers, server.endpoint(), "ask", &context, json!({})).await);
    let state = json!({"legacy": true, "answered": [{"action": "accept", "content": {"name": "Ada"}}]});
    assert_eq!(
        second,
        Continuation { state: state.into(), inputs: vec![page_question("question-2")], repeatable: false }
    );

    let context = resumed(3, &second, &[("question-2", declined())]);
    let reply = call(&servers, server.endpoint(), "ask", &context, json!({})).await;
    let name = json!({"action": "accept", "content": {"name": "Ada"}});
    assert_eq!(reply, done(json!({"name": name, "visit": {"action": "decline"}})));
}

#[tokio::test]
async fn a_page_that_must_be_visited_first_is_an_input_and_declining_it_ends_the_call() {
    let server = Server::start(Revision::Sessions).await;
    let servers = McpServers::default();
    let asked = continuation(call(&servers, server.endpoint(), "visit", &context(), json!({})).await);
    assert_eq!(
        asked,
        Continuation {
            state: json!({"legacy": true}).into(),
            inputs: vec![page_question("page-1")],
            repeatable: false
        }
    );
    let refused = resumed(2, &asked, &[("page-1", declined())]);
    let refused = call(&servers, server.endpoint(), "visit", &refused, json!({})).await;
    let message = "a person declined to visit the page that the tool needs to be visited first";
    assert_eq!(refused, Err(ToolFailure::new(ToolErrorKind::Denied, message)));
    let visited = resumed(2, &asked, &[("page-1", accepted(None))]);
    assert_eq!(call(&servers, server.endpoint(), "visit", &visited, json!({})).await, done(json!("visited")));
}

#[tokio::test]
async fn a_question_over_http_belongs_to_the_call_on_whose_stream_it_came() {
    let mut server = Server::start(Revision::Sessions).await;
    let servers = McpServers::default();
    let (waiting, asking) = (context(), context());
    let endpoint = server.endpoint();
    let hang = call(&servers, endpoint, "hang", &waiting, json!({}));
    let ask = async {
        while server.event().await != "hangs" {}
        let asked = continuation(call(&servers, server.endpoint(), "ask", &asking, json!({})).await);
        waiting.cancel.cancel();
        asked
    };
    let (hung, asked) = tokio::join!(hang, ask);
    assert_eq!(hung, Err(ToolFailure::new(ToolErrorKind::Cancelled, "the call was cancelled")));
    assert_eq!(asked.inputs, [name_question("question-1")]);
}

#[tokio::test]
async fn an_answer_that_is_missing_is_asked_for_again() {
    let server = Server::start(Revision::Sessions).await;
    let servers = McpServers::default();
    let first = continuation(call(&servers, server.endpoint(), "ask", &context(), json!({})).await);
    let again = call(&servers, server.endpoint(), "ask", &resumed(2, &first, &[]), json!({})).await;
    assert_eq!(continuation(again), first);
}

#[test]
fn questions_that_cannot_be_put_to_a_person_fail_the_call() {
    let required = |inputs: Value, state: &str| {
        let result = json!({"resultType": "input_required", "inputRequests": inputs, "requestState": state});
        crate::mcp::input::required(serde_json::from_value(result).unwrap())
    };
    let roots = required(json!({"r": {"method": "roots/list"}}), "");
    assert_eq!(roots, Err(failed("the MCP server asks for roots, which this client does not offer")));
    let sampling = json!({"method": "sampling/createMessage", "params": {"messages": [], "maxTokens": 1}});
    let sampling = required(json!({"s": sampling}), "");
    assert_eq!(sampling, Err(failed("the MCP server asks for sampling, which this client does not offer")));
    let page = json!({"mode": "url", "message": "m", "url": "javascript:alert(1)", "elicitationId": "e"});
    let page = required(json!({"p": {"method": "elicitation/create", "params": page}}), "");
    assert_eq!(page, Err(failed("the MCP server sends a person to an address that is not http or https")));
    let large = required(json!({}), &"x".repeat(40_000)).unwrap_err().error.message;
    assert_eq!(
        large,
        "the questions and the state of the MCP server are 40029 bytes of JSON; a call keeps at most 32768"
    );
    let state_only = required(json!({}), "later");
    assert_eq!(
        state_only,
        Ok(Continuation { state: json!({"requestState": "later"}).into(), inputs: vec![], repeatable: false })
    );
}

#[test]
fn fields_that_a_person_leaves_out_have_the_default_of_the_form() {
    let properties = json!({
        "name": {"type": "string", "default": "Ada"}, "age": {"type": "integer", "default": 36}, "note": {"type": "string"},
    });
    let form = json!({"message": "m", "requestedSchema": {"type": "object", "properties": properties}});
    let complete = json!({"action": "accept", "content": {"name": "Grace", "age": 36}});
    let given = || accepted(Some(json!({"name": "Grace"})));

    let inputs = json!({"who": {"method": "elicitation/create", "params": form}, "why": {"method": "elicitation/create", "params": form}});
    let asked = json!({"resultType": "input_required", "inputRequests": inputs});
    let asked = crate::mcp::input::required(serde_json::from_value(asked).unwrap()).unwrap();
    let context = resumed(2, &asked, &[("who", given()), ("why", declined())]);
    let mut params = CallToolRequestParams::new("ask");
    Resumed::of(context.resumption.as_ref()).unwrap().add_to(&mut params);
    let responses = serde_json::to_value(params.input_responses).unwrap();
    assert_eq!(responses, json!({"who": complete, "why": {"action": "decline"}}), "2026-07-28");

    let asked = crate::mcp::input::asked(&serde_json::from_value(form).unwrap(), Resumed::default()).unwrap();
    let context = resumed(2, &asked, &[("question-1", given())]);
    let answer = Resumed::of(context.resumption.as_ref()).unwrap().next_answer();
    assert_eq!(serde_json::to_value(answer).unwrap(), complete, "2025-11-25");
}

#[tokio::test]
async fn a_state_that_no_call_left_is_refused() {
    let server = Server::start(Revision::Stateless).await;
    let foreign = Continuation { state: json!(["x"]).into(), inputs: vec![], repeatable: false };
    let reply = call(&McpServers::default(), server.endpoint(), "ask", &resumed(2, &foreign, &[]), json!({})).await;
    let message = "the state of the call is not one that an MCP call leaves";
    assert_eq!(reply, Err(ToolFailure::new(ToolErrorKind::Internal, message)));
}
