//! `size`: what runs take on the disk once everything is checkpointed, table by table, against what they have to keep.

use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use windlass_core::{canonical, ids::RunId};

use super::{
    backend,
    probe::Probe,
    progress::Progress,
    reading::{Reading, Size},
    rig::Rig,
    site::Site,
    stats::{each, rounded},
    system,
    throughput::all,
    work::Work,
};
use crate::failure::{Failure, failed};

/// The row of the whole file.
const ALL: &str = "all";
/// Messages that are read at once.
const PAGE: u32 = 1000;

/// Pages of a table and its indexes, largest first. `payload` is what the pages hold without their own overhead.
const BY_TABLE: &str = "
    SELECT coalesce(s.tbl_name, d.name), sum(d.pgsize), sum(d.payload)
    FROM dbstat d LEFT JOIN sqlite_schema s ON s.name = d.name
    WHERE d.aggregate = TRUE GROUP BY 1 ORDER BY 2 DESC";

pub(super) async fn measure(site: &Site, runs: u32, work: Work, progress: &Progress) -> Result<Vec<Reading>, Failure> {
    let bar = progress.begin("size", runs);
    let content = Rig::with(site, work, Probe::default(), async |rig| {
        all(rig, runs, &bar).await?;
        content(rig, site, runs).await
    })
    .await?;
    // The rig was closed in an orderly way, so the log is checkpointed.
    let database = backend::database(&site.data_dir);
    let steps = work.steps() * u64::from(runs);
    let reading = |table: String, bytes: u64, payload_bytes: Option<u64>, content_bytes: Option<u64>| {
        Reading::Size(Size {
            table,
            runs,
            turns: work.turns,
            calls: work.calls,
            steps,
            bytes,
            bytes_per_step: each(bytes, steps),
            payload_bytes,
            content_bytes,
            ratio: content_bytes.map(|content| rounded(bytes as f64 / content.max(1) as f64)),
        })
    };
    let mut readings = vec![reading(ALL.to_owned(), system::database_bytes(&database)?, None, Some(content))];
    let tables = tables(&database).map_err(|error| failed(format!("the database cannot be measured: {error}")))?;
    readings.extend(tables.into_iter().map(|(table, bytes, payload)| reading(table, bytes, Some(payload), None)));
    Ok(readings)
}

/// The canonical bytes of every message of all runs: prompts, what the model said, results of tools.
async fn content(rig: &Rig, site: &Site, runs: u32) -> Result<u64, Failure> {
    let mut bytes = 0;
    for number in 0..runs {
        bytes += content_of(rig, &site.run(number)).await?;
    }
    Ok(bytes)
}

async fn content_of(rig: &Rig, run: &RunId) -> Result<u64, Failure> {
    let (mut bytes, mut after) = (0, 0);
    loop {
        let page = rig.ops.store().transcript_page(run, after, PAGE).await?;
        for (_, message) in &page.messages {
            bytes += canonical::bytes_of(message)?.len() as u64;
        }
        after += page.messages.len() as u64;
        if page.messages.len() < PAGE as usize {
            return Ok(bytes);
        }
    }
}

fn tables(database: &Path) -> rusqlite::Result<Vec<(String, u64, u64)>> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    let mut query = connection.prepare(BY_TABLE)?;
    let rows = query.query_map([], |row| {
        let bytes = |column| row.get::<_, i64>(column).map(i64::unsigned_abs);
        Ok((row.get(0)?, bytes(1)?, bytes(2)?))
    })?;
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_measured_with_its_indexes_and_all_tables_are_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("windlass.db");
        let connection = Connection::open(&file).unwrap();
        connection
            .execute_batch(
                "CREATE TABLE big (name TEXT UNIQUE, body BLOB); CREATE TABLE small (id INTEGER PRIMARY KEY);
                 INSERT INTO big VALUES ('a', zeroblob(100000)); INSERT INTO small VALUES (1);",
            )
            .unwrap();
        drop(connection);
        let found = tables(&file).unwrap();
        assert_eq!(found[0].0, "big");
        assert!(found[0].1 > 100_000 && found[0].2 >= 100_000, "{found:?}");
        assert_eq!(found.iter().map(|(_, bytes, _)| bytes).sum::<u64>(), system::database_bytes(&file).unwrap());
    }
}
