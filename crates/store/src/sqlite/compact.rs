//! Gives the pages that deleted rows have left back to the file system.
//!
//! In steps, so that other writes come in between. Only a file that was created to be shrunk can be: one of a build
//! before that keeps its free pages and uses them again. The writer checkpoints the rest of the log as soon as it is
//! idle.

use rusqlite::Connection;

use super::{Parts, columns::Uint};
use crate::{Compacted, Result};

/// Pages given back at a time: 4 MiB.
const STEP: u32 = 1024;

impl Parts {
    pub(super) async fn compact(&self) -> Result<Compacted> {
        let mut compacted = Compacted::default();
        loop {
            let bytes = self.write_long(|tx| shrink(tx.sql)).await?;
            compacted.bytes += bytes;
            if bytes == 0 {
                break;
            }
        }
        // Statistics for the planner, only where they are out of date.
        self.write_long(|tx| run(tx.sql, "PRAGMA optimize")).await?;
        Ok(compacted)
    }
}

fn shrink(sql: &Connection) -> Result<u64> {
    let number = |pragma| sql.pragma_query_value(None, pragma, |row| row.get::<_, Uint>(0));
    let Uint(before) = number("page_count")?;
    run(sql, &format!("PRAGMA incremental_vacuum({STEP})"))?;
    let (Uint(after), Uint(page_size)) = (number("page_count")?, number("page_size")?);
    Ok(before.saturating_sub(after) * page_size)
}

fn run(sql: &Connection, pragma: &str) -> Result<()> {
    let mut pragma = sql.prepare(pragma)?;
    let mut rows = pragma.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
