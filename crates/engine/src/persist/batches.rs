//! Batch operations.

use prost::Message as _;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::readable;
use crate::{batch::Batch, time::Nanos};

/// Open batches sort before every closed one.
const CLOSING: &str = "COALESCE(close_time, 9223372036854775807)";

/// Adds a batch unless its job id is taken. Returns the run id of the batch that has it.
pub(crate) fn add_batch(sql: &Connection, namespace: &str, job_id: &str, batch: &Batch) -> rusqlite::Result<String> {
    sql.prepare_cached(
        "INSERT OR IGNORE INTO engine_batches (namespace, job_id, run_id, start_time, request, record)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
    )?
    .execute(params![
        namespace,
        job_id,
        batch.run_id,
        batch.start_time,
        batch.request.as_ref().map(prost::Message::encode_to_vec),
        progress(batch)
    ])?;
    sql.prepare_cached("SELECT run_id FROM engine_batches WHERE namespace = ?1 AND job_id = ?2")?
        .query_row([namespace, job_id], |row| row.get(0))
}

/// Writes a batch, unless it was closed or removed. Returns whether it was written.
pub(crate) fn save_batch(sql: &Connection, namespace: &str, job_id: &str, batch: &Batch) -> rusqlite::Result<bool> {
    let close_time = (batch.close_time != 0).then_some(batch.close_time);
    let saved = sql
        .prepare_cached(
            "UPDATE engine_batches SET close_time = ?4, record = ?5
             WHERE namespace = ?1 AND job_id = ?2 AND run_id = ?3 AND close_time IS NULL",
        )?
        .execute(params![namespace, job_id, batch.run_id, close_time, progress(batch)])?;
    Ok(saved > 0)
}

pub(crate) fn find_batch(sql: &Connection, namespace: &str, job_id: &str) -> rusqlite::Result<Option<Batch>> {
    sql.prepare_cached("SELECT record, request FROM engine_batches WHERE namespace = ?1 AND job_id = ?2")?
        .query_row([namespace, job_id], batch)
        .optional()
}

/// How many other batches of a namespace are running.
pub(crate) fn running_batches(sql: &Connection, namespace: &str) -> rusqlite::Result<i64> {
    sql.prepare_cached("SELECT count(*) FROM engine_batches WHERE namespace = ?1 AND close_time IS NULL")?
        .query_row([namespace], |row| row.get(0))
}

/// Namespace and job id of the batches that are running.
pub(crate) fn open_batches(sql: &Connection) -> rusqlite::Result<Vec<[String; 2]>> {
    let mut open = sql.prepare("SELECT namespace, job_id FROM engine_batches WHERE close_time IS NULL")?;
    readable(open.query([])?, ("engine_batches", "job_id"), |row| Ok([row.get(0)?, row.get(1)?]))
}

/// The position of a batch in lists.
pub(crate) type BatchPosition = (Nanos, Nanos, String);

/// Batches of a namespace, running ones first, then the latest, each with its position.
pub(crate) fn list_batches(
    sql: &Connection,
    namespace: &str,
    after: &BatchPosition,
    limit: usize,
) -> rusqlite::Result<Vec<(BatchPosition, Batch)>> {
    let mut page = sql.prepare(&format!(
        "SELECT record, request, {CLOSING}, start_time, job_id FROM engine_batches
         WHERE namespace = ?1 AND ({CLOSING} < ?2 OR ({CLOSING} = ?2 AND
             (start_time < ?3 OR (start_time = ?3 AND job_id > ?4))))
         ORDER BY {CLOSING} DESC, start_time DESC, job_id LIMIT ?5"
    ))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let rows = page.query(params![namespace, after.0, after.1, after.2, limit])?;
    readable(rows, ("engine_batches", "job_id"), |row| Ok(((row.get(2)?, row.get(3)?, row.get(4)?), batch(row)?)))
}

pub(crate) fn has_expired_batches(sql: &Connection, namespace: &str, before: Nanos) -> rusqlite::Result<bool> {
    sql.prepare_cached("SELECT 1 FROM engine_batches WHERE namespace = ?1 AND close_time < ?2")?
        .exists(params![namespace, before])
}

/// Removes the batches of a namespace that ended before this time.
pub(crate) fn remove_batches(sql: &Connection, namespace: &str, before: Nanos) -> rusqlite::Result<()> {
    sql.prepare_cached("DELETE FROM engine_batches WHERE namespace = ?1 AND close_time < ?2")?
        .execute(params![namespace, before])
        .map(drop)
}

/// All but the request, which never changes.
fn progress(batch: &Batch) -> Vec<u8> {
    Batch { request: None, ..batch.clone() }.encode_to_vec()
}

fn batch(row: &Row<'_>) -> rusqlite::Result<Batch> {
    let progress: Batch = decoded(row, 0)?;
    Ok(Batch { request: Some(decoded(row, 1)?), ..progress })
}

fn decoded<M: prost::Message + Default>(row: &Row<'_>, column: usize) -> rusqlite::Result<M> {
    M::decode(row.get_ref(column)?.as_blob()?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Blob, Box::new(error))
    })
}

#[cfg(test)]
mod tests {
    use temporalio_protos::temporal::api::{
        enums::v1::BatchOperationState, workflowservice::v1::StartBatchOperationRequest,
    };

    use super::*;
    use crate::persist::MIGRATIONS;

    #[test]
    fn batches_are_listed_in_pages_and_closed_once() {
        let sql = Connection::open_in_memory().unwrap();
        MIGRATIONS.iter().for_each(|migration| sql.execute_batch(migration).unwrap());
        let request = |job: &str| StartBatchOperationRequest { job_id: job.to_owned(), ..Default::default() };
        for (job, run, start) in [("a", "r1", 1), ("b", "r2", 2), ("c", "r3", 3)] {
            let batch = Batch::new(request(job), run.to_owned(), start);
            assert_eq!(add_batch(&sql, "n", job, &batch).unwrap(), run);
        }
        let other = Batch::new(request("a"), "r4".to_owned(), 4);
        assert_eq!(add_batch(&sql, "n", "a", &other).unwrap(), "r1");

        let mut closed = find_batch(&sql, "n", "c").unwrap().unwrap();
        closed.close(BatchOperationState::Completed, 9);
        assert!(save_batch(&sql, "n", "c", &closed).unwrap());
        assert!(!save_batch(&sql, "n", "c", &closed).unwrap());
        assert_eq!(running_batches(&sql, "n").unwrap(), 2);
        assert_eq!(open_batches(&sql).unwrap().len(), 2);

        let mut jobs = Vec::new();
        let mut after = (Nanos::MAX, Nanos::MAX, String::new());
        while let Some((position, batch)) = list_batches(&sql, "n", &after, 1).unwrap().pop() {
            jobs.push(batch.request.unwrap().job_id);
            after = position;
        }
        assert_eq!(jobs, ["b", "a", "c"]);

        remove_batches(&sql, "n", 10).unwrap();
        assert_eq!(find_batch(&sql, "n", "c").unwrap(), None);
    }
}
