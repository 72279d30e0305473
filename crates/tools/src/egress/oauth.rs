//! Tokens by OAuth client credentials (RFC 6749, section 4.4), kept in memory until shortly before they expire.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use reqwest::{Response, Url, header::CONTENT_TYPE};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::Value;
use windlass_core::{
    agent::OAuthClient,
    canonical::Digest,
    envelope::{RetryReason, ToolErrorKind},
};

use super::{
    Egress,
    discovery::{self, Issuer},
    failure, read_up_to,
};
use crate::ToolFailure;

/// A token is replaced this long before it expires: the request that uses it takes time, too.
const MARGIN: Duration = Duration::from_secs(30);
const MAX_REPLY_BYTES: usize = 64 * 1024;
/// Beyond this, tokens that expired are removed.
const MANY: usize = 256;
/// What a server may say of a request for a token. Other words may repeat the request.
const CODES: [&str; 6] = [
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
];

/// The tokens of all clients.
#[derive(Default)]
pub(super) struct Tokens(Mutex<HashMap<Client, Slot>>);

#[derive(PartialEq, Eq, Hash)]
struct Client {
    /// The token endpoint, or the MCP server that says where it is.
    issuer: String,
    client_id: String,
    scope: Option<String>,
    secret: Digest,
}

/// Locked while its token is requested, so that calls at the same time request one.
type Slot = Arc<tokio::sync::Mutex<Option<Token>>>;

struct Token {
    value: SecretString,
    fresh_until: Instant,
}

#[derive(Deserialize)]
struct Reply {
    access_token: String,
    #[serde(default)]
    token_type: Option<String>,
    #[serde(default)]
    expires_in: Value,
}

impl Tokens {
    pub(super) async fn token(
        &self,
        egress: &Egress,
        oauth: &OAuthClient,
        server: Option<&Url>,
        secret: &SecretString,
        allow_private: bool,
    ) -> Result<SecretString, ToolFailure> {
        let slot = self.slot(oauth, server, secret);
        let mut token = slot.lock().await;
        if let Some(token) = token.as_ref().filter(|token| token.fresh_until > Instant::now()) {
            return Ok(token.value.clone());
        }
        let place = TokenPlace::find(egress, oauth, server, allow_private).await?;
        let (value, lifetime) = request(egress, oauth, &place, secret, allow_private).await?;
        let fresh_until = Instant::now().checked_add(lifetime.saturating_sub(MARGIN));
        *token = fresh_until.map(|fresh_until| Token { value: value.clone(), fresh_until });
        Ok(value)
    }

    pub(super) fn forget(&self, oauth: &OAuthClient) {
        let of_client =
            |client: &Client| Some(&client.issuer) == oauth.token_url.as_ref() && client.client_id == oauth.client_id;
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|client, _| !of_client(client));
    }

    fn slot(&self, oauth: &OAuthClient, server: Option<&Url>, secret: &SecretString) -> Slot {
        let named = oauth.token_url.as_deref().or_else(|| server.map(Url::as_str));
        let client = Client {
            issuer: named.unwrap_or_default().to_owned(),
            client_id: oauth.client_id.clone(),
            scope: oauth.scope.clone(),
            secret: Digest::of_bytes(secret.expose_secret().as_bytes()),
        };
        let mut slots = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if slots.len() >= MANY {
            let now = Instant::now();
            let is_fresh = |token: &Option<Token>| token.as_ref().is_some_and(|token| token.fresh_until > now);
            // A locked slot is in use.
            slots.retain(|_, slot| slot.try_lock().map_or(true, |token| is_fresh(&token)));
        }
        Arc::clone(slots.entry(client).or_default())
    }
}

/// Where and how a token is requested.
struct TokenPlace {
    url: Url,
    resource: Option<String>,
    scope: Option<String>,
    secret_in_body: bool,
}

