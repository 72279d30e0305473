//! Lists and counts of runs: the filter language, the table, and search attributes.
//!
//! The language is that of Temporal's server with an SQL store, including its error texts, which clients show to
//! people. The few intended differences are listed in `query`.

mod attributes;
pub(crate) mod index;
mod query;
pub(crate) mod sql;
#[cfg(test)]
mod tests;
pub(crate) mod time;

pub(crate) use self::{
    attributes::Attributes,
    query::{Query, check_syntax, parse, parse_for_schedules},
};
