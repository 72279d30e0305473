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

pub(crate) fn size(wanted: u32) -> usize {
    match wanted {
        0 => DEFAULT_PAGE as usize,
        wanted => wanted.min(LARGEST_PAGE) as usize,
    }
}

/// Cuts off what was read beyond a page of `size`, and says where the next one begins.
pub(crate) fn cut<T>(rows: &mut Vec<T>, size: usize, cursor: impl Fn(&T) -> String) -> Option<String> {
    let more = rows.len() > size;
    rows.truncate(size);
    rows.last().filter(|_| more).map(cursor)
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
