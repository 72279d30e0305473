//! Where the tokens of an MCP server come from, as the server itself says: its protected resource metadata (RFC 9728)
//! names the OAuth server, whose metadata (RFC 8414, OpenID Connect Discovery) names the token endpoint.

use reqwest::{
    Url,
    header::{ACCEPT, CONTENT_TYPE, HeaderMap, WWW_AUTHENTICATE},
};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::json;
use windlass_core::envelope::ToolErrorKind;

use super::{Egress, failure, read_up_to};
use crate::ToolFailure;

const MAX_DOCUMENT_BYTES: usize = 64 * 1024;
const REVISION: &str = "2026-07-28";

/// How a token for an MCP server is requested.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Issuer {
    pub(super) token_url: Url,
    /// What the token is for.
    pub(super) resource: String,
    /// What the server asks for, if it says.
    pub(super) scope: Option<String>,
    /// The OAuth server takes the client's secret in the body only.
    pub(super) secret_in_body: bool,
}

#[derive(Deserialize)]
struct ResourceMetadata {
    resource: String,
    #[serde(default)]
    authorization_servers: Vec<String>,
    #[serde(default)]
    scopes_supported: Option<Vec<String>>,
}

#[derive(Deserialize)]
struct ServerMetadata {
    issuer: String,
    token_endpoint: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Option<Vec<String>>,
}

/// What a server says when it refuses a request without a token.
#[derive(Debug, Default, PartialEq, Eq)]
struct Challenge {
    resource_metadata: Option<String>,
    scope: Option<String>,
}

pub(super) async fn discover(egress: &Egress, server: &Url, allow_private: bool) -> Result<Issuer, ToolFailure> {
    let challenge = challenge(egress, server, allow_private).await?;
    let named = challenge.resource_metadata.as_deref().map(Url::parse);
    let places = match named {
        Some(Ok(url)) => vec![url],
        Some(Err(_)) => return Err(failed("the MCP server names resource metadata whose address is not a URL")),
        None => well_known(server, "oauth-protected-resource"),
    };
    let Some(resource) = first::<ResourceMetadata>(egress, &places, allow_private).await? else {
        return Err(failed("the MCP server does not say where its tokens come from (RFC 9728); set tokenUrl"));
    };
    if !covers(&resource.resource, server) {
        return Err(failed("the resource metadata of the MCP server is for another address; set tokenUrl"));
    }
    let issuer = resource.authorization_servers.first().map(String::as_str).unwrap_or_default();
    let Ok(address) = Url::parse(issuer) else {
        return Err(failed("the resource metadata of the MCP server names no OAuth server; set tokenUrl"));
    };
    let Some(metadata) = first::<ServerMetadata>(egress, &issuer_places(&address), allow_private).await? else {
        return Err(failed("the OAuth server of the MCP server publishes no metadata (RFC 8414); set tokenUrl"));
    };
    // As it is written: one that is equal only after normalization is another (RFC 8414, section 3.3).
    if metadata.issuer != issuer {
        return Err(failed("the metadata of the OAuth server is that of another issuer; set tokenUrl"));
    }
    let token_url = Url::parse(&metadata.token_endpoint).ok();
    // The client's secret goes there.
    let Some(token_url) = token_url.filter(|url| url.scheme() == "https" || allow_private) else {
        return Err(failed("the token endpoint of the OAuth server is not an https URL; set tokenUrl"));
    };
    let scope = challenge.scope.or_else(|| resource.scopes_supported.map(|scopes| scopes.join(" ")));
    let methods = metadata.token_endpoint_auth_methods_supported.unwrap_or_default();
    let takes = |method: &str| methods.iter().any(|name| name == method);
    Ok(Issuer {
        token_url,
        resource: resource.resource,
        scope: scope.filter(|scope| !scope.is_empty()),
        secret_in_body: takes("client_secret_post") && !takes("client_secret_basic"),
    })
}

