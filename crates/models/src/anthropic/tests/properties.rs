//! Random conversations: what is written is stable from turn to turn, and loses nothing.

use std::{cell::Cell, collections::HashMap};

use proptest::{collection::vec, prelude::*, sample::select, test_runner::TestRunner};
use serde::Deserialize;
use serde_json::{Value, json, value::RawValue};
use windlass_core::{
    ids::{CallId, ToolName},
    message::{Content, DocumentFormat, DocumentSource, ImageFormat, ImageSource, Message, Part, Role},
};

use crate::{ModelRequest, anthropic::AnthropicMessages, fixtures, wire::Wire as _};

const CASES: u32 = 1000;
const MARK: &str = r#","cache_control":{"type":"ephemeral"}"#;

/// What an assistant may say, and how it is known.
#[derive(Debug, Clone)]
struct Said {
    kind: &'static str,
    text: String,
    /// Whose item the part has.
    item_of: Option<&'static str>,
}

/// Messages of the user, the answer to them and the results of its calls.
#[derive(Debug, Clone)]
struct Round {
    asked: Vec<(Role, Vec<Part>)>,
    answers: Vec<Vec<Said>>,
    /// A message of the user that comes before the results of calls.
    steering: Option<String>,
    results: Vec<(Value, Vec<Part>, bool)>,
}

fn any_text() -> impl Strategy<Value = String> {
    select(&["", " ", "\n", "a", "b c\n", "é👋", "\"q\"", "]}]", "{", "[1]", "\\"][..]).prop_map(str::to_owned)
}

fn any_input() -> impl Strategy<Value = Value> {
    prop_oneof![
        any_text().prop_map(|text| json!({ "q": text })),
        any::<i32>().prop_map(|n| json!({"n": n, "deep": [{"a": null}]})),
        Just(json!({})),
    ]
}

fn any_user_part() -> impl Strategy<Value = Part> {
    let document = |name: String, format, source| {
        Part::from(Content::Document { name, format, source, context: None, cite: true })
    };
    prop_oneof![
        4 => any_text().prop_map(Part::text),
        3 => Just(Content::CacheCheckpoint.into()),
        1 => Just(Content::Image { format: ImageFormat::Webp, source: ImageSource::Bytes("AAEC".into()) }.into()),
        1 => Just(Content::Image { format: ImageFormat::Png, source: ImageSource::Uri("https://x".into()) }.into()),
        1 => any_text().prop_map(move |text| document("a".into(), DocumentFormat::Txt, DocumentSource::Text(format!("x{text}")))),
        1 => Just(document("b".into(), DocumentFormat::Pdf, DocumentSource::Bytes("AAEC".into()))),
        1 => Just(document("c".into(), DocumentFormat::Md, DocumentSource::Chunks(vec!["u".into(), "v".into()]))),
        1 => Just(Content::Other { kind: "hologram".into() }.into()),
    ]
}

fn any_said() -> impl Strategy<Value = Said> {
    let kind = select(&["text", "thinking", "redacted", "citations", "provider_tool", "tool_use", "other"][..]);
    let item_of = select(&[None, Some("anthropic"), Some("anthropic"), Some("openai")][..]);
    (kind, any_text(), item_of).prop_map(|(kind, text, item_of)| Said { kind, text, item_of })
}

fn any_round() -> impl Strategy<Value = Round> {
    let role = prop_oneof![4 => Just(Role::User), 1 => Just(Role::System)];
    let result = (any_input(), vec(any_user_part(), 0..3), any::<bool>());
    let asked = vec((role, vec(any_user_part(), 0..4)), 1..3);
    (asked, vec(vec(any_said(), 0..5), 1..3), proptest::option::of(any_text()), vec(result, 1..3))
        .prop_map(|(asked, answers, steering, results)| Round { asked, answers, steering, results })
}

