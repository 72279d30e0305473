//! The parts of one item of an answer.

use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use windlass_core::{
    canonical::CanonicalJson,
    ids::CallId,
    message::{Citation, Content, Part},
};

use super::continuation;
use crate::{
    openai::read_arguments,
    wire::{Asked, Fields},
};

/// How items are read: for which provider, with which names.
#[derive(Debug)]
pub(super) struct Items(pub(super) Asked);

/// What an item means for the stop reason.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Said,
    Called,
    /// A call whose arguments are not JSON.
    CalledUnreadably,
    Refused,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum MessageContent {
    OutputText {
        text: String,
        #[serde(default)]
        annotations: Vec<Value>,
    },
    Refusal {
        refusal: String,
    },
    #[serde(other)]
    Unknown,
}

#[derive(Deserialize)]
struct ReasoningText {
    text: String,
}

impl Items {
    /// The parts of an item, at least one, and what they mean. `None` if the text is no object.
    pub(super) fn read(&self, item: &str) -> Option<(Vec<Part>, Meaning)> {
        let fields = Fields::parse(item)?;
        let kind = fields.text("type").unwrap_or_default();
        let whole = |content: Content| Part::from(content).with_provider_item(&self.0.provider, item);
        let (content, meaning) = match kind.as_str() {
            "message" => return Some(self.message(item, &fields)),
            "function_call" => return Some(self.call(item, &fields)),
            "reasoning" => (thinking(&fields), Meaning::Said),
            _ => (provider_tool(&kind, &fields).unwrap_or(Content::Other { kind }), Meaning::Said),
        };
        let mut part = whole(content);
        if let Content::Other { .. } = part.content {
            part.extra = rest(fields);
        }
        Some((vec![part], meaning))
    }

    fn message(&self, item: &str, fields: &Fields) -> (Vec<Part>, Meaning) {
        let contents: Vec<Box<RawValue>> = fields.decode("content").unwrap_or_default();
        let mut meaning = Meaning::Said;
        let mut parts = Vec::new();
        for (number, content) in contents.iter().enumerate() {
            let read = serde_json::from_str(content.get()).unwrap_or(MessageContent::Unknown);
            if let MessageContent::Refusal { .. } = read {
                meaning = Meaning::Refused;
            }
            let mut part = message_part(read, content.get());
            let own = if number == 0 { item.to_owned() } else { continuation::of_item(fields, number) };
            part = part.with_provider_item(&self.0.provider, own);
            parts.push(part);
        }
        if parts.is_empty() {
            parts.push(Part::text("").with_provider_item(&self.0.provider, item));
        }
        (parts, meaning)
    }

    fn call(&self, item: &str, fields: &Fields) -> (Vec<Part>, Meaning) {
        let text = |name: &str| fields.text(name).unwrap_or_default();
        let (name, arguments) = (text("name"), text("arguments"));
        if self.0.is_answer(&name) {
            // Sent back as the text it is: a call would need a result.
            return (vec![Part::text(arguments)], Meaning::Said);
        }
        let (input, readable) = read_arguments(&arguments);
        let id = fields.text("call_id").or_else(|| fields.text("id")).unwrap_or_default();
        let part = Part::from(Content::ToolUse { id: CallId::new(id), name: self.0.names.ours(&name), input });
        if readable {
            (vec![part.with_provider_item(&self.0.provider, item)], Meaning::Called)
        } else {
            // Without its item: the run's refusal of the call has to follow something that can be read.
            (vec![part], Meaning::CalledUnreadably)
        }
    }
}

fn message_part(content: MessageContent, json: &str) -> Part {
    match content {
        MessageContent::OutputText { text, annotations } => {
            let citations: Vec<Citation> = annotations.iter().filter_map(citation).collect();
            let cited = !citations.is_empty();
            if cited { Content::Citations { text, citations }.into() } else { Part::text(text) }
        }
        MessageContent::Refusal { refusal } => Part::text(refusal),
        MessageContent::Unknown => {
            let fields = Fields::parse(json).unwrap_or_default();
            let kind = fields.text("type").unwrap_or_default();
            let mut part = Part::from(Content::Other { kind });
            part.extra = rest(fields);
            part
        }
    }
}

fn citation(annotation: &Value) -> Option<Citation> {
    let text = |name: &str| annotation[name].as_str().map(str::to_owned);
    let (title, source) = match annotation["type"].as_str()? {
        "url_citation" => (text("title"), text("url")),
        "file_citation" | "container_file_citation" | "file_path" => (text("filename"), text("file_id")),
        _ => return None,
    };
    Some(Citation { title, source, location: None, source_content: Vec::new() })
}

/// The readable part of reasoning. What only the provider can read stays in the item, the one place that needs it.
fn thinking(fields: &Fields) -> Content {
    let texts = |name: &str| fields.decode::<Vec<ReasoningText>>(name).unwrap_or_default();
    let summary = texts("summary");
    let shown = if summary.is_empty() { texts("content") } else { summary };
    let text = shown.into_iter().map(|it| it.text).collect::<Vec<_>>().join(SEPARATOR);
    Content::Thinking { text, signature: None, redacted: None }
}

/// Between the sections of a reasoning summary.
pub(super) const SEPARATOR: &str = "\n\n";

/// A tool that the provider executed. `None` if the item is none that this build knows.
fn provider_tool(kind: &str, fields: &Fields) -> Option<Content> {
    let json = |name: &str| fields.canonical(name).filter(is_given);
    let under = |name: &str, key: &str| {
        json(name).and_then(|value| CanonicalJson::parse(&format!("{{\"{key}\":{value}}}")).ok())
    };
    let (name, input, output) = match kind {
        "web_search_call" => {
            let sources = json("action").map(|action| CanonicalJson::from(&action.to_value()["sources"]));
            ("web_search".to_owned(), json("action"), sources.filter(is_given))
        }
        "file_search_call" => ("file_search".to_owned(), under("queries", "queries"), json("results")),
        "code_interpreter_call" => ("code_interpreter".to_owned(), under("code", "code"), json("outputs")),
        // The image itself, which may be large, is in the item.
        "image_generation_call" => ("image_generation".to_owned(), under("revised_prompt", "prompt"), None),
        "mcp_call" => {
            let name = format!("{}.{}", fields.text("server_label")?, fields.text("name")?);
            let arguments = read_arguments(&fields.text("arguments").unwrap_or_default()).0;
            (name, Some(arguments), json("output").or_else(|| under("error", "error")))
        }
        _ => return None,
    };
    Some(Content::ProviderTool { name, input, output })
}

fn is_given(json: &CanonicalJson) -> bool {
    json.as_str() != "null"
}

fn rest(mut fields: Fields) -> std::collections::BTreeMap<String, CanonicalJson> {
    fields.take("type");
    fields.into_extra()
}
