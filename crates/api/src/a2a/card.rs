//! Agent cards: what an agent is, where it is reached, and how callers authenticate.

use std::collections::HashMap;

use a2a::{
    AgentCapabilities, AgentCard, AgentInterface, AgentSkill, HttpAuthSecurityScheme, SecurityScheme,
    TRANSPORT_PROTOCOL_GRPC, TRANSPORT_PROTOCOL_HTTP_JSON, TRANSPORT_PROTOCOL_JSONRPC,
};
use http::{HeaderMap, Uri, header, uri::Authority};
use windlass_core::{agent::AgentDefinition, canonical::Digest, ids::WorkspaceId};

use super::{error::Result, tenant, v03};
use crate::{app::App, error::ApiError, routes::PREFIX};

/// The path of a card below its agent, and of the card of a server with one agent.
pub(crate) const WELL_KNOWN: &str = "/.well-known/agent-card.json";

/// What agents take and return.
const TEXT: &str = "text/plain";
const JSON: &str = "application/json";
const INPUT_MODES: [&str; 10] = [
    TEXT,
    JSON,
    "text/markdown",
    "text/html",
    "text/csv",
    "application/pdf",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
];

/// The name of the security scheme.
pub(super) const SCHEME: &str = "key";

/// The address of this server as its clients know it, without a slash at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Base(String);

impl Base {
    /// The configured address, else that of the request. `X-Forwarded-*` could be anyone's, so it is not read.
    pub(crate) fn of(app: &App, headers: &HeaderMap) -> Result<Self> {
        if let Some(url) = &app.public_url {
            return Ok(Self::configured(url));
        }
        let host = headers.get(header::HOST).and_then(|host| host.to_str().ok()?.parse::<Authority>().ok());
        let host = host.ok_or_else(|| ApiError::invalid("Host: is required, the name or address of this server"))?;
        Ok(Self(format!("http://{host}")))
    }

    fn configured(url: &Uri) -> Self {
        Self(url.to_string().trim_end_matches('/').to_owned())
    }

    /// Where gRPC is reached, whose paths begin at the origin. The library writes an address without TLS as `host:port`.
    fn origin(&self) -> String {
        let Self(base) = self;
        let after_scheme = base.find("://").map_or(0, |at| at + 3);
        let end = base[after_scheme..].find('/').map_or(base.len(), |at| after_scheme + at);
        base[..end].to_owned()
    }

    /// Where an agent of a workspace is reached.
    pub(super) fn agent(&self, workspace: &WorkspaceId, agent: &AgentDefinition) -> String {
        let Self(base) = self;
        // An id may contain what separates the segments of a path.
        let id = agent.id.as_str().replace('/', "%2F");
        format!("{base}{}/a2a/{id}", PREFIX.replace("{slug}", workspace.as_str()))
    }
}

/// The card of an agent. `push` is whether there are push notifications. The card for authenticated callers is the same: it is only shown to them anyway.
pub(crate) fn card(agent: &AgentDefinition, base: &Base, workspace: &WorkspaceId, push: bool) -> AgentCard {
    let url = base.agent(workspace, agent);
    let name = agent.name.clone().unwrap_or_else(|| agent.id.to_string());
    // Both are required by the protocol.
    let description = Some(agent.description.clone()).filter(|text| !text.is_empty()).unwrap_or_else(|| name.clone());
    let output = if agent.output_schema.is_some() { vec![JSON, TEXT] } else { vec![TEXT] };
    let owned = |modes: &[&str]| modes.iter().map(|mode| (*mode).to_owned()).collect::<Vec<_>>();
    let scheme = HttpAuthSecurityScheme {
        scheme: "bearer".to_owned(),
        description: Some("an API key of the workspace".to_owned()),
        bearer_format: None,
    };
    AgentCard {
        name: name.clone(),
        description: description.clone(),
        // The digest changes with every change of the definition.
        version: Digest::of(agent).unwrap_or_default().short(),
        supported_interfaces: vec![
            AgentInterface::new(&url, TRANSPORT_PROTOCOL_JSONRPC),
            AgentInterface::new(format!("{url}/v1"), TRANSPORT_PROTOCOL_HTTP_JSON),
            AgentInterface {
                tenant: Some(tenant::of(workspace, agent)),
                ..AgentInterface::new(base.origin(), TRANSPORT_PROTOCOL_GRPC)
            },
            AgentInterface {
                protocol_version: v03::VERSION.to_owned(),
                ..AgentInterface::new(&url, TRANSPORT_PROTOCOL_JSONRPC)
            },
        ],
        capabilities: AgentCapabilities {
            streaming: Some(true),
            push_notifications: Some(push),
            extensions: None,
            extended_agent_card: Some(true),
        },
        default_input_modes: owned(&INPUT_MODES),
        default_output_modes: owned(&output),
        skills: vec![AgentSkill {
            id: agent.id.to_string(),
            name,
            description,
            tags: vec!["agent".to_owned()],
            examples: None,
            input_modes: None,
            output_modes: None,
            security_requirements: None,
        }],
        provider: None,
        documentation_url: None,
        icon_url: None,
        security_schemes: Some(HashMap::from([(SCHEME.to_owned(), SecurityScheme::HttpAuth(scheme))])),
        security_requirements: Some(vec![HashMap::from([(SCHEME.to_owned(), Vec::new())])]),
        signatures: None,
    }
}
