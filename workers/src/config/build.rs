//! From files to the effective configuration.

use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    time::Duration,
};

use serde::Deserialize;
use serde_json::{Map, Value};
use windlass_core::{
    agent::{HttpAccess, Problem, ToolSpec},
    approval::ApprovalRule,
    file::FileError,
    secret::{SecretRef, SecretText},
    time::friendly,
};
use windlass_models::{
    ModelSpec,
    limits::{BreakerOptions, Limits},
};

use windlass_tools::McpServerConfig;

use super::{
    Api, CommandDefaults, Config, HeaderText, Provider, SILENCE,
    check::check,
    layer::Layer,
    merge::{Merged, Setting},
};

/// The layers below the file, with the names they have in errors.
const BUILT_IN: [(&str, &str); 2] = [
    ("the built-in providers", include_str!("providers.toml")),
    ("the table of known models", include_str!("known_models.toml")),
];

pub(super) fn config(file: Option<(&Path, &str)>) -> Result<Config, FileError> {
    let mut merged = Merged::default();
    for (name, text) in BUILT_IN {
        merged = merged.under(&Layer::parse(name, text)?, None);
    }
    let (path, text) = file.unzip();
    let name = path.map(|path| path.display().to_string()).unwrap_or_default();
    let layer = Layer::parse(&name, text.unwrap_or_default())?;
    merged = merged.under(&layer, path);

    let document = merged.document();
    let problems = check(&document);
    if !problems.is_empty() {
        return Err(layer.refuse(problems));
    }
    // The table of keys and the checks admit nothing that the types do not.
    let document: Document = serde_json::from_value(document)
        .map_err(|error| layer.refuse(vec![Problem { path: String::new(), message: error.to_string() }]))?;
    let directory = path.and_then(Path::parent).unwrap_or_else(|| Path::new(""));
    let Document { providers, models, defaults, server, temporal, store, agents, mcp, tools, approvals, egress } =
        document;
    let mut config = Config {
        file: path.map(Path::to_owned),
        providers: providers.into_iter().filter_map(|(name, raw)| Some((name, raw.provider()?))).collect(),
        default_model: defaults.model,
        defaults: CommandDefaults {
            listen: server.listen,
            temporal: temporal.address,
            namespace: temporal.namespace,
            task_queue: temporal.task_queue,
            data_dir: store.data_dir.map(|path| directory.join(path)),
            agents: agents.paths.into_iter().map(|path| directory.join(path)).collect(),
        },
        mcp: mcp.into_iter().map(|(name, raw)| (name, raw.server(directory))).collect(),
        tools: tools.into_iter().filter_map(|(name, fields)| tool(&name, fields)).collect(),
        public_url: server.public_url,
        public_cards: server.public_cards,
        approvals,
        egress: egress.allow,
        mentioned: mentioned(&layer),
        ..Config::default()
    };
    for (id, model) in models {
        match model.model {
            Some(target) => drop(config.aliases.insert(id, target)),
            None => drop(config.models.insert(id, model.spec)),
        }
    }
    let values = merged.0.into_iter().filter(|(_, setting)| !setting.value.is_object());
    config.settings = values.map(|(pointer, setting)| shown(&pointer, setting)).collect();
    Ok(config)
}

/// A tool under its name. `None` if it is none, which the checks have refused.
fn tool(name: &str, mut fields: Map<String, Value>) -> Option<ToolSpec> {
    fields.insert("name".to_owned(), name.into());
    serde_json::from_value(Value::Object(fields)).ok()
}

/// A setting as a file writes it.
fn shown(pointer: &str, mut setting: Setting) -> Setting {
    if let (true, Some(millis)) = (pointer.ends_with("Ms"), setting.value.as_u64()) {
        setting.value = friendly::print(Duration::from_millis(millis)).into();
    }
    setting
}

/// The providers that a layer says something about.
fn mentioned(layer: &Layer<'_>) -> BTreeSet<String> {
    let of = |pointer: &String| {
        let mut keys = pointer.split('/').skip(1);
        match (keys.next()?, keys.next()?) {
            ("providers", name) => Some(name.to_owned()),
            ("models", id) => id.split_once(':').map(|(name, _)| name.to_owned()),
            _ => None,
        }
    };
    let targets = layer.values.iter().filter(|(pointer, _)| pointer.ends_with("/model"));
    let targets = targets.filter_map(|(_, leaf)| leaf.value.as_str()?.split_once(':').map(|(name, _)| name.to_owned()));
    layer.values.keys().filter_map(of).chain(targets).collect()
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Document {
    providers: BTreeMap<String, RawProvider>,
    models: BTreeMap<String, RawModel>,
    defaults: Defaults,
    server: Server,
    temporal: Temporal,
    store: Store,
    agents: Agents,
    mcp: BTreeMap<String, RawMcp>,
    tools: BTreeMap<String, Map<String, Value>>,
    approvals: Vec<ApprovalRule>,
    egress: Egress,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawProvider {
    api: Option<Api>,
    base_url: Option<String>,
    key: Option<String>,
    key_required: Option<bool>,
    key_header: Option<String>,
    headers: BTreeMap<String, String>,
    query: BTreeMap<String, String>,
    silence_timeout_ms: Option<u64>,
    max_concurrent: Option<u32>,
    requests_per_minute: Option<u32>,
    tokens_per_minute: Option<u32>,
}

impl RawProvider {
    /// `None` if a required field is absent, which the checks have refused.
    fn provider(self) -> Option<Provider> {
        let header = |text: String| match SecretRef::parse(&text) {
            Some(SecretRef::Env(name)) => HeaderText::Env(name),
            _ => HeaderText::Literal(text),
        };
        Some(Provider {
            api: self.api?,
            base_url: self.base_url?.trim_end_matches('/').to_owned(),
            key: self.key.as_deref().and_then(SecretRef::parse),
            key_required: self.key_required.unwrap_or(true),
            key_header: self.key_header,
            headers: self.headers.into_iter().map(|(name, text)| (name, header(text))).collect(),
            query: self.query,
            silence: self.silence_timeout_ms.map_or(SILENCE, Duration::from_millis),
            limits: Limits {
                max_concurrent: self.max_concurrent,
                requests_per_minute: self.requests_per_minute,
                tokens_per_minute: self.tokens_per_minute,
                breaker: Some(BreakerOptions::default()),
            },
        })
    }
}

#[derive(Debug, Deserialize)]
struct RawModel {
    model: Option<String>,
    #[serde(flatten)]
    spec: ModelSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Defaults {
    model: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Server {
    listen: Option<String>,
    public_url: Option<String>,
    public_cards: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Temporal {
    address: Option<String>,
    namespace: Option<String>,
    task_queue: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Store {
    data_dir: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Agents {
    paths: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct RawMcp {
    command: Vec<String>,
    env: BTreeMap<String, SecretText>,
    cwd: Option<String>,
    url: Option<String>,
    #[serde(flatten)]
    access: HttpAccess,
}

impl RawMcp {
    fn server(self, directory: &Path) -> McpServerConfig {
        match self.url {
            Some(url) => McpServerConfig::Http { url, access: self.access },
            None => McpServerConfig::Command {
                command: self.command,
                env: self.env,
                cwd: self.cwd.map(|cwd| directory.join(cwd)),
            },
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Egress {
    allow: Vec<String>,
}
