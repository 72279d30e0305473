//! Migrates the tables of a component to the version of this build.
//!
//! A released migration is never edited; a schema change is a new migration at the end of its component's list.
//! SQLite's `user_version` is the version of this scheme: since 2, a table has one row per component. Before that, a
//! file contained only the store, and `user_version` was the store's version.

use std::{collections::BTreeSet, path::Path};

use rusqlite::{Connection, OptionalExtension as _};

use crate::{DatabaseError, Result, hash};

const LAYOUT: usize = 2;

/// The only component in files of the first layout.
const FIRST_COMPONENT: &str = "store";

/// Rejects a file whose layout this build does not know.
pub(crate) fn check_layout(sql: &Connection, path: &Path) -> Result<usize> {
    let found: i64 = sql.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let found = usize::try_from(found)
        .map_err(|_| DatabaseError::Corrupt { detail: format!("the schema version {found} is not valid") })?;
    if found > LAYOUT {
        return Err(DatabaseError::NewerSchema { path: path.to_owned(), found, supported: LAYOUT });
    }
    Ok(found)
}

/// The version of a component, 0 if the file does not have it.
pub(crate) fn found(sql: &Connection, path: &Path, component: &str) -> Result<usize> {
    match check_layout(sql, path)? {
        LAYOUT => version(sql, component),
        older if component == FIRST_COMPONENT => Ok(older),
        _ => Ok(0),
    }
}

/// The migrations that a component still needs.
pub(crate) fn missing<'m>(
    sql: &Connection,
    path: &Path,
    component: &str,
    migrations: &'m [&'m str],
) -> Result<&'m [&'m str]> {
    let found = found(sql, path, component)?;
    let supported = migrations.len();
    migrations.get(found..).ok_or_else(|| DatabaseError::NewerSchema { path: path.to_owned(), found, supported })
}

/// Rejects a file without a table, an index or a column that its version has.
pub(crate) fn check_tables(sql: &Connection, path: &Path, component: &str, migrations: &[&str]) -> Result<()> {
    let Some(missing_object) = missing_object(sql, migrations)? else { return Ok(()) };
    let detail = format!("{}: {missing_object} of the {component} is missing", path.display());
    Err(DatabaseError::Damaged { detail })
}

/// The first object that the migrations create and the file does not have.
fn missing_object(sql: &Connection, migrations: &[&str]) -> Result<Option<String>> {
    let made = Connection::open_in_memory()?;
    hash::define(&made)?;
    for migration in migrations {
        made.execute_batch(migration)?;
    }
    let present = schema_objects(sql)?;
    Ok(schema_objects(&made)?.into_iter().find(|thing| !present.contains(thing)))
}

/// The names of tables, indices and columns.
fn schema_objects(sql: &Connection) -> Result<BTreeSet<String>> {
    let mut schema_objects = sql.prepare(
        "SELECT type || ' ' || name FROM sqlite_schema
         UNION ALL
         SELECT 'column ' || it.name || '.' || columns.name
         FROM sqlite_schema AS it JOIN pragma_table_xinfo(it.name) AS columns WHERE it.type = 'table'",
    )?;
    let schema_objects = schema_objects.query_map([], |row| row.get(0))?;
    Ok(schema_objects.collect::<rusqlite::Result<_>>()?)
}

/// Runs inside a write, so that of several processes that open a new file only one migrates it.
pub(crate) fn migrate(sql: &Connection, path: &Path, component: &str, migrations: &[&str]) -> Result<()> {
    let missing = missing(sql, path, component, migrations)?;
    if missing.len() == migrations.len() && !migrations.is_empty() && missing_object(sql, migrations)?.is_none() {
        let detail = format!("{}: the tables of the {component} exist, but their version is missing", path.display());
        return Err(DatabaseError::Damaged { detail });
    }
    adopt_layout(sql, path)?;
    for migration in missing {
        sql.execute_batch(migration)?;
    }
    set_version(sql, component, migrations.len())
}

fn adopt_layout(sql: &Connection, path: &Path) -> Result<()> {
    let layout = check_layout(sql, path)?;
    if layout == LAYOUT {
        return Ok(());
    }
    sql.execute_batch(
        "CREATE TABLE schema_versions (component TEXT NOT NULL PRIMARY KEY, version INTEGER NOT NULL) STRICT, WITHOUT ROWID",
    )?;
    if layout > 0 {
        set_version(sql, FIRST_COMPONENT, layout)?;
    }
    Ok(sql.pragma_update(None, "user_version", LAYOUT as i64)?)
}

/// Every component and its version.
pub(crate) fn versions(sql: &Connection) -> Result<Vec<(String, usize)>> {
    let mut versions = sql.prepare("SELECT component, version FROM schema_versions")?;
    let versions = versions.query_map([], |row| Ok((row.get(0)?, row.get::<_, i64>(1)?)))?;
    let versions = versions.collect::<rusqlite::Result<Vec<(String, i64)>>>()?;
    Ok(versions.into_iter().map(|(component, version)| (component, usize::try_from(version).unwrap_or(0))).collect())
}

fn version(sql: &Connection, component: &str) -> Result<usize> {
    let version: Option<i64> = sql
        .query_row("SELECT version FROM schema_versions WHERE component = ?1", [component], |row| row.get(0))
        .optional()?;
    let version = version.unwrap_or(0);
    usize::try_from(version).map_err(|_| DatabaseError::Corrupt {
        detail: format!("the schema version {version} of the {component} is not valid"),
    })
}

/// The row that counts probes. It is stored like a component's version, so that no additional table is needed.
const PROBE: &str = "probe";

/// Increments the number of probes.
pub(crate) fn count_probe(sql: &Connection) -> Result<usize> {
    let count = probes(sql)? + 1;
    set_version(sql, PROBE, count)?;
    Ok(count)
}

/// The number of the last probe.
pub(crate) fn probes(sql: &Connection) -> Result<usize> {
    version(sql, PROBE)
}

fn set_version(sql: &Connection, component: &str, version: usize) -> Result<()> {
    sql.execute(
        "INSERT INTO schema_versions (component, version) VALUES (?1, ?2)
         ON CONFLICT (component) DO UPDATE SET version = excluded.version",
        (component, version as i64),
    )?;
    Ok(())
}
