//! Agent cards: who the peer is, and which of its interfaces is used.

use reqwest::{
    Method, Url,
    header::{ACCEPT, HeaderValue},
};
use serde::{Deserialize, Serialize};

use super::{
    access::{Access, READ_TIMEOUT},
    failure::{self, Effect},
    peer::{Dialect, Endpoint, with_version},
    wire::null_is_default,
};
use crate::ToolFailure;

/// Longer addresses are not used: the one that is used is in the run's history.
const MAX_URL: usize = 4096;
const MAX_TENANT: usize = 256;
const WELL_KNOWN: &str = "/.well-known/agent-card.json";

/// What an agent says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentCardSummary {
    pub name: String,
    pub description: String,
    /// The agent's own version.
    pub version: String,
    pub skills: Vec<AgentSkill>,
    /// In the card's order of preference, with those that cannot be used from here.
    pub interfaces: Vec<AgentInterface>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentSkill {
    #[serde(default)]
    pub id: String,
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub description: String,
    #[serde(default, deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<String>,
}

/// An address of an agent, and what is spoken there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct AgentInterface {
    pub url: String,
    /// For example `JSONRPC`.
    pub binding: String,
    /// Of the protocol, for example `1.0`.
    pub protocol_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
}

/// What is kept of a card.
#[derive(Debug)]
pub(super) struct Card {
    pub(super) summary: AgentCardSummary,
    streaming: bool,
}

/// A card of 1.0, of 0.3, or of both.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CardJson {
    name: String,
    #[serde(default)]
    description: String,
    #[serde(default)]
    version: String,
    #[serde(default, deserialize_with = "null_is_default")]
    skills: Vec<AgentSkill>,
    #[serde(default, deserialize_with = "null_is_default")]
    capabilities: Capabilities,
    #[serde(default, deserialize_with = "null_is_default")]
    supported_interfaces: Vec<InterfaceJson>,
    /// This and the next three fields are of 0.3.
    #[serde(default)]
    url: Option<String>,
    #[serde(default)]
    preferred_transport: Option<String>,
    #[serde(default)]
    protocol_version: Option<String>,
    #[serde(default, deserialize_with = "null_is_default")]
    additional_interfaces: Vec<InterfaceJson>,
}

