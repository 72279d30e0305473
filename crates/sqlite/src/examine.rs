//! A deep check of a database that may be damaged and in use: SQLite's own checks of every page, index and reference.
//! The components check the contents of their rows on the same connection.

use std::{
    fmt,
    path::Path,
    sync::atomic::{AtomicBool, AtomicU64, Ordering},
};

use rusqlite::{Connection, Row, types::ValueRef};

use crate::{DatabaseError, Result, check, connection};

/// Problems that are reported for each part; further ones are counted.
const MAX_REPORTED: usize = 20;

/// Progress of a long operation. Its caller reads it and may stop the operation.
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    stopped: AtomicBool,
}

impl Progress {
    pub fn advance(&self, by: u64) {
        self.done.fetch_add(by, Ordering::Relaxed);
    }

    pub fn set(&self, done: u64) {
        self.done.store(done, Ordering::Relaxed);
    }

    /// Bytes or rows, depending on the operation.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Makes the operation fail soon.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }
}

/// The result for one part of a database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Examined {
    pub what: &'static str,
    /// Rows, or pages.
    pub count: u64,
    pub problems: Vec<String>,
    /// Number of problems that are not listed.
    pub more: u64,
}

impl Examined {
    pub fn new(what: &'static str) -> Self {
        Self { what, count: 0, problems: Vec::new(), more: 0 }
    }

    pub fn problem(&mut self, problem: impl Into<String>) {
        if self.problems.len() < MAX_REPORTED {
            self.problems.push(problem.into());
        } else {
            self.more += 1;
        }
    }
}

/// The name of a row, from the value of one of its columns.
pub fn row_name(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Integer(number) => number.to_string(),
        ValueRef::Text(text) => String::from_utf8_lossy(text).escape_debug().to_string(),
        other => format!("{other:?}"),
    }
}

/// Checks the rows of tables.
pub struct TableCheck<'l> {
    pub sql: &'l Connection,
    /// Counts rows.
    pub progress: &'l Progress,
}

impl TableCheck<'_> {
    /// Checks a table. A bad row is reported and the check continues; an unreadable page ends it. The statement's last
    /// column names the row.
    pub fn table(
        &self,
        what: &'static str,
        statement: &str,
        mut look: impl FnMut(&Row<'_>) -> std::result::Result<(), String>,
    ) -> Result<Examined> {
        let mut found = Examined::new(what);
        let mut rows = match self.sql.prepare(statement) {
            Ok(rows) => rows,
            Err(error) => {
                found.problem(format!("the table cannot be read: {error}"));
                return Ok(found);
            }
        };
        let name = rows.column_count() - 1;
        let mut rows = rows.query([])?;
        loop {
            let row = match rows.next() {
                Ok(Some(row)) => row,
                Ok(None) => return Ok(found),
                Err(error) => {
                    found.problem(format!("the remaining rows cannot be read: {error}"));
                    return Ok(found);
                }
            };
            if self.progress.is_stopped() {
                return Err(DatabaseError::Closed);
            }
            self.progress.advance(1);
            found.count += 1;
            if let Err(problem) = look(row) {
                found.problem(format!("{}: {problem}", row_name(row.get_ref(name)?)));
            }
        }
    }
}

/// Checks a database, then lets the components check their tables on the same snapshot. It may be in use.
pub fn examine<E: From<DatabaseError> + fmt::Display>(
    path: &Path,
    owners: impl FnOnce(&Connection) -> std::result::Result<Vec<Examined>, E>,
) -> std::result::Result<Vec<Examined>, E> {
    check::reject_non_database(path)?;
    let sql = connection::open_reader(path)?;
    check::checkpoint_on_close(&sql, false)?;
    sql.execute_batch("BEGIN").map_err(DatabaseError::from)?;
    let mut found = vec![pages(&sql)?];
    if found[0].problems.is_empty() {
        found.push(references(&sql)?);
    }
    // Rows of a damaged file are checked as far as they can be read.
    match owners(&sql) {
        Ok(more) => found.extend(more),
        Err(error) if found[0].problems.is_empty() => return Err(error),
        Err(error) => found[0].problem(error.to_string()),
    }
    Ok(found)
}

/// Every page, every index against its table, every constraint.
fn pages(sql: &Connection) -> Result<Examined> {
    let mut found = Examined::new("file");
    found.count = sql.pragma_query_value(None, "page_count", |row| row.get::<_, i64>(0))?.unsigned_abs();
    for problem in integrity_problems(sql)? {
        found.problem(problem);
    }
    Ok(found)
}

/// The problems that SQLite's integrity check reports.
pub(crate) fn integrity_problems(sql: &Connection) -> Result<Vec<String>> {
    let mut check = sql.prepare("PRAGMA integrity_check(100)")?;
    let mut rows = check.query([])?;
    let mut problems = Vec::new();
    loop {
        match rows.next() {
            Ok(Some(row)) => problems.push(check::one_line(&row.get::<_, String>(0)?)),
            Ok(None) => break,
            // After some kinds of damage SQLite cannot continue.
            Err(error) => match DatabaseError::from(error) {
                DatabaseError::Damaged { detail } => {
                    problems.push(detail);
                    break;
                }
                error => return Err(error),
            },
        }
    }
    problems.retain(|problem| problem != "ok");
    Ok(problems)
}

fn references(sql: &Connection) -> Result<Examined> {
    let mut found = Examined::new("references");
    let mut check = sql.prepare("PRAGMA foreign_key_check")?;
    let mut rows = check.query([])?;
    while let Some(row) = rows.next()? {
        let (table, number, parent) =
            (row.get::<_, String>(0)?, row.get::<_, Option<i64>>(1)?, row.get::<_, String>(2)?);
        let row = number.map_or_else(String::new, |number| format!(" {number}"));
        found.problem(format!("row{row} of {table} refers to a row of {parent} that does not exist"));
    }
    Ok(found)
}
