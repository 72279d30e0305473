//! Migrations that no other process may see: those after which a running process of an older build could not go on.

use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode};

use crate::{DatabaseError, Result, check, connection, migrate};

/// How long to wait for other processes to close the file. Several that are started at once upgrade it one after the other.
const PATIENCE: Duration = Duration::from_secs(2);

/// Upgrades the tables of a component if they are older than `since`, alone: fails with [`DatabaseError::InUse`] and changes
/// nothing if another connection has the file open, of this process or another one. A file without the component is left
/// alone. Blocks.
///
/// SQLite itself says whether the file is in use: a connection with a write-ahead log has a shared lock for as long as it
/// exists, and only a connection that is alone can leave that mode. It keeps the exclusive lock until the upgrade is
/// committed.
pub fn upgrade_alone(path: &Path, component: &str, migrations: &[&str], since: usize) -> Result<()> {
    let until = Instant::now() + PATIENCE;
    loop {
        match attempt(path, component, migrations, since) {
            Err(DatabaseError::InUse { .. }) if Instant::now() < until => {
                // Processes that were started together try at different times.
                thread::sleep(Duration::from_millis(20 + u64::from(std::process::id() % 7) * 30));
            }
            outcome => return outcome,
        }
    }
}

fn attempt(path: &Path, component: &str, migrations: &[&str], since: usize) -> Result<()> {
    if !path.exists() {
        return Ok(());
    }
    check::reject_non_database(path)?;
    // What is wrong with the file, if anything, is told when it is opened.
    let Ok(found) = connection::open_reader(path).and_then(|sql| migrate::found(&sql, path, component)) else {
        return Ok(());
    };
    if found == 0 || found >= since {
        return Ok(());
    }
    let mut sql = connection::open_writer(path)?;
    check::checkpoint_on_close(&sql, false)?;
    migrate::check_layout(&sql, path)?;
    check::quick_check(&mut sql, path)?;
    check::checkpoint_on_close(&sql, true)?;
    let locked = lock(&sql);
    match locked {
        Ok(true) => {}
        Ok(false) => return Err(in_use(path)),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => return Err(in_use(path)),
        Err(error) => return Err(error.into()),
    }
    tracing::info!(path = %path.display(), component, "the tables are upgraded; this may take a while");
    sql.pragma_update(None, "synchronous", "FULL")?;
    let transaction = sql.transaction()?;
    migrate::migrate(&transaction, path, component, migrations)?;
    Ok(transaction.commit()?)
}

/// Says whether this connection is the only one.
fn lock(sql: &Connection) -> rusqlite::Result<bool> {
    sql.busy_timeout(Duration::ZERO)?;
    sql.pragma_update(None, "locking_mode", "EXCLUSIVE")?;
    let mode = sql.pragma_update_and_check(None, "journal_mode", "DELETE", |row| row.get::<_, String>(0))?;
    Ok(mode == "delete")
}

fn in_use(path: &Path) -> DatabaseError {
    DatabaseError::InUse { path: path.to_owned() }
}
