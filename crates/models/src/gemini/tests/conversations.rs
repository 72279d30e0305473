//! Properties of random conversations: the next turn's request begins with this turn's, and nothing is lost on the wire.

use std::cell::Cell;

use proptest::{collection::vec, prelude::*, test_runner::TestRunner};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use windlass_core::{
    canonical::CanonicalJson,
    message::{Content, ImageSource, Message, Part, Role},
};

use super::requests::request;
use crate::{
    ModelRequest, ToolDeclaration,
    gemini::Gemini,
    wire::{ToolNames, Wire as _},
};

const CASES: u32 = 1000;

fn runner() -> TestRunner {
    TestRunner::new(ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() })
}

/// One call of a turn: its arguments, its result, and whose it is.
#[derive(Debug, Clone)]
struct Call {
    input: Value,
    result: Value,
    failed: bool,
    whose: Whose,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Whose {
    Other,
    OwnWithId,
    OwnWithoutId,
}

fn text() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z ]{1,12}", ".{1,8}", Just("\"\\\n\u{1F30A}\u{7f}]}".to_owned())]
}

fn json_object() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        text().prop_map(Value::from)
    ];
    proptest::collection::btree_map("[a-z]{1,4}", scalar, 0..3).prop_map(|fields| json!(fields))
}

/// A part of an assistant's message that is no call: canonical, or with an item of this provider or another one.
fn said() -> impl Strategy<Value = Value> {
    let item = |provider: &str, item: Value| json!({"provider": provider, "item": format!(" {item}")});
    (text(), 0..7_u8).prop_map(move |(text, kind)| match kind {
        0 => json!({"kind": "text", "text": text}),
        1 => json!({"kind": "text", "text": text, "providerItem": item("gemini", json!({"text": text, "thoughtSignature": "c2ln"}))}),
        2 => json!({"kind": "text", "text": text, "providerItem": item("openai", json!({"type": "message"}))}),
        3 => json!({"kind": "thinking", "text": text, "providerItem": item("gemini", json!({"text": text, "thought": true}))}),
        4 => json!({"kind": "thinking", "text": text, "signature": "s"}),
        5 => json!({"kind": "citations", "text": text, "citations": []}),
        _ => json!({"kind": "hologram", "providerItem": item("gemini", json!({"hologram": 1}))}),
    })
}

fn asked() -> impl Strategy<Value = Value> {
    (text(), 0..4_u8).prop_map(|(text, kind)| match kind {
        0 => json!({"kind": "image", "format": "png", "bytes": "AAEC"}),
        1 => json!({"kind": "cache_checkpoint"}),
        _ => json!({"kind": "text", "text": text}),
    })
}

fn call() -> impl Strategy<Value = Call> {
    let whose = prop_oneof![Just(Whose::Other), Just(Whose::OwnWithId), Just(Whose::OwnWithoutId)];
    let result = prop_oneof![json_object(), text().prop_map(Value::from), any::<i32>().prop_map(Value::from)];
    (json_object(), result, any::<bool>(), whose).prop_map(|(input, result, failed, whose)| Call {
        input,
        result,
        failed,
        whose,
    })
}

/// Turns of a conversation that a run could have: every call has its result in the message after it.
fn conversation() -> impl Strategy<Value = Vec<Message>> {
    let turn = (any::<bool>(), vec(asked(), 0..3), vec(said(), 0..3), vec(call(), 0..3));
    vec(turn, 1..5).prop_map(|turns| {
        let mut messages = vec![json!({"role": "user", "parts": [{"kind": "text", "text": "Begin."}]})];
        for (number, (reminded, asked, mut said, calls)) in turns.into_iter().enumerate() {
            if reminded {
                messages.push(json!({"role": "system", "parts": [{"kind": "text", "text": format!("Turn {number}.")}]}));
            }
            messages.push(json!({"role": "user", "parts": asked}));
            let id = |n: usize| format!("call-{number}-{n}");
            said.extend(calls.iter().enumerate().map(|(n, call)| call_part(&id(n), call)));
            messages.push(json!({"role": "assistant", "parts": said}));
            let result = |(n, call): (usize, &Call)| {
                json!({"kind": "tool_result", "toolUseId": id(n), "content": call.result, "isError": call.failed})
            };
            messages.push(json!({"role": "user", "parts": calls.iter().enumerate().map(result).collect::<Vec<_>>()}));
        }
        serde_json::from_value(Value::Array(messages)).unwrap()
    })
}

