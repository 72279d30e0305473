//! Runs and the current run of each workflow id.

use prost::Message as _;
use rusqlite::{Connection, OptionalExtension as _, params};

use windlass_sqlite::pack;

use super::{
    history::{self, HistoryRow},
    readable,
};
use crate::{
    run::RunState,
    time::Nanos,
    visibility::sql::{self as listing, VisibilityRow},
};

/// One step of a run, to be written.
pub(crate) struct RunWrite {
    pub(crate) number: i64,
    pub(crate) namespace: String,
    pub(crate) workflow_id: String,
    pub(crate) run_id: String,
    /// This is the first step: the run becomes the current one of its workflow id.
    pub(crate) new: bool,
    /// Encoded and packed.
    pub(crate) state: Vec<u8>,
    pub(crate) next_due: Option<Nanos>,
    pub(crate) ready: bool,
    pub(crate) closed: bool,
    pub(crate) history: Vec<HistoryRow>,
    pub(crate) listing: Option<VisibilityRow>,
}

impl RunWrite {
    pub(crate) fn apply(&self, sql: &Connection) -> rusqlite::Result<()> {
        if self.new {
            sql.prepare_cached(
                "INSERT INTO engine_runs (number, namespace, workflow_id, run_id, state, next_due, ready, at_rest)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
            )?
            .execute(params![
                self.number,
                self.namespace,
                self.workflow_id,
                self.run_id,
                self.state,
                self.next_due,
                self.ready,
                self.is_at_rest()
            ])?;
            sql.prepare_cached(
                "INSERT INTO engine_current (namespace, workflow_id, number) VALUES (?1, ?2, ?3)
                 ON CONFLICT (namespace, workflow_id) DO UPDATE SET number = excluded.number",
            )?
            .execute(params![self.namespace, self.workflow_id, self.number])?;
        } else if self.closed {
            sql.prepare_cached(
                "UPDATE engine_runs SET state = ?2, next_due = ?3, ready = ?4, at_rest = ?5 WHERE number = ?1",
            )?
            .execute(params![self.number, self.state, self.next_due, self.ready, self.is_at_rest()])?;
        } else {
            // Leaving out the column `at_rest` keeps its partial index unchanged.
            sql.prepare_cached("UPDATE engine_runs SET state = ?2, next_due = ?3, ready = ?4 WHERE number = ?1")?
                .execute(params![self.number, self.state, self.next_due, self.ready])?;
        }
        for row in &self.history {
            history::append(sql, self.number, row)?;
        }
        if let Some(row) = &self.listing {
            listing::put(sql, row)?;
        }
        Ok(())
    }

    fn is_at_rest(&self) -> bool {
        self.closed && self.next_due.is_none() && !self.ready
    }
}

/// A run as it is stored.
pub(crate) struct Found {
    pub(crate) number: i64,
    pub(crate) state: RunState,
}

fn found(row: &rusqlite::Row<'_>) -> rusqlite::Result<Found> {
    let blob = pack::column(row, 1)?;
    let state = RunState::decode(&*blob)
        .map_err(|error| rusqlite::Error::FromSqlConversionFailure(1, rusqlite::types::Type::Blob, Box::new(error)))?;
    Ok(Found { number: row.get(0)?, state })
}

pub(crate) fn find_run(
    sql: &Connection,
    namespace: &str,
    workflow_id: &str,
    run_id: &str,
) -> rusqlite::Result<Option<Found>> {
    sql.prepare_cached(
        "SELECT number, state FROM engine_runs WHERE run_id = ?1 AND workflow_id = ?2 AND namespace = ?3",
    )?
    .query_row([run_id, workflow_id, namespace], found)
    .optional()
}

/// Number and id of the current run.
pub(crate) fn current_run(
    sql: &Connection,
    namespace: &str,
    workflow_id: &str,
) -> rusqlite::Result<Option<(i64, String)>> {
    sql.prepare_cached(
        "SELECT r.number, r.run_id FROM engine_current c JOIN engine_runs r ON r.number = c.number
         WHERE c.namespace = ?1 AND c.workflow_id = ?2",
    )?
    .query_row([namespace, workflow_id], |row| Ok((row.get(0)?, row.get(1)?)))
    .optional()
}

pub(crate) fn highest_number(sql: &Connection) -> rusqlite::Result<i64> {
    sql.query_row("SELECT coalesce(max(number), 0) FROM engine_runs", [], |row| row.get(0))
}

