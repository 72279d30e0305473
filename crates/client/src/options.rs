//! How a client reaches its server.

use std::{fmt, sync::Arc, time::Duration};

use secrecy::SecretString;

/// A server's address and an API key for it.
#[derive(Debug, Clone)]
pub struct Address {
    pub base_url: String,
    pub api_key: SecretString,
}

/// A lookup of the server's current address.
#[derive(Clone)]
pub(crate) struct AddressLookup(Arc<dyn Fn() -> Option<Address> + Send + Sync>);

impl AddressLookup {
    pub(crate) fn ask(&self) -> Option<Address> {
        (self.0)()
    }
}

impl fmt::Debug for AddressLookup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AddressLookup")
    }
}

/// The server's address, the actor, and the client's timeouts.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) address: Address,
    pub(crate) address_lookup: Option<AddressLookup>,
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
            address_lookup: None,
            workspace: workspace.into(),
            actor: None,
            timeout: Duration::from_secs(60),
            silence: Duration::from_secs(60),
            longest_pause: Duration::from_secs(10),
            give_up_after: Duration::from_secs(600),
        }
    }

    /// The name of the person who acts, for the logs of runs.
    #[must_use]
    pub fn actor(mut self, name: impl Into<String>) -> Self {
        self.actor = Some(name.into());
        self
    }

    /// For a server that may move to another address: called before a stream reconnects. `None` keeps the last address.
    /// Until the server is back, errors of other servers at that address do not end the stream.
    #[must_use]
    pub fn address_lookup(mut self, ask: impl Fn() -> Option<Address> + Send + Sync + 'static) -> Self {
        self.address_lookup = Some(AddressLookup(Arc::new(ask)));
        self
    }

    /// The timeout of a request, except for streams. Default 60 seconds.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// How long a stream may be silent before its connection counts as lost. A server sends a comment every 15 seconds.
    /// Default 60 seconds.
    #[must_use]
    pub fn silence(mut self, silence: Duration) -> Self {
        self.silence = silence;
        self
    }

    /// The longest pause between two attempts to reconnect. Default 10 seconds.
    #[must_use]
    pub fn longest_pause(mut self, pause: Duration) -> Self {
        self.longest_pause = pause;
        self
    }

    /// How long a server may be unreachable before a stream fails. Default 10 minutes.
    #[must_use]
    pub fn give_up_after(mut self, patience: Duration) -> Self {
        self.give_up_after = patience;
        self
    }
}
