//! How a client reaches its server.

use std::{fmt, sync::Arc, time::Duration};

use secrecy::SecretString;

/// Where a server is, and the key to it.
#[derive(Debug, Clone)]
pub struct Address {
    pub base_url: String,
    pub api_key: SecretString,
}

/// Somebody who knows where the server is now.
#[derive(Clone)]
pub(crate) struct Whereabouts(Arc<dyn Fn() -> Option<Address> + Send + Sync>);

impl Whereabouts {
    pub(crate) fn ask(&self) -> Option<Address> {
        (self.0)()
    }
}

impl fmt::Debug for Whereabouts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Whereabouts")
    }
}

/// Where the server is, who asks, and how patient the client is.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) address: Address,
    pub(crate) whereabouts: Option<Whereabouts>,
    pub(crate) workspace: String,
    pub(crate) actor: Option<String>,
    pub(crate) timeout: Duration,
    pub(crate) silence: Duration,
    pub(crate) longest_pause: Duration,
    pub(crate) give_up_after: Duration,
}

impl Options {
    pub fn new(base_url: impl Into<String>, api_key: SecretString, workspace: impl Into<String>) -> Self {
        Self {
            address: Address { base_url: base_url.into(), api_key },
            whereabouts: None,
            workspace: workspace.into(),
            actor: None,
            timeout: Duration::from_secs(60),
            silence: Duration::from_secs(60),
            longest_pause: Duration::from_secs(10),
            give_up_after: Duration::from_secs(600),
        }
    }

    /// Who acts, for the logs of runs: the name of a person behind the key.
    #[must_use]
    pub fn actor(mut self, name: impl Into<String>) -> Self {
        self.actor = Some(name.into());
        self
    }

    /// For a server that may come back elsewhere: asked before a stream tries to come back. `None` for where it was.
    /// Whatever answers in the meantime is taken for somebody else until it is the server.
    #[must_use]
    pub fn whereabouts(mut self, ask: impl Fn() -> Option<Address> + Send + Sync + 'static) -> Self {
        self.whereabouts = Some(Whereabouts(Arc::new(ask)));
        self
    }

    /// How long one request may take, streams excepted. 60 seconds unless it is said.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long a stream may be silent before its connection counts as lost. A live server shows itself every 15 seconds.
    /// 60 seconds unless it is said.
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// The longest pause between two attempts to come back. 10 seconds unless it is said.
    #[must_use]
    pub fn longest_pause(mut self, pause: Duration) -> Self {
        self.longest_pause = pause;
        self
    }

    /// How long a server may be away before a stream fails. 10 minutes unless it is said.
    #[must_use]
    pub fn give_up_after(mut self, patience: Duration) -> Self {
        self.give_up_after = patience;
        self
    }
}
