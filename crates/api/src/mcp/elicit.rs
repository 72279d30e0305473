//! Awaits as forms for a person, and filled-in forms as answers.

use serde_json::{Map, Value, json};
use windlass_core::{
    awaits::{AwaitKind, AwaitView},
    canonical::Digest,
    envelope::{AnswerBody, InputRequest, ProvidedToolResult, Question, ToolError, ToolErrorKind},
    run::read_inputs,
};

use crate::auth::Scope;

/// Identifies an await among the requests of a run. The key of an approval has the digest of the arguments that are
/// shown with it, so an approval of other arguments is refused.
pub(super) fn key(item: &AwaitView) -> String {
    match (item.kind, item.calls.first()) {
        (AwaitKind::Confirmation, Some(call)) => format!("{}.{}", item.id, call.digest),
        _ => item.id.to_string(),
    }
}

/// The id of the await, and the digest that was shown.
pub(super) fn parse_key(key: &str) -> (&str, Option<Digest>) {
    let digest = |text: &str| serde_json::from_value(Value::String(text.to_owned())).ok();
    match key.rsplit_once('.').map(|(id, text)| (id, digest(text))) {
        Some((id, Some(digest))) => (id, Some(digest)),
        _ => (key, None),
    }
}

/// The request that asks a person; `None` for awaits that a program answers.
pub(super) fn request(item: &AwaitView) -> Option<Value> {
    let schema = match item.kind {
        AwaitKind::Clarification => {
            let mut text = json!({"type": "string", "title": "Answer"});
            if let Some(default) = &item.default_answer {
                text["default"] = json!(default);
            }
            object(Map::from_iter([("text".to_owned(), text)]), &["text"])
        }
        AwaitKind::Questions => {
            let properties = item.questions.iter().map(|question| (question.id.clone(), property(question))).collect();
            let required: Vec<&str> = item.questions.iter().map(|question| question.id.as_str()).collect();
            object(properties, &required)
        }
        AwaitKind::Confirmation => {
            let properties = [
                ("approve".to_owned(), json!({"type": "boolean", "title": "Approve this call"})),
                ("reason".to_owned(), json!({"type": "string", "title": "Reason"})),
            ];
            object(Map::from_iter(properties), &["approve"])
        }
        AwaitKind::Input => match item.inputs.as_slice() {
            [InputRequest { schema: Some(schema), .. }] => schema.clone(),
            inputs => {
                let text = |input: &InputRequest| (input.key.clone(), json!({"type": "string", "title": input.prompt}));
                let required: Vec<&str> = inputs.iter().map(|input| input.key.as_str()).collect();
                object(inputs.iter().map(text).collect(), &required)
            }
        },
        AwaitKind::ExternalTools => return None,
    };
    let params = json!({"mode": "form", "message": message(item), "requestedSchema": schema});
    Some(json!({"method": "elicitation/create", "params": params}))
}

fn object(properties: Map<String, Value>, required: &[&str]) -> Value {
    json!({"type": "object", "properties": properties, "required": required})
}

fn property(question: &Question) -> Value {
    let options: Vec<Value> =
        question.options.iter().map(|option| json!({"const": option.id, "title": option.label})).collect();
    match (options.is_empty(), question.allow_multiple) {
        (true, _) => json!({"type": "string", "title": question.prompt}),
        (false, false) => json!({"type": "string", "title": question.prompt, "oneOf": options}),
        (false, true) => json!({"type": "array", "title": question.prompt, "items": {"anyOf": options}}),
    }
}

/// What a person must know to answer: for an approval, the tool and all its arguments.
pub(super) fn message(item: &AwaitView) -> String {
    let words = [item.title.as_deref(), Some(item.prompt.as_str())].into_iter().flatten();
    let mut lines: Vec<String> = words.filter(|words| !words.is_empty()).map(str::to_owned).collect();
    if matches!(item.kind, AwaitKind::Confirmation | AwaitKind::ExternalTools) {
        for call in &item.calls {
            let args = call.args.as_ref().map_or(Value::Null, |args| args.to_value());
            lines.push(format!("Tool: {}", call.name));
            lines.push(format!("Arguments: {}", serde_json::to_string_pretty(&args).unwrap_or_default()));
        }
    }
    lines.extend(item.inputs.iter().filter_map(|input| input.url.as_ref()).map(|url| format!("Open: {url}")));
    lines.join("\n")
}

