//! The one way out: every tool that speaks HTTP uses these clients.
//!
//! Definitions, documents, redirects and models name the addresses, so none of them is trusted: only http and https,
//! only addresses of the public internet unless the operator allows more, no proxy and no credentials from the
//! environment.

mod address;
mod content;
mod credentials;
mod discovery;
mod failure;
mod network;
mod oauth;
#[cfg(test)]
pub(crate) mod peer;
mod post;
mod resolver;
mod send;

use std::{fmt, net::IpAddr, sync::Arc, time::Duration};

use reqwest::{Client, ClientBuilder, Url, header::HeaderMap, redirect::Policy};
use rustls::crypto::{CryptoProvider, ring};
use windlass_core::{
    agent::{HttpAccess, OAuthClient},
    envelope::ToolErrorKind,
};

pub(crate) use self::{
    content::{ContentType, read_up_to},
    credentials::{Credentials, header_name},
    failure::{address_refused, passing, retry_advice, timed_out},
    resolver::Lookup,
    send::Request,
};
use self::{
    network::AddressRule,
    oauth::Tokens,
    resolver::{GuardedResolver, SystemLookup},
};
pub use self::{
    network::{AllowedNetwork, EgressRules},
    post::{Post, PostFailure},
};
use crate::{SecretSource, ToolFailure};

const PING_EVERY: Duration = Duration::from_secs(30);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// The guard cannot be set up.
#[derive(Debug, thiserror::Error)]
pub enum EgressError {
    /// The source is in the message already.
    #[error("the HTTP client cannot be set up, check the machine's trusted certificates: {0}")]
    Client(String),
    #[error("{entry:?} cannot be allowed: {problem}")]
    Network { entry: String, problem: &'static str },
}

/// HTTP clients that connect only to allowed addresses. A clone shares them.
#[derive(Clone)]
pub struct Egress(Arc<Shared>);

struct Shared {
    guarded: Client,
    /// Has its own connections: one to a private address is never reused by a guarded request.
    open: Client,
    /// As the two above, for HTTP/2 from the first byte.
    guarded_http2: Client,
    open_http2: Client,
    rule: AddressRule,
    tokens: Tokens,
}

impl Egress {
    pub fn new(rules: EgressRules) -> Result<Self, EgressError> {
        Self::build(rules, Arc::new(SystemLookup))
    }

    fn build(rules: EgressRules, lookup: Arc<dyn Lookup>) -> Result<Self, EgressError> {
        if CryptoProvider::get_default().is_none() {
            // Another task may have set it first; both are equal.
            let _ = ring::default_provider().install_default();
        }
        let rule = AddressRule::new(rules);
        let build = |builder: ClientBuilder| builder.build().map_err(|error| EgressError::Client(error.to_string()));
        let [guarded, open] = [rule.clone(), AddressRule::any()].map(|rule| client(&lookup, rule));
        let [guarded_http2, open_http2] = [rule.clone(), AddressRule::any()].map(|rule| http2(client(&lookup, rule)));
        Ok(Self(Arc::new(Shared {
            guarded: build(guarded)?,
            open: build(open)?,
            guarded_http2: build(guarded_http2)?,
            open_http2: build(open_http2)?,
            rule,
            tokens: Tokens::default(),
        })))
    }

    /// A client that connects only to allowed addresses, follows no redirects, uses no proxy and never retries. An address
    /// that is part of a URL is not looked up, so every URL has to pass [`Self::check`] first.
    pub fn client(&self, allow_private: bool) -> &Client {
        if allow_private { &self.0.open } else { &self.0.guarded }
    }

    /// As [`Self::client`], for HTTP/2 from the first byte: gRPC, also without TLS.
    pub fn http2_client(&self, allow_private: bool) -> &Client {
        if allow_private { &self.0.open_http2 } else { &self.0.guarded_http2 }
    }

    /// What must hold for a URL before it is requested. Names are checked when they are looked up.
    pub fn check(&self, url: &Url, allow_private: bool) -> Result<(), ToolFailure> {
        let failed = |message| Err(ToolFailure::new(ToolErrorKind::ToolFailed, message));
        if !matches!(url.scheme(), "http" | "https") {
            return failed("only http and https URLs can be fetched");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return failed("the URL must not contain a user name or a password");
        }
        let host = url.host_str().unwrap_or_default();
        let allowed = allow_private
            || match host.trim_matches(['[', ']']).parse::<IpAddr>() {
                Ok(address) => self.0.rule.allows_address(address),
                Err(_) => self.0.rule.allows_port(host, url.port_or_known_default()),
            };
        if allowed { Ok(()) } else { Err(address_refused()) }
    }

    /// The headers of `access`, with their secrets read now. The values are marked as sensitive.
    pub async fn headers(&self, access: &HttpAccess, secrets: &dyn SecretSource) -> Result<HeaderMap, ToolFailure> {
        self.credentials(access, secrets).await.map(|credentials| credentials.headers)
    }

    /// As [`Self::headers`], for an MCP server, which can say itself where its tokens come from.
    pub async fn mcp_headers(
        &self,
        server: &Url,
        access: &HttpAccess,
        secrets: &dyn SecretSource,
    ) -> Result<HeaderMap, ToolFailure> {
        self.credentials_at(Some(server), access, secrets).await.map(|credentials| credentials.headers)
    }

    /// As [`Self::headers`], with what must not be shown of them.
    pub(crate) async fn credentials(
        &self,
        access: &HttpAccess,
        secrets: &dyn SecretSource,
    ) -> Result<Credentials, ToolFailure> {
        self.credentials_at(None, access, secrets).await
    }

    async fn credentials_at(
        &self,
        server: Option<&Url>,
        access: &HttpAccess,
        secrets: &dyn SecretSource,
    ) -> Result<Credentials, ToolFailure> {
        let mut credentials = Credentials::read(&access.headers, secrets).await?;
        if let Some(oauth) = &access.oauth {
            let secret = secrets.secret(&oauth.client_secret).await?;
            let token = self.0.tokens.token(self, oauth, server, &secret, access.allow_private).await?;
            secrets.derived(&token);
            credentials.authorize(token)?;
            credentials.hide(secret);
        }
        Ok(credentials)
    }

    /// The server did not accept the client's token: the next request gets another.
    pub(crate) fn forget_token(&self, oauth: &OAuthClient) {
        self.0.tokens.forget(oauth);
    }
}

impl fmt::Debug for Egress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Egress").field("rule", &self.0.rule).finish_non_exhaustive()
    }
}

fn client(lookup: &Arc<dyn Lookup>, rule: AddressRule) -> ClientBuilder {
    Client::builder()
        .user_agent(concat!("windlass/", env!("CARGO_PKG_VERSION")))
        .no_proxy()
        .redirect(Policy::none())
        .retry(reqwest::retry::never())
        .dns_resolver(GuardedResolver { lookup: Arc::clone(lookup), rule })
}

/// Pings find out that the other side is gone while a stream says nothing.
fn http2(builder: ClientBuilder) -> ClientBuilder {
    builder.http2_prior_knowledge().http2_keep_alive_interval(PING_EVERY).http2_keep_alive_timeout(PING_TIMEOUT)
}
