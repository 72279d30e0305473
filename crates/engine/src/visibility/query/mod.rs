//! The filter language: parses a query into a typed filter and SQL with bound values.
//!
//! `lexer` and `parser` implement the grammar, `check` the fields and types, `filter` the SQL. Intended differences
//! from Temporal's server, where it fails or answers wrongly: values with backslashes match, a custom time equals
//! itself, and clauses without a meaning here (`HAVING`, subqueries, `UNION`) are rejected.

mod check;
mod filter;
mod lexer;
mod parser;
mod syntax;
mod value;

use std::collections::BTreeSet;

use rusqlite::types::Value;

pub(super) use self::filter::Condition;
use self::filter::Filter;
pub(super) use self::value::{go_float, status_name};
use super::attributes::{Attributes, is_reserved};
use crate::ServiceError;

/// The longest accepted filter. Its SQL stays within SQLite's limits.
const LONGEST: usize = 32 << 10;

/// A parsed query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Query {
    filter: Option<Filter>,
    group_by: Option<GroupBy>,
    /// The query names `TemporalNamespaceDivision`. Otherwise runs that have one are left out.
    names_division: bool,
}

/// How counts are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupBy {
    ExecutionStatus,
    NamespaceDivision,
}

/// Parses a query. An empty one matches every run.
pub(crate) fn parse(query: &str, attributes: &Attributes) -> Result<Query, ServiceError> {
    if query.len() > LONGEST {
        let length = query.len();
        return Err(refuse(format!("{length} bytes are more than the {LONGEST} that a filter may have; shorten it")));
    }
    check::query(parser::parse(query)?, attributes)
}

/// Parses a query for schedules, which may not name the attributes of runs.
pub(crate) fn parse_for_schedules(query: &str, attributes: &Attributes) -> Result<Query, ServiceError> {
    if query.trim().is_empty() {
        return Ok(Query { filter: None, group_by: None, names_division: false });
    }
    let parsed = parse(query, attributes)?;
    if parsed.group_by.is_some() {
        return Err(unsupported("'GROUP BY' clause"));
    }
    let mut names = Vec::new();
    if let Some(filter) = parser::parse(query)?.filter {
        filter.names(&mut names);
    }
    match names.into_iter().find(|name| is_reserved(name) && name != "TemporalSchedulePaused") {
        Some(name) => {
            Err(ServiceError::invalid(format!("invalid query filter for schedules: cannot filter on \"{name}\"")))
        }
        None => Ok(parsed),
    }
}

/// Checks the syntax only, with the real server's refusal for batches.
pub(crate) fn check_syntax(query: &str) -> Result<(), ServiceError> {
    let Err(error) = parser::parse(query) else { return Ok(()) };
    let message = error.to_string();
    let reason = message.strip_prefix("invalid query: malformed SQL query: ").unwrap_or(&message);
    Err(ServiceError::invalid(format!("invalid visibility query: {}", shifted(reason))))
}

/// The real server parses a filter as part of a statement. For batches that statement is one character shorter than for
/// lists, to which the positions of our parser refer.
fn shifted(reason: &str) -> String {
    let Some(rest) = reason.strip_prefix("syntax error at position ") else { return reason.to_owned() };
    let (position, near) = rest.split_at(rest.find(' ').unwrap_or(rest.len()));
    let position = position.parse::<usize>().map_or_else(|_| position.to_owned(), |it| (it - 1).to_string());
    format!("syntax error at position {position}{near}")
}

impl Query {
    /// The condition over the columns of `engine_visibility`, and the parameters in order. `divided` is whether there
    /// are runs of a division.
    pub(crate) fn where_sql(&self, divided: bool) -> (String, Vec<Value>) {
        let (mut sql, mut values) = (String::new(), Vec::new());
        if divided && !self.names_division {
            sql.push_str("division IS NULL AND ");
        }
        match &self.filter {
            Some(filter) => {
                sql.push('(');
                filter.write(&mut sql, &mut values);
                sql.push(')');
            }
            None => sql.push_str("TRUE"),
        }
        (sql, values)
    }

    /// The conditions that every run of the result fulfils, as far as an index can use them.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        let mut conditions = Vec::new();
        if let Some(filter) = &self.filter {
            filter.conditions(&mut conditions);
        }
        conditions
    }

    /// The columns that the filter reads.
    pub(super) fn columns(&self) -> BTreeSet<&'static str> {
        let mut columns = BTreeSet::new();
        if let Some(filter) = &self.filter {
            filter.columns(&mut columns);
        }
        columns
    }

    /// How counts are grouped. Lists ignore it, as on the real server.
    pub(crate) fn group_by(&self) -> Option<GroupBy> {
        self.group_by
    }
}

fn refuse(reason: impl std::fmt::Display) -> ServiceError {
    ServiceError::invalid(format!("invalid query: {reason}"))
}

fn unsupported(what: impl std::fmt::Display) -> ServiceError {
    refuse(format_args!("operation is not supported: {what}"))
}

fn invalid(what: impl std::fmt::Display) -> ServiceError {
    refuse(format_args!("invalid expression: {what}"))
}
