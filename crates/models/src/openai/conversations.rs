//! Random conversations, and what of one a request must say.

use std::collections::HashMap;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_core::{
    ids::{CallId, ToolName},
    message::{Content, DocumentFormat, DocumentSource, ImageFormat, ImageSource, Message, Part, Role},
};

/// One turn: what the user says, and what the model answers until it has no more calls.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    system: Option<String>,
    user: Vec<UserPart>,
    /// Whether the answer is of the provider that is asked.
    own: bool,
    answer: Vec<AnswerPart>,
}

#[derive(Debug, Clone)]
enum UserPart {
    Text(String),
    Image(bool),
    Pdf,
    Checkpoint,
}

#[derive(Debug, Clone)]
enum AnswerPart {
    Text(String),
    Thinking(String),
    Call { args: Value, result: Value, image: bool, is_error: bool },
    ProviderTool,
}

/// How a format's own items look: for a text (or several texts of one item), a thought, a call and a provider's tool.
pub(crate) trait OwnItems {
    fn texts(&self, number: usize, texts: &[String]) -> Vec<String>;
    fn thinking(&self, number: usize, text: &str) -> String;
    fn call(&self, id: &str, name: &str, arguments: &str) -> String;
    fn provider_tool(&self, number: usize) -> Option<String>;
}

pub(crate) fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let user = prop_oneof![
        4 => ".{0,12}".prop_map(UserPart::Text),
        1 => any::<bool>().prop_map(UserPart::Image),
        1 => Just(UserPart::Pdf),
        1 => Just(UserPart::Checkpoint),
    ];
    let args = prop_oneof![
        3 => proptest::collection::btree_map("[a-z]{1,4}", ".{0,6}", 0..3).prop_map(|map| json!(map)),
        1 => Just(json!("not an object")),
    ];
    let result =
        prop_oneof![".{0,10}".prop_map(Value::from), any::<i32>().prop_map(|n| json!({"n": n})), Just(Value::Null)];
    let call = (args, result, any::<bool>(), any::<bool>())
        .prop_map(|(args, result, image, is_error)| AnswerPart::Call { args, result, image, is_error });
    let answer = prop_oneof![
        3 => ".{0,12}".prop_map(AnswerPart::Text),
        2 => ".{0,12}".prop_map(AnswerPart::Thinking),
        3 => call,
        1 => Just(AnswerPart::ProviderTool),
    ];
    let turn = (
        proptest::option::weighted(0.2, ".{1,8}"),
        proptest::collection::vec(user, 0..4),
        any::<bool>(),
        proptest::collection::vec(answer, 0..6),
    );
    let turn = turn.prop_map(|(system, user, own, answer)| Turn { system, user, own, answer });
    proptest::collection::vec(turn, 1..6)
}

/// A conversation, and the raw items in it that must be sent as they are, in their order.
pub(crate) struct Conversation {
    pub(crate) messages: Vec<Message>,
    /// The number of messages at each point at which the model is asked.
    pub(crate) asked_at: Vec<usize>,
    pub(crate) facts: Facts,
}

/// What a request says, whatever its format.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Facts {
    pub(crate) system: Vec<String>,
    pub(crate) user: Vec<String>,
    /// All that the assistant says, as one text.
    pub(crate) assistant: String,
    /// Id, name on the wire and arguments of each call.
    pub(crate) calls: Vec<(String, String, Value)>,
    /// Id and text of each result.
    pub(crate) results: Vec<(String, String)>,
    /// Addresses and data of images and files.
    pub(crate) files: Vec<String>,
}

pub(crate) const PROVIDER: &str = "openai";
const PNG: &str = "data:image/png;base64,AAEC";

pub(crate) fn conversation(turns: &[Turn], own_items: &dyn OwnItems) -> Conversation {
    let mut made = Conversation { messages: Vec::new(), asked_at: Vec::new(), facts: Facts::default() };
    for (number, turn) in turns.iter().enumerate() {
        if let Some(system) = &turn.system {
            made.messages.push(Message::text(Role::System, system));
            made.facts.system.push(system.clone());
        }
        let user = turn.user.iter().map(|part| user_part(part, &mut made.facts)).collect();
        made.messages.push(Message::new(Role::User, user));
        made.asked_at.push(made.messages.len());
        let (answer, results) = answer(number, turn, own_items, &mut made.facts);
        made.messages.push(Message::new(Role::Assistant, answer));
        if !results.is_empty() {
            made.messages.push(Message::new(Role::User, results));
            made.asked_at.push(made.messages.len());
        }
    }
    made
}

