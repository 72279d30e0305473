//! The connections of a worker by their keys: when each is started, shared and closed.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::Duration,
};

use tokio::{sync::watch, time::Instant};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use super::{McpEndpoint, connection::Connection, failure};
use crate::ToolFailure;

/// How long a server may take to start, for example to be downloaded.
const START: Duration = Duration::from_secs(60);
/// For this long a failed start is not repeated.
const REMEMBERED: Duration = Duration::from_secs(1);
/// A connection without use for this long is closed.
const IDLE: Duration = Duration::from_secs(10 * 60);

type Started = Result<Arc<Connection>, ToolFailure>;

pub(super) struct Pool {
    slots: Mutex<HashMap<String, Slot>>,
    /// Cancelled by shutdown and drop; each connection has a child of it.
    close: CancellationToken,
    tasks: TaskTracker,
    idle: Duration,
}

enum Slot {
    /// Started by the task that sends the outcome.
    Starting(watch::Receiver<Option<Started>>),
    Up(Arc<Connection>),
    Failed {
        at: Instant,
        failure: ToolFailure,
    },
}

impl Default for Pool {
    fn default() -> Self {
        Self::with_idle(IDLE)
    }
}

impl fmt::Debug for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pool").field("connections", &self.lock().len()).finish_non_exhaustive()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.close.cancel();
    }
}

impl Pool {
    pub(super) fn with_idle(idle: Duration) -> Self {
        Self { slots: Mutex::default(), close: CancellationToken::new(), tasks: TaskTracker::new(), idle }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The open connection of a key, started if there is none. A caller that gives up does not end the start.
    pub(super) async fn connection(self: &Arc<Self>, key: &str, endpoint: McpEndpoint) -> Started {
        let mut starting = {
            let mut slots = self.lock();
            if self.close.is_cancelled() {
                return Err(failure::unavailable("this worker is shutting down"));
            }
            match slots.get(key) {
                Some(Slot::Up(connection)) if connection.is_open() => {
                    connection.touch();
                    return Ok(Arc::clone(connection));
                }
                Some(Slot::Failed { at, failure }) if at.elapsed() < REMEMBERED => return Err(failure.clone()),
                Some(Slot::Starting(starting)) if starting.has_changed().is_ok() => starting.clone(),
                _ => self.start(&mut slots, key, endpoint),
            }
        };
        let outcome = starting.wait_for(Option::is_some).await;
        let started = outcome.ok().and_then(|outcome| outcome.clone());
        started.unwrap_or_else(|| Err(failure::unavailable("the start of the MCP server was given up")))
    }

    fn start(
        self: &Arc<Self>,
        slots: &mut HashMap<String, Slot>,
        key: &str,
        endpoint: McpEndpoint,
    ) -> watch::Receiver<Option<Started>> {
        slots.retain(|_, slot| !matches!(slot, Slot::Failed { at, .. } if at.elapsed() >= REMEMBERED));
        let (sender, starting) = watch::channel(None);
        slots.insert(key.to_owned(), Slot::Starting(starting.clone()));
        let (pool, key, close, tasks) =
            (Arc::downgrade(self), key.to_owned(), self.close.child_token(), self.tasks.clone());
        self.tasks.spawn(async move {
            let connect = Connection::open(endpoint, close.clone(), &tasks);
            let outcome = match close.run_until_cancelled(tokio::time::timeout(START, connect)).await {
                Some(Ok(outcome)) => outcome.map(Arc::new),
                Some(Err(_)) => Err(failure::unavailable(format!(
                    "the MCP server did not complete the handshake within {} seconds",
                    START.as_secs()
                ))),
                None => Err(failure::unavailable("this worker is shutting down")),
            };
            if let Some(pool) = pool.upgrade() {
                pool.started(key, &outcome);
            }
            // No receiver is left if every caller has given up.
            let _ = sender.send(Some(outcome));
        });
        starting
    }

    fn started(self: &Arc<Self>, key: String, outcome: &Started) {
        let mut slots = self.lock();
        if self.close.is_cancelled() {
            return;
        }
        let slot = match outcome {
            Ok(connection) => {
                let watched = Arc::downgrade(connection);
                let closed = connection.closed();
                self.tasks.spawn(close_when_idle(Arc::downgrade(self), key.clone(), watched, closed, self.idle));
                Slot::Up(Arc::clone(connection))
            }
            Err(failure) => Slot::Failed { at: Instant::now(), failure: failure.clone() },
        };
        slots.insert(key, slot);
    }

    pub(super) async fn shutdown(&self) {
        {
            let mut slots = self.lock();
            self.close.cancel();
            slots.clear();
        }
        self.tasks.close();
        self.tasks.wait().await;
    }
}

/// Takes a connection out of the pool once it is closed or was not used for a while. A connection that only the pool holds
/// is closed by being dropped.
async fn close_when_idle(
    pool: Weak<Pool>,
    key: String,
    watched: Weak<Connection>,
    closed: CancellationToken,
    idle: Duration,
) {
    loop {
        let Some(unused) = watched.upgrade().map(|connection| connection.unused_for()) else { return };
        tokio::select! {
            () = tokio::time::sleep(idle.saturating_sub(unused)) => {}
            () = closed.cancelled() => {}
        }
        let Some(pool) = pool.upgrade() else { return };
        let mut slots = pool.lock();
        let Some(Slot::Up(connection)) = slots.get(&key) else { return };
        if !std::ptr::eq(Arc::as_ptr(connection), watched.as_ptr()) {
            return;
        }
        // New users come through the lock, so one holder means that there is no user.
        if connection.is_open() && Arc::strong_count(connection) > 1 {
            connection.touch();
        } else if !connection.is_open() || connection.unused_for() >= idle {
            slots.remove(&key);
            return;
        }
    }
}
