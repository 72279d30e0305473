//! One content block of an answer, put together from its events.

use serde_json::value::RawValue;
use windlass_core::{
    canonical::CanonicalJson,
    ids::CallId,
    message::{Citation, CitationLocation, Content, Part},
};

use crate::wire::{Fields, ToolNames, quoted};

/// What a delta adds to a block.
#[derive(Debug)]
pub(super) enum Piece {
    Text(String),
    Thinking(String),
    /// It comes whole.
    Signature(String),
    /// As JSON text.
    Citation(String),
    /// A piece of the JSON text of a call's arguments.
    Input(String),
}

/// A block so far. Deltas are folded into the field that they are about, whatever the kind of the block, so that
/// blocks of kinds that are not known here are complete, too.
#[derive(Debug)]
pub(super) struct Block {
    pub(super) kind: String,
    /// As the block began.
    start: Fields,
    text: String,
    thinking: String,
    signature: Option<String>,
    citations: Vec<String>,
    input: String,
}

/// The arguments of a call.
#[derive(Debug)]
pub(super) enum Arguments {
    /// The exact text of an object, and the same as the run keeps it.
    Object(String, CanonicalJson),
    /// What the model wrote is not an object, or not JSON.
    Malformed(String),
}

impl Block {
    pub(super) fn new(start: Fields) -> Self {
        let text = |name: &str| start.text(name).unwrap_or_default();
        Self {
            kind: text("type"),
            text: text("text"),
            thinking: text("thinking"),
            start,
            signature: None,
            citations: Vec::new(),
            input: String::new(),
        }
    }

    pub(super) fn add(&mut self, piece: Piece) {
        match piece {
            Piece::Text(text) => self.text.push_str(&text),
            Piece::Thinking(text) => self.thinking.push_str(&text),
            Piece::Signature(signature) => self.signature = Some(signature),
            Piece::Citation(citation) => self.citations.push(citation),
            Piece::Input(json) => self.input.push_str(&json),
        }
    }

    pub(super) fn is_call(&self) -> bool {
        self.kind == "tool_use"
    }

    /// A call of a tool that the provider executes itself.
    pub(super) fn is_provider_call(&self) -> bool {
        matches!(self.kind.as_str(), "server_tool_use" | "mcp_tool_use")
    }

    /// The result of a tool that the provider executed itself, by the tool: `web_search` for `web_search_tool_result`.
    pub(super) fn provider_result(&self) -> Option<&str> {
        self.kind.strip_suffix("_tool_result").filter(|tool| !tool.is_empty())
    }

    pub(super) fn id(&self) -> String {
        self.start.text("id").unwrap_or_default()
    }

    pub(super) fn name(&self) -> String {
        self.start.text("name").unwrap_or_default()
    }

    pub(super) fn tool_use_id(&self) -> String {
        self.start.text("tool_use_id").unwrap_or_default()
    }

    /// The text with which the block began, before any delta.
    pub(super) fn text(&self) -> &str {
        &self.text
    }

    pub(super) fn thinking(&self) -> &str {
        &self.thinking
    }

    /// The text of the arguments: from deltas, or from the start of the block if there are none.
    pub(super) fn arguments_text(&self) -> &str {
        match self.has_input_deltas() {
            true => &self.input,
            false => self.start.get("input").unwrap_or("{}"),
        }
    }

    /// A call without arguments may have one empty delta.
    pub(super) fn has_input_deltas(&self) -> bool {
        !self.input.trim().is_empty()
    }

    pub(super) fn arguments(&self) -> Arguments {
        let text = self.arguments_text();
        match CanonicalJson::parse(text) {
            Ok(json) if json.as_str().starts_with('{') => Arguments::Object(text.trim().to_owned(), json),
            _ => Arguments::Malformed(text.to_owned()),
        }
    }