/// Namespace, workflow id and run id of runs with tasks to dispatch or messages to deliver; `None` where the ids cannot
/// be read.
pub(crate) fn ready_runs(
    sql: &Connection,
    after: i64,
    limit: usize,
) -> rusqlite::Result<Vec<(i64, Option<[String; 3]>)>> {
    let mut runs = sql.prepare_cached(
        "SELECT number, namespace, workflow_id, run_id FROM engine_runs WHERE ready = 1 AND number > ?1
         ORDER BY number LIMIT ?2",
    )?;
    let runs = runs.query(params![after, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    readable(runs, ("engine_runs", "number"), |row| {
        let ids = [row.get(1), row.get(2), row.get(3)];
        Ok((
            row.get(0)?,
            ids.into_iter().collect::<rusqlite::Result<Vec<_>>>().ok().and_then(|ids| ids.try_into().ok()),
        ))
    })
}

/// The stored wake-up times and their runs.
pub(crate) fn wakeups(sql: &Connection) -> rusqlite::Result<Vec<(Nanos, [String; 3])>> {
    let mut wakeups = sql.prepare(
        "SELECT next_due, namespace, workflow_id, run_id, number FROM engine_runs
         WHERE at_rest = 0 AND next_due IS NOT NULL",
    )?;
    readable(wakeups.query([])?, ("engine_runs", "number"), |row| {
        Ok((row.get(0)?, [row.get(1)?, row.get(2)?, row.get(3)?]))
    })
}

/// Closed runs of a namespace that ended before this time, the latest first.
pub(crate) fn expired(
    sql: &Connection,
    namespace: &str,
    before: Nanos,
    limit: usize,
) -> rusqlite::Result<Vec<VisibilityRow>> {
    let mut runs = sql.prepare_cached(
        "SELECT * FROM engine_visibility INDEXED BY engine_visibility_order
         WHERE namespace = ?1 AND COALESCE(close_time, 9223372036854775807) < ?2 LIMIT ?3",
    )?;
    let runs = runs.query(params![namespace, before, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    readable(runs, ("engine_visibility", "run"), VisibilityRow::read)
}

/// Deletes a run. If it was the current one, its workflow id has no current run any more.
pub(crate) fn delete_run(sql: &Connection, number: i64) -> rusqlite::Result<()> {
    for statement in [
        "DELETE FROM engine_history WHERE run = ?1",
        "DELETE FROM engine_current WHERE number = ?1",
        "DELETE FROM engine_runs WHERE number = ?1",
    ] {
        sql.prepare_cached(statement)?.execute([number])?;
    }
    listing::delete(sql, number)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::persist::MIGRATIONS;

    /// Runs written by a build before the third migration: open ones, closed ones, and closed ones that still have
    /// messages or wake-up times.
    const RUNS: &str = "
        INSERT INTO engine_runs (number, namespace, workflow_id, run_id, state, next_due, ready) VALUES
            (1, 'n', 'waits', 'r1', x'', 100, 0), (2, 'n', 'rests', 'r2', x'', NULL, 0),
            (3, 'n', 'ended', 'r3', x'', NULL, 0), (4, 'n', 'sends', 'r4', x'', NULL, 1),
            (5, 'n', 'lingers', 'r5', x'', 200, 0);
        INSERT INTO engine_visibility (run, namespace, workflow_id, run_id, workflow_type, task_queue, status, start_time,
                execution_time, close_time, history_length, history_size, root_workflow_id, root_run_id, attributes)
            SELECT number, namespace, workflow_id, run_id, 't', 'q', 1, 0, 0, CASE WHEN number > 2 THEN 50 END, 0, 0, '',
                '', '{}' FROM engine_runs;";

    fn awake(sql: &Connection) -> Vec<i64> {
        let mut numbers = sql.prepare("SELECT number FROM engine_runs WHERE at_rest = 0 ORDER BY number").unwrap();
        numbers.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap()
    }

    fn step(number: i64, closed: bool, next_due: Option<Nanos>) -> RunWrite {
        RunWrite {
            number,
            namespace: "n".to_owned(),
            workflow_id: "w".to_owned(),
            run_id: format!("r{number}"),
            new: number > 5,
            state: Vec::new(),
            next_due,
            ready: false,
            closed,
            history: Vec::new(),
            listing: None,
        }
    }

    #[test]
    fn only_closed_runs_with_an_empty_outbox_are_at_rest() {
        let sql = Connection::open_in_memory().unwrap();
        MIGRATIONS[..2].iter().for_each(|migration| sql.execute_batch(migration).unwrap());
        sql.execute_batch(RUNS).unwrap();
        MIGRATIONS[2..].iter().for_each(|migration| sql.execute_batch(migration).unwrap());
        assert_eq!(awake(&sql), [1, 2, 4, 5]);
        let due: Vec<Nanos> = wakeups(&sql).unwrap().into_iter().map(|(at, _)| at).collect();
        assert_eq!(due, [100, 200]);
        let ready: Vec<i64> = ready_runs(&sql, 0, 10).unwrap().into_iter().map(|(number, _)| number).collect();
        assert_eq!(ready, [4]);

        for step in [
            step(1, true, None),
            step(2, true, Some(300)),
            step(4, true, None),
            step(6, false, None),
            step(7, true, None),
        ] {
            step.apply(&sql).unwrap();
        }
        assert_eq!(awake(&sql), [2, 5, 6]);
    }

    #[test]
    fn a_run_with_unreadable_ids_does_not_block_other_runs() {
        let sql = Connection::open_in_memory().unwrap();
        MIGRATIONS[..2].iter().for_each(|migration| sql.execute_batch(migration).unwrap());
        sql.execute_batch(RUNS).unwrap();
        MIGRATIONS[2..].iter().for_each(|migration| sql.execute_batch(migration).unwrap());
        let damage = "UPDATE engine_runs SET ready = 1;
                      UPDATE engine_runs SET workflow_id = CAST(x'ff' AS TEXT) WHERE number IN (1, 5)";
        sql.execute_batch(damage).unwrap();
        assert_eq!(wakeups(&sql).unwrap(), []);
        let ready: Vec<_> = ready_runs(&sql, 0, 10).unwrap().into_iter().map(|(n, ids)| (n, ids.is_some())).collect();
        assert_eq!(ready, [(1, false), (2, true), (3, true), (4, true), (5, false)]);
    }
}
