//! How values of the domain are written into columns and read back.

use std::fmt;

use rusqlite::{
    Row, RowIndex, Rows, ToSql,
    types::{FromSql, FromSqlError, FromSqlResult, ToSqlOutput, ValueRef},
};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use windlass_core::{
    canonical::{self, Digest},
    time::Timestamp,
};

use crate::{Result, StoreError, page::skip_unreadable};

/// SQLite has no unsigned integers. A number beyond its range is out of reach of every column, so it saturates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Uint(pub(super) u64);

impl ToSql for Uint {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(i64::try_from(self.0).unwrap_or(i64::MAX).into())
    }
}

impl FromSql for Uint {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let number = value.as_i64()?;
        u64::try_from(number).map(Self).map_err(|_| FromSqlError::OutOfRange(number))
    }
}

impl From<Timestamp> for Uint {
    fn from(at: Timestamp) -> Self {
        Self(at.0)
    }
}

impl From<Uint> for Timestamp {
    fn from(at: Uint) -> Self {
        Self(at.0)
    }
}

/// A text as it stands in its column, whether it is UTF-8 or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct RawText(pub(super) Vec<u8>);

impl RawText {
    pub(super) fn of(row: &Row<'_>, column: impl RowIndex) -> rusqlite::Result<Self> {
        Ok(Self(row.get_ref(column)?.as_bytes().unwrap_or_default().to_vec()))
    }
}

impl ToSql for RawText {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(&self.0)))
    }
}

impl fmt::Display for RawText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).escape_debug().fmt(f)
    }
}

/// What can be read of some rows. The others are left out and logged with `id`, which is a column.
pub(super) fn readable<T>(
    mut rows: Rows<'_>,
    (table, id): (&'static str, usize),
    read: impl Fn(&Row<'_>) -> rusqlite::Result<T>,
) -> Result<Vec<T>> {
    let mut readable = Vec::new();
    while let Some(row) = rows.next()? {
        match read(row) {
            Ok(value) => readable.push(value),
            Err(error) => skip_unreadable(error.into(), table, RawText::of(row, id)?)?,
        }
    }
    Ok(readable)
}

/// A digest as its 32 bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Bytes(pub(super) Digest);

impl ToSql for Bytes {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(hex::decode(self.0.to_string()).map_err(unwritable)?.into())
    }
}

impl FromSql for Bytes {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        let bytes = value.as_bytes()?;
        let digest = Digest::parse(&hex::encode(bytes));
        digest.map(Self).ok_or_else(|| FromSqlError::Other(format!("{} bytes are not a digest", bytes.len()).into()))
    }
}

/// A value as canonical JSON.
#[derive(Debug)]
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> ToSql for Json<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(canonical::text_of(&self.0).map_err(unwritable)?.into())
    }
}

impl<T: DeserializeOwned> FromSql for Json<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_str(value.as_str()?).map(Self).map_err(FromSqlError::other)
    }
}

/// Canonical JSON, written by the caller, so that the writer thread need not.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Text(String);

impl Text {
    pub(super) fn of<T: Serialize>(value: &T) -> Result<Self> {
        let text = canonical::text_of(value).map_err(|error| StoreError::InvalidArgument {
            argument: "a value",
            problem: format!("it cannot be written as JSON ({error}); use string keys and finite numbers"),
        })?;
        Ok(Self(text))
    }
}

impl Text {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

impl ToSql for Text {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(self.0.as_str().into())
    }
}

/// An enum without data as the bare word it serialises to.
#[derive(Debug)]
pub(super) struct Word<T>(pub(super) T);

impl<T: Serialize> ToSql for Word<T> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        match serde_json::to_value(&self.0).map_err(unwritable)? {
            Value::String(word) => Ok(word.into()),
            other => Err(unwritable(format!("{other} is not a word"))),
        }
    }
}

impl<T: DeserializeOwned> FromSql for Word<T> {
    fn column_result(value: ValueRef<'_>) -> FromSqlResult<Self> {
        serde_json::from_value(Value::String(value.as_str()?.to_owned())).map(Self).map_err(FromSqlError::other)
    }
}

fn unwritable(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> rusqlite::Error {
    rusqlite::Error::ToSqlConversionFailure(error.into())
}
