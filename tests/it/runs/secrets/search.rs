//! Searches texts and files for planted secrets, in every way in which a text may be written.

use std::{fs, path::Path};

use base64::{Engine as _, prelude::BASE64_STANDARD_NO_PAD};
use rusqlite::{Connection, OpenFlags, types::ValueRef};
use windlass_store::sqlite::own_text;

use crate::support::tools::tally;

/// Secrets that must be found nowhere, with the number of searches in each kind of place.
#[derive(Default)]
pub(crate) struct Search {
    planted: Vec<Planted>,
    places: Vec<(&'static str, Counts)>,
}

struct Planted {
    field: String,
    secret: String,
}

#[derive(Default, Clone, Copy)]
struct Counts {
    texts: usize,
    bytes: usize,
    searches: usize,
}

impl Search {
    /// A new random secret, from now on searched for.
    pub(crate) fn plant(&mut self, field: &str) -> String {
        let secret = format!("wl-{field}-{}", uuid::Uuid::new_v4().simple());
        self.add(field, secret.clone());
        secret
    }

    pub(crate) fn add(&mut self, field: &str, secret: String) {
        self.planted.push(Planted { field: field.to_owned(), secret });
    }

    /// Fails if the text has a secret.
    pub(crate) fn text(&mut self, place: &'static str, text: &str) {
        let mut searches = 0;
        for Planted { secret, .. } in &self.planted {
            for spelling in spellings(secret) {
                if let Some(at) = text.find(&spelling) {
                    let around: String = text[..at].chars().rev().take(300).collect::<Vec<_>>().iter().rev().collect();
                    panic!("{place}: {secret} was found after: {around}");
                }
                searches += 1;
            }
        }
        let counts = match self.places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, counts)) => counts,
            None => &mut self.places.push_mut((place, Counts::default())).1,
        };
        counts.texts += 1;
        counts.bytes += text.len();
        counts.searches += searches;
    }

    /// As [`Self::text`]. Bytes that are no text are left out; all spellings are ASCII.
    pub(crate) fn bytes(&mut self, place: &'static str, bytes: &[u8]) {
        self.text(place, &String::from_utf8_lossy(bytes));
    }

    /// As [`Self::bytes`], the files of a data directory: as they are, and the columns of the database unpacked where they are
    /// packed. Returns what the columns hold.
    pub(crate) fn files(&mut self, directory: &Path) -> String {
        for file in fs::read_dir(directory).unwrap() {
            self.bytes("files of the store", &fs::read(file.unwrap().path()).unwrap());
        }
        let sql = Connection::open_with_flags(directory.join("windlass.db"), OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
        let mut tables = sql.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").unwrap();
        let tables: Vec<String> =
            tables.query_map([], |row| row.get(0)).unwrap().collect::<rusqlite::Result<_>>().unwrap();
        let mut held = String::new();
        for table in tables {
            let mut rows = sql.prepare(&format!("SELECT * FROM \"{table}\"")).unwrap();
            let columns = rows.column_count();
            let mut rows = rows.query([]).unwrap();
            while let Some(row) = rows.next().unwrap() {
                for column in 0..columns {
                    if let ValueRef::Blob(stored) | ValueRef::Text(stored) = row.get_ref(column).unwrap() {
                        let text = own_text(stored).unwrap_or_else(|| stored.to_vec());
                        held.push_str(&String::from_utf8_lossy(&text));
                        held.push('\n');
                    }
                }
            }
        }
        self.text("columns of the store", &held);
        held
    }

    pub(crate) fn report(&self) -> String {
        let mut lines = vec![format!("{} secrets planted, none found:", self.planted.len())];
        let fields = tally(self.planted.iter().map(|planted| planted.field.as_str()));
        let fields: Vec<String> = fields.into_iter().map(|(field, count)| format!("{field} {count}")).collect();
        lines.push(format!("  planted in: {}", fields.join(", ")));
        for (place, Counts { texts, bytes, searches }) in &self.places {
            lines.push(format!("  {place}: {texts} texts, {bytes} bytes, {searches} searches"));
        }
        lines.join("\n")
    }
}

/// Plain, hexadecimal, base64 at every offset, and the list of numbers that `Debug` makes of bytes.
fn spellings(secret: &str) -> Vec<String> {
    let hex = |upper: bool| {
        secret.bytes().map(|byte| if upper { format!("{byte:02X}") } else { format!("{byte:02x}") }).collect()
    };
    let base64 = |offset: usize| {
        let shifted = BASE64_STANDARD_NO_PAD.encode([vec![0; offset], secret.into()].concat());
        // The first and the last characters depend on what stands beside the secret.
        shifted[4..shifted.len() - 2].to_owned()
    };
    let numbers: Vec<String> = secret.bytes().map(|byte| byte.to_string()).collect();
    vec![secret.to_owned(), hex(false), hex(true), base64(0), base64(1), base64(2), numbers.join(", ")]
}

#[test]
fn a_search_finds_every_spelling() {
    let mut search = Search::default();
    let secret = search.plant("field");
    search.text("nothing", "nothing is here");
    for offset in 0..3 {
        let hidden = format!("{}{secret} and more", "x".repeat(offset));
        let written = [
            hidden.clone(),
            BASE64_STANDARD_NO_PAD.encode(&hidden),
            format!("{:?}", hidden.as_bytes()),
            hidden.bytes().map(|byte| format!("{byte:02x}")).collect(),
        ];
        for text in written {
            let found = spellings(&secret).iter().any(|spelling| text.contains(spelling));
            assert!(found, "{text}");
        }
    }
}
