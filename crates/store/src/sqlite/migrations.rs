//! Brings a database file to the schema this build knows.
//!
//! A released migration is never edited; a change of the schema is a new file at the end of the list.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use crate::{Result, StoreError};

const MIGRATIONS: [&str; 1] = [include_str!("migrations/0001_initial.sql")];

pub(super) fn migrate(sql: &mut Connection, path: &Path) -> Result<()> {
    let supported = MIGRATIONS.len();
    if version(sql)? == supported {
        return Ok(());
    }
    // Another process may be migrating the same file: the version counts only once the write lock is held.
    let tx = sql.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let found = version(&tx)?;
    let Some(missing) = MIGRATIONS.get(found..) else {
        return Err(StoreError::NewerSchema { path: path.to_owned(), found, supported });
    };
    for migration in missing {
        tx.execute_batch(migration)?;
    }
    tx.pragma_update(None, "user_version", supported as i64)?;
    tx.commit()?;
    Ok(())
}

fn version(sql: &Connection) -> Result<usize> {
    let version: i64 = sql.pragma_query_value(None, "user_version", |row| row.get(0))?;
    usize::try_from(version).map_err(|_| StoreError::Corrupt {
        detail: format!("the schema version is {version}, which was never written"),
    })
}
