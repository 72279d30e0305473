//! How values of the domain are written into columns and read back.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use tokio_postgres::{Row, types::FromSql};
use windlass_core::{
    canonical::{self, Digest},
    envelope::{Extra, Labels},
    time::Timestamp,
};

use super::failure::damaged;
use crate::{Result, StoreError, page::skip_unreadable};

/// Postgres has no unsigned integers. A number beyond its range is out of reach of every column, so it saturates.
pub(super) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

pub(super) fn millis(at: Timestamp) -> i64 {
    int(at.0)
}

/// A digest as hex, so that a person with a database shell can follow it.
pub(super) fn hex(digest: Digest) -> String {
    digest.to_string()
}

/// A value as canonical JSON.
pub(super) fn json_text<T: Serialize>(value: &T) -> Result<String> {
    canonical::text_of(value).map_err(|error| StoreError::InvalidArgument {
        argument: "a value",
        problem: format!("it cannot be written as JSON ({error}); use string keys and finite numbers"),
    })
}

/// A pair as the column `tags` has it.
fn tag(key: &str, value: &str) -> Result<String> {
    json_text(&[key, value])
}

/// What can be searched for in metadata: the strings.
pub(super) fn tags(metadata: &Extra) -> Result<Vec<String>> {
    metadata.iter().filter_map(|(key, value)| value.as_str().map(|value| tag(key, value))).collect()
}

/// Each of these as the column `tags` has it.
pub(super) fn label_tags(labels: &Labels) -> Result<Vec<String>> {
    labels.iter().map(|(key, value)| tag(key, value)).collect()
}

/// What can be read of some rows. The others are left out and logged with the text of the column `id`.
pub(super) fn readable<T>(
    rows: &[Row],
    (table, id): (&'static str, &str),
    read: impl Fn(&Row) -> Result<T>,
) -> Result<Vec<T>> {
    let mut readable = Vec::new();
    for row in rows {
        match read(row) {
            Ok(value) => readable.push(value),
            Err(error) => skip_unreadable(error, table, row.text(id)?)?,
        }
    }
    Ok(readable)
}

/// Reading a row's columns by name.
pub(super) trait Columns {
    fn text(&self, column: &str) -> Result<String>;
    fn text_opt(&self, column: &str) -> Result<Option<String>>;
    fn bytes(&self, column: &str) -> Result<&[u8]>;
    fn uint(&self, column: &str) -> Result<u64>;
    fn uint_opt(&self, column: &str) -> Result<Option<u64>>;

    fn time(&self, column: &str) -> Result<Timestamp> {
        self.uint(column).map(Timestamp)
    }

    fn time_opt(&self, column: &str) -> Result<Option<Timestamp>> {
        Ok(self.uint_opt(column)?.map(Timestamp))
    }

    fn digest(&self, column: &str) -> Result<Digest> {
        parse_digest(&self.text(column)?)
    }

    fn digest_opt(&self, column: &str) -> Result<Option<Digest>> {
        self.text_opt(column)?.as_deref().map(parse_digest).transpose()
    }

    fn json<T: DeserializeOwned>(&self, column: &str) -> Result<T> {
        serde_json::from_str(&self.text(column)?).map_err(damaged)
    }

    fn json_opt<T: DeserializeOwned>(&self, column: &str) -> Result<Option<T>> {
        self.text_opt(column)?.as_deref().map(serde_json::from_str).transpose().map_err(damaged)
    }

    /// An enum without data, from the bare word it serialises to.
    fn word<T: DeserializeOwned>(&self, column: &str) -> Result<T> {
        serde_json::from_value(Value::String(self.text(column)?)).map_err(damaged)
    }
}

impl Columns for Row {
    fn text(&self, column: &str) -> Result<String> {
        get(self, column)
    }

    fn text_opt(&self, column: &str) -> Result<Option<String>> {
        get(self, column)
    }

    fn bytes(&self, column: &str) -> Result<&[u8]> {
        get(self, column)
    }

    fn uint(&self, column: &str) -> Result<u64> {
        unsigned(get(self, column)?)
    }

    fn uint_opt(&self, column: &str) -> Result<Option<u64>> {
        get::<Option<i64>>(self, column)?.map(unsigned).transpose()
    }
}

pub(super) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: &str) -> Result<T> {
    row.try_get(column).map_err(damaged)
}

fn unsigned(number: i64) -> Result<u64> {
    u64::try_from(number).map_err(|_| damaged(format!("{number} is below zero")))
}

fn parse_digest(text: &str) -> Result<Digest> {
    Digest::parse(text).ok_or_else(|| damaged(format!("{text:?} is not a digest")))
}
