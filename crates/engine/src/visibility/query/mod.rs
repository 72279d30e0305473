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

use rusqlite::types::Value;

use self::filter::Filter;
pub(super) use self::value::{go_float, status_name};
use super::attributes::Attributes;
use crate::ServiceError;

/// The longest accepted filter. Its SQL stays within SQLite's limits.
const LONGEST: usize = 32 << 10;

/// A parsed query.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Query {
    filter: Option<Filter>,
    group_by: Option<GroupBy>,
}

/// How counts are grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupBy {
    ExecutionStatus,
    /// Runs of the engine have no division, so there is one group.
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

impl Query {
    /// The condition over the columns of `engine_visibility`, and the parameters in order.
    pub(crate) fn where_sql(&self) -> (String, Vec<Value>) {
        let (mut sql, mut values) = (String::new(), Vec::new());
        match &self.filter {
            Some(filter) => filter.write(&mut sql, &mut values),
            None => sql.push_str("TRUE"),
        }
        (sql, values)
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
