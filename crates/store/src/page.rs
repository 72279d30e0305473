//! Lists: how long a page is, where the next one begins, and how much of a text a row shows.

use std::fmt;

use windlass_core::time::Timestamp;

use crate::{Result, StoreError};

const PREVIEW_CHARS: usize = 120;
const DEFAULT_PAGE: u32 = 50;
const LARGEST_PAGE: u32 = 200;

/// The beginning of a text, without characters that a column does not take.
pub(crate) fn preview(text: &str) -> String {
    text.chars().take(PREVIEW_CHARS).map(|c| if c == '\0' { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn size(wanted: u32) -> usize {
    match wanted {
        0 => DEFAULT_PAGE as usize,
        wanted => wanted.min(LARGEST_PAGE) as usize,
    }
}

/// A page as it is read. A row that cannot be decoded is left out, logged and counted, and takes no place on the page: one
/// bad row must not hide the others.
pub(crate) struct Page<T> {
    size: usize,
    rows: Vec<T>,
    unreadable: u64,
    /// Of those, what came after the last row that was read.
    trailing: u64,
}

impl<T> Page<T> {
    pub(crate) fn of(wanted: u32) -> Self {
        Self { size: size(wanted), rows: Vec::new(), unreadable: 0, trailing: 0 }
    }

    /// How many rows are still to be read: one more than the page has tells whether there is another page.
    pub(crate) fn missing(&self) -> usize {
        self.size + 1 - self.rows.len()
    }

    /// Takes a row of `table`, or notes that it could not be read.
    pub(crate) fn take(&mut self, read: Result<T>, table: &'static str, id: impl fmt::Display) -> Result<()> {
        match read {
            Ok(row) => {
                if self.rows.len() < self.size {
                    self.trailing = 0;
                }
                self.rows.push(row);
            }
            Err(error) => {
                skip_unreadable(error, table, id)?;
                self.unreadable += 1;
                self.trailing += 1;
            }
        }
        Ok(())
    }

    /// The rows of the page, where the next one begins, and how many rows were left out.
    pub(crate) fn end(mut self, cursor: impl Fn(&T) -> String) -> (Vec<T>, Option<String>, u64) {
        let more = self.rows.len() > self.size;
        self.rows.truncate(self.size);
        let next = self.rows.last().filter(|_| more).map(cursor);
        // What stands between this page and the next is the next one's.
        (self.rows, next, self.unreadable - if more { self.trailing } else { 0 })
    }
}

/// Logs that a row was left out because it cannot be decoded. Any other error is passed on.
pub(crate) fn skip_unreadable(error: StoreError, table: &'static str, id: impl fmt::Display) -> Result<()> {
    if !error.is_about_a_row() {
        return Err(error);
    }
    tracing::warn!(%error, table, %id, "a row cannot be read and is left out");
    Ok(())
}

/// The last row of a page in a list that is ordered by a time and an id, both descending.
pub(crate) struct Cursor<'c> {
    pub(crate) at: Timestamp,
    pub(crate) id: &'c str,
}

impl<'c> Cursor<'c> {
    pub(crate) fn parse(cursor: &'c str) -> Result<Self> {
        let parts = cursor.split_once('.').and_then(|(at, id)| Some(Self { at: Timestamp(at.parse().ok()?), id }));
        parts.ok_or_else(|| StoreError::InvalidArgument {
            argument: "cursor",
            problem: format!("{cursor:?} did not come from a page; pass the previous page's `next` unchanged"),
        })
    }
}

impl fmt::Display for Cursor<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.at.0, self.id)
    }
}