/// The scope that an answer needs.
pub(super) fn scope(kind: AwaitKind) -> Scope {
    match kind {
        AwaitKind::Confirmation => Scope::RunsApprove,
        AwaitKind::Clarification | AwaitKind::Questions | AwaitKind::ExternalTools | AwaitKind::Input => {
            Scope::RunsAnswer
        }
    }
}

/// The answer of a filled-in form; `None` if the form is not filled in as it asks, so that it must be asked again.
///
/// A person who declines or dismisses the form denies an approval, and leaves a question without an answer: the model
/// is told.
pub(super) fn answer(item: &AwaitView, shown: Option<Digest>, response: &Value) -> Option<AnswerBody> {
    let content = &response["content"];
    match response["action"].as_str()? {
        "accept" => accepted(item, shown, content),
        "decline" => Some(declined(item, "the person declined")),
        "cancel" => Some(declined(item, "the person dismissed the request")),
        _ => None,
    }
}

fn accepted(item: &AwaitView, digest: Option<Digest>, content: &Value) -> Option<AnswerBody> {
    match item.kind {
        AwaitKind::Clarification => {
            let answer = content["text"].as_str().filter(|text| !text.trim().is_empty())?.to_owned();
            Some(AnswerBody::Clarification { answer })
        }
        AwaitKind::Confirmation => {
            let approved = content["approve"].as_bool()?;
            let reason = content["reason"].as_str().filter(|reason| !reason.trim().is_empty()).map(str::to_owned);
            Some(AnswerBody::Confirmation { approved, digest, reason, grant: None })
        }
        AwaitKind::Questions => {
            let mut answers = Map::new();
            for question in &item.questions {
                let value = &content[&question.id];
                if !is_choice(question, value) {
                    return None;
                }
                answers.insert(question.id.clone(), value.clone());
            }
            let result = ProvidedToolResult { result: Some(Value::Object(answers).into()), ..of_call(item)? };
            Some(AnswerBody::ToolResults { results: vec![result] })
        }
        AwaitKind::Input => {
            // One input without a schema is a text; everything else is JSON.
            let answer = match item.inputs.as_slice() {
                [InputRequest { schema: None, key, .. }] => content[key].as_str()?.to_owned(),
                _ => content.to_string(),
            };
            read_inputs(item, &answer).is_ok().then_some(AnswerBody::Clarification { answer })
        }
        AwaitKind::ExternalTools => None,
    }
}

fn of_call(item: &AwaitView) -> Option<ProvidedToolResult> {
    Some(ProvidedToolResult::new(item.calls.first()?.tool_call_id.clone()))
}

fn is_choice(question: &Question, value: &Value) -> bool {
    let offered = |value: &Value| question.options.iter().any(|option| *value == *option.id);
    match (question.options.is_empty(), question.allow_multiple, value) {
        (true, _, Value::String(text)) => !text.trim().is_empty(),
        (false, false, value) => offered(value),
        (false, true, Value::Array(values)) => values.iter().all(offered),
        _ => false,
    }
}

