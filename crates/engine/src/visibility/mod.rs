//! Lists and counts of runs: the filter language, the rows it filters, and the attributes that rows carry.
//!
//! The language is the one Temporal's server understands with an SQL store, down to the words of its refusals, which
//! clients show to people. It differs on purpose in a few places: see `query`.

mod attributes;
pub(crate) mod index;
mod query;
pub(crate) mod sql;
#[cfg(test)]
mod tests;
mod time;

pub(crate) use self::{
    attributes::Attributes,
    query::{Query, parse},
};