#[derive(Deserialize, Default)]
struct Capabilities {
    #[serde(default)]
    streaming: Option<bool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InterfaceJson {
    url: String,
    #[serde(default)]
    protocol_binding: Option<String>,
    #[serde(default)]
    protocol_version: Option<String>,
    #[serde(default)]
    tenant: Option<String>,
    /// The binding in 0.3.
    #[serde(default)]
    transport: Option<String>,
}

/// Where the card is: the address itself, or the well-known path of an address without a path.
pub(super) fn address(agent_card_url: &str) -> Result<Url, ToolFailure> {
    let mut url = Url::parse(agent_card_url)
        .ok()
        .filter(|url| matches!(url.scheme(), "http" | "https"))
        .ok_or_else(|| failure::failed("agentCardUrl is no http or https URL; correct it in the agent's definition"))?;
    if url.path() == "/" {
        url.set_path(WELL_KNOWN);
    }
    Ok(url)
}

pub(super) async fn fetch(access: Access<'_>) -> Result<Card, ToolFailure> {
    let request = access.request(Method::GET, access.card_url.clone())?;
    let read = async {
        // A peer of both versions has a card for each.
        let request = with_version(request).header(ACCEPT, HeaderValue::from_static("application/json"));
        let response = access.send(request, Effect::None).await?;
        access.json::<CardJson>(response, "agent card", Effect::None).await
    };
    let card = tokio::time::timeout(READ_TIMEOUT, read).await.map_err(|_| failure::timed_out(Effect::None))??;
    Ok(Card::from(card))
}

impl From<CardJson> for Card {
    fn from(card: CardJson) -> Self {
        let of_1_0 = card.supported_interfaces.into_iter().map(|interface| AgentInterface {
            url: interface.url,
            binding: interface.protocol_binding.unwrap_or_default(),
            protocol_version: interface.protocol_version.unwrap_or_default(),
            tenant: interface.tenant.filter(|tenant| !tenant.is_empty()),
        });
        let mut interfaces: Vec<_> = of_1_0.collect();
        let version = card.protocol_version.unwrap_or_else(|| "0.3".to_owned());
        let of_0_3 = |url, binding: Option<String>| AgentInterface {
            url,
            binding: binding.unwrap_or_else(|| "JSONRPC".to_owned()),
            protocol_version: version.clone(),
            tenant: None,
        };
        let additional = card.additional_interfaces.into_iter().map(|one| of_0_3(one.url, one.transport));
        let legacy = card.url.map(|url| of_0_3(url, card.preferred_transport)).into_iter().chain(additional);
        for interface in legacy {
            if !interfaces.contains(&interface) {
                interfaces.push(interface);
            }
        }
        let summary = AgentCardSummary {
            name: card.name,
            description: card.description,
            version: card.version,
            skills: card.skills,
            interfaces,
        };
        Self { summary, streaming: card.capabilities.streaming.unwrap_or_default() }
    }
}

impl Card {
    /// The first interface that this build speaks and that the tool's headers may be sent to.
    pub(super) fn endpoint(&self, access: Access<'_>, binding: Option<&str>) -> Result<Endpoint, ToolFailure> {
        let wanted = self.summary.interfaces.iter().filter(|one| binding.is_none_or(|binding| one.binding == binding));
        let spoken: Vec<_> = wanted.filter_map(|interface| usable(interface, access.card_url)).collect();
        let chosen = spoken.iter().find(|(url, ..)| access.may_reach(url)).or_else(|| spoken.first());
        let Some((url, interface, dialect)) = chosen else { return Err(self.nothing_spoken(binding)) };
        Ok(Endpoint {
            dialect: *dialect,
            url: url.to_string(),
            tenant: interface.tenant.clone(),
            streaming: self.streaming,
        })
    }

    fn nothing_spoken(&self, binding: Option<&str>) -> ToolFailure {
        let named = self.summary.interfaces.iter().map(|one| format!("{} {}", one.binding, one.protocol_version));
        let named = match named.collect::<Vec<_>>().join(", ") {
            none if none.is_empty() => "no interface".to_owned(),
            named => named,
        };
        let spoken = match binding {
            Some(binding) => format!("the tool's `binding` is {binding}"),
            None => "this client speaks JSONRPC 1.0, HTTP+JSON 1.0, GRPC 1.0 and JSONRPC 0.3".to_owned(),
        };
        failure::failed(format!("the agent card names {named}; {spoken}"))
    }
}

fn usable<'a>(interface: &'a AgentInterface, card: &Url) -> Option<(Url, &'a AgentInterface, Dialect)> {
    let version = &interface.protocol_version;
    let is = |number: &str| version == number || version.strip_prefix(number).is_some_and(|rest| rest.starts_with('.'));
    let dialect = match interface.binding.as_str() {
        "JSONRPC" if is("1") => Dialect::JsonRpc,
        "HTTP+JSON" if is("1") => Dialect::HttpJson,
        "GRPC" if is("1") => Dialect::Grpc,
        "JSONRPC" if is("0.3") => Dialect::JsonRpc03,
        _ => return None,
    };
    if interface.url.len() > MAX_URL || interface.tenant.as_ref().is_some_and(|tenant| tenant.len() > MAX_TENANT) {
        return None;
    }
    // Addresses of gRPC are often written as `host:port`; then the card's scheme is theirs.
    let written = match dialect {
        Dialect::Grpc if !interface.url.contains("://") => format!("{}://{}", card.scheme(), interface.url),
        _ => interface.url.clone(),
    };
    let url = Url::parse(&written).ok().filter(|url| matches!(url.scheme(), "http" | "https"))?;
    Some((url, interface, dialect))
}