impl TokenPlace {
    /// The place that the definition names, or else the one that the MCP server names.
    async fn find(
        egress: &Egress,
        oauth: &OAuthClient,
        server: Option<&Url>,
        allow_private: bool,
    ) -> Result<Self, ToolFailure> {
        let scope = oauth.scope.clone();
        if let Some(url) = &oauth.token_url {
            let url = Url::parse(url)
                .map_err(|_| failed("the tokenUrl of the tool's definition is not an absolute URL; correct it"))?;
            return Ok(Self { url, resource: None, scope, secret_in_body: false });
        }
        let Some(server) = server else { return Err(failed("the tool's definition has no tokenUrl; set it")) };
        let Issuer { token_url, resource, scope: asked, secret_in_body } =
            discovery::discover(egress, server, allow_private).await?;
        Ok(Self { url: token_url, resource: Some(resource), scope: scope.or(asked), secret_in_body })
    }
}

/// A new token and how long it lasts; no time at all if the server does not say.
async fn request(
    egress: &Egress,
    oauth: &OAuthClient,
    place: &TokenPlace,
    secret: &SecretString,
    allow_private: bool,
) -> Result<(SecretString, Duration), ToolFailure> {
    egress.check(&place.url, allow_private)?;
    let encoded = |text: &str| form_urlencoded::byte_serialize(text.as_bytes()).collect::<String>();
    let mut request = egress
        .client(allow_private)
        .post(place.url.clone())
        .header(CONTENT_TYPE, "application/x-www-form-urlencoded")
        .body(form(oauth, place, secret));
    if !place.secret_in_body {
        request = request.basic_auth(encoded(&oauth.client_id), Some(encoded(secret.expose_secret())));
    }
    let mut response = request.send().await.map_err(|error| failure::of_transport(&error))?;
    let body = read_up_to(&mut response, MAX_REPLY_BYTES).await?.bytes;
    if !response.status().is_success() {
        return Err(refused(&response, &body));
    }
    let unusable = || failed("the OAuth server gave no bearer token; check tokenUrl in the tool's definition");
    let reply: Reply = serde_json::from_slice(&body).map_err(|_| unusable())?;
    let token = SecretString::from(reply.access_token);
    let is_bearer = reply.token_type.is_none_or(|kind| kind.eq_ignore_ascii_case("bearer"));
    if !is_bearer || token.expose_secret().is_empty() {
        return Err(unusable());
    }
    let seconds = match &reply.expires_in {
        Value::String(text) => text.parse().ok(),
        other => other.as_u64(),
    };
    Ok((token, Duration::from_secs(seconds.unwrap_or_default())))
}

fn form(oauth: &OAuthClient, place: &TokenPlace, secret: &SecretString) -> String {
    let mut form = form_urlencoded::Serializer::new(String::new());
    form.append_pair("grant_type", "client_credentials");
    let optional = [("scope", &place.scope), ("resource", &place.resource)];
    for (name, value) in optional.into_iter().filter_map(|(name, value)| Some((name, value.as_ref()?))) {
        form.append_pair(name, value);
    }
    if place.secret_in_body {
        form.append_pair("client_id", &oauth.client_id);
        form.append_pair("client_secret", secret.expose_secret());
    }
    form.finish()
}

fn refused(response: &Response, body: &[u8]) -> ToolFailure {
    let status = response.status();
    if matches!(status.as_u16(), 408 | 425 | 429) || status.is_server_error() {
        let message = format!("the OAuth server gives no token now ({})", status.as_u16());
        let advice = failure::retry_advice(response.headers());
        return failure::passing(ToolErrorKind::ToolUnavailable, RetryReason::ToolUnavailable, &message, advice);
    }
    let reply: Value = serde_json::from_slice(body).unwrap_or_default();
    let code = reply["error"].as_str().filter(|code| CODES.contains(code)).unwrap_or("no reason that is known");
    failed(&format!(
        "the OAuth server refused a token ({}, {code}); check tokenUrl, clientId, clientSecret and scope in the tool's \
         definition",
        status.as_u16()
    ))
}

fn failed(message: &str) -> ToolFailure {
    ToolFailure::new(ToolErrorKind::ToolFailed, message)
}
