//! Trains the dictionaries of `pack` from databases.
//!
//! `cargo run -p windlass-sqlite --example dictionaries -- OUT DATABASE…` takes samples from every column of every table and
//! writes `history.zstd` and `json.zstd` into OUT. Use databases of many kinds of runs: agents with different tools, awaits,
//! failures, long conversations. A new dictionary is a new form in `pack.rs`; those that were released stay.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result, ensure};
use rusqlite::{Connection, OpenFlags, types::ValueRef};
use windlass_sqlite::pack::unpack;

/// Size of a dictionary. It is copied into memory once; larger ones compress little better.
const SIZE: usize = 24 << 10;
/// Samples of one column of one database, so that no workload dominates.
const OF_COLUMN: usize = 1500;
/// Larger rows compress well without a dictionary.
const LONGEST: usize = 8 << 10;

#[derive(Default)]
struct Samples {
    history: Vec<Vec<u8>>,
    json: Vec<Vec<u8>>,
}

impl Samples {
    fn add(&mut self, bytes: Vec<u8>) {
        match bytes.first() {
            // An encoded list of events, or of batches of events.
            Some(0x0a | 0x12) => self.history.push(bytes),
            Some(b'{' | b'[') => self.json.push(bytes),
            _ => {}
        }
    }
}

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().context("usage: dictionaries OUT DATABASE…")?;
    let mut samples = Samples::default();
    for database in arguments {
        let sql = Connection::open_with_flags(&database, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
        read(&sql, &mut samples).with_context(|| database.clone())?;
    }
    for (name, of_kind) in [("history", samples.history), ("json", samples.json)] {
        ensure!(of_kind.len() > 100, "{} samples of {name} are too few", of_kind.len());
        let dictionary = zstd::dict::from_samples(&of_kind, SIZE)?;
        let bytes: usize = of_kind.iter().map(Vec::len).sum();
        println!("{name}: {} samples, {bytes} bytes, dictionary of {} bytes", of_kind.len(), dictionary.len());
        std::fs::write(Path::new(&out).join(format!("{name}.zstd")), dictionary)?;
    }
    Ok(())
}

fn read(sql: &Connection, samples: &mut Samples) -> Result<()> {
    let mut tables = sql.prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'")?;
    let tables: Vec<String> = tables.query_map([], |row| row.get(0))?.collect::<rusqlite::Result<_>>()?;
    for table in tables {
        let mut rows = sql.prepare(&format!("SELECT * FROM \"{table}\" ORDER BY random()"))?;
        let columns = rows.column_count();
        let mut taken = BTreeMap::<usize, usize>::new();
        let mut rows = rows.query([])?;
        while let Some(row) = rows.next()? {
            for column in 0..columns {
                let (ValueRef::Blob(bytes) | ValueRef::Text(bytes)) = row.get_ref(column)? else { continue };
                let Ok(bytes) = unpack(bytes) else { continue };
                let taken = taken.entry(column).or_default();
                if (48..=LONGEST).contains(&bytes.len()) && *taken < OF_COLUMN {
                    *taken += 1;
                    samples.add(bytes.into_owned());
                }
            }
        }
    }
    Ok(())
}
