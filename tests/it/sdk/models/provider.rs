//! The providers, and the `windlass.toml` that has their addresses.

use std::{ffi::OsString, fs};

use serde_json::Value;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use crate::models::{Answered, CassetteServer, Format, Playlists};

/// A provider's key by the variable that the config names for it.
pub(super) const KEYS: &[(&str, &str)] =
    &[("ANTHROPIC_API_KEY", "key-a"), ("OPENAI_API_KEY", "key-o"), ("GEMINI_API_KEY", "key-g")];

/// A provider of the config.
struct Provider {
    /// Those with a name of the built-in table have its models and its keys.
    name: &'static str,
    format: Format,
    /// The cases that it answers with, one after the other.
    plays: &'static [&'static str],
    /// What the config says about its model.
    model: &'static str,
}

const fn provider(name: &'static str, format: Format, plays: &'static [&'static str], model: &'static str) -> Provider {
    Provider { name, format, plays, model }
}

const NATIVE: &str = "structured_output = \"native\"";
const BY_TOOL: &str = "structured_output = \"tool\"";
const EFFORT: &str = "reasoning = \"effort\"";

/// A turn that calls a tool after thinking, and one that answers, for as many runs as there are.
const CALL_AND_ANSWER: [&str; 40] = {
    let mut plays = ["stream"; 40];
    let mut n = 0;
    while n < plays.len() {
        plays[n] = "interleaved_thinking";
        n += 2;
    }
    plays
};

/// No two scenarios share one: what each is asked is compared, and a provider that fails is left alone for a while.
const PROVIDERS: &[Provider] = &[
    provider("files_anthropic", Format::Anthropic, &["stream"], ""),
    provider("files_openai", Format::OpenAiResponses, &["stream"], ""),
    provider("down", Format::Anthropic, &["overloaded"], ""),
    provider("up", Format::OpenAiResponses, &["stream"], ""),
    provider("broken", Format::OpenAiResponses, &["overloaded", "server_error", "overloaded"], ""),
    provider("spare", Format::Anthropic, &["stream"], ""),
    provider("spent", Format::OpenAiResponses, &["insufficient_quota"], ""),
    provider("cut_off", Format::Anthropic, &["stream_error"], ""),
    provider("idle", Format::Anthropic, &["stream"], ""),
    provider("anthropic", Format::Anthropic, &["redacted_thinking"], ""),
    provider("openai", Format::OpenAiResponses, &["open_reasoning"], ""),
    provider("gemini", Format::Gemini, &CALL_AND_ANSWER, ""),
    provider("chat", Format::OpenAiChat, &["reasoning_content"], EFFORT),
    provider("plain", Format::OpenAiChat, &["reasoning_content"], ""),
    provider("thinker", Format::Anthropic, &["interleaved_thinking", "stream"], EFFORT),
    provider("native_anthropic", Format::Anthropic, &["structured_output"], NATIVE),
    provider("native_openai", Format::OpenAiResponses, &["structured_output"], NATIVE),
    provider("loose_openai", Format::OpenAiResponses, &["structured_output_loose"], NATIVE),
    provider("by_tool", Format::Anthropic, &["structured_output_tool"], BY_TOOL),
    provider("instructed", Format::Anthropic, &["stream", "structured_output"], ""),
    provider("unrepaired", Format::Anthropic, &["stream"], ""),
    provider("freely", Format::Anthropic, &["stream"], ""),
    provider("rejecting", Format::OpenAiResponses, &["schema_rejected"], NATIVE),
    provider("named", Format::Anthropic, &["cached_usage"], ""),
];

/// Other names of models.
const NAMES: &str = "[models.fast]\nmodel = \"named:claude-sonnet-5-5\"\n";

impl Provider {
    fn config(&self, url: &str) -> String {
        let Self { name, format, model, .. } = self;
        let api = format.name().replace('_', "-");
        let place = format!("{url}/{}{}", self.place(), format.base_path());
        let mut text = format!("[providers.{name}]\napi = \"{api}\"\nbase_url = \"{place}\"\n");
        if !model.is_empty() {
            text.push_str(&format!("[models.\"{name}:{}\"]\n{model}\n", format.model()));
        }
        text
    }

    fn place(&self) -> String {
        format!("dev/{}/{}", self.format.name(), self.name)
    }

    fn answers(&self) -> Vec<Answered> {
        let soon = |case: &&str| {
            let mut answer = Answered::of(self.format, case);
            // Waiting as long as the vendor asks for tests nothing more.
            if *case == "overloaded" || *case == "server_error" {
                answer.headers.insert("retry-after-ms".to_owned(), "10".to_owned());
            }
            answer
        };
        self.plays.iter().map(soon).collect()
    }
}

/// All of them, on one server of this process.
pub(super) struct Providers {
    server: CassetteServer,
    folder: TempDir,
    _runtime: Runtime,
}

impl Providers {
    pub(super) fn start() -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let list = |one: &Provider| (format!("{}/{}", one.format.name(), one.name), one.answers());
        let lists: Playlists = PROVIDERS.iter().map(list).collect();
        let server = runtime.block_on(CassetteServer::playing(lists));
        let folder = TempDir::new().unwrap();
        let providers: String = PROVIDERS.iter().map(|one| one.config(&server.url)).collect();
        fs::write(folder.path().join("windlass.toml"), providers + NAMES).unwrap();
        Self { server, folder, _runtime: runtime }
    }

    /// The options of `windlass dev` that make it use them.
    pub(super) fn options(&self) -> Vec<OsString> {
        vec!["--port".into(), "0".into(), "--config".into(), self.folder.path().join("windlass.toml").into()]
    }

    /// What a provider was asked, with the key under `key`.
    pub(super) fn asked(&self, name: &str) -> Vec<Value> {
        let provider = PROVIDERS.iter().find(|one| one.name == name).unwrap();
        let body = |request: crate::models::Recorded| {
            let mut body: Value = serde_json::from_str(&request.body).unwrap();
            let key =
                ["x-api-key", "authorization", "x-goog-api-key"].iter().find_map(|name| request.headers.get(*name));
            body["key"] = key.cloned().into();
            body
        };
        self.server.requests(&provider.place()).into_iter().map(body).collect()
    }

    pub(super) fn all_asked(&self) -> usize {
        PROVIDERS.iter().map(|one| self.asked(one.name).len()).sum()
    }
}
