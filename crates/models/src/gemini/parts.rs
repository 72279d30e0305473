//! Parts of an answer, put together from the parts and pieces of its chunks.
//!
//! Gemini cuts a text anywhere and sends each piece as a part of its own. Pieces that follow each other and say the same
//! about themselves are one text. A piece with a thought signature stays alone: Google wants the signature back on the
//! part that it came with, and forbids joining that part with another.

use serde_json::value::RawValue;
use windlass_core::{
    canonical::CanonicalJson,
    ids::CallId,
    message::{Content, ImageFormat, ImageSource, Part},
};

use crate::{
    Delta, DeltaKind, ModelError,
    wire::{Asked, Fields, read},
};

/// The parts of an answer so far.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) asked: Asked,
    built: Vec<Built>,
    /// The text that the next piece may belong to.
    open: Option<usize>,
    calls: usize,
    /// A call came that cannot be read.
    pub(super) malformed: bool,
}

#[derive(Debug)]
enum Built {
    Text(TextRun),
    Whole(Part),
    /// A part whose content is known at the end only.
    Later,
}

/// Pieces of one text, or of one thought.
#[derive(Debug)]
struct TextRun {
    thought: bool,
    text: String,
    /// What the pieces have beside the text, and an empty field in the place of the text.
    around: Fields,
    /// The JSON text of the only piece, as it came.
    single: Option<String>,
    /// The pieces' JSON strings without their quotation marks, so that every escape stays as it was written.
    escaped: String,
}

impl Parts {
    pub(super) fn new(asked: Asked) -> Self {
        Self { asked, built: Vec::new(), open: None, calls: 0, malformed: false }
    }

    /// Takes one part of a chunk.
    pub(super) fn add(&mut self, raw: &RawValue) -> Result<Vec<Delta>, ModelError> {
        let fields: Fields = read("a part", raw.get())?;
        let data = fields.names().find(|name| !is_about_a_part(name));
        let Some(data) = data.map(str::to_owned) else {
            return Ok(self.text(raw, &fields));
        };
        if data == "text" {
            return Ok(self.text(raw, &fields));
        }
        self.open = None;
        if data == "functionCall" {
            return Ok(self.call(raw, fields));
        }
        let (content, done) = provider_content(&data, &fields);
        let mut part = Part::from(content);
        if let Content::Other { .. } = part.content {
            part.extra = fields.into_extra();
        }
        let number = self.push(Built::Whole(part.with_provider_item(&self.asked.provider, raw.get())));
        Ok(done.map(|name| Delta::of(number, DeltaKind::ProviderToolDone { name })).into_iter().collect())
    }

    /// Keeps a place for a part whose content comes with [`Self::finish`].
    pub(super) fn reserve(&mut self) -> usize {
        // It stands beside the text, not in it: the text may go on.
        self.push(Built::Later)
    }

    pub(super) fn has_calls(&self) -> bool {
        let is_call =
            |built: &Built| matches!(built, Built::Whole(part) if matches!(part.content, Content::ToolUse { .. }));
        self.built.iter().any(is_call)
    }

    /// The parts in their order. `later` is the content of the reserved place.
    pub(super) fn finish(self, mut later: Option<Part>) -> Vec<Part> {
        let Self { built, asked, .. } = self;
        let part = |built| match built {
            Built::Text(run) => Some(run.part(&asked.provider)),
            Built::Whole(part) => Some(part),
            Built::Later => later.take(),
        };
        built.into_iter().filter_map(part).collect()
    }

    fn text(&mut self, raw: &RawValue, fields: &Fields) -> Vec<Delta> {
        let thought = fields.decode("thought").unwrap_or(false);
        let text: String = fields.decode("text").unwrap_or_default();
        let signed = fields.get("thoughtSignature").is_some();
        if text.is_empty() && !signed {
            return Vec::new();
        }
        let escaped = fields.get("text").map(inside_quotes).unwrap_or_default();
        let mut around = fields.clone();
        if around.get("text").is_some() {
            around.set("text", "");
        }
        // A signature is beside the text, too, so a signed piece fits no open text.
        let fits = |number: &usize| matches!(&self.built[*number], Built::Text(run) if run.around == around);
        let number = match self.open.filter(fits) {
            Some(number) => {
                if let Built::Text(run) = &mut self.built[number] {
                    run.text.push_str(&text);
                    run.escaped.push_str(escaped);
                    run.single = None;
                }
                number
            }
            None => {
                let single = Some(raw.get().to_owned());
                let run = TextRun { thought, text: text.clone(), around, single, escaped: escaped.to_owned() };
                let number = self.push(Built::Text(run));
                self.open = (!signed).then(|| self.built.len() - 1);
                number
            }
        };
        let kind = if thought { DeltaKind::Thinking } else { DeltaKind::Text };
        if text.is_empty() { Vec::new() } else { vec![Delta::of(number, kind(text))] }
    }

