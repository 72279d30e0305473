//! Every way a worker executes tools: its own, and those that it reaches over a protocol.

use std::{
    collections::BTreeMap,
    hash::{BuildHasher, RandomState},
    path::PathBuf,
    sync::Arc,
    time::Duration,
};

use reqwest::Url;
use secrecy::{ExposeSecret, SecretString};
use tokio_util::sync::CancellationToken;
use windlass_core::{
    agent::{
        A2aSource, AgentDefinition, HttpAccess, McpServer, McpSource, ResolvedToolset, ToolSource, ToolSpec, Toolset,
    },
    canonical::CanonicalJson,
    envelope::ToolErrorKind,
    ids::ToolName,
    secret::{SecretText, TextPiece},
};

use crate::{
    A2aClients, A2aPeers, CallContext, Egress, EgressError, EgressRules, HttpTools, McpEndpoint, McpInspection,
    McpServers, SecretSource, ToolFailure, ToolRegistry, ToolReply, openapi,
};

/// How long a server may take to list its tools, unless its toolset says otherwise. A run waits for it when it opens.
const LIST_TIMEOUT: Duration = Duration::from_secs(20);
/// `open` is one activity; a server must not keep it longer.
const MAX_LIST_TIMEOUT: Duration = Duration::from_secs(45);

/// An MCP server of the worker's config.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum McpServerConfig {
    /// A process on the worker's machine: the program and its arguments.
    Command {
        command: Vec<String>,
        env: BTreeMap<String, SecretText>,
        cwd: Option<PathBuf>,
    },
    Http {
        url: String,
        access: HttpAccess,
    },
}

/// The tools of a worker, by what a definition says they are.
#[derive(Clone)]
pub struct Toolbox {
    builtins: ToolRegistry,
    /// Tools of the config, by name.
    configured: Arc<BTreeMap<ToolName, ToolSpec>>,
    egress: Egress,
    http: HttpTools,
    mcp: McpServers,
    /// The servers that definitions may name.
    servers: Arc<BTreeMap<String, McpServerConfig>>,
    a2a: A2aPeers,
    /// Tells connections with different credentials apart, without keeping these.
    hasher: RandomState,
}

impl Toolbox {
    pub fn new(builtins: ToolRegistry, egress: Egress, servers: BTreeMap<String, McpServerConfig>) -> Self {
        Self {
            builtins,
            configured: Arc::default(),
            http: HttpTools::new(egress.clone()),
            egress,
            mcp: McpServers::default(),
            servers: Arc::new(servers),
            a2a: A2aPeers::default(),
            hasher: RandomState::new(),
        }
    }

    /// The worker's own tools, and no server that definitions may name.
    pub fn of(builtins: ToolRegistry) -> Result<Self, EgressError> {
        Ok(Self::new(builtins, Egress::new(EgressRules::default())?, BTreeMap::new()))
    }

    /// With tools of the config. A built-in tool keeps its name.
    #[must_use]
    pub fn with_configured(mut self, tools: impl IntoIterator<Item = ToolSpec>) -> Self {
        self.configured = Arc::new(tools.into_iter().map(|tool| (tool.name.clone(), tool)).collect());
        self
    }

