//! `windlass store`: deleting what is over, shortening the database file, and backups. No server is needed, and none is
//! disturbed.

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

/// Runs and sessions that are deleted in one transaction: others write in between.
const BATCH: u32 = 100;

#[derive(Debug, Subcommand)]
pub enum StoreCommand {
    /// Delete runs and sessions that ended long ago, with everything that only they refer to
    Sweep(SweepArgs),
    /// Shorten the database file by the free pages that deleted rows have left (SQLite)
    Compact,
    /// Write a consistent copy of everything to a file, while it is in use
    Backup(BackupArgs),
    /// Put a backup in the place of the data directory's database
    Restore(RestoreArgs),
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

    /// Only count what would be deleted
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    /// What was over before this.
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

/// Batch after batch, until nothing is left or somebody has seen enough. Each batch is whole.
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

/// What became of the room of deleted rows.
fn reclaimed(bytes: u64, postgres: bool) -> String {
    let what = match (bytes, postgres) {
        (_, true) => "nothing to do, Postgres reclaims the room of deleted rows itself (autovacuum)",
        (0, false) => "the database file has no free pages that could be cut off",
        (_, false) => "free pages of deleted rows, cut off the end of the database file",
    };
    format!("{bytes} bytes reclaimed: {what}")
}

fn sentence(report: &Report) -> String {
    let Swept { runs, events, sessions, blobs, more } = report.swept;
    let verb = if report.dry_run { "would delete" } else { "deleted" };
    let rest = if more { "; stopped early, sweep again for the rest" } else { "" };
    let before = moment(report.before);
    format!(
        "{verb} what ended before {before}: runs {runs}, events {events}, sessions {sessions}, bodies {blobs}{rest}"
    )
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
        let all = Swept { runs: u64::from(BATCH) * 2 + 1, ..Swept::default() };
        assert_eq!(store.would_sweep(FOREVER).await.unwrap(), all);
        assert_eq!(store.would_sweep(Timestamp(0)).await.unwrap(), Swept::default());
        let stop = CancellationToken::new();
        assert_eq!(sweep(&store, FOREVER, &stop).await.unwrap(), all);
        assert_eq!(store.would_sweep(FOREVER).await.unwrap(), Swept::default());
    }

    #[test]
    fn compacting_says_what_was_reclaimed_and_why_nothing_was() {
        let guide = include_str!("../../../docs/guides/retention.md");
        for (bytes, postgres) in [(4096, false), (0, false), (0, true)] {
            let said = reclaimed(bytes, postgres);
            assert!(guide.contains(&said.replace("4096", "N")), "{said:?} is not in docs/guides/retention.md");
        }
    }

    #[tokio::test]
    async fn whoever_stops_it_is_told_that_there_is_more() {
        let (_home, store) = store_with(1).await;
        let stop = CancellationToken::new();
        stop.cancel();
        let swept = sweep(&store, FOREVER, &stop).await.unwrap();
        assert_eq!(swept, Swept { more: true, ..Swept::default() });
        let said = sentence(&Report { before: Timestamp(0), dry_run: false, swept });
        assert!(said.ends_with("stopped early, sweep again for the rest"), "{said}");
    }
}
