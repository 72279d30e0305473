//! Orders come on stdin and are answered on stdout, one JSON document per line. The end of stdin ends the program.

use std::{
    future::Future,
    sync::Arc,
    time::{Duration, Instant},
};

use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    task::JoinSet,
};

use crate::{Probe, Result, Work};

/// Runs that are started, or parked, concurrently.
const AT_ONCE: usize = 64;
/// From a client's request for a result to the answer: the request has reached the server by then.
const ATTACHED: Duration = Duration::from_millis(20);

/// What the program does with the system under test. A client waits in the way that the system offers.
pub trait Peer: Send + Sync + 'static {
    /// Starts a run and returns its result once it has ended.
    fn complete(&self, run: &str, work: Work) -> impl Future<Output = Result<()>> + Send;
    /// Starts a run; it is durable when this returns.
    fn begin(&self, run: &str, work: Work) -> impl Future<Output = Result<()>> + Send;
    /// Waits for the result of a run that was begun, perhaps by an earlier process.
    fn finish(&self, run: &str) -> impl Future<Output = Result<()>> + Send;
    /// Sends the answer a run waits for.
    fn answer(&self, run: &str) -> impl Future<Output = Result<()>> + Send;
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(tag = "order", rename_all = "snake_case")]
enum Order {
    /// Runs one after the other; the gaps between their steps.
    Run { first: u32, count: u32, turns: u32, calls: u32 },
    /// Runs all at once; the time until the last has ended.
    Batch { first: u32, count: u32, turns: u32, calls: u32 },
    /// Runs that wait, one after the other; the time from the answer to the client having the result.
    Signal { first: u32, count: u32 },
    /// Runs that wait and are left waiting.
    Park { first: u32, count: u32 },
    /// Starts runs; done when so many calls have begun.
    Begin { first: u32, count: u32, turns: u32, calls: u32, until: u64 },
    /// Done when all of them have ended.
    Finish { first: u32, count: u32 },
}

/// Carries out orders until stdin ends.
pub async fn serve<P: Peer>(peer: P, probe: Probe) -> Result<()> {
    let peer = Arc::new(peer);
    println!("{}", json!({"ready": true}));
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let report = match carry_out(&peer, &probe, serde_json::from_str(&line)?).await {
            Ok(report) => report,
            Err(error) => json!({"failed": error.to_string()}),
        };
        println!("{report}");
    }
    Ok(())
}

async fn carry_out<P: Peer>(peer: &Arc<P>, probe: &Probe, order: Order) -> Result<Value> {
    match order {
        Order::Run { first, count, turns, calls } => {
            let mut gaps = Vec::new();
            probe.take_gaps();
            for run in names(first, count) {
                peer.complete(&run, Work { turns, calls, asks: false }).await?;
                gaps.extend(probe.take_gaps());
            }
            Ok(json!({"gaps_ms": gaps}))
        }
        Order::Batch { first, count, turns, calls } => {
            let work = Work { turns, calls, asks: false };
            let begun = Instant::now();
            let act = |peer: Arc<P>, run: String| async move { peer.complete(&run, work).await };
            all(peer, names(first, count), count as usize, act).await?;
            Ok(json!({"wall_s": begun.elapsed().as_secs_f64()}))
        }
        Order::Signal { first, count } => {
            let mut took = Vec::new();
            for run in names(first, count) {
                park(&**peer, probe, &run).await?;
                let (client, name) = (Arc::clone(peer), run.clone());
                let result = tokio::spawn(async move { client.finish(&name).await });
                tokio::time::sleep(ATTACHED).await;
                let sent = Instant::now();
                peer.answer(&run).await?;
                result.await??;
                took.push(sent.elapsed().as_secs_f64() * 1000.0);
            }
            Ok(json!({"ms": took}))
        }
        Order::Park { first, count } => {
            let probe = probe.clone();
            let act = move |peer: Arc<P>, run: String| {
                let probe = probe.clone();
                async move { park(&*peer, &probe, &run).await }
            };
            all(peer, names(first, count), AT_ONCE, act).await?;
            Ok(json!({"done": true}))
        }
        Order::Begin { first, count, turns, calls, until } => {
            let work = Work { turns, calls, asks: false };
            let act = |peer: Arc<P>, run: String| async move { peer.begin(&run, work).await };
            let begun = async {
                probe.until_calls(until).await;
                Ok(())
            };
            tokio::try_join!(all(peer, names(first, count), AT_ONCE, act), begun)?;
            Ok(json!({"done": true}))
        }
        Order::Finish { first, count } => {
            let act = |peer: Arc<P>, run: String| async move { peer.finish(&run).await };
            all(peer, names(first, count), count as usize, act).await?;
            Ok(json!({"done": true}))
        }
    }
}

async fn park<P: Peer>(peer: &P, probe: &Probe, run: &str) -> Result<()> {
    peer.begin(run, Work::ASKS).await?;
    probe.until_waits(run).await;
    Ok(())
}

fn names(first: u32, count: u32) -> Vec<String> {
    (first..first + count).map(|run| format!("run-{run}")).collect()
}

/// Does the same for many runs, so many of them at once.
async fn all<P: Peer, F: Future<Output = Result<()>> + Send + 'static>(
    peer: &Arc<P>,
    runs: Vec<String>,
    at_once: usize,
    act: impl Fn(Arc<P>, String) -> F,
) -> Result<()> {
    let mut under_way = JoinSet::new();
    for run in runs {
        if under_way.len() >= at_once
            && let Some(ended) = under_way.join_next().await
        {
            ended??;
        }
        under_way.spawn(act(Arc::clone(peer), run));
    }
    while let Some(ended) = under_way.join_next().await {
        ended??;
    }
    Ok(())
}
