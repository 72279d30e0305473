//! The filter language: text in, a typed filter out, SQL with bound values at the end.
//!
//! `lexer` and `parser` know grammar, `check` knows fields and types, `filter` knows SQL. Where Temporal's server would
//! fail or answer wrongly, this one does better: values with backslashes match, a custom time equals itself, clauses
//! that mean nothing here (`HAVING`, subqueries, `UNION`) are refused.

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

/// The longest filter that is read; what it turns into stays within the database's own limits.
const LONGEST: usize = 32 << 10;

/// Which runs are meant.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Query {
    filter: Option<Filter>,
    group_by: Option<GroupBy>,
}

/// What a count can be split by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GroupBy {
    ExecutionStatus,
    /// Runs of this engine have none, so that there is one group.
    NamespaceDivision,
}

/// Reads a filter. An empty one means every run.
pub(crate) fn parse(query: &str, attributes: &Attributes) -> Result<Query, ServiceError> {
    if query.len() > LONGEST {
        let length = query.len();
        return Err(refuse(format!("{length} bytes are more than the {LONGEST} that a filter may have; shorten it")));
    }
    check::query(parser::parse(query)?, attributes)
}

impl Query {
    /// A condition over the columns of `engine_visibility`, and the values of its placeholders in their order.
    pub(crate) fn where_sql(&self) -> (String, Vec<Value>) {
        let (mut sql, mut values) = (String::new(), Vec::new());
        match &self.filter {
            Some(filter) => filter.write(&mut sql, &mut values),
            None => sql.push_str("TRUE"),
        }
        (sql, values)
    }

    /// What a count is split by. A list takes no notice of it, as on the server.
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
