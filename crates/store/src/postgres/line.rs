//! The line between processes: tells the others about new events and hears of theirs.
//!
//! One connection does both. News are sent after the transaction that made them, not in it: a NOTIFY inside a transaction
//! makes all such transactions of the server commit one after the other, each with its own sync. So a process that dies
//! in between tells nobody; whoever watches looks for itself once a second, which also covers a line that is down. News
//! that pile up while others are sent go together, the newest of each run.

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

/// What Postgres takes at most; whoever watches a run with such an id finds its events by looking.
const LONGEST: usize = 8000;

/// How often watched runs are looked at without being told.
const INTERVAL: Duration = Duration::from_secs(1);

/// How long to wait before the line is taken up again.
const PAUSE: Duration = Duration::from_millis(500);

/// What is to be told.
#[derive(Debug, Default)]
pub(super) struct Line {
    pending: Mutex<HashMap<RunId, u64>>,
    news: Notify,
}

impl Line {
    pub(super) fn tell(&self, run: RunId, seq: u64) {
        let mut pending = self.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = pending.entry(run).or_default();
        *newest = seq.max(*newest);
        drop(pending);
        self.news.notify_one();
    }

    fn take(&self) -> HashMap<RunId, u64> {
        mem::take(&mut *self.pending.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A connection that listens. It ends with its receiver.
struct Connected {
    client: Client,
    heard: mpsc::UnboundedReceiver<(RunId, u64)>,
}

/// Takes the line up, so that nothing is missed from here on, and keeps it up.
pub(super) async fn start(config: Config, tls: MakeRustlsConnect, parts: &Arc<Parts>) -> Result<JoinHandle<()>> {
    let connected = connect(&config, &tls).await?;
    let (line, watchers) = (Arc::clone(&parts.line), Arc::downgrade(&parts.watchers));
    Ok(tokio::spawn(keep_up(config, tls, connected, line, watchers)))
}

async fn keep_up(
    config: Config,
    tls: MakeRustlsConnect,
    mut connected: Connected,
    line: Arc<Line>,
    watchers: Weak<Watchers>,
) {
    loop {
        if let Err(error) = serve(&mut connected, &line, &watchers).await {
            tracing::warn!(%error, "the line to other processes is down; their events are noticed later");
        }
        connected = loop {
            sleep(PAUSE).await;
            match connect(&config, &tls).await {
                Ok(connected) => break connected,
                Err(error) => tracing::debug!(%error, "the line is still down"),
            }
        };
        tracing::info!("the line to other processes is up again");
    }
}

async fn connect(config: &Config, tls: &MakeRustlsConnect) -> Result<Connected> {
    let (client, mut connection) = config.connect(tls.clone()).await?;
    let (hear, heard) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Some(Ok(message)) = poll_fn(|context| connection.poll_message(context)).await {
            if let AsyncMessage::Notification(news) = message
                && let Some(news) = parse(news.payload())
                && hear.send(news).is_err()
            {
                break;
            }
        }
    });
    // What is told is a hint; it need not wait for a disk.
    client.batch_execute(&format!("SET synchronous_commit = off; LISTEN {CHANNEL}")).await?;
    Ok(Connected { client, heard })
}

/// Works until the connection is lost.
async fn serve(connected: &mut Connected, line: &Line, watchers: &Weak<Watchers>) -> Result<()> {
    let mut looks = interval(INTERVAL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    // The first tick is due at once: what was missed while the line was down is found now.
    loop {
        let Connected { client, heard } = connected;
        tokio::select! {
            news = heard.recv() => match (news, watchers.upgrade()) {
                (Some((run, seq)), Some(watchers)) => watchers.reached(&run, seq),
                // The connection ended; the next statement says why.
                (None, _) => return Ok(client.batch_execute("").await?),
                (_, None) => return Ok(()),
            },
            () = line.news.notified() => tell(client, line.take()).await?,
            _ = looks.tick() => {
                if let Some(watchers) = watchers.upgrade() {
                    look(client, &watchers).await?;
                }
            }
        }
    }
}

async fn tell(client: &Client, news: HashMap<RunId, u64>) -> Result<()> {
    let payloads = news.iter().map(|(run, seq)| format!("{seq} {run}"));
    let payloads: Vec<String> = payloads.filter(|payload| payload.len() < LONGEST).collect();
    client.execute("SELECT pg_notify($1, payload) FROM unnest($2::TEXT[]) AS payload", &[&CHANNEL, &payloads]).await?;
    Ok(())
}

fn parse(payload: &str) -> Option<(RunId, u64)> {
    let (seq, run) = payload.split_once(' ')?;
    Some((RunId::new(run), seq.parse().ok()?))
}

async fn look(client: &Client, watchers: &Watchers) -> Result<()> {
    let watched: Vec<String> = watchers.watched().iter().map(ToString::to_string).collect();
    if watched.is_empty() {
        return Ok(());
    }
    for row in client.query("SELECT id, last_seq FROM runs WHERE id = ANY($1)", &[&watched]).await? {
        watchers.reached(&RunId::new(row.text("id")?), row.uint("last_seq")?);
    }
    Ok(())
}