    fn call(&mut self, raw: &RawValue, fields: Fields) -> Vec<Delta> {
        let call: Fields = fields.decode("functionCall").unwrap_or_default();
        let arguments = call.get("args").unwrap_or("{}");
        let Some(name) = call.text("name") else {
            self.malformed = true;
            let mut part = Part::from(Content::Other { kind: "functionCall".to_owned() });
            part.extra = fields.into_extra();
            self.push(Built::Whole(part.with_provider_item(&self.asked.provider, raw.get())));
            return Vec::new();
        };
        if self.asked.is_answer(&name) {
            // The arguments are the answer. The call is not replayed: it would need a result.
            let number = self.push(Built::Whole(Part::text(arguments)));
            return vec![Delta::of(number, DeltaKind::Text(arguments.to_owned()))];
        }
        let input = CanonicalJson::parse(arguments).unwrap_or_else(|_| {
            // A number that is out of range. The text stays readable, and the call does not run.
            self.malformed = true;
            CanonicalJson::of(arguments).unwrap_or_else(|_| CanonicalJson::null())
        });
        let id = call.decode("id").unwrap_or_else(|| format!("call_{}", self.calls));
        self.calls += 1;
        let name = self.asked.names.ours(&name);
        let part =
            Part::tool_use(CallId::new(id), name.clone(), input).with_provider_item(&self.asked.provider, raw.get());
        let number = self.push(Built::Whole(part));
        vec![
            Delta::of(number, DeltaKind::CallStarted { name }),
            Delta::of(number, DeltaKind::CallArguments(arguments.to_owned())),
            Delta::of(number, DeltaKind::CallDone),
        ]
    }

    fn push(&mut self, built: Built) -> usize {
        self.built.push(built);
        self.built.len() - 1
    }
}

/// Fields that say something about a part, whatever data it has.
fn is_about_a_part(name: &str) -> bool {
    matches!(
        name,
        "thought" | "thoughtSignature" | "partMetadata" | "videoMetadata" | "mediaResolution" | "speechMetadata"
    )
}

impl TextRun {
    fn part(self, provider: &str) -> Part {
        let item = self.item();
        let Self { thought, text, around, .. } = self;
        let content = if thought || text.is_empty() {
            Content::Thinking { text, signature: around.text("thoughtSignature"), redacted: None }
        } else {
            Content::Text { text }
        };
        Part::from(content).with_provider_item(provider, item)
    }

    /// The text as one part in Gemini's form.
    fn item(&self) -> String {
        if let Some(single) = &self.single {
            return single.clone();
        }
        let mut fields = self.around.clone();
        fields.set("text", format!("\"{}\"", self.escaped));
        fields.to_string()
    }
}

/// The content of a part that is neither text nor a call, and the tool that it says is done.
fn provider_content(data: &str, fields: &Fields) -> (Content, Option<String>) {
    let other = || Content::Other { kind: data.to_owned() };
    let whole = || fields.canonical(data);
    let inner: Fields = fields.decode(data).unwrap_or_default();
    let tool = || inner.text("toolType").unwrap_or_else(|| "server_tool".to_owned()).to_lowercase();
    match data {
        "executableCode" => {
            (Content::ProviderTool { name: "code_execution".to_owned(), input: whole(), output: None }, None)
        }
        "codeExecutionResult" => {
            let name = "code_execution".to_owned();
            (Content::ProviderTool { name: name.clone(), input: None, output: whole() }, Some(name))
        }
        "toolCall" => (Content::ProviderTool { name: tool(), input: inner.canonical("args"), output: None }, None),
        "toolResponse" => {
            (Content::ProviderTool { name: tool(), input: None, output: inner.canonical("response") }, Some(tool()))
        }
        "inlineData" => match (inner.text("mimeType").and_then(image_format), inner.decode("data")) {
            (Some(format), Some(data)) => (Content::Image { format, source: ImageSource::Bytes(data) }, None),
            _ => (other(), None),
        },
        _ => (other(), None),
    }
}

fn image_format(mime_type: String) -> Option<ImageFormat> {
    Some(match mime_type.as_str() {
        "image/png" => ImageFormat::Png,
        "image/jpeg" => ImageFormat::Jpeg,
        "image/gif" => ImageFormat::Gif,
        "image/webp" => ImageFormat::Webp,
        _ => return None,
    })
}

fn inside_quotes(string: &str) -> &str {
    string.strip_prefix('"').and_then(|string| string.strip_suffix('"')).unwrap_or_default()
}