fn call_part(id: &str, call: &Call) -> Value {
    let mut part = json!({"kind": "tool_use", "id": id, "name": "notes.add", "input": call.input});
    let mut wire = json!({"name": "notes_add", "args": call.input});
    match call.whose {
        Whose::Other => return part,
        Whose::OwnWithId => wire["id"] = json!(format!("wire-{id}")),
        Whose::OwnWithoutId => {}
    }
    let item = format!("{{ \"functionCall\" : {wire}, \"thoughtSignature\": \"c2ln\"}}");
    part["providerItem"] = json!({"provider": "gemini", "item": item});
    part
}

fn asking(messages: &[Message], model: &str) -> ModelRequest {
    let tool = ToolDeclaration { name: "notes.add".into(), description: String::new(), input_schema: json!({}) };
    let messages = messages.to_vec().into();
    ModelRequest { messages, model: model.into(), tools: [tool].into(), ..request(json!([])) }
}

fn body(messages: &[Message], model: &str) -> String {
    Gemini.request(&asking(messages, model)).unwrap().body
}

#[test]
fn the_next_turns_request_begins_with_this_turns() {
    let compared = Cell::new(0);
    let mut runner = runner();
    let models = prop_oneof![Just("gemini-3-flash-preview"), Just("gemini-2.5-flash")];
    let property = runner.run(&(conversation(), models), |(messages, model)| {
        let whole = body(&messages, model);
        for end in 1..messages.len() {
            let part = body(&messages[..end], model);
            let open = part.strip_suffix("]}]}").unwrap();
            prop_assert!(whole.starts_with(open), "{open}\nis no prefix of\n{whole}");
        }
        compared.set(compared.get() + messages.len() - 1);
        Ok(())
    });
    property.unwrap();
    println!("{CASES} conversations, {} prefixes", compared.get());
}

/// What both sides know of a part.
#[derive(Debug, PartialEq)]
enum Fact {
    /// A provider's item, with its bytes.
    Own(String),
    Text(String),
    Image(String),
    Call {
        id: String,
        input: CanonicalJson,
    },
    Result {
        id: Option<String>,
        said: CanonicalJson,
        failed: bool,
    },
}

/// What the conversation has for this provider.
fn facts_of(messages: &[Message]) -> Vec<(String, Fact)> {
    let mut facts = Vec::new();
    let mut ids = std::collections::HashMap::new();
    for message in messages {
        let role = if message.role == Role::Assistant { "model" } else { "user" };
        for Part { content, provider_item, .. } in &message.parts {
            let own =
                provider_item.as_ref().filter(|item| item.provider == "gemini").map(|item| item.item.trim().to_owned());
            if let Content::ToolUse { id, .. } = content {
                let wire = own.as_ref().map(|item| serde_json::from_str::<Value>(item).unwrap());
                let sent = wire.map_or_else(
                    || Some(id.to_string()),
                    |item| item["functionCall"]["id"].as_str().map(str::to_owned),
                );
                ids.insert(id.clone(), sent);
            }
            let fact = match (own, content) {
                (Some(item), _) => Fact::Own(item),
                (_, Content::Text { text }) if message.role == Role::System => Fact::Text(format!("System: {text}")),
                (_, Content::Text { text } | Content::Citations { text, .. }) => Fact::Text(text.clone()),
                (_, Content::Image { source: ImageSource::Bytes(data), .. }) => Fact::Image(data.clone()),
                (_, Content::ToolUse { id, input, .. }) => Fact::Call { id: id.to_string(), input: input.clone() },
                (_, Content::ToolResult { tool_use_id, content, is_error, .. }) => {
                    Fact::Result { id: ids[tool_use_id].clone(), said: content.clone(), failed: *is_error }
                }
                _ => continue,
            };
            facts.push((role.to_owned(), fact));
        }
    }
    facts
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    contents: Vec<WireContent<'a>>,
}

#[derive(Deserialize)]
struct WireContent<'a> {
    role: String,
    #[serde(borrow)]
    parts: Vec<&'a RawValue>,
}

/// Reads a request back. Items are known by their bytes: canonical parts are written in another form.
fn facts_on_the_wire(body: &str, own: &[String], names: &ToolNames) -> Vec<(String, Fact)> {
    let body: Body<'_> = serde_json::from_str(body).unwrap();
    let mut facts = Vec::new();
    for WireContent { role, parts } in body.contents {
        assert!(!parts.is_empty() && facts.last().is_none_or(|(last, _)| *last != role), "{role} twice");
        for part in parts {
            let value: Value = serde_json::from_str(part.get()).unwrap();
            let (call, result) = (&value["functionCall"], &value["functionResponse"]);
            let fact = if own.iter().any(|item| item == part.get()) {
                Fact::Own(part.get().to_owned())
            } else if let Some(text) = value["text"].as_str() {
                Fact::Text(text.to_owned())
            } else if let Some(data) = value["inlineData"]["data"].as_str() {
                Fact::Image(data.to_owned())
            } else if call.is_object() {
                assert_eq!(names.ours(call["name"].as_str().unwrap()).as_str(), "notes.add");
                Fact::Call { id: call["id"].as_str().unwrap().to_owned(), input: (&call["args"]).into() }
            } else {
                assert_eq!(names.ours(result["name"].as_str().unwrap()).as_str(), "notes.add");
                let response = result["response"].as_object().unwrap();
                let (key, said) = response.iter().next().unwrap();
                let id = result["id"].as_str().map(str::to_owned);
                Fact::Result { id, said: said.into(), failed: key == "error" }
            };
            facts.push((role.clone(), fact));
        }
    }
    facts
}

