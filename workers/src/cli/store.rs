//! `windlass store`: forgetting what is over, and giving its room back. No server is needed, and none is disturbed.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use windlass_core::{run::RunStatus, time::Timestamp};
use windlass_store::{Retention, RunFilter, Store, Swept};

use super::{
    Failure, Global, Output, Stop,
    context::{Missing, now, open_store},
    values,
};
use crate::render::moment;

/// Runs and sessions that are deleted in one transaction: others write in between.
const BATCH: u32 = 100;
/// Runs that are looked at at once.
const PAGE: u32 = 200;

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Delete runs and sessions that ended long ago, with everything that only they refer to
    Sweep(SweepArgs),
    /// Give the room that deleted rows have left back to the file system
    Compact,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass store sweep --older-than 30d --dry-run
  windlass store sweep --older-than 30d
  windlass store compact

Of all workspaces. Runs that have not ended are never touched, however old they are. Workers and servers may go on
meanwhile. docs/guides/retention.md says what goes and what stays.")]
pub struct SweepArgs {
    /// How long ago a run or a session must have ended: 30d, 4w, 12h
    #[arg(long, value_name = "AGE", value_parser = values::age)]
    older_than: Duration,

    /// Only count the runs that would be deleted, and their events
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report<'a> {
    /// What ended before this.
    before: Timestamp,
    dry_run: bool,
    #[serde(flatten)]
    done: &'a Done,
}

/// What was, or would be, deleted.
#[derive(Debug, PartialEq, Eq, Serialize)]
#[serde(untagged)]
enum Done {
    Counted { runs: u64, events: u64 },
    Swept(Swept),
}

pub(super) async fn run(global: &Global, command: StoreCommand) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    let stop = Stop::listen()?.into_token();
    let store = open_store(global, Missing::Refuse).await?;
    let done = execute(&*store.port(), command, out, &stop).await;
    store.close().await?;
    done
}

async fn execute(
    store: &dyn Store,
    command: StoreCommand,
    out: Output,
    stop: &CancellationToken,
) -> Result<ExitCode, Failure> {
    match command {
        StoreCommand::Sweep(SweepArgs { older_than, dry_run }) => {
            let age = u64::try_from(older_than.as_millis()).unwrap_or(u64::MAX);
            let before = Timestamp(now().0.saturating_sub(age));
            let done = if dry_run { count(store, before).await? } else { sweep(store, before, stop).await? };
            out.print(&Report { before, dry_run, done: &done }, || sentence(&done, before))?;
        }
        StoreCommand::Compact => {
            let compacted = store.compact().await?;
            out.print(&compacted, || format!("{} bytes given back", compacted.bytes))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Batch after batch, until nothing is left or somebody has seen enough. Each batch is whole.
async fn sweep(store: &dyn Store, before: Timestamp, stop: &CancellationToken) -> Result<Done, Failure> {
    let progress = if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let mut all = Swept { more: true, ..Swept::default() };
    while all.more && !stop.is_cancelled() {
        let Swept { runs, events, sessions, blobs, more } = store.sweep(Retention { before, limit: BATCH }).await?;
        all = Swept {
            runs: all.runs + runs,
            events: all.events + events,
            sessions: all.sessions + sessions,
            blobs: all.blobs + blobs,
            more,
        };
        progress.set_message(format!("{} runs, {} events deleted", all.runs, all.events));
        progress.tick();
    }
    progress.finish_and_clear();
    Ok(Done::Swept(all))
}

/// The runs that a sweep would delete. Reading all of them takes a while and changes nothing.
async fn count(store: &dyn Store, before: Timestamp) -> Result<Done, Failure> {
    let (mut runs, mut events) = (0, 0);
    let mut cursor = None;
    loop {
        let page = store.runs(RunFilter { cursor, limit: PAGE, ..RunFilter::default() }).await?;
        for run in page.runs {
            // A run that was only reserved has never begun: nobody waits for it after so long.
            let reserved = (run.status == RunStatus::Queued).then_some(run.created_at);
            if run.closed_at.or(reserved).is_some_and(|over| over < before) {
                runs += 1;
                events += run.last_seq;
            }
        }
        cursor = page.next;
        if cursor.is_none() {
            return Ok(Done::Counted { runs, events });
        }
    }
}

fn sentence(done: &Done, before: Timestamp) -> String {
    let over = moment(before);
    match done {
        Done::Counted { runs, events } => format!("ended before {over}: runs {runs}, their events {events}"),
        Done::Swept(Swept { runs, events, sessions, blobs, more }) => {
            let rest = if *more { "; stopped early, sweep again for the rest" } else { "" };
            format!(
                "deleted what ended before {over}: runs {runs}, events {events}, sessions {sessions}, bodies {blobs}{rest}"
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use windlass_store::{
        sqlite::{Options, SqliteStore},
        testing::reserved,
    };

    use super::*;

    const FOREVER: Timestamp = Timestamp(u64::MAX / 4);

    async fn store_with(runs: u32) -> (tempfile::TempDir, SqliteStore) {
        let home = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(Options::new(home.path().join("windlass.db"))).unwrap();
        for run in 0..runs {
            store.reserve_run(reserved(&format!("run-{run}"), "hello")).await.unwrap();
        }
        (home, store)
    }

    #[tokio::test]
    async fn what_is_counted_is_what_goes_and_more_than_one_batch_of_it() {
        let (_home, store) = store_with(BATCH * 2 + 1).await;
        let runs = u64::from(BATCH) * 2 + 1;
        assert_eq!(count(&store, FOREVER).await.unwrap(), Done::Counted { runs, events: 0 });
        assert_eq!(count(&store, Timestamp(0)).await.unwrap(), Done::Counted { runs: 0, events: 0 });
        let stop = CancellationToken::new();
        let swept = sweep(&store, FOREVER, &stop).await.unwrap();
        assert_eq!(swept, Done::Swept(Swept { runs, ..Swept::default() }));
        assert_eq!(count(&store, FOREVER).await.unwrap(), Done::Counted { runs: 0, events: 0 });
    }

    #[tokio::test]
    async fn whoever_stops_it_is_told_that_there_is_more() {
        let (_home, store) = store_with(1).await;
        let stop = CancellationToken::new();
        stop.cancel();
        let swept = sweep(&store, FOREVER, &stop).await.unwrap();
        assert_eq!(swept, Done::Swept(Swept { more: true, ..Swept::default() }));
        let said = sentence(&swept, Timestamp(0));
        assert!(said.ends_with("stopped early, sweep again for the rest"), "{said}");
    }
}