/// The server's answer to its first request, sent without a token.
async fn challenge(egress: &Egress, server: &Url, allow_private: bool) -> Result<Challenge, ToolFailure> {
    let client = json!({"name": "windlass", "version": env!("CARGO_PKG_VERSION")});
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": REVISION,
        "io.modelcontextprotocol/clientInfo": client,
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body = json!({"jsonrpc": "2.0", "id": 0, "method": "server/discover", "params": {"_meta": meta}});
    egress.check(server, allow_private)?;
    let request = egress
        .client(allow_private)
        .post(server.clone())
        .header(CONTENT_TYPE, "application/json")
        .header(ACCEPT, "application/json, text/event-stream")
        .header("MCP-Protocol-Version", REVISION)
        .header("Mcp-Method", "server/discover")
        .body(body.to_string());
    let response = request.send().await.map_err(|error| failure::of_transport(&error))?;
    Ok(read_challenge(response.headers()))
}

fn read_challenge(headers: &HeaderMap) -> Challenge {
    let values = headers.get_all(WWW_AUTHENTICATE).iter().filter_map(|value| value.to_str().ok());
    let mut bearer = values.filter(|value| {
        value.get(..6).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer"))
            && value[6..].chars().next().is_none_or(|c| c == ' ')
    });
    let Some(parameters) = bearer.next().map(|value| &value[6..]) else { return Challenge::default() };
    Challenge { resource_metadata: parameter(parameters, "resource_metadata"), scope: parameter(parameters, "scope") }
}

/// The value of one parameter of a challenge: `realm="a", scope="b c"`.
fn parameter(parameters: &str, wanted: &str) -> Option<String> {
    let mut rest = parameters;
    loop {
        let (name, after) = rest.split_once('=')?;
        let name = name.trim_matches([' ', ',', '\t']);
        let after = after.trim_start();
        let (value, next) = match after.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => after.split_once(',').unwrap_or((after, "")),
        };
        if name.eq_ignore_ascii_case(wanted) {
            return Some(value.trim().to_owned());
        }
        rest = next;
    }
}

/// The well-known address of a document about `url`: with its path, then without.
fn well_known(url: &Url, name: &str) -> Vec<Url> {
    let path = url.path().trim_end_matches('/');
    let mut paths = vec![format!("/.well-known/{name}{path}")];
    if !path.is_empty() {
        paths.push(format!("/.well-known/{name}"));
    }
    paths.iter().map(|path| at(url, path)).collect()
}

fn issuer_places(issuer: &Url) -> Vec<Url> {
    let path = issuer.path().trim_end_matches('/');
    let mut paths = vec![
        format!("/.well-known/oauth-authorization-server{path}"),
        format!("/.well-known/openid-configuration{path}"),
    ];
    if !path.is_empty() {
        paths.push(format!("{path}/.well-known/openid-configuration"));
    }
    paths.iter().map(|path| at(issuer, path)).collect()
}

fn at(url: &Url, path: &str) -> Url {
    let mut url = url.clone();
    url.set_path(path);
    url.set_query(None);
    url.set_fragment(None);
    url
}

/// Whether metadata about `resource` is about the server: the same origin, and its path or one above it.
fn covers(resource: &str, server: &Url) -> bool {
    let Ok(resource) = Url::parse(resource) else { return false };
    let above = resource.path().trim_end_matches('/');
    let below = server.path().strip_prefix(above);
    resource.origin() == server.origin() && below.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The first of the documents that is there.
async fn first<T: DeserializeOwned>(
    egress: &Egress,
    places: &[Url],
    allow_private: bool,
) -> Result<Option<T>, ToolFailure> {
    for place in places {
        egress.check(place, allow_private)?;
        let request = egress.client(allow_private).get(place.clone()).header(ACCEPT, "application/json");
        let mut response = request.send().await.map_err(|error| failure::of_transport(&error))?;
        let body = read_up_to(&mut response, MAX_DOCUMENT_BYTES).await?.bytes;
        if response.status().is_success()
            && let Ok(document) = serde_json::from_slice(&body)
        {
            return Ok(Some(document));
        }
    }
    Ok(None)
}

fn failed(message: &str) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::ToolFailed, message)
}

#[cfg(test)]
mod tests;
