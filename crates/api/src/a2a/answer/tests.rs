use super::*;

fn item(id: &str, kind: &str, more: Value) -> AwaitView {
    let mut whole = json!({"id": id, "kind": kind, "prompt": "?", "openedAt": 0, "onExpiry": "replan"});
    whole.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    serde_json::from_value(whole).unwrap()
}

fn digest(call: &str) -> Digest {
    Digest::of_json(&json!(call))
}

fn confirmation(id: &str, call: &str) -> AwaitView {
    item(id, "confirmation", json!({"calls": [{"toolCallId": call, "name": "echo", "digest": digest(call)}]}))
}

fn clarification(id: &str) -> AwaitView {
    item(id, "clarification", json!({}))
}

fn questions(questions: Value) -> AwaitView {
    let calls = json!([{"toolCallId": "q1", "name": "ask_user", "digest": digest("q1")}]);
    item("await-1", "questions", json!({"calls": calls, "questions": questions}))
}

fn days(multiple: bool) -> Value {
    let options = json!([{"id": "mon", "label": "Monday"}, {"id": "tue", "label": "Tuesday"}]);
    json!({"id": "when", "prompt": "When?", "options": options, "allowMultiple": multiple})
}

fn said(part: Value) -> Message {
    serde_json::from_value(json!({"messageId": "m", "role": "ROLE_USER", "parts": [part]})).unwrap()
}

fn body(open: &[AwaitView], part: Value) -> Result<(String, ReplyBody), String> {
    read(open, &said(part)).map(|reply| (reply.await_id.to_string(), reply.body))
}

fn decided(approved: bool, digest: Option<Digest>) -> ReplyBody {
    ReplyBody::Decision { approved, digest, reason: None }
}

#[test]
fn a_text_answers_the_first_question_and_data_the_one_it_names() {
    let external = item("await-0", "external_tools", json!({}));
    let open = [external, clarification("await-1"), clarification("await-2")];
    let text = |answer: &str| ReplyBody::Text(answer.to_owned());
    assert_eq!(body(&open, json!({"text": "Bergen"})), Ok(("await-1".into(), text("Bergen"))));
    let named = json!({"data": {"awaitId": "await-2", "answer": "Oslo"}});
    assert_eq!(body(&open, named), Ok(("await-2".into(), text("Oslo"))));
    let missing = body(&open, json!({"data": {"awaitId": "await-9", "answer": "Oslo"}}));
    assert_eq!(missing, Err("the task has no open await await-9".to_owned()));
    assert_eq!(body(&open[..1], json!({"text": "x"})), Err("the task is not waiting for input".to_owned()));
}

#[test]
fn a_word_decides_about_the_only_call_and_data_about_the_call_with_its_digest() {
    let one = [confirmation("await-1", "c1")];
    assert_eq!(body(&one, json!({"text": " Approve "})), Ok(("await-1".into(), decided(true, Some(digest("c1"))))));
    assert_eq!(body(&one, json!({"text": "deny"})), Ok(("await-1".into(), decided(false, None))));
    assert!(body(&one, json!({"text": "yes please"})).unwrap_err().starts_with("a call waits for an approval"));
    let two = [confirmation("await-1", "c1"), confirmation("await-2", "c2")];
    assert!(body(&two, json!({"text": "approve"})).unwrap_err().starts_with("several calls wait"));
    let data = json!({"data": {"approve": true, "digest": digest("c2")}});
    assert_eq!(body(&two, data), Ok(("await-2".into(), decided(true, Some(digest("c2"))))));
    let other = json!({"data": {"approve": true, "digest": digest("c3")}});
    assert!(body(&two, other).unwrap_err().starts_with("the digest is not"));
    let denied = json!({"data": {"approve": false, "awaitId": "await-2", "reason": "too much"}});
    let reason = Some("too much".to_owned());
    let expected = ReplyBody::Decision { approved: false, digest: None, reason };
    assert_eq!(body(&two, denied), Ok(("await-2".into(), expected)));
    for wrong in [json!({"data": {"approve": "yes"}}), json!({"data": {}})] {
        assert!(body(&one, wrong).unwrap_err().starts_with("send {\"approve\""));
    }
}

#[test]
fn an_approval_without_a_digest_is_left_to_the_run_which_refuses_it() {
    let one = [confirmation("await-1", "c1")];
    assert_eq!(body(&one, json!({"data": {"approve": true}})), Ok(("await-1".into(), decided(true, None))));
}

#[test]
fn questions_are_answered_by_option_ids_or_labels() {
    let one = [questions(json!([days(false)]))];
    let result = |value: Value| Ok(("await-1".to_owned(), ReplyBody::Result { call: "q1".into(), result: value }));
    for part in [
        json!({"text": "mon"}),
        json!({"text": "monday"}),
        json!({"text": "{\"when\": \"Monday\"}"}),
        json!({"data": {"when": "mon", "awaitId": "await-1"}}),
    ] {
        assert_eq!(body(&one, part.clone()), result(json!({"when": "mon"})), "{part}");
    }
    assert_eq!(body(&one, json!({"text": "sunday"})), Err("question when takes one of mon, tue".to_owned()));
    let several = json!({"data": {"when": ["mon", "tue"]}});
    assert!(body(&one, several.clone()).is_err());
    let many = [questions(json!([days(true)]))];
    assert_eq!(body(&many, several), result(json!({"when": ["mon", "tue"]})));
    let open_question = [questions(json!([{"id": "who", "prompt": "Who?"}]))];
    assert_eq!(body(&open_question, json!({"text": "Ann"})), result(json!({"who": "Ann"})));
}

#[test]
fn several_questions_are_answered_together_or_not_at_all() {
    let two = [questions(json!([days(false), {"id": "who", "prompt": "Who?"}]))];
    assert!(body(&two, json!({"text": "mon"})).unwrap_err().starts_with("several questions"));
    let half = body(&two, json!({"data": {"when": "mon"}}));
    assert_eq!(half, Err("the answer to question who is missing".to_owned()));
}

#[test]
fn decisions_need_another_scope_than_answers() {
    assert_eq!(decided(true, None).scope(), Scope::RunsApprove);
    assert_eq!(ReplyBody::Text(String::new()).scope(), Scope::RunsAnswer);
    assert_eq!(ReplyBody::Result { call: "c".into(), result: Value::Null }.scope(), Scope::RunsAnswer);
}
