//! The cassettes: what a model is asked, the bytes that the vendor answers, and the cases that a format cannot have.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};

use secrecy::SecretString;
use serde::Deserialize;
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::{ModelParameters, OutputSchema},
    ids::ToolName,
    message::Message,
};
use windlass_models::{ModelRequest, ModelSpec, ToolChoice, ToolDeclaration};

use super::formats::Format;

/// What every format has a cassette for, or a reason why it cannot have one.
pub(super) const CASES: [&str; 21] = [
    "stream",
    "tool_call",
    "parallel_calls",
    "interleaved_thinking",
    "redacted_thinking",
    "structured_output",
    "refusal",
    "content_filter",
    "truncation",
    "provider_tool",
    "image_input",
    "cached_usage",
    "rate_limit",
    "overloaded",
    "server_error",
    "stream_error",
    "cut_stream",
    "malformed_json",
    "unknown_event",
    "pause_turn",
    "context_window",
];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cassette {
    pub(super) case: String,
    #[expect(dead_code, reason = "one sentence for readers of the file")]
    about: String,
    #[serde(default)]
    request: Asked,
    pub(super) response: Answered,
    #[expect(dead_code, reason = "the unit tests of the adapters compare with it")]
    expect: Value,
}

/// The defaults are a short question without tools.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Asked {
    model: Option<String>,
    system: String,
    messages: Vec<Message>,
    tools: Vec<AskedTool>,
    no_tool_calls: bool,
    parameters: ModelParameters,
    reasoning_level: Option<u8>,
    output_schema: Option<OutputSchema>,
    spec: ModelSpec,
}

impl Default for Asked {
    fn default() -> Self {
        Self {
            model: None,
            system: "Be brief.".to_owned(),
            messages: vec![Message::user("Hello.")],
            tools: Vec::new(),
            no_tool_calls: false,
            parameters: ModelParameters::default(),
            reasoning_level: None,
            output_schema: None,
            spec: ModelSpec::default(),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct AskedTool {
    name: ToolName,
    #[serde(default)]
    description: String,
    input_schema: Value,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Answered {
    pub(super) status: u16,
    #[serde(default)]
    pub(crate) headers: BTreeMap<String, String>,
    /// The body as the vendor writes it.
    pub(super) chunks: Vec<String>,
    pub(super) end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum End {
    /// The body is complete.
    Close,
    /// The connection breaks in the middle of the body.
    Cut,
}

/// The cassettes of a format, and its absent cases with their reasons.
pub(super) struct Shelf {
    pub(super) format: Format,
    pub(super) cassettes: Vec<Cassette>,
    pub(super) absent: BTreeMap<String, String>,
}

impl Shelf {
    pub(super) fn of(format: Format) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cassettes").join(format.name());
        let entries = fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
        files.retain(|path| path.extension().is_some_and(|end| end == "json") && !path.ends_with("absent.json"));
        files.sort();
        let absent = folder.join("absent.json");
        let absent = if absent.is_file() { read(&absent) } else { BTreeMap::new() };
        Self { format, cassettes: files.iter().map(|path| Cassette::load(path)).collect(), absent }
    }

    pub(super) fn all() -> Vec<Self> {
        Format::ALL.map(Self::of).into()
    }
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> T {
    let text = fs::read_to_string(path).unwrap();
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

impl Answered {
    /// What the vendor answers in a case.
    pub(crate) fn of(format: Format, case: &str) -> Self {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("cassettes").join(format.name());
        Cassette::load(&folder.join(format!("{case}.json"))).response
    }
}

impl Cassette {
    fn load(path: &Path) -> Self {
        let cassette: Self = read(path);
        assert_eq!(path.file_stem().unwrap().to_str(), Some(cassette.case.as_str()), "a file is named after its case");
        cassette
    }

    /// What our adapter is asked.
    pub(super) fn request(&self, format: Format) -> ModelRequest {
        let asked = &self.request;
        let tool = |tool: &AskedTool| ToolDeclaration {
            name: tool.name.clone(),
            description: tool.description.clone(),
            input_schema: tool.input_schema.clone(),
        };
        ModelRequest {
            run_id: "run-1".into(),
            call_index: 0,
            attempt: 1,
            provider: format.provider().to_owned(),
            model: asked.model.clone().unwrap_or_else(|| format.model().to_owned()),
            spec: Arc::new(asked.spec.clone()),
            system: asked.system.clone(),
            messages: Arc::new(asked.messages.clone()),
            tools: asked.tools.iter().map(tool).collect(),
            tool_choice: if asked.no_tool_calls { ToolChoice::None } else { ToolChoice::Auto },
            reasoning_level: asked.reasoning_level,
            output_schema: asked.output_schema.clone(),
            parameters: asked.parameters.clone(),
            credentials: Some(SecretString::from("none")),
            deadline: None,
            cancel: CancellationToken::new(),
        }
    }
}