    /// The tools that definitions and requests may name: the worker's own, then those of the config.
    pub fn specs(&self) -> impl Iterator<Item = ToolSpec> + '_ {
        let configured = self.configured.values().filter(|tool| self.builtins.get(&tool.name).is_none());
        self.builtins.specs().chain(configured.cloned())
    }

    /// One of [`Self::specs`].
    pub fn spec(&self, name: &ToolName) -> Option<ToolSpec> {
        let own = self.builtins.get(name).map(|tool| tool.spec());
        own.or_else(|| self.configured.get(name).cloned())
    }

    /// With one more server that definitions may name: a program and its arguments.
    #[must_use]
    pub fn with_command(mut self, name: &str, command: Vec<String>) -> Self {
        let server = McpServerConfig::Command { command, env: BTreeMap::new(), cwd: None };
        Arc::make_mut(&mut self.servers).insert(name.to_owned(), server);
        self
    }

    /// The worker's own tools.
    pub fn builtins(&self) -> &ToolRegistry {
        &self.builtins
    }

    /// The way out of this worker.
    pub fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Executes one round of a call, by the run's own definition.
    pub async fn call(
        &self,
        definition: &AgentDefinition,
        spec: &ToolSpec,
        context: CallContext,
        args: CanonicalJson,
    ) -> Result<ToolReply, ToolFailure> {
        let name = &spec.name;
        // Boxed where a protocol is spoken: these futures are large, and the worker's own tools are called most.
        match &spec.source {
            ToolSource::Builtin => {
                let tool = self.builtins.get(name);
                let tool = tool.ok_or_else(|| unavailable(format!("this worker has no tool `{name}`")))?;
                tool.call(context, args).await.map(ToolReply::Done)
            }
            ToolSource::Http(http) => {
                Box::pin(self.http.call(http, spec.idempotent, &context, &args)).await.map(ToolReply::Done)
            }
            ToolSource::Mcp(source) => {
                let called = Box::pin(self.call_mcp(definition, source, &context, &args)).await;
                let repeatable = context.resumption.as_ref().is_some_and(|resumption| resumption.repeatable);
                let harmless = spec.idempotent || repeatable;
                called.map_err(|failure| if harmless { failure } else { may_have_happened(failure) })
            }
            ToolSource::A2a(source) => Box::pin(self.call_a2a(source, &context, &args)).await,
            ToolSource::Other(fields) => {
                let kind = fields.kind();
                Err(unavailable(format!(
                    "this worker's build does not know tools of kind `{kind}`; upgrade the worker"
                )))
            }
            // The workflow executes these: as child runs, awaits, or on other task queues.
            ToolSource::Agent { .. }
            | ToolSource::Client { .. }
            | ToolSource::External { .. }
            | ToolSource::Temporal(_) => {
                Err(unavailable(format!("the run's agent has no tool `{name}` that a worker executes")))
            }
        }
    }

    async fn call_mcp(
        &self,
        definition: &AgentDefinition,
        source: &McpSource,
        context: &CallContext,
        args: &CanonicalJson,
    ) -> Result<ToolReply, ToolFailure> {
        let toolset = definition.toolsets.iter().find(|toolset| toolset.name == source.toolset);
        let toolset =
            toolset.ok_or_else(|| unavailable(format!("the run's agent has no toolset `{}`", source.toolset)))?;
        if let Some(error) = toolset.resolved.as_ref().and_then(|resolved| resolved.error.as_ref()) {
            return Err(unavailable(format!("the server could not be reached when the run opened: {error}")));
        }
        let server = toolset.mcp.as_ref();
        let server = server.ok_or_else(|| unavailable(format!("toolset `{}` has no MCP server", toolset.name)))?;
        let (key, endpoint) = self.endpoint(server, &*context.secrets).await?;
        self.mcp.call(&key, endpoint, &source.tool, context, args).await
    }

    async fn call_a2a(
        &self,
        source: &A2aSource,
        context: &CallContext,
        args: &CanonicalJson,
    ) -> Result<ToolReply, ToolFailure> {
        let private = source.access.allow_private;
        let headers = self.egress.headers(&source.access, &*context.secrets).await?;
        let check = |url: &Url| self.egress.check(url, private);
        // One conversation at the peer for each of ours.
        let conversation = context.session_id.as_ref().map(|session| session.as_str());
        let clients = A2aClients { http: self.egress.client(private), http2: self.egress.http2_client(private) };
        self.a2a.call(source, clients, &headers, &check, conversation, context, args).await
    }

    /// The tools that a toolset's server describes now.
    pub async fn resolve(
        &self,
        toolset: &Toolset,
        secrets: &dyn SecretSource,
    ) -> Result<(Vec<ToolSpec>, ResolvedToolset), ToolFailure> {
        let timeout = toolset.timeout_ms.map_or(LIST_TIMEOUT, |timeout| timeout.as_duration()).min(MAX_LIST_TIMEOUT);
        let listed = async {
            match (&toolset.mcp, &toolset.openapi) {
                (Some(server), _) => {
                    let (key, endpoint) = self.endpoint(server, secrets).await?;
                    self.mcp.tools(&key, endpoint, toolset, timeout).await
                }
                (None, Some(_)) => openapi::resolve(&self.egress, toolset, secrets, &CancellationToken::new()).await,
                (None, None) => Err(unavailable("the toolset has neither mcp nor openapi".to_owned())),
            }
        };
        let late = |_| ToolFailure::new(ToolErrorKind::Timeout, format!("no list within {} s", timeout.as_secs()));
        tokio::time::timeout(timeout, listed).await.map_err(late)?
    }

    /// What a server offers, for people.
    pub async fn inspect(
        &self,
        server: &McpServer,
        secrets: &dyn SecretSource,
        timeout: Duration,
    ) -> Result<McpInspection, ToolFailure> {
        let (key, endpoint) = self.endpoint(server, secrets).await?;
        self.mcp.inspect(&key, endpoint, timeout).await
    }

    /// Ends the processes of MCP servers.
    pub async fn shutdown(&self) {
        self.mcp.shutdown().await;
    }

    /// How a server is reached, with its secrets read, and the key of its connection.
    async fn endpoint(
        &self,
        server: &McpServer,
        secrets: &dyn SecretSource,
    ) -> Result<(String, McpEndpoint), ToolFailure> {
        let (url, access) = match (&server.server, &server.url) {
            (Some(name), _) => match self.servers.get(name) {
                Some(McpServerConfig::Command { command, env, cwd }) => {
                    return self.process(name, command, env, cwd.as_ref(), secrets).await;
                }
                Some(McpServerConfig::Http { url, access }) => (url, access),
                None => {
                    let known: Vec<&str> = self.servers.keys().map(String::as_str).collect();
                    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                    let message = format!(
                        "this worker's config has no MCP server `{name}`; it has: {known}. Add [mcp.{name}] to windlass.toml"
                    );
                    return Err(unavailable(message));
                }
            },
            (None, Some(url)) => (url, &server.access),
            (None, None) => return Err(unavailable("the toolset names no server".to_owned())),
        };
        let address = Url::parse(url).map_err(|_| unavailable("the server's address is not a URL".to_owned()))?;
        self.egress.check(&address, access.allow_private)?;
        let headers = self.egress.mcp_headers(&address, access, secrets).await?;
        let credentials: Vec<(&str, &[u8])> =
            headers.iter().map(|(name, value)| (name.as_str(), value.as_bytes())).collect();
        let key = format!("{url} {:x}", self.hasher.hash_one((credentials, access.allow_private)));
        let client = self.egress.client(access.allow_private).clone();
        Ok((key, McpEndpoint::Http { url: address, client, headers }))
    }

    async fn process(
        &self,
        name: &str,
        command: &[String],
        env: &BTreeMap<String, SecretText>,
        cwd: Option<&PathBuf>,
        secrets: &dyn SecretSource,
    ) -> Result<(String, McpEndpoint), ToolFailure> {
        let Some((program, args)) = command.split_first() else {
            return Err(unavailable(format!("MCP server `{name}` has no command")));
        };
        let mut variables = BTreeMap::new();
        for (variable, text) in env {
            variables.insert(variable.clone(), read_text(text, secrets).await?);
        }
        let values: Vec<(&String, &str)> =
            variables.iter().map(|(variable, value)| (variable, value.expose_secret())).collect();
        let key = format!("{name} {:x}", self.hasher.hash_one(values));
        let endpoint =
            McpEndpoint::Command { program: program.clone(), args: args.to_vec(), env: variables, cwd: cwd.cloned() };
        Ok((key, endpoint))
    }
}

/// A call that got no answer in time may have taken effect.
fn may_have_happened(failure: ToolFailure) -> ToolFailure {
    if failure.error.kind != ToolErrorKind::Timeout {
        return failure;
    }
    let message = format!("outcome unknown: {}; the call may have taken effect", failure.error.message);
    ToolFailure::new(ToolErrorKind::OutcomeUnknown, message)
}

fn unavailable(message: String) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::ToolUnavailable, message)
}

async fn read_text(text: &SecretText, secrets: &dyn SecretSource) -> Result<SecretString, ToolFailure> {
    let mut read = String::new();
    for piece in text.pieces() {
        match piece {
            TextPiece::Text(text) => read.push_str(text),
            TextPiece::Secret(reference) => read.push_str(secrets.secret(&reference).await?.expose_secret()),
        }
    }
    Ok(SecretString::from(read))
}
