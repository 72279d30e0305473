//! `windlass store`: delete old runs, reclaim disk space, back up and restore. No server is needed, and running servers are
//! not interrupted.

use std::{
    io::{self, IsTerminal as _},
    process::ExitCode,
    time::Duration,
};

use clap::{Args, Subcommand};
use indicatif::ProgressBar;
use serde::Serialize;
use tokio_util::sync::CancellationToken;
use windlass_core::time::Timestamp;
use windlass_store::{Retention, Store, Swept};

use super::{
    Failure, Global, Output, Stop,
    backup::{self, BackupArgs, RestoreArgs},
    now, values,
};
use crate::{
    render::moment,
    service::{AnyStore, Missing},
};

/// Runs and sessions that are deleted in one transaction, so that other writers do not wait long.
const BATCH: u32 = 100;

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Delete old finished runs and ended sessions, with their events, transcripts and blobs
    Sweep(SweepArgs),
    /// Reclaim disk space: truncate free pages at the end of the SQLite file
    Compact,
    /// Write a consistent copy of the database to a file, while it is in use
    Backup(BackupArgs),
    /// Replace the database of the data directory with a backup
    Restore(RestoreArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass store sweep --older-than 30d --dry-run
  windlass store sweep --older-than 30d
  windlass store compact

This affects all workspaces. Runs that have not ended are never deleted. Workers and API servers can keep running.
docs/guides/retention.md lists what is deleted and what is kept.")]
pub struct SweepArgs {
    /// Minimum age of a finished run or ended session: 30d, 4w, 12h
    #[arg(long, value_name = "AGE", value_parser = values::age)]
    older_than: Duration,

    /// Only count what would be deleted
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// Runs and sessions that ended before this time.
    before: Timestamp,
    dry_run: bool,
    /// What was, or would be, deleted.
    #[serde(flatten)]
    swept: Swept,
}

pub(super) async fn run(global: &Global, command: StoreCommand) -> Result<ExitCode, Failure> {
    match command {
        StoreCommand::Sweep(args) => with_store(global, Some(args)).await,
        StoreCommand::Compact => with_store(global, None).await,
        StoreCommand::Backup(args) => backup::backup(global, args).await,
        StoreCommand::Restore(args) => backup::restore(global, args).await,
    }
}

/// Sweeps the store, or compacts it.
async fn with_store(global: &Global, sweep: Option<SweepArgs>) -> Result<ExitCode, Failure> {
    let out = Output::new(global.json);
    let stop = Stop::listen()?.into_token();
    let store = global.open_store(Missing::Refuse).await?;
    let postgres = matches!(store, AnyStore::Postgres(_));
    let done = execute(&*store.port(), sweep, (out, postgres), &stop).await;
    store.close().await?;
    done
}

async fn execute(
    store: &dyn Store,
    command: Option<SweepArgs>,
    (out, postgres): (Output, bool),
    stop: &CancellationToken,
) -> Result<ExitCode, Failure> {
    match command {
        Some(SweepArgs { older_than, dry_run }) => {
            let age = u64::try_from(older_than.as_millis()).unwrap_or(u64::MAX);
            let before = Timestamp(now().0.saturating_sub(age));
            let swept = if dry_run { store.would_sweep(before).await? } else { sweep(store, before, stop).await? };
            let report = Report { before, dry_run, swept };
            out.print(&report, || sentence(&report))?;
        }
        None => {
            let compacted = store.compact().await?;
            out.print(&compacted, || reclaimed(compacted.bytes, postgres))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Deletes batch after batch until nothing is left or the stop is requested. Each batch is one transaction.
async fn sweep(store: &dyn Store, before: Timestamp, stop: &CancellationToken) -> Result<Swept, Failure> {
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
    Ok(all)
}

/// The result of compacting.
fn reclaimed(bytes: u64, postgres: bool) -> String {
    let what = match (bytes, postgres) {
        (_, true) => "nothing to do, Postgres reclaims the space of deleted rows itself (autovacuum)",
        (0, false) => "the database file has no free pages at its end",
        (_, false) => "free pages at the end of the database file were truncated",
    };
    format!("{bytes} bytes reclaimed: {what}")
}

fn sentence(report: &Report) -> String {
    let Swept { runs, events, sessions, blobs, more } = report.swept;
    let verb = if report.dry_run { "would delete" } else { "deleted" };
    let rest = if more { "; stopped early, run it again to delete the rest" } else { "" };
    let before = moment(report.before);
    format!(
        "{verb} data that ended before {before}: runs {runs}, events {events}, sessions {sessions}, blobs {blobs}{rest}"
    )
}

#[cfg(test)]
mod tests {
    use windlass_store::{
        Housekeeping as _, Reservations as _,
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
    async fn a_dry_run_counts_exactly_what_a_sweep_of_several_batches_deletes() {
        let (_home, store) = store_with(BATCH * 2 + 1).await;
        let all = Swept { runs: u64::from(BATCH) * 2 + 1, ..Swept::default() };
        assert_eq!(store.would_sweep(FOREVER).await.unwrap(), all);
        assert_eq!(store.would_sweep(Timestamp(0)).await.unwrap(), Swept::default());
        let stop = CancellationToken::new();
        assert_eq!(sweep(&store, FOREVER, &stop).await.unwrap(), all);
        assert_eq!(store.would_sweep(FOREVER).await.unwrap(), Swept::default());
    }

    #[test]
    fn the_result_of_compacting_is_documented() {
        let guide = include_str!("../../../docs/guides/retention.md");
        for (bytes, postgres) in [(4096, false), (0, false), (0, true)] {
            let said = reclaimed(bytes, postgres);
            assert!(guide.contains(&said.replace("4096", "N")), "{said:?} is not in docs/guides/retention.md");
        }
    }

    #[tokio::test]
    async fn a_sweep_that_is_stopped_reports_that_more_is_left() {
        let (_home, store) = store_with(1).await;
        let stop = CancellationToken::new();
        stop.cancel();
        let swept = sweep(&store, FOREVER, &stop).await.unwrap();
        assert_eq!(swept, Swept { more: true, ..Swept::default() });
        let said = sentence(&Report { before: Timestamp(0), dry_run: false, swept });
        assert!(said.ends_with("stopped early, run it again to delete the rest"), "{said}");
    }
}