/// The provider's block for a part. Its spaces and the form of its number are what no serializer here would write.
fn item(said: &Said, id: &str) -> String {
    let text = json!(said.text);
    match said.kind {
        "thinking" => format!(r#"{{ "type":"thinking","thinking":{text},  "signature":"s","n":1.0e2}}"#),
        "redacted" => format!(r#"{{"data":{text} ,"type":"redacted_thinking","n":1.0e2}}"#),
        "citations" => format!(r#"{{"type":"text", "text":{text},"citations":[{{"n":1.0e2}}]}}"#),
        "provider_tool" => {
            format!(r#"{{"type":"server_tool_use","id":"srv_{id}","name":"w","input":{{ "q":{text}}}}}"#)
        }
        "tool_use" => {
            format!(r#"{{"type":"tool_use","id":"toolu_{id}","name":"t","input":{{ "q":{text},"n":1.0e2}}}}"#)
        }
        "other" => format!(r#"{{"type":"hologram", "n":1.0e2,"x":{text}}}"#),
        _ => format!(r#"{{"type":"text" ,"text":{text},"n":1.0e2}}"#),
    }
}

fn part(said: &Said, id: &str) -> Part {
    let text = || said.text.clone();
    let content = match said.kind {
        "thinking" => Content::Thinking { text: text(), signature: Some("s".into()), redacted: None },
        "redacted" => Content::Thinking { text: String::new(), signature: None, redacted: Some(text()) },
        "citations" => Content::Citations { text: text(), citations: vec![] },
        "provider_tool" => {
            Content::ProviderTool { name: "w".into(), input: Some(json!({"q": text()}).into()), output: None }
        }
        "tool_use" => {
            Content::ToolUse { id: id.into(), name: ToolName::new("notes.add"), input: json!({"q": text()}).into() }
        }
        "other" => Content::Other { kind: "hologram".into() },
        _ => Content::Text { text: text() },
    };
    match said.item_of {
        Some(provider) => Part::from(content).with_provider_item(provider, item(said, id)),
        None => content.into(),
    }
}

/// The messages of the rounds. A request is made before each answer, and after the last round.
fn conversation(rounds: &[Round]) -> (Vec<Message>, Vec<usize>) {
    let (mut messages, mut requests) = (vec![Message::user("Begin.")], Vec::new());
    for (turn, round) in rounds.iter().enumerate() {
        messages.extend(round.asked.iter().map(|(role, parts)| Message::new(*role, parts.clone())));
        let mut calls = Vec::new();
        for (number, answer) in round.answers.iter().enumerate() {
            // An answer goes on after a pause, so only its last part makes calls.
            let may_call = number + 1 == round.answers.len();
            requests.push(messages.len());
            let said = answer.iter().filter(|said| may_call || said.kind != "tool_use");
            let parts = said.enumerate().map(|(n, said)| part(said, &format!("call-{turn}-{number}-{n}")));
            let message = Message::new(Role::Assistant, parts.collect());
            calls.extend(message.parts.iter().filter_map(|part| match &part.content {
                Content::ToolUse { id, .. } => Some(id.clone()),
                _ => None,
            }));
            messages.push(message);
        }
        if !calls.is_empty() {
            messages.extend(round.steering.iter().map(Message::user));
            let results =
                calls.into_iter().zip(round.results.iter().cycle()).map(|(tool_use_id, (content, parts, is_error))| {
                    Part::from(Content::ToolResult {
                        tool_use_id,
                        content: content.into(),
                        parts: parts.clone(),
                        is_error: *is_error,
                    })
                });
            messages.push(Message::new(Role::User, results.collect()));
        }
    }
    requests.push(messages.len());
    (messages, requests)
}

fn body(messages: &[Message]) -> String {
    let request =
        ModelRequest { provider: "anthropic".into(), system: "s".into(), ..fixtures::request(messages.to_vec()) };
    AnthropicMessages.request(&request).unwrap().body
}

fn is_blank(part: &Part) -> bool {
    matches!(&part.content, Content::Text { text } | Content::Citations { text, .. } if text.trim().is_empty())
}

/// What the provider must get of one message: its own items as they are, and the content that it has a form for.
#[derive(Debug, PartialEq)]
enum Wanted {
    Item(String),
    Content(Content),
}

fn wanted_file_or_text(part: &Part) -> Option<Content> {
    match &part.content {
        Content::Citations { text, .. } => Some(Content::Text { text: text.clone() }),
        Content::Text { .. } | Content::Image { .. } | Content::Document { .. } => Some(part.content.clone()),
        _ => None,
    }
}

fn wanted(message: &Message, ids: &HashMap<CallId, CallId>) -> Vec<Wanted> {
    let seen = message.parts.iter().filter(|part| !is_blank(part));
    seen.filter_map(|part| {
        if let Some(own) = part.provider_item.as_ref().filter(|item| item.provider == "anthropic") {
            return Some(Wanted::Item(own.item.clone()));
        }
        let content = match &part.content {
            Content::ToolUse { id, input, .. } => {
                Content::ToolUse { id: id.clone(), name: ToolName::new("notes_add"), input: input.clone() }
            }
            Content::ToolResult { tool_use_id, content, parts, is_error } => Content::ToolResult {
                tool_use_id: ids.get(tool_use_id).unwrap_or(tool_use_id).clone(),
                content: Value::Null.into(),
                parts: std::iter::once(Part::text(content.as_str()))
                    .chain(parts.iter().filter(|part| !is_blank(part)).filter_map(wanted_file_or_text).map(Part::from))
                    .collect(),
                is_error: *is_error,
            },
            Content::Text { text } if message.role == Role::System => Content::Text { text: format!("System: {text}") },
            _ => wanted_file_or_text(part)?,
        };
        Some(Wanted::Content(content))
    })
    .collect()
}

/// The ids by which the provider knows its calls.
fn provider_ids(messages: &[Message]) -> HashMap<CallId, CallId> {
    let parts = messages.iter().flat_map(|message| &message.parts);
    let own = parts.filter(|part| part.provider_item.as_ref().is_some_and(|item| item.provider == "anthropic"));
    own.filter_map(|part| match &part.content {
        Content::ToolUse { id, .. } => Some((id.clone(), CallId::new(format!("toolu_{id}")))),
        _ => None,
    })
    .collect()
}

#[derive(Deserialize)]
struct SentBody<'a> {
    #[serde(borrow)]
    messages: Vec<SentMessage<'a>>,
}

#[derive(Deserialize)]
struct SentMessage<'a> {
    role: String,
    #[serde(borrow)]
    content: Vec<&'a RawValue>,
}

/// A block of the wire as content. The inverse of what is written, for tests.
fn parse(block: &Value) -> Content {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let source = &block["source"];
    match block["type"].as_str().unwrap() {
        "text" => Content::Text { text: text(&block["text"]) },
        "tool_use" => Content::ToolUse {
            id: CallId::new(text(&block["id"])),
            name: ToolName::new(text(&block["name"])),
            input: (&block["input"]).into(),
        },
        "tool_result" => Content::ToolResult {
            tool_use_id: CallId::new(text(&block["tool_use_id"])),
            content: Value::Null.into(),
            parts: block["content"].as_array().unwrap().iter().map(|block| parse(block).into()).collect(),
            is_error: block["is_error"].as_bool().unwrap_or_default(),
        },
        "image" => match source["type"].as_str().unwrap() {
            "base64" => {
                assert_eq!(source["media_type"], "image/webp");
                Content::Image { format: ImageFormat::Webp, source: ImageSource::Bytes(text(&source["data"])) }
            }
            _ => Content::Image { format: ImageFormat::Png, source: ImageSource::Uri(text(&source["url"])) },
        },
        "document" => {
            let (format, source) = match source["type"].as_str().unwrap() {
                "base64" => (DocumentFormat::Pdf, DocumentSource::Bytes(text(&source["data"]))),
                "text" => (DocumentFormat::Txt, DocumentSource::Text(text(&source["data"]))),
                _ => {
                    let chunks = source["content"].as_array().unwrap().iter().map(|chunk| text(&chunk["text"]));
                    (DocumentFormat::Md, DocumentSource::Chunks(chunks.collect()))
                }
            };
            let cite = block["citations"]["enabled"].as_bool().unwrap_or_default();
            Content::Document { name: text(&block["title"]), format, source, context: None, cite }
        }
        other => panic!("a block of kind {other} is written only as an item"),
    }
}

/// Tries a property with random conversations.
fn try_all(property: impl Fn(&[Round]) -> Result<(), TestCaseError>) {
    let config = ProptestConfig { cases: CASES, failure_persistence: None, ..ProptestConfig::default() };
    let tried = TestRunner::new(config).run(&vec(any_round(), 1..5), |rounds| property(&rounds));
    tried.unwrap_or_else(|failure| panic!("{failure}"));
}

#[test]
fn the_request_of_a_turn_begins_with_that_of_the_turn_before() {
    let (turns, exact) = (Cell::new(0), Cell::new(0));
    try_all(|rounds| {
        let (messages, requests) = conversation(rounds);
        let parts = messages.iter().flat_map(|message| &message.parts);
        let checkpoints = parts.filter(|part| part.content == Content::CacheCheckpoint).count();
        // With more checkpoints than a request may have marks, the oldest marks are gone on a later turn. Nothing else is.
        let text = |body: String| if checkpoints > 2 { body.replace(MARK, "") } else { body };
        let bodies: Vec<String> = requests.iter().map(|end| text(body(&messages[..*end]))).collect();
        for pair in bodies.windows(2) {
            let begun = pair[0].strip_suffix("]}]}").unwrap();
            prop_assert!(pair[1].starts_with(begun), "{}\n{}", pair[0], pair[1]);
        }
        turns.set(turns.get() + bodies.len());
        exact.set(exact.get() + u32::from(checkpoints <= 2));
        Ok(())
    });
    println!("{CASES} conversations with {} requests; in {} with all marks in place", turns.get(), exact.get());
}

#[test]
fn nothing_that_both_sides_know_is_lost() {
    let (blocks, items) = (Cell::new(0), Cell::new(0));
    try_all(|rounds| {
        let (messages, _) = conversation(rounds);
        let ids = provider_ids(&messages);
        let mut expected: Vec<(bool, Vec<Wanted>)> = Vec::new();
        for message in &messages {
            let (assistant, wanted) = (message.role == Role::Assistant, wanted(message, &ids));
            match expected.last_mut() {
                _ if wanted.is_empty() => {}
                Some((last, all)) if *last == assistant => all.extend(wanted),
                _ => expected.push((assistant, wanted)),
            }
        }
        for (_, wanted) in &mut expected {
            wanted.sort_by_key(|wanted| !matches!(wanted, Wanted::Content(Content::ToolResult { .. })));
        }
        let text = body(&messages).replace(MARK, "");
        let sent: SentBody<'_> = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(sent.messages.len(), expected.len());
        for (sent, (assistant, wanted)) in sent.messages.iter().zip(&expected) {
            prop_assert_eq!(sent.role == "assistant", *assistant);
            prop_assert_eq!(sent.content.len(), wanted.len());
            for (block, wanted) in sent.content.iter().zip(wanted) {
                blocks.set(blocks.get() + 1);
                match wanted {
                    Wanted::Item(item) => {
                        items.set(items.get() + 1);
                        prop_assert_eq!(block.get(), item.as_str());
                    }
                    Wanted::Content(content) => {
                        prop_assert_eq!(&parse(&serde_json::from_str(block.get()).unwrap()), content);
                    }
                }
            }
        }
        Ok(())
    });
    println!("{CASES} conversations with {} blocks, {} of them items", blocks.get(), items.get());
}