    /// The block as it is sent back: what it began with, and every delta in the field that it is about.
    fn item(&self) -> String {
        let mut fields = self.start.clone();
        for (name, text) in [("text", &self.text), ("thinking", &self.thinking)] {
            if !text.is_empty() && fields.text(name).as_ref() != Some(text) {
                fields.set(name, quoted(text));
            }
        }
        if let Some(signature) = &self.signature {
            fields.set("signature", quoted(signature));
        }
        if !self.citations.is_empty() {
            let all: Vec<&str> = self.all_citations().collect();
            fields.set("citations", format!("[{}]", all.join(",")));
        }
        if self.has_input_deltas()
            && let Arguments::Object(raw, _) = self.arguments()
        {
            fields.set("input", raw);
        }
        fields.to_string()
    }

    fn all_citations(&self) -> impl Iterator<Item = &str> {
        let first = self.start.get("citations").and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list).ok());
        let first = first.unwrap_or_default().into_iter().map(RawValue::get);
        first.chain(self.citations.iter().map(String::as_str))
    }

    /// The part for this block. `provider_tool` is the name of the tool whose call or result it is.
    pub(super) fn part(&self, provider: &str, names: &ToolNames, provider_tool: Option<&str>) -> Part {
        let named = || provider_tool.unwrap_or_default().to_owned();
        let content = match self.kind.as_str() {
            "text" => match self.all_citations().map(citation).collect::<Vec<_>>() {
                none if none.is_empty() => Content::Text { text: self.text.clone() },
                citations => Content::Citations { text: self.text.clone(), citations },
            },
            "thinking" => {
                let signature = self.signature.clone().or_else(|| self.start.text("signature"));
                let signature = signature.filter(|signature| !signature.is_empty());
                Content::Thinking { text: self.thinking.clone(), signature, redacted: None }
            }
            "redacted_thinking" => {
                let data = self.start.text("data").unwrap_or_default();
                Content::Thinking { text: String::new(), signature: None, redacted: Some(data) }
            }
            "tool_use" => return self.call(provider, names),
            _ if self.is_provider_call() => {
                let input = match self.arguments() {
                    Arguments::Object(_, input) => Some(input),
                    Arguments::Malformed(_) => None,
                };
                Content::ProviderTool { name: named(), input, output: None }
            }
            _ if self.provider_result().is_some() => {
                Content::ProviderTool { name: named(), input: None, output: self.start.canonical("content") }
            }
            kind => return self.unknown(kind, provider),
        };
        Part::from(content).with_provider_item(provider, self.item())
    }

    /// A call whose arguments cannot be read keeps them as text, and has no item: the provider takes objects only.
    fn call(&self, provider: &str, names: &ToolNames) -> Part {
        let (id, name) = (CallId::new(self.id()), names.ours(&self.name()));
        match self.arguments() {
            Arguments::Object(_, input) => Part::tool_use(id, name, input).with_provider_item(provider, self.item()),
            Arguments::Malformed(text) => Part::tool_use(id, name, serde_json::Value::from(text).into()),
        }
    }

    fn unknown(&self, kind: &str, provider: &str) -> Part {
        let item = self.item();
        let mut fields = Fields::parse(&item).unwrap_or_default();
        fields.take("type");
        let mut part = Part::from(Content::Other { kind: kind.to_owned() });
        part.extra = fields.into_extra();
        part.with_provider_item(provider, item)
    }
}

/// A citation of any kind: places in documents of the conversation have a location, other sources have an address.
fn citation(json: &str) -> Citation {
    let fields = Fields::parse(json).unwrap_or_default();
    let number = |name: &str| fields.decode(name);
    let span = |start: &str, end: &str| Some((number("document_index")?, number(start)?, number(end)?));
    let location = match fields.text("type").unwrap_or_default().as_str() {
        "char_location" => span("start_char_index", "end_char_index")
            .map(|(document_index, start, end)| CitationLocation::Char { document_index, start, end }),
        "page_location" => span("start_page_number", "end_page_number")
            .map(|(document_index, start, end)| CitationLocation::Page { document_index, start, end }),
        "content_block_location" => span("start_block_index", "end_block_index")
            .map(|(document_index, start, end)| CitationLocation::Chunk { document_index, start, end }),
        _ => None,
    };
    Citation {
        title: fields.text("document_title").or_else(|| fields.text("title")),
        source: fields.text("url").or_else(|| fields.text("source")),
        location,
        source_content: fields.text("cited_text").into_iter().collect(),
    }
}
