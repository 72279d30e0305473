//! What the table of keys cannot say: names, URLs, headers, and values that need each other.

use std::net::SocketAddr;

use http::{HeaderName, HeaderValue};
use reqwest::Url;
use serde_json::{Map, Value, json};
use windlass_core::{
    agent::{AgentDefinition, Problem, check as check_definition, check_sources, nearest},
    approval::{ApprovalRule, check_rules},
    secret::SecretRef,
};
use windlass_models::script;
use windlass_tools::AllowedNetwork;

/// Names that a provider cannot have: scripts are built in, and the API's ids begin with the other two.
const RESERVED: [&str; 3] = [script::SCHEME, "platform", "provider"];
/// Headers that carry keys. A key is never written into a file.
const KEY_HEADERS: [&str; 5] = ["authorization", "x-api-key", "api-key", "x-goog-api-key", "proxy-authorization"];
/// Headers of the request itself.
const OWN_HEADERS: [&str; 5] = ["content-type", "content-length", "accept", "host", "transfer-encoding"];

/// Everything that is wrong with the effective values.
pub(super) fn check(document: &Value) -> Vec<Problem> {
    let mut checks = Checks { document, problems: Vec::new() };
    checks.providers();
    checks.models();
    checks.settings();
    checks.servers();
    checks.tools();
    checks.problems
}

struct Checks<'d> {
    document: &'d Value,
    problems: Vec<Problem>,
}

impl<'d> Checks<'d> {
    fn add(&mut self, path: String, message: impl Into<String>) {
        self.problems.push(Problem { path, message: message.into() });
    }

