//! `windlass store backup` and `windlass store restore`.

use std::{
    error::Error,
    io::{self, IsTerminal as _},
    path::PathBuf,
    process::ExitCode,
    sync::Arc,
    time::Duration,
};

use clap::{Args, ValueHint};
use indicatif::{HumanBytes, ProgressBar};
use serde_json::json;
use tokio::task::JoinHandle;
use windlass_engine::DirectoryLock;
use windlass_sqlite::Progress;

use super::{Failure, Global, Output, Stop, failed, usage};
use crate::service::Missing;

/// How often the progress is drawn.
const TICK: Duration = Duration::from_millis(100);

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass store backup /backups/windlass-2026-01-31.db
  windlass store backup --force /backups/latest.db

A backup is one consistent copy of runs, transcripts, keys and the engine's histories. Servers and workers can keep
running. The copy is verified and synced before it gets its name. See docs/guides/backup.md.")]
pub struct BackupArgs {
    /// File to write
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,

    /// Replace the file if it exists
    #[arg(long)]
    force: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  windlass store restore /backups/windlass-2026-01-31.db
  windlass store restore /backups/windlass-2026-01-31.db --data-dir /var/lib/windlass

Stop all processes that use the data directory first. The backup is verified before anything is changed. The database that
it replaces is kept under another name.")]
pub struct RestoreArgs {
    /// Backup to restore
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
}

pub(super) async fn backup(global: &Global, args: BackupArgs) -> Result<ExitCode, Failure> {
    not_for_postgres(global, "pg_dump --format=custom --file=FILE \"$WINDLASS_POSTGRES_URL\"")?;
    global.store()?.check(Missing::Refuse)?;
    let (out, database) = (Output::new(global.json), global.store_path());
    let progress = Arc::new(Progress::default());
    let copied = tokio::task::spawn_blocking({
        let (database, file, progress) = (database.clone(), args.file.clone(), Arc::clone(&progress));
        move || windlass_sqlite::backup(&database, &file, args.force, &progress)
    });
    let bytes = watched(&progress, |done| format!("{} written", HumanBytes(done)), copied).await?;
    let document = json!({"file": args.file, "bytes": bytes, "database": database});
    out.print(&document, || format!("{}: {} of {}", args.file.display(), HumanBytes(bytes), database.display()))?;
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn restore(global: &Global, args: RestoreArgs) -> Result<ExitCode, Failure> {
    not_for_postgres(global, "pg_restore --clean --if-exists --dbname=\"$WINDLASS_POSTGRES_URL\" FILE")?;
    if !args.file.exists() {
        return Err(failed(format!("the backup {} does not exist; check the path", args.file.display())));
    }
    let (out, database) = (Output::new(global.json), global.store_path());
    let _lock = DirectoryLock::acquire(&global.data_dir)?;
    let progress = Arc::new(Progress::default());
    let restored = tokio::task::spawn_blocking({
        let (database, file, progress) = (database.clone(), args.file.clone(), Arc::clone(&progress));
        let known = [windlass_store::sqlite::SCHEMA, windlass_engine::SCHEMA];
        move || windlass_sqlite::restore(&file, &database, &known, &progress)
    });
    let restored = watched(&progress, |done| format!("{} copied", HumanBytes(done)), restored).await?;
    let document = json!({"database": database, "bytes": restored.bytes, "replaced": restored.replaced});
    out.print(&document, || {
        let kept = restored.replaced.as_ref().map(|aside| format!("; the replaced database is {}", aside.display()));
        format!("{} restored from {}{}", database.display(), args.file.display(), kept.unwrap_or_default())
    })?;
    Ok(ExitCode::SUCCESS)
}

/// Postgres has its own backup tools.
fn not_for_postgres(global: &Global, instead: &str) -> Result<(), Failure> {
    match global.postgres()? {
        Some(_) => Err(usage(format!("this store is in Postgres; use the tools of Postgres: {instead}"))),
        None => Ok(()),
    }
}

/// Waits for a long operation, shows its progress at a terminal, and stops it on a signal.
pub(super) async fn watched<T, E: Error + Send + Sync + 'static>(
    progress: &Progress,
    message: impl Fn(u64) -> String,
    mut work: JoinHandle<Result<T, E>>,
) -> Result<T, Failure> {
    let stop = Stop::listen()?.into_token();
    let shown = if io::stderr().is_terminal() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let done = loop {
        tokio::select! {
            done = &mut work => break done,
            () = stop.cancelled(), if !progress.is_stopped() => progress.stop(),
            () = tokio::time::sleep(TICK) => {
                shown.set_message(message(progress.done()));
                shown.tick();
            }
        }
    };
    shown.finish_and_clear();
    Ok(done??)
}
