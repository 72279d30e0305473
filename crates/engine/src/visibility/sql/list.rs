//! Pages of runs: open ones first, then closed ones, the latest first.

use std::cell::Cell;

use prost::Message;
use rusqlite::{Connection, params_from_iter, types::Value};

use super::{
    CLOSING, Error,
    access_path::{AccessPath, Part, bounds},
    has_divisions,
    row::VisibilityRow,
};
use crate::{ServiceError, persist::readable, visibility::Query};

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
    let after = position(token)?;
    let mut rows = Vec::new();
    for (sql, parameters) in statements(connection, namespace, query, after.as_ref())? {
        read(connection, &sql, parameters, page_size, &mut rows)?;
        if rows.len() > page_size {
            break;
        }
    }
    Ok(Page::of(rows, page_size))
}

impl Page {
    /// A page of these rows, which are one more than requested if there is another page.
    pub(crate) fn of(mut rows: Vec<VisibilityRow>, page_size: usize) -> Self {
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
        Self { rows, next }
    }
}

/// The closing time of the position of a token; `None` for the first page.
pub(crate) fn closing(token: &[u8]) -> Result<Option<i64>, ServiceError> {
    Ok(position(token)?.map(|position| position.closing))
}

fn position(token: &[u8]) -> Result<Option<Token>, ServiceError> {
    if token.is_empty() {
        return Ok(None);
    }
    Token::decode(token).map(Some).map_err(|_| ServiceError::invalid("invalid NextPageToken"))
}

/// The statements whose rows are the list, in order. Each ends with LIMIT and OFFSET, which are not among the values.
fn statements(
    connection: &Connection,
    namespace: &str,
    query: &Query,
    after: Option<&Token>,
) -> rusqlite::Result<Vec<(String, Vec<Value>)>> {
    let (filter, filter_values) = query.where_sql(has_divisions(connection, namespace)?);
    let conditions = query.conditions();
    let (bounds, bound_values) = bounds(&conditions);
    let parts = AccessPath::of(&conditions).parts().into_iter();
    Ok(parts
        .map(|part| {
            let Part { from, condition, values, closed } = part;
            let mut parameters = vec![Value::Text(namespace.to_owned())];
            parameters.extend(filter_values.iter().cloned());
            parameters.extend(bound_values.iter().cloned());
            parameters.extend(values);
            let closing = if closed { "closed_at" } else { CLOSING };
            let mut start = String::new();
            if let Some(Token { closing: at, start_time, run_id }) = after {
                start = format!(
                    " AND {closing} <= ? AND ({closing} < ? OR start_time < ? OR (start_time = ? AND engine_visibility.run_id > ?))"
                );
                parameters.extend([*at, *at, *start_time, *start_time].map(Value::Integer));
                parameters.push(Value::Text(run_id.clone()));
            }
            let sql = format!(
                "SELECT engine_visibility.* FROM {from} WHERE engine_visibility.namespace = ? AND ({filter}){bounds}{condition}{start} \
                 ORDER BY {closing} DESC, start_time DESC, engine_visibility.run_id LIMIT ? OFFSET ?"
            );
            (sql, parameters)
        })
        .collect())
}

/// Adds the rows of a statement, until there is one more than requested, which shows that there is another page.
/// Further rows are read only if some are unreadable.
fn read(
    connection: &Connection,
    sql: &str,
    mut parameters: Vec<Value>,
    page_size: usize,
    rows: &mut Vec<VisibilityRow>,
) -> rusqlite::Result<()> {
    let asked = page_size.saturating_add(1).saturating_sub(rows.len());
    parameters.push(Value::Integer(i64::try_from(asked).unwrap_or(i64::MAX)));
    let mut statement = connection.prepare(sql)?;
    let mut offset = 0;
    loop {
        let counted = Cell::new(0_usize);
        let found = statement.query(params_from_iter(parameters.iter().chain([&Value::Integer(offset)])))?;
        rows.extend(readable(found, ("engine_visibility", "run"), |row| {
            counted.set(counted.get() + 1);
            VisibilityRow::read(row)
        })?);
        if counted.get() < asked || rows.len() > page_size {
            return Ok(());
        }
        offset += i64::try_from(counted.get()).unwrap_or(i64::MAX);
    }
}

/// The plan of the first page, or of a page in the middle.
#[cfg(test)]
pub(crate) fn plan(connection: &Connection, namespace: &str, query: &Query, deep: bool) -> Vec<String> {
    let token = deep.then(|| Token { closing: 5, start_time: 4, run_id: "r".to_owned() });
    let statements = statements(connection, namespace, query, token.as_ref()).unwrap().into_iter();
    statements
        .flat_map(|(sql, mut values)| {
            values.extend([Value::Integer(10), Value::Integer(0)]);
            super::explain(connection, &sql, &values)
        })
        .collect()
}
