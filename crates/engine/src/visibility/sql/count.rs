//! Counts of runs, total or grouped.

use std::collections::BTreeMap;

use rusqlite::{Connection, params_from_iter, types::Value};
use temporalio_protos::temporal::api::{
    enums::v1::{IndexedValueType, WorkflowExecutionStatus},
    workflowservice::v1::count_workflow_executions_response::AggregationGroup,
};

use super::{
    access_path::{AccessPath, Part, bounds},
    has_divisions,
};
use crate::visibility::{
    index,
    query::{GroupBy, Query, status_name},
};

/// What the counts by status and division answer.
const COUNTED: [&str; 2] = ["status", "division"];
/// What the index of statuses has.
const INDEXED: [&str; 4] = ["status", "close_time", "start_time", "run_id"];

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Count {
    pub total: i64,
    /// Empty for a query without groups. Groups without runs are left out.
    pub groups: Vec<AggregationGroup>,
}

pub(crate) fn count(connection: &Connection, namespace: &str, query: &Query) -> rusqlite::Result<Count> {
    let mut counted: BTreeMap<Option<String>, i64> = BTreeMap::new();
    let mut by_status: BTreeMap<Option<i32>, i64> = BTreeMap::new();
    for (sql, parameters) in statements(connection, namespace, query)? {
        let mut statement = connection.prepare(&sql)?;
        let mut rows = statement.query(params_from_iter(parameters))?;
        while let Some(row) = rows.next()? {
            let runs: i64 = row.get(1)?;
            match query.group_by() {
                Some(GroupBy::NamespaceDivision) => *counted.entry(row.get(0)?).or_default() += runs,
                _ => *by_status.entry(row.get(0)?).or_default() += runs,
            }
        }
    }
    let by_name = counted.into_iter().map(|(division, count)| (division.unwrap_or_default(), count));
    let by_status = by_status.into_iter().map(|(status, count)| {
        let known = status.and_then(|status| WorkflowExecutionStatus::try_from(status).ok());
        (known.map(status_name).unwrap_or_default(), count)
    });
    let counted: Vec<(String, i64)> = by_name.chain(by_status).filter(|(_, count)| *count > 0).collect();
    let total = counted.iter().map(|(_, count)| count).sum();
    let groups = match query.group_by() {
        None => Vec::new(),
        Some(_) => counted.into_iter().map(|(name, count)| aggregation(&name, count)).collect(),
    };
    Ok(Count { total, groups })
}

fn aggregation(name: &str, count: i64) -> AggregationGroup {
    AggregationGroup { group_values: vec![index::encode(&name.into(), IndexedValueType::Keyword)], count }
}

/// The statements whose sums are the count: the group and its number of runs.
fn statements(connection: &Connection, namespace: &str, query: &Query) -> rusqlite::Result<Vec<(String, Vec<Value>)>> {
    let divided = has_divisions(connection, namespace)?;
    let (filter, filter_values) = query.where_sql(divided);
    let group = match query.group_by() {
        Some(GroupBy::ExecutionStatus) => "status",
        Some(GroupBy::NamespaceDivision) if divided => "division",
        Some(GroupBy::NamespaceDivision) | None => "NULL",
    };
    let named = Value::Text(namespace.to_owned());
    let columns = query.columns();
    let only = |known: &[&str]| columns.iter().all(|column| known.contains(column));
    if only(&COUNTED) {
        let sql = format!(
            "SELECT {group} AS grouped, SUM(runs) \
             FROM (SELECT namespace, NULLIF(division, '') AS division, status, runs FROM engine_visibility_counts) \
             WHERE namespace = ? AND ({filter}) GROUP BY grouped"
        );
        return Ok(vec![(sql, std::iter::once(named).chain(filter_values).collect())]);
    }
    let conditions = query.conditions();
    let (bounds, bound_values) = bounds(&conditions);
    let path = match AccessPath::of(&conditions) {
        // The order has no statuses.
        AccessPath::Order if bounds.is_empty() && only(&INDEXED) && columns.contains(&"status") => AccessPath::Status,
        AccessPath::Order if bounds.is_empty() && only(&INDEXED) && group == "status" => AccessPath::Status,
        path => path,
    };
    let statement = |part: Part| {
        let Part { from, condition, values, closed: _ } = part;
        let sql = format!(
            "SELECT {group} AS grouped, COUNT(*) FROM {from} \
             WHERE engine_visibility.namespace = ? AND ({filter}){bounds}{condition} GROUP BY grouped"
        );
        let parameters = std::iter::once(named.clone()).chain(filter_values.clone()).chain(bound_values.clone());
        (sql, parameters.chain(values).collect())
    };
    Ok(path.parts().into_iter().map(statement).collect())
}

#[cfg(test)]
pub(crate) fn plan(connection: &Connection, namespace: &str, query: &Query) -> Vec<String> {
    let statements = statements(connection, namespace, query).unwrap().into_iter();
    statements.flat_map(|(sql, values)| super::explain(connection, &sql, &values)).collect()
}
