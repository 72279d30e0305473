//! The adapter for clusters: one Postgres database, shared by any number of processes.
//!
//! Every method is one transaction. A write about a run locks the run's row first, which is what makes `seq` gapless and
//! the journals exact with writers on several machines; other runs are not disturbed. Rows are locked in one order, run
//! before session, except for a session that a new run joins: no other transaction knows that run yet.
//!
//! This module connects and closes, `access` is one connection and its transaction, `notify` notifies other processes of new
//! events and listens for theirs. Each other module implements the trait of one aggregate and owns the SQL of its tables.

mod access;
mod approvals;
mod blobs;
mod calls;
mod columns;
mod conversation;
mod events;
mod failure;
mod filter;
mod housekeeping;
mod installation;
mod keys;

mod migrate;
mod notes;
mod notify;
mod plans;
mod push;
mod record;
mod reservations;
mod runs;
mod secrets;
mod sessions;
mod sweep;
mod tls;
mod transcript;

#[cfg(any(test, feature = "test-support"))]
#[allow(clippy::expect_used, reason = "tests start it; what it cannot do fails them")]
pub mod testing;
#[cfg(test)]
mod tests;

use std::{fmt, path::PathBuf, sync::Arc, time::Duration};

use deadpool_postgres::{Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};
use secrecy::{ExposeSecret as _, SecretString};
use tokio::task::JoinHandle;

use self::notify::Notifier;
use crate::{Clock, Result, StoreError, system_clock, watch::Watchers};

/// How long a caller waits for a connection of the pool.
const POOL_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Options {
    /// `postgres://user:password@host:port/database?sslmode=require`, or `host=/socket/directory user=…`.
    pub url: SecretString,
    /// The authorities to trust, as a PEM file, instead of the system's.
    pub root_certificates: Option<PathBuf>,
    /// Connections at most, beside the one that listens.
    pub connections: usize,
    pub clock: Clock,
}

impl Options {
    /// Sixteen connections, the system's certificate authorities and clock.
    pub fn new(url: impl Into<SecretString>) -> Self {
        Self { url: url.into(), root_certificates: None, connections: 16, clock: system_clock() }
    }
}

impl fmt::Debug for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Options")
            .field("root_certificates", &self.root_certificates)
            .field("connections", &self.connections)
            .finish_non_exhaustive()
    }
}

/// A [`Store`](crate::Store) in a Postgres database.
pub struct PostgresStore {
    parts: Arc<Parts>,
    listener: JoinHandle<()>,
}

struct Parts {
    pool: Pool,
    clock: Clock,
    watchers: Arc<Watchers>,
    notifier: Arc<Notifier>,
}

impl PostgresStore {
    /// Connects, creates or upgrades the tables and begins to listen.
    pub async fn connect(options: Options) -> Result<Self> {
        let config: tokio_postgres::Config = options.url.expose_secret().parse().map_err(failure::unusable_url)?;
        let tls = tls::connector(options.root_certificates.as_deref())?;
        let manager = Manager::from_config(
            config.clone(),
            tls.clone(),
            ManagerConfig { recycling_method: RecyclingMethod::Fast },
        );
        let pool = Pool::builder(manager)
            .max_size(options.connections.max(1))
            .runtime(Runtime::Tokio1)
            .wait_timeout(Some(POOL_TIMEOUT))
            .create_timeout(Some(POOL_TIMEOUT))
            .build()
            .map_err(|error| StoreError::Unavailable { action: "make its pool", detail: error.to_string() })?;
        let watchers = Arc::new(Watchers::default());
        let notifier = Arc::new(Notifier::default());
        let parts = Arc::new(Parts { pool, clock: options.clock, watchers, notifier });
        migrate::migrate(&parts, config.get_dbname().unwrap_or_default()).await?;
        let listener = notify::start(config, tls, &parts).await?;
        Ok(Self { parts, listener })
    }

    /// Refuses new calls and ends all watches. Calls that are under way are finished.
    pub fn close(&self) {
        self.parts.watchers.close();
        self.parts.pool.close();
        self.listener.abort();
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").field("pool", &self.parts.pool.status()).finish_non_exhaustive()
    }
}

impl Drop for PostgresStore {
    fn drop(&mut self) {
        self.close();
    }
}
