//! LISTEN and NOTIFY: notifies other processes of new events and listens for their notifications.
//!
//! One connection does both. A notification is sent after the transaction that wrote the events, not in it: a NOTIFY inside
//! a transaction makes all such transactions of the server commit one after the other, each with its own sync. A process
//! that dies in between sends none. So every process also polls the runs that are watched once a second, which covers a
//! lost connection too. Notifications that queue up while others are sent are sent together, the newest of each run.

use std::{
    collections::HashMap,
    mem,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use futures_util::future::poll_fn;
use tokio::{
    sync::{Notify, mpsc},
    task::JoinHandle,
    time::{MissedTickBehavior, interval, sleep},
};
use tokio_postgres::{AsyncMessage, Client, Config};
use tokio_postgres_rustls::MakeRustlsConnect;
use windlass_core::ids::RunId;

use super::{Parts, columns::Columns as _};
use crate::{Result, watch::Watchers};

const CHANNEL: &str = "windlass_events";

/// The longest payload that Postgres accepts. Events of a run with a longer id are found by polling.
const MAX_PAYLOAD: usize = 8000;

/// How often watched runs are polled.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long to wait before reconnecting.
const PAUSE: Duration = Duration::from_millis(500);

/// Notifications to send.
#[derive(Debug, Default)]
pub(super) struct Notifier {
    pending: Mutex<HashMap<RunId, u64>>,
    queued: Notify,
}

impl Notifier {
    pub(super) fn send(&self, run: RunId, seq: u64) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = pending.entry(run).or_default();
        *newest = seq.max(*newest);
        drop(pending);
        self.queued.notify_one();
    }

    fn take(&self) -> HashMap<RunId, u64> {
        mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A connection that listens. It ends with its receiver.
struct Connected {
    client: Client,
    received: mpsc::UnboundedReceiver<(RunId, u64)>,
}

/// Connects, so that nothing is missed from here on, and reconnects whenever the connection is lost.
pub(super) async fn start(config: Config, tls: MakeRustlsConnect, parts: &Arc<Parts>) -> Result<JoinHandle<()>> {
    let connected = connect(&config, &tls).await?;
    let (notifier, watchers) = (Arc::clone(&parts.notifier), Arc::downgrade(&parts.watchers));
    Ok(tokio::spawn(keep_connected(config, tls, connected, notifier, watchers)))
}

async fn keep_connected(
    config: Config,
    tls: MakeRustlsConnect,
    mut connected: Connected,
    notifier: Arc<Notifier>,
    watchers: Weak<Watchers>,
) {
    loop {
        if let Err(error) = serve(&mut connected, &notifier, &watchers).await {
            tracing::warn!(%error, "connection for notifications lost; events of other processes are found by polling");
        }
        connected = loop {
            sleep(PAUSE).await;
            match connect(&config, &tls).await {
                Ok(connected) => break connected,
                Err(error) => tracing::debug!(%error, "reconnecting for notifications failed"),
            }
        };
        tracing::info!("connection for notifications is back");
    }
}

async fn connect(config: &Config, tls: &MakeRustlsConnect) -> Result<Connected> {
    let (client, mut connection) = config.connect(tls.clone()).await?;
    let (sender, received) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(notification) = message
                && let Some(seq_of_run) = parse(notification.payload())
                && sender.send(seq_of_run).is_err()
            {
                break;
            }
        }
    });
    // A notification is a hint; it need not wait for the disk.
    client.batch_execute(&format!("SET synchronous_commit = off; LISTEN {CHANNEL}")).await?;
    Ok(Connected { client, received })
}

/// Works until the connection is lost.
async fn serve(connected: &mut Connected, notifier: &Notifier, watchers: &Weak<Watchers>) -> Result<()> {
    let mut polls = interval(INTERVAL);
    polls.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is due at once: it finds what was missed while there was no connection.
    loop {
        let Connected { client, received } = connected;
        tokio::select! {
            notification = received.recv() => match (notification, watchers.upgrade()) {
                (Some((run, seq)), Some(watchers)) => watchers.reached(&run, seq),
                // The connection ended; the next statement says why.
                (None, _) => return Ok(client.batch_execute("").await?),
                (_, None) => return Ok(()),
            },
            () = notifier.queued.notified() => notify(client, notifier.take()).await?,
            _ = polls.tick() => {
                if let Some(watchers) = watchers.upgrade() {
                    poll(client, &watchers).await?;
                }
            }
        }
    }
}

async fn notify(client: &Client, pending: HashMap<RunId, u64>) -> Result<()> {
    let payloads = pending.iter().map(|(run, seq)| format!("{seq} {run}"));
    let payloads: Vec<String> = payloads.filter(|payload| payload.len() < MAX_PAYLOAD).collect();
    client.execute("SELECT pg_notify($1, payload) FROM unnest($2::TEXT[]) AS payload", &[&CHANNEL, &payloads]).await?;
    Ok(())
}

fn parse(payload: &str) -> Option<(RunId, u64)> {
    let (seq, run) = payload.split_once(' ')?;
    Some((RunId::new(run), seq.parse().ok()?))
}

async fn poll(client: &Client, watchers: &Watchers) -> Result<()> {
    let watched: Vec<String> = watchers.watched().iter().map(ToString::to_string).collect();
    if watched.is_empty() {
        return Ok(());
    }
    for row in client.query("SELECT id, last_seq FROM runs WHERE id = ANY($1)", &[&watched]).await? {
        watchers.reached(&RunId::new(row.text("id")?), row.uint("last_seq")?);
    }
    Ok(())
}
