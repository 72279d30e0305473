//! The client of `cargo xtask load`: thousands of streams on one server, every frame of every one of them accounted for.
//!
//! A brief comes on stdin, one line of JSON with the measured figures goes to stdout. It has few dependencies, so that a
//! release build of it takes seconds: a slow client would be what is measured.

mod figures;
mod http;
mod process;
mod reader;

use std::{net::SocketAddr, sync::Arc, time::Instant};

use anyhow::{Context as _, Result, bail, ensure};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::{
    sync::{Semaphore, mpsc},
    task::JoinSet,
    time::Duration,
};

use self::{
    figures::{Figures, Logs, percentile},
    http::Client,
    process::Process,
    reader::{Reader, Seen},
};

/// Streams that are being opened at the same time.
const OPENING: usize = 128;
/// How often the server's memory is looked at.
const LOOK: Duration = Duration::from_millis(250);

/// What to do, and to whom.
#[derive(Debug, Deserialize)]
struct Brief {
    api: SocketAddr,
    key: String,
    workspace: String,
    /// The server's process.
    pid: u32,
    streams: usize,
    /// Readers are spread evenly over so many runs.
    runs: usize,
    model: String,
}

#[tokio::main]
async fn main() -> Result<()> {
    process::raise_file_limit()?;
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let brief: Brief = serde_json::from_str(&line).context("the brief does not fit")?;
    let client = Client::new(brief.api, &brief.workspace, &brief.key);
    let figures = measure(&brief, &client).await?;
    println!("{}", serde_json::to_string(&figures)?);
    Ok(())
}

async fn measure(brief: &Brief, client: &Client) -> Result<Figures> {
    let server = Process(brief.pid);
    let runs = start(client, brief).await?;
    let rss_before = server.steady_memory(LOOK).await?;

    // Every reader is at work once it has seen that its run waits.
    let opening = Instant::now();
    let mut readers = open(client, &runs, brief.streams).await?;
    let open_s = opening.elapsed().as_secs_f64();
    let rss_idle = server.steady_memory(LOOK).await?;

    let (cpu, own_cpu, begun) = (server.cpu_time()?, Process::me().cpu_time()?, Instant::now());
    for run in &runs {
        let answer = json!({"awaitId": "await-1", "answer": "Go."});
        client.post(&format!("/agent-runs/{run}/answers"), &answer).await?;
    }
    let mut streams: Vec<Vec<Seen>> = vec![Vec::new(); runs.len()];
    let mut rss_peak = rss_idle;
    let mut looks = tokio::time::interval(LOOK);
    loop {
        tokio::select! {
            ended = readers.join_next() => match ended {
                Some(ended) => {
                    let (run, seen) = ended??;
                    streams[run].push(seen);
                }
                None => break,
            },
            _ = looks.tick() => rss_peak = rss_peak.max(server.memory()?),
        }
    }
    let took = begun.elapsed().as_secs_f64();
    let (cpu, own_cpu) = (server.cpu_time()? - cpu, Process::me().cpu_time()? - own_cpu);

    let logs = Logs::read(client, &runs).await?;
    let checked = logs.check(&streams)?;
    let published = logs.published();
    Ok(Figures {
        metric: "load",
        streams: brief.streams,
        runs: runs.len(),
        published: published.events,
        published_per_s: published.events as f64 / published.seconds,
        delivered: checked.delivered,
        delivered_per_s: checked.delivered as f64 / took,
        complete_streams: streams.iter().map(Vec::len).sum(),
        latency_ms_p50: percentile(&checked.latencies_ms, 50),
        latency_ms_p99: percentile(&checked.latencies_ms, 99),
        latency_ms_max: percentile(&checked.latencies_ms, 100),
        open_s,
        rss_bytes_before: rss_before,
        rss_bytes_idle: rss_idle,
        rss_bytes_per_stream: rss_idle.saturating_sub(rss_before) / brief.streams as u64,
        rss_bytes_peak: rss_peak,
        server_cpus: cpu.as_secs_f64() / took,
        client_cpus: own_cpu.as_secs_f64() / took,
    })
}

async fn start(client: &Client, brief: &Brief) -> Result<Vec<String>> {
    let spec = json!({"systemPrompt": "Wait, then talk.", "modelId": brief.model, "prompt": "Go.", "tools": []});
    let mut runs = Vec::new();
    for _ in 0..brief.runs {
        let taken = client.post("/agent-runs", &spec).await?;
        runs.push(taken["runId"].as_str().with_context(|| format!("no runId in {taken}"))?.to_owned());
    }
    Ok(runs)
}

/// Opens all streams and returns when each of them has seen its run wait.
async fn open(client: &Client, runs: &[String], streams: usize) -> Result<JoinSet<Result<(usize, Seen)>>> {
    let (room, (waits, mut waiting)) = (Arc::new(Semaphore::new(OPENING)), mpsc::unbounded_channel());
    let mut readers = JoinSet::new();
    for index in 0..streams {
        let run = index % runs.len();
        let (client, room, waits, id) = (client.clone(), Arc::clone(&room), waits.clone(), runs[run].clone());
        readers.spawn(async move {
            let place = room.acquire_owned().await?;
            let mut reader = Reader::open(&client, &id).await?;
            reader.until("await_opened").await.with_context(|| format!("stream {index} of {id}"))?;
            waits.send(())?;
            drop((place, waits));
            let seen = reader.finish().await.with_context(|| format!("stream {index} of {id}"))?;
            Ok((run, seen))
        });
    }
    drop(waits);
    for _ in 0..streams {
        if waiting.recv().await.is_none() {
            while let Some(ended) = readers.join_next().await {
                ended??;
            }
            bail!("a stream ended before its run began to talk");
        }
    }
    ensure!(readers.try_join_next().is_none(), "a stream ended before its run began to talk");
    Ok(readers)
}

/// A page of a run's log.
async fn log_page(client: &Client, run: &str, after: u64) -> Result<Vec<Value>> {
    let page = client.get(&format!("/agent-runs/{run}/events?after={after}&limit=200")).await?;
    Ok(page["events"].as_array().cloned().unwrap_or_default())
}