    fn section(&self, name: &str) -> impl Iterator<Item = (&'d String, &'d Map<String, Value>)> + use<'d> {
        let entries = self.document[name].as_object().into_iter().flatten();
        entries.filter_map(|(key, value)| Some((key, value.as_object()?)))
    }

    fn is_provider(&self, name: &str) -> bool {
        name == script::SCHEME || self.document["providers"].get(name).is_some()
    }

    fn providers(&mut self) {
        for (name, provider) in self.section("providers") {
            let at = format!("/providers/{}", escape(name));
            let simple = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '_');
            if name.is_empty() || name.len() > 64 || !name.chars().all(simple) {
                self.add(at.clone(), "the name of a provider has lower-case letters, digits, - and _");
            }
            if RESERVED.contains(&name.as_str()) {
                self.add(at.clone(), format!("{name:?} cannot be the name of a provider; choose another"));
            }
            if !provider.contains_key("api") {
                let known = super::keys::APIS.join("\", \"");
                self.add(at.clone(), format!("this is not a built-in provider, so it needs api: one of \"{known}\""));
            }
            match provider.get("baseUrl").and_then(Value::as_str) {
                None => self.add(
                    at.clone(),
                    "this is not a built-in provider, so it needs base_url, for example \"https://api.example.com/v1\"",
                ),
                Some(url) => {
                    if let Err(problem) = base_url(url) {
                        self.add(format!("{at}/baseUrl"), problem);
                    }
                }
            }
            self.key(provider, &at);
            self.headers(provider, &at);
            for limit in ["silenceTimeoutMs", "maxConcurrent", "requestsPerMinute", "tokensPerMinute"] {
                if provider.get(limit).and_then(Value::as_u64) == Some(0) {
                    self.add(format!("{at}/{limit}"), "this must be more than 0; leave it out for the default");
                }
            }
        }
    }

    /// Tools, by the rules for those of an agent.
    fn tools(&mut self) {
        for (name, fields) in self.section("tools") {
            let at = format!("/tools/{}", escape(name));
            let mut tool = fields.clone();
            tool.insert("name".to_owned(), name.as_str().into());
            let agent = json!({"id": "config", "model": "script:demo", "tools": [tool]});
            let mut problems = check_sources(&agent);
            match serde_json::from_value::<AgentDefinition>(agent) {
                Ok(definition) if problems.is_empty() => problems = check_definition(&definition),
                Ok(_) => {}
                Err(error) => self.add(at.clone(), error.to_string()),
            }
            for Problem { path, message } in problems {
                let below = path.strip_prefix("/tools/0").unwrap_or_default();
                // The name is the key.
                let below = below.strip_suffix("/name").unwrap_or(below);
                self.add(format!("{at}{below}"), message);
            }
        }
    }

    /// MCP servers and the networks that tools may reach.
    fn servers(&mut self) {
        for (name, server) in self.section("mcp") {
            let at = format!("/mcp/{}", escape(name));
            let command = server.get("command").and_then(Value::as_array);
            let url = server.get("url").and_then(Value::as_str);
            match (command, url) {
                (Some(command), None) if command.is_empty() => {
                    self.add(
                        format!("{at}/command"),
                        "write the program and its arguments: [\"program\", \"argument\"]",
                    );
                }
                (Some(_), None) => {
                    for field in
                        ["headers", "oauth", "allowPrivate"].iter().filter(|field| server.contains_key(**field))
                    {
                        self.add(format!("{at}/{field}"), "this is for servers with a url; remove it");
                    }
                }
                (None, Some(url)) => {
                    if let Err(problem) = base_url(url) {
                        self.add(format!("{at}/url"), problem);
                    }
                    for field in ["env", "cwd"].iter().filter(|field| server.contains_key(**field)) {
                        self.add(format!("{at}/{field}"), "this is for servers with a command; remove it");
                    }
                }
                _ => self.add(at.clone(), "a server has either command, for stdio, or url, for HTTP"),
            }
            if let Some(oauth) = server.get("oauth").and_then(Value::as_object) {
                for field in ["clientId", "clientSecret"].iter().filter(|field| !oauth.contains_key(**field)) {
                    self.add(format!("{at}/oauth"), format!("this needs {field}"));
                }
            }
        }
        let rules: Vec<ApprovalRule> = self
            .document
            .get("approvals")
            .cloned()
            .and_then(|rules| serde_json::from_value(rules).ok())
            .unwrap_or_default();
        self.problems.extend(check_rules(&rules, "/approvals"));
        for (index, entry) in self.document["egress"]["allow"].as_array().into_iter().flatten().enumerate() {
            let text = entry.as_str().unwrap_or_default();
            if let Err(problem) = text.parse::<AllowedNetwork>() {
                self.add(format!("/egress/allow/{index}"), problem.to_string());
            }
        }
    }

    fn key(&mut self, provider: &Map<String, Value>, at: &str) {
        let key = provider.get("key").and_then(Value::as_str).and_then(SecretRef::parse);
        let optional = provider.get("keyRequired") == Some(&Value::Bool(false));
        if optional && matches!(key, Some(SecretRef::Secret(_))) {
            let message = "a key that is not required must be in the environment: key = \"${env:NAME}\"";
            self.add(format!("{at}/keyRequired"), message);
        }
        if let Some(header) = provider.get("keyHeader").and_then(Value::as_str)
            && HeaderName::from_bytes(header.as_bytes()).is_err()
        {
            self.add(format!("{at}/keyHeader"), format!("{header:?} is not the name of an HTTP header"));
        }
    }

    fn headers(&mut self, provider: &Map<String, Value>, at: &str) {
        for (name, value) in provider.get("headers").and_then(Value::as_object).into_iter().flatten() {
            let at = format!("{at}/headers/{}", escape(name));
            let Ok(header) = HeaderName::from_bytes(name.as_bytes()) else {
                self.add(at, "this is not the name of an HTTP header");
                continue;
            };
            let text = value.as_str().unwrap_or_default();
            let reference = SecretRef::parse(text);
            if OWN_HEADERS.contains(&header.as_str()) {
                self.add(at, "this header is set by the request itself; remove it");
            } else if matches!(reference, Some(SecretRef::Secret(_))) || (reference.is_none() && text.starts_with("${"))
            {
                self.add(at, "a header is a text, or a variable of the environment: \"${env:NAME}\"");
            } else if reference.is_none() && KEY_HEADERS.contains(&header.as_str()) {
                // The text may be the key itself, so it is not repeated.
                self.add(
                    at,
                    "this header carries a key, so refer to a variable: \"${env:NAME}\"; or use key and key_header",
                );
            } else if HeaderValue::from_str(text).is_err() {
                self.add(at, "this text has characters that HTTP forbids in a header");
            }
        }
    }

    fn models(&mut self) {
        for (name, model) in self.section("models") {
            let at = format!("/models/{}", escape(name));
            match name.split_once(':') {
                Some((provider, vendor)) => self.model(model, &at, provider, vendor),
                None => self.alias(name, model, &at),
            }
        }
        if let Some(model) = self.document["defaults"]["model"].as_str()
            && let Err(message) = self.target(model)
            && !self.aliases().any(|alias| alias == model)
        {
            self.add("/defaults/model".to_owned(), message);
        }
    }

    fn model(&mut self, model: &Map<String, Value>, at: &str, provider: &str, vendor: &str) {
        if provider == script::SCHEME {
            self.add(at.to_owned(), "scripts have no limits and no prices; remove this section");
        } else if let Err(message) = self.target(&format!("{provider}:{vendor}")) {
            self.add(at.to_owned(), message);
        }
        if model.contains_key("model") {
            let message = "model is for other names; a section of a model id has the facts of that model";
            self.add(format!("{at}/model"), message);
        }
        for count in ["contextWindow", "maxOutputTokens"] {
            if model.get(count).and_then(Value::as_u64) == Some(0) {
                self.add(format!("{at}/{count}"), "this must be more than 0; leave it out if it is not known");
            }
        }
        if let Some(prices) = model.get("prices").and_then(Value::as_object)
            && let Some(missing) = ["input", "output"].into_iter().find(|price| !prices.contains_key(*price))
        {
            self.add(format!("{at}/prices"), format!("prices need {missing}, in US dollars for a million tokens"));
        }
    }

    fn alias(&mut self, name: &str, model: &Map<String, Value>, at: &str) {
        let simple = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.len() > 64 || !name.chars().all(simple) {
            self.add(at.to_owned(), "another name of a model has letters, digits, - _ and .");
        }
        let Some(target) = model.get("model").and_then(Value::as_str) else {
            let message = format!(
                "add model = \"provider:model\" to make {name:?} another name of that model; the facts of a model are \
                 under its id: [models.\"provider:model\"]"
            );
            return self.add(at.to_owned(), message);
        };
        if let Some(fact) = model.keys().find(|key| *key != "model") {
            let message = format!("another name has the facts of its model; move this to [models.{target:?}]");
            self.add(format!("{at}/{}", escape(fact)), message);
        }
        if self.aliases().any(|alias| alias == target) {
            let message = format!("{target:?} is another name, too; write the id of the model, as \"provider:model\"");
            self.add(format!("{at}/model"), message);
        } else if let Err(message) = self.target(target) {
            self.add(format!("{at}/model"), message);
        }
    }

    fn aliases(&self) -> impl Iterator<Item = &'d str> + use<'d> {
        self.section("models").map(|(name, _)| name.as_str()).filter(|name| !name.contains(':'))
    }

    /// Whether this is the id of a model of a known provider.
    fn target(&self, id: &str) -> Result<(), String> {
        let (provider, model) = id.split_once(':').unwrap_or((id, ""));
        if self.is_provider(provider) && !model.is_empty() {
            return Ok(());
        }
        if self.is_provider(provider) || !id.contains(':') {
            return Err(format!("{id:?} is not the id of a model; write it as \"provider:model\""));
        }
        let known: Vec<&str> = self.section("providers").map(|(name, _)| name.as_str()).collect();
        Err(match nearest(provider, known.iter().copied()) {
            Some(meant) => format!("there is no provider {provider:?}; did you mean {meant:?}?"),
            None => {
                format!("there is no provider {provider:?}; add [providers.{provider}], or use {}", known.join(", "))
            }
        })
    }

    fn settings(&mut self) {
        if let Some(listen) = self.document["server"]["listen"].as_str()
            && listen.parse::<SocketAddr>().is_err()
        {
            let message = format!("{listen:?} is not an address with a port; write it like \"127.0.0.1:8080\"");
            self.add("/server/listen".to_owned(), message);
        }
        if let Some(url) = self.document["server"]["publicUrl"].as_str()
            && let Err(problem) = base_url(url)
        {
            self.add("/server/publicUrl".to_owned(), problem);
        }
    }
}

fn base_url(text: &str) -> Result<(), &'static str> {
    let url = Url::parse(text).map_err(|_| "this is not a URL; write it like \"https://api.example.com/v1\"")?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err("this must begin with https:// or http:// and a host");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("a URL has no user and no password here; use key or headers");
    }
    if url.query().is_some() || url.fragment().is_some() {
        return Err("a query cannot be here; providers have the key query = { api-version = \"…\" }");
    }
    Ok(())
}

fn escape(key: &str) -> String {
    key.replace('~', "~0").replace('/', "~1")
}