fn user_part(part: &UserPart, facts: &mut Facts) -> Part {
    match part {
        UserPart::Text(text) => {
            facts.user.push(text.clone());
            Part::text(text)
        }
        UserPart::Image(inline) => {
            let source = match inline {
                true => ImageSource::Bytes("AAEC".into()),
                false => ImageSource::Uri("https://example.com/a.png".into()),
            };
            facts.files.push(if *inline { PNG.into() } else { "https://example.com/a.png".into() });
            Content::Image { format: ImageFormat::Png, source }.into()
        }
        UserPart::Pdf => {
            facts.files.push("data:application/pdf;base64,AAEC".into());
            let source = DocumentSource::Bytes("AAEC".into());
            let (name, format) = ("a.pdf".to_owned(), DocumentFormat::Pdf);
            Content::Document { name, format, source, context: None, cite: false }.into()
        }
        UserPart::Checkpoint => Content::CacheCheckpoint.into(),
    }
}

fn answer(turn: usize, said: &Turn, own_items: &dyn OwnItems, facts: &mut Facts) -> (Vec<Part>, Vec<Part>) {
    let (mut parts, mut results) = (Vec::new(), Vec::new());
    let keep = |part: Part, item: Option<String>| match item {
        Some(item) if said.own => part.with_provider_item(PROVIDER, item),
        // An item of another provider, which must not be sent.
        _ => part.with_provider_item("other", "{\"type\":\"message\",\"content\":\"secret of another provider\"}"),
    };
    let texts: Vec<String> = said
        .answer
        .iter()
        .filter_map(|part| if let AnswerPart::Text(text) = part { Some(text.clone()) } else { None })
        .collect();
    let mut text_items = own_items.texts(turn, &texts).into_iter();
    for (number, part) in said.answer.iter().enumerate() {
        match part {
            AnswerPart::Text(text) => {
                facts.assistant.push_str(text);
                parts.push(keep(Part::text(text), text_items.next()));
            }
            AnswerPart::Thinking(text) => {
                let content = Content::Thinking { text: text.clone(), signature: None, redacted: None };
                parts.push(keep(content.into(), Some(own_items.thinking(turn * 100 + number, text))));
            }
            AnswerPart::ProviderTool => {
                let content = Content::ProviderTool { name: "web_search".into(), input: None, output: None };
                parts.push(keep(content.into(), own_items.provider_tool(turn * 100 + number)));
            }
            AnswerPart::Call { args, result, image, is_error } => {
                let (ours, theirs) = (format!("call-{turn}-{number}"), format!("call_{turn}x{number}"));
                let sent = if said.own { theirs.clone() } else { ours.clone() };
                // An own item has what the model wrote; another call is written as an object.
                let wire_args = if said.own || args.is_object() { args.clone() } else { json!({"input": args}) };
                facts.calls.push((sent.clone(), "notes_add".into(), wire_args));
                let item = own_items.call(&theirs, "notes_add", &format!(" {args}"));
                let call = Part::tool_use(CallId::new(&ours), ToolName::new("notes.add"), args.into());
                parts.push(keep(call, Some(item)));
                results.push(result_part(ours, sent, result, *image, *is_error, facts));
            }
        }
    }
    (parts, results)
}

fn result_part(ours: String, sent: String, result: &Value, image: bool, is_error: bool, facts: &mut Facts) -> Part {
    let mut text = match result {
        Value::Null if image => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    if is_error {
        text = if result.is_null() && image { "Error: the call failed.".into() } else { format!("Error: {text}") };
    }
    facts.results.push((sent, text));
    let shown: Vec<Part> = image
        .then(|| Content::Image { format: ImageFormat::Png, source: ImageSource::Bytes("AAEC".into()) }.into())
        .into_iter()
        .collect();
    facts.files.extend(shown.iter().map(|_| PNG.to_owned()));
    Content::ToolResult { tool_use_id: CallId::new(ours), content: result.into(), parts: shown, is_error }.into()
}

/// Fails unless all texts are in the body, one after the other.
pub(crate) fn assert_in_order(body: &str, texts: &[String]) {
    let mut rest = body;
    for text in texts {
        let at = rest.find(text.as_str()).unwrap_or_else(|| panic!("not in the body in its order: {text}\n{body}"));
        rest = &rest[at + text.len()..];
    }
}

/// The items of this provider in a conversation.
pub(crate) fn own_items_of(messages: &[Message]) -> Vec<&Part> {
    let own = |part: &&Part| part.provider_item.as_ref().is_some_and(|item| item.provider == PROVIDER);
    messages.iter().flat_map(|message| &message.parts).filter(own).collect()
}

/// The first of two bodies without the brackets that close it is where the second begins.
pub(crate) fn assert_prefix(shorter: &str, longer: &str) {
    let open = shorter.strip_suffix("]}").unwrap();
    assert!(longer.starts_with(open), "not a prefix:\n{shorter}\n{longer}");
}

/// No call without a result and no result without a call, and every result after its call.
pub(crate) fn assert_no_orphans(facts: &Facts) {
    let results: HashMap<&String, usize> = facts.results.iter().map(|(id, _)| (id, 1)).collect();
    assert_eq!(results.len(), facts.results.len());
    assert!(facts.calls.iter().all(|(id, ..)| results.contains_key(id)), "{facts:?}");
    assert_eq!(facts.calls.len(), facts.results.len(), "{facts:?}");
}
