//! The child process of `parked`, `closed` and `recovery`: it executes runs and can be measured, stopped and killed. It reads orders
//! from stdin and writes reports to stdout.

use std::{
    io::{self, Write as _},
    sync::Arc,
};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;
use windlass_core::{envelope::CallStatus, event::EventBody};
use windlass_ops::RunOps;

use super::{
    args::BenchArgs,
    backend::Backend,
    lists,
    orders::{Brief, Order, Report},
    probe::{Ledger, Probe},
    rig::{Rig, answer, close, finish, park, start},
    site::Site,
    work,
};
use crate::failure::{Failure, usage};

/// Runs that are started, or awaited, concurrently.
const AT_ONCE: usize = 64;
/// Runs between two progress reports.
const REPORT_EVERY: u32 = 50;
/// More events than a run of the benchmark has.
const ALL_EVENTS: u32 = 100_000;

/// Serves the parent process until it sends `stop` or closes stdin.
pub(super) async fn serve(backend: Backend, args: &BenchArgs) -> Result<(), Failure> {
    let mut lines = lines_of_stdin();
    let brief = lines.recv().await.unwrap_or_default();
    let brief: Brief = serde_json::from_str(&brief)
        .map_err(|error| usage(format!("--host is for internal use by `windlass bench`: {error}")))?;
    let (told, halfway) = oneshot::channel();
    let ledger = match &brief.ledger {
        Some(path) => Some(Arc::new(Ledger::open(path, brief.halfway.map(|calls| (calls, told)))?)),
        None => None,
    };
    tokio::spawn(async move {
        if halfway.await.is_ok() {
            report(&Report::Halfway);
        }
    });
    let site = Site {
        backend,
        durability: args.durability(),
        max_cached_runs: args.max_cached_runs,
        data_dir: brief.data_dir,
        task_queue: brief.task_queue,
        through_api: false,
        interrupted: CancellationToken::new(),
    };
    let probe = Probe { beats: None, ledger };
    Rig::with(&site, brief.work, probe, async |rig| {
        if orders(&rig.ops, &site, &mut lines).await? == Ending::Deserted {
            rig.abandon(brief.runs);
        }
        Ok(())
    })
    .await
}

type Lines = mpsc::UnboundedReceiver<String>;

/// Ends when stdin does.
fn lines_of_stdin() -> Lines {
    let (sender, lines) = mpsc::unbounded_channel();
    std::thread::spawn(move || {
        for line in io::stdin().lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}

#[derive(Debug, PartialEq, Eq)]
enum Ending {
    Stopped,
    /// The parent closed stdin.
    Deserted,
}

async fn orders(ops: &RunOps, site: &Site, lines: &mut Lines) -> Result<Ending, Failure> {
    while let Some(line) = lines.recv().await {
        let order: Order = serde_json::from_str(&line)?;
        if order == Order::Stop {
            return Ok(Ending::Stopped);
        }
        let carried_out = tokio::select! {
            carried_out = carry_out(ops, site, order) => carried_out,
            // Orders are sent one at a time, so this is the end of stdin.
            _ = lines.recv() => return Ok(Ending::Deserted),
        };
        report(&carried_out.unwrap_or_else(|failure| Report::Failed { message: failure.to_string() }));
    }
    Ok(Ending::Deserted)
}

async fn carry_out(ops: &RunOps, site: &Site, order: Order) -> Result<Report, Failure> {
    match order {
        Order::Park { first, count } => {
            all(first, count, async |run| park(ops, site.run(run)).await.map(|_| ())).await?;
        }
        Order::Start { count } => {
            all(0, count, async |run| start(ops, work::working(), site.run(run)).await.map(|_| ())).await?;
        }
        Order::Finish { count } => {
            all(0, count, async |run| finish(ops, &site.run(run)).await.map(|_| ())).await?;
        }
        Order::Close { count } => {
            all(0, count, async |run| close(ops, work::closing(run), site.run(run)).await).await?;
        }
        Order::Look => lists::look(ops).await?,
        Order::TimeLists { runs } => return Ok(Report::Timed { requests: lists::time(ops, runs).await? }),
        Order::Answer { run } => {
            let run = site.run(run);
            answer(ops, &run).await?;
            finish(ops, &run).await?;
        }
        Order::CountUnknown { count } => return count_unknown(ops, site, count).await,
        Order::Stop => {}
    }
    Ok(Report::Done)
}

/// Does the same for many runs, some of them concurrently.
async fn all(first: u32, count: u32, act: impl AsyncFn(u32) -> Result<(), Failure>) -> Result<(), Failure> {
    let mut done = 0;
    let mut acts = stream::iter(first..first + count).map(|number| act(number)).buffer_unordered(AT_ONCE);
    while acts.try_next().await?.is_some() {
        done += 1;
        if done % REPORT_EVERY == 0 {
            report(&Report::Progress { runs: done });
        }
    }
    Ok(())
}

async fn count_unknown(ops: &RunOps, site: &Site, count: u32) -> Result<Report, Failure> {
    let mut calls = 0;
    for number in 0..count {
        let events = ops.store().events(&site.run(number), 0, ALL_EVENTS).await?;
        calls += events.iter().filter(|event| is_unknown(event.body().ok())).count() as u64;
    }
    Ok(Report::Counted { calls })
}

fn is_unknown(event: Option<EventBody>) -> bool {
    matches!(event, Some(EventBody::ToolResult { status: CallStatus::OutcomeUnknown, .. }))
}

/// Errors are ignored: a parent that is gone is noticed when orders are read.
fn report(report: &Report) {
    let mut out = io::stdout().lock();
    let written = serde_json::to_writer(&mut out, report).map_err(io::Error::from);
    let _ = written.and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
}
