//! Pages of runs: open ones first, then closed ones, the latest first.

use std::cell::Cell;

use prost::Message;
use rusqlite::{Connection, params_from_iter, types::Value};

use super::{Error, row::VisibilityRow};
use crate::{ServiceError, persist::readable, visibility::Query};

/// Open runs sort before every closed one.
const CLOSING: &str = "COALESCE(close_time, 9223372036854775807)";

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Page {
    pub rows: Vec<VisibilityRow>,
    /// The token of the next page; empty after the last one.
    pub next: Vec<u8>,
}

/// The position of the last row of a page. The next page starts after this position, even if the row was deleted
/// meanwhile.
#[derive(Clone, PartialEq, Message)]
struct Token {
    #[prost(int64, tag = "1")]
    closing: i64,
    #[prost(int64, tag = "2")]
    start_time: i64,
    #[prost(string, tag = "3")]
    run_id: String,
}

/// One page; `token` is empty for the first.
pub(crate) fn list(
    connection: &Connection,
    namespace: &str,
    query: &Query,
    page_size: usize,
    token: &[u8],
) -> Result<Page, Error> {
    let (filter, values) = query.where_sql();
    let mut parameters = vec![Value::Text(namespace.to_owned())];
    parameters.extend(values);
    let mut after = "TRUE".to_owned();
    if !token.is_empty() {
        let Token { closing, start_time, run_id } =
            Token::decode(token).map_err(|_| ServiceError::invalid("invalid NextPageToken"))?;
        after = format!("{CLOSING} <= ? AND ({CLOSING} < ? OR start_time < ? OR (start_time = ? AND run_id > ?))");
        parameters.extend([closing, closing, start_time, start_time].map(Value::Integer));
        parameters.push(Value::Text(run_id));
    }
    // One row more than requested shows whether there is another page. Further rows are read only if some are
    // unreadable.
    parameters.push(Value::Integer(i64::try_from(page_size).unwrap_or(i64::MAX).saturating_add(1)));
    let sql = format!(
        "SELECT * FROM engine_visibility WHERE namespace = ? AND ({filter}) AND ({after}) \
         ORDER BY {CLOSING} DESC, start_time DESC, run_id LIMIT ? OFFSET ?"
    );
    let mut statement = connection.prepare(&sql)?;
    let (mut rows, mut offset) = (Vec::new(), 0);
    loop {
        let counted = Cell::new(0_usize);
        let found = statement.query(params_from_iter(parameters.iter().chain([&Value::Integer(offset)])))?;
        rows.extend(readable(found, ("engine_visibility", "run"), |row| {
            counted.set(counted.get() + 1);
            VisibilityRow::read(row)
        })?);
        if counted.get() <= page_size || rows.len() > page_size {
            break;
        }
        offset += i64::try_from(counted.get()).unwrap_or(i64::MAX);
    }
    let more = rows.len() > page_size;
    rows.truncate(page_size);
    let next = match rows.last() {
        Some(last) if more => Token {
            closing: last.close_time.unwrap_or(i64::MAX),
            start_time: last.start_time,
            run_id: last.run_id.clone(),
        }
        .encode_to_vec(),
        _ => Vec::new(),
    };
    Ok(Page { rows, next })
}