#[test]
fn nothing_that_both_sides_know_is_lost_on_the_wire() {
    let (parts, items) = (Cell::new(0), Cell::new(0));
    let names = ToolNames::new(&["notes.add".into()]);
    let mut runner = runner();
    let property = runner.run(&conversation(), |messages| {
        let expected = facts_of(&messages);
        let own: Vec<String> = expected
            .iter()
            .filter_map(|(_, fact)| if let Fact::Own(item) = fact { Some(item.clone()) } else { None })
            .collect();
        let came = facts_on_the_wire(&body(&messages, "gemini-3-flash-preview"), &own, &names);
        prop_assert_eq!(&came, &expected);
        parts.set(parts.get() + expected.len());
        items.set(items.get() + own.len());
        Ok(())
    });
    property.unwrap();
    println!("{CASES} conversations, {} parts, {} items with their bytes", parts.get(), items.get());
}

/// A part as Gemini streams it, with the JSON text of the chunk's part.
fn streamed() -> impl Strategy<Value = String> {
    (text(), 0..6_u8).prop_map(|(text, kind)| match kind {
        0 | 1 => json!({"text": text}).to_string(),
        2 => json!({"text": text, "thought": true}).to_string(),
        3 => json!({"text": text, "thoughtSignature": "c2ln"}).to_string(),
        4 => json!({"text": "", "thoughtSignature": "c2ln"}).to_string(),
        _ => format!(
            "{{\"functionCall\": {{\"name\":\"notes_add\",\"args\":{{\"n\":1.50}}}},\"thoughtSignature\":{}}}",
            json!(text)
        ),
    })
}

/// The pieces with unsigned neighbours of one kind joined, as Google allows it: their kind, and the text or the bytes.
fn joined(pieces: &[&str]) -> Vec<(bool, String)> {
    let mut joined: Vec<(Option<bool>, String)> = Vec::new();
    for piece in pieces {
        let value: Value = serde_json::from_str(piece).unwrap();
        let is_plain = value.get("text").is_some() && value.get("thoughtSignature").is_none();
        let thought = is_plain.then(|| value["thought"] == true);
        match (thought, joined.last_mut()) {
            (Some(_), Some((last, text))) if *last == thought => text.push_str(value["text"].as_str().unwrap()),
            (Some(_), _) => joined.push((thought, value["text"].as_str().unwrap().to_owned())),
            (None, _) => joined.push((None, (*piece).to_owned())),
        }
    }
    joined.into_iter().map(|(thought, text)| (thought.is_some(), text)).collect()
}

#[test]
fn what_was_streamed_is_replayed_with_every_signature_on_its_own_part() {
    let signed = Cell::new(0);
    let mut runner = runner();
    let property = runner.run(&vec(vec(streamed(), 0..4), 1..6), |chunks| {
        let asked = asking(&[], "gemini-3-flash-preview");
        let mut reader = Gemini.reader(&asked);
        for parts in &chunks {
            let chunk = format!("{{\"candidates\":[{{\"content\":{{\"parts\":[{}]}}}}]}}", parts.join(","));
            reader.event(None, &chunk).unwrap();
        }
        reader.event(None, r#"{"candidates":[{"finishReason":"STOP"}]}"#).unwrap();
        let parts = reader.finish().unwrap().parts;
        let body = body(&[Message::new(Role::Assistant, parts)], "gemini-3-flash-preview");
        let body: Body<'_> = serde_json::from_str(&body).unwrap();
        let replayed: Vec<&str> =
            body.contents.iter().flat_map(|content| &content.parts).map(|part| part.get()).collect();
        let sent: Vec<&str> = chunks.iter().flatten().map(String::as_str).collect();
        // Joined once more: what is replayed must be joined already.
        prop_assert_eq!(joined(&replayed), joined(&sent));
        prop_assert_eq!(joined(&sent).len(), replayed.len());
        let signatures = sent.iter().filter(|part| part.contains("thoughtSignature")).count();
        signed.set(signed.get() + signatures);
        Ok(())
    });
    property.unwrap();
    println!("{CASES} streams, {} signatures", signed.get());
}
