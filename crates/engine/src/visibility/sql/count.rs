//! Counts of runs, total or grouped.

use rusqlite::{Connection, params_from_iter, types::Value};
use temporalio_protos::temporal::api::{
    enums::v1::{IndexedValueType, WorkflowExecutionStatus},
    workflowservice::v1::count_workflow_executions_response::AggregationGroup,
};

use crate::visibility::{
    index,
    query::{GroupBy, Query, status_name},
};

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Count {
    pub total: i64,
    /// Empty for a query without groups. Groups without runs are left out.
    pub groups: Vec<AggregationGroup>,
}

pub(crate) fn count(connection: &Connection, namespace: &str, query: &Query) -> rusqlite::Result<Count> {
    let (filter, values) = query.where_sql();
    let parameters = std::iter::once(Value::Text(namespace.to_owned())).chain(values);
    let group = match query.group_by() {
        Some(GroupBy::ExecutionStatus) => "status",
        Some(GroupBy::NamespaceDivision) | None => "NULL",
    };
    let sql = format!(
        "SELECT {group} AS division, COUNT(*) FROM engine_visibility WHERE namespace = ? AND ({filter}) \
         GROUP BY division ORDER BY division"
    );
    let counted: Vec<(Option<i32>, i64)> = connection
        .prepare(&sql)?
        .query_map(params_from_iter(parameters), |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let total = counted.iter().map(|(_, count)| count).sum();
    let groups = match query.group_by() {
        None => Vec::new(),
        Some(_) => counted.into_iter().map(|(status, count)| aggregation(status, count)).collect(),
    };
    Ok(Count { total, groups })
}

fn aggregation(status: Option<i32>, count: i64) -> AggregationGroup {
    let known = status.and_then(|status| WorkflowExecutionStatus::try_from(status).ok());
    let name = known.map(status_name).unwrap_or_default();
    AggregationGroup { group_values: vec![index::encode(&name.into(), IndexedValueType::Keyword)], count }
}