fn declined(item: &AwaitView, how: &str) -> AnswerBody {
    match item.kind {
        AwaitKind::Confirmation | AwaitKind::Input => AnswerBody::denial(Some(how.to_owned())),
        AwaitKind::Clarification => AnswerBody::Clarification { answer: format!("({how} and gave no answer)") },
        AwaitKind::Questions | AwaitKind::ExternalTools => {
            let error = ToolError::new(ToolErrorKind::Denied, format!("{how} and gave no answer"));
            let results = of_call(item).map(|result| ProvidedToolResult { error: Some(error), ..result });
            AnswerBody::ToolResults { results: results.into_iter().collect() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn item(fields: Value) -> AwaitView {
        let mut all = json!({"id": "await-1", "prompt": "", "openedAt": 0, "onExpiry": "replan"});
        all.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        serde_json::from_value(all).unwrap()
    }

    fn accept(content: Value) -> Value {
        json!({"action": "accept", "content": content})
    }

    #[test]
    fn a_clarification_asks_for_a_text() {
        let item = item(json!({"kind": "clarification", "prompt": "Which city?", "defaultAnswer": "Bergen"}));
        assert_eq!(
            request(&item),
            Some(json!({"method": "elicitation/create", "params": {
                "mode": "form", "message": "Which city?",
                "requestedSchema": {
                    "type": "object", "required": ["text"],
                    "properties": {"text": {"type": "string", "title": "Answer", "default": "Bergen"}},
                },
            }}))
        );
        let text = |answer: &str| Some(AnswerBody::Clarification { answer: answer.to_owned() });
        assert_eq!(answer(&item, None, &accept(json!({"text": "Oslo"}))), text("Oslo"));
        assert_eq!(answer(&item, None, &accept(json!({"text": " "}))), None);
        assert_eq!(answer(&item, None, &accept(json!({"name": "Oslo"}))), None);
        assert_eq!(
            answer(&item, None, &json!({"action": "decline"})),
            text("(the person declined and gave no answer)")
        );
    }

    #[test]
    fn an_approval_shows_the_call_and_is_bound_to_its_digest() {
        let args = json!({"to": "ops"});
        let digest = Digest::of_json(&args);
        let item = item(json!({
            "kind": "confirmation", "title": "Send mail?",
            "calls": [{"toolCallId": "c1", "name": "mail.send", "digest": digest, "args": args}],
        }));
        let asked = request(&item).unwrap();
        assert_eq!(asked["params"]["message"], "Send mail?\nTool: mail.send\nArguments: {\n  \"to\": \"ops\"\n}");
        assert_eq!(asked["params"]["requestedSchema"]["required"], json!(["approve"]));
        assert_eq!(parse_key(&key(&item)), ("await-1", Some(digest)));
        let decision = |approved, digest, reason: Option<&str>| {
            Some(AnswerBody::Confirmation { approved, digest, reason: reason.map(str::to_owned), grant: None })
        };
        let reply = |response: Value| answer(&item, Some(digest), &response);
        assert_eq!(reply(accept(json!({"approve": true}))), decision(true, Some(digest), None));
        assert_eq!(reply(accept(json!({"approve": false, "reason": "no"}))), decision(false, Some(digest), Some("no")));
        assert_eq!(reply(accept(json!({"approve": "yes"}))), None);
        assert_eq!(reply(json!({"action": "cancel"})), decision(false, None, Some("the person dismissed the request")));
    }

    #[test]
    fn questions_offer_their_options_and_take_no_others() {
        let item = item(json!({
            "kind": "questions", "calls": [{"toolCallId": "c1", "name": "ask", "digest": Digest::default()}],
            "questions": [
                {"id": "size", "prompt": "Size?", "options": [{"id": "s", "label": "Small"}, {"id": "l", "label": "Large"}]},
                {"id": "extras", "prompt": "Extras?", "allowMultiple": true, "options": [{"id": "a", "label": "A"}]},
                {"id": "note", "prompt": "Note?"},
            ],
        }));
        let asked = request(&item).unwrap();
        assert_eq!(
            asked["params"]["requestedSchema"]["properties"],
            json!({
                "size": {"type": "string", "title": "Size?", "oneOf": [{"const": "s", "title": "Small"}, {"const": "l", "title": "Large"}]},
                "extras": {"type": "array", "title": "Extras?", "items": {"anyOf": [{"const": "a", "title": "A"}]}},
                "note": {"type": "string", "title": "Note?"},
            })
        );
        let given = json!({"size": "l", "extras": ["a"], "note": "x"});
        let result = ProvidedToolResult { result: Some(given.clone().into()), ..ProvidedToolResult::new("c1".into()) };
        assert_eq!(answer(&item, None, &accept(given)), Some(AnswerBody::ToolResults { results: vec![result] }));
        for wrong in [json!({"size": "xl", "extras": [], "note": "x"}), json!({"size": "s", "extras": []}), json!({})] {
            assert_eq!(answer(&item, None, &accept(wrong.clone())), None, "{wrong}");
        }
    }

    #[test]
    fn results_of_external_tools_are_not_asked_of_a_person() {
        assert_eq!(request(&item(json!({"kind": "external_tools"}))), None);
    }
}
