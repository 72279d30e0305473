//! `windlass.toml`: providers, models and settings.
//!
//! A value comes from the first of these that has it: an option of the command line, an environment variable,
//! `windlass.toml`, the built-in defaults. Options and variables are [`clap`]'s; this module has the rest.
//!
//! - `keys`: the table of keys; `schema`: the JSON Schema from it
//! - `layer`: one file, read against the table; the built-in defaults are files, too
//! - `merge`: layers over each other, value by value, each with its origin
//! - `check`, `build`: from values to a [`Config`], with errors that name the line
//! - `find`: where the file is; the only part that touches the disk

mod build;
mod check;
mod find;
mod keys;
mod layer;
mod merge;
mod schema;
pub mod starter;
#[cfg(test)]
mod tests;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    path::{Path, PathBuf},
    time::Duration,
};

use serde::Deserialize;
use windlass_core::{agent::ToolSpec, approval::ApprovalRule, file::FileError, secret::SecretRef};
use windlass_models::{ModelSpec, limits::Limits};
use windlass_tools::McpServerConfig;

pub use self::{
    find::{ConfigError, Source},
    merge::{Origin, Setting},
    schema::json_schema,
};

/// The date of the table of known models.
pub const KNOWN_MODELS_DATE: &str = "2026-11-18";

/// How long a provider may send nothing.
const SILENCE: Duration = Duration::from_secs(90);

/// The effective configuration, without options and variables of single commands.
#[derive(Debug, Clone, Default)]
pub struct Config {
    /// The file, if there is one.
    pub file: Option<PathBuf>,
    pub providers: BTreeMap<String, Provider>,
    /// What is known of models, by id.
    pub models: BTreeMap<String, ModelSpec>,
    /// Other names of models: `fast` stands for `anthropic:claude-haiku-5-5`.
    pub aliases: BTreeMap<String, String>,
    /// The model of requests that name none.
    pub default_model: Option<String>,
    pub defaults: CommandDefaults,
    /// MCP servers that agents may name.
    pub mcp: BTreeMap<String, McpServerConfig>,
    /// Tools that agents and requests may name.
    pub tools: Vec<ToolSpec>,
    /// The address that clients of the API use; cards of agents name it.
    pub public_url: Option<String>,
    /// Whether cards of agents can be read without a key.
    pub public_cards: bool,
    /// Approval rules for all agents.
    pub approvals: Vec<ApprovalRule>,
    /// Private networks and hosts that tools may reach.
    pub egress: Vec<String>,
    /// Every value and where it came from, in the order of their paths.
    pub settings: Vec<Setting>,
    /// The providers that the file mentions, in `[providers]` or in the id of a model.
    mentioned: BTreeSet<String>,
}

/// Defaults for options of commands. Paths are relative to the working directory, not to the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CommandDefaults {
    pub listen: Option<String>,
    pub temporal: Option<String>,
    pub namespace: Option<String>,
    pub task_queue: Option<String>,
    pub data_dir: Option<PathBuf>,
    pub agents: Vec<PathBuf>,
}

/// Where models are, and how they are called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provider {
    pub api: Api,
    /// Without a slash at the end.
    pub base_url: String,
    pub key: Option<SecretRef>,
    /// If not, a key whose variable is not set is left out.
    pub key_required: bool,
    pub key_header: Option<String>,
    pub headers: BTreeMap<String, HeaderText>,
    pub query: BTreeMap<String, String>,
    pub silence: Duration,
    pub limits: Limits,
}

/// The value of a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HeaderText {
    Literal(String),
    /// The variable that has it.
    Env(String),
}

/// A wire format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Api {
    Anthropic,
    #[serde(rename = "openai-responses")]
    OpenAiResponses,
    #[serde(rename = "openai-chat")]
    OpenAiChat,
    Gemini,
}

impl Api {
    pub fn as_str(self) -> &'static str {
        let [anthropic, responses, chat, gemini] = keys::APIS;
        match self {
            Self::Anthropic => anthropic,
            Self::OpenAiResponses => responses,
            Self::OpenAiChat => chat,
            Self::Gemini => gemini,
        }
    }
}

impl fmt::Display for Api {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Config {
    /// The built-in defaults, under the text of a file if there is one. Its path is in errors and in the origins of values,
    /// and relative paths in the file are relative to its directory.
    pub fn parse(file: Option<(&Path, &str)>) -> Result<Self, FileError> {
        build::config(file)
    }

    /// Reads the file that the source names, or finds it.
    pub fn load(source: &Source) -> Result<Self, ConfigError> {
        let Some(path) = source.find()? else { return Ok(Self::parse(None)?) };
        let text = find::read(&path)?;
        Ok(Self::parse(Some((&path, &text)))?)
    }

    /// Whether the file says something about this provider. A built-in provider can be used without it.
    pub fn mentions(&self, provider: &str) -> bool {
        self.mentioned.contains(provider)
    }

    /// The provider of a model, by an id or another name.
    pub fn provider_of(&self, model: &str) -> Option<(&str, &Provider)> {
        let id = self.aliases.get(model).map_or(model, String::as_str);
        let (name, _) = id.split_once(':')?;
        self.providers.get_key_value(name).map(|(name, provider)| (name.as_str(), provider))
    }
}

impl Provider {
    /// The variable that the key needs and that is not set.
    pub fn missing_variable(&self, is_set: impl Fn(&str) -> bool) -> Option<&str> {
        let key = match &self.key {
            Some(SecretRef::Env(name)) if self.key_required => Some(name.as_str()),
            _ => None,
        };
        let headers = self.headers.values().filter_map(|value| match value {
            HeaderText::Env(name) => Some(name.as_str()),
            HeaderText::Literal(_) => None,
        });
        key.into_iter().chain(headers).find(|name| !is_set(name))
    }
}

/// Whether a variable has a value. An empty one counts as absent: `KEY= windlass dev` is a way to unset it.
pub fn is_set(variable: &str) -> bool {
    std::env::var_os(variable).is_some_and(|value| !value.is_empty())
}
