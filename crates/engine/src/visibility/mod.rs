//! Lists and counts of runs. (Stand-in until the filter language lands.)
use std::collections::BTreeMap;
use temporalio_protos::temporal::api::enums::v1::IndexedValueType;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Attributes {
    pub custom: BTreeMap<String, IndexedValueType>,
}
impl FromIterator<(String, IndexedValueType)> for Attributes {
    fn from_iter<I: IntoIterator<Item = (String, IndexedValueType)>>(custom: I) -> Self {
        Self { custom: custom.into_iter().collect() }
    }
}
pub mod index {
    use super::Attributes;
    use crate::refusal::Refusal;
    use temporalio_protos::temporal::api::common::v1::SearchAttributes;
    pub fn check(namespace: &str, given: &mut SearchAttributes, known: &Attributes) -> Result<(), Refusal> {
        for (name, value) in &mut given.indexed_fields {
            let Some(kind) = known.custom.get(name) else {
                return Err(Refusal::invalid(format!(
                    "Namespace {namespace} has no mapping defined for search attribute {name}"
                )));
            };
            value.metadata.entry("type".to_owned()).or_insert_with(|| format!("{kind:?}").into_bytes());
        }
        Ok(())
    }
    pub fn json(_given: Option<&SearchAttributes>, _known: &Attributes) -> String {
        "{}".to_owned()
    }
}
pub mod sql {
    use rusqlite::{Connection, params};
    #[derive(Debug, Clone, Default, PartialEq)]
    pub struct VisibilityRow {
        pub run: i64,
        pub namespace: String,
        pub workflow_id: String,
        pub run_id: String,
        pub workflow_type: String,
        pub task_queue: String,
        pub status: i32,
        pub start_time: i64,
        pub execution_time: i64,
        pub close_time: Option<i64>,
        pub history_length: i64,
        pub history_size: i64,
        pub parent_workflow_id: Option<String>,
        pub parent_run_id: Option<String>,
        pub root_workflow_id: String,
        pub root_run_id: String,
        pub memo: Option<Vec<u8>>,
        pub search_attributes: Option<Vec<u8>>,
        pub attributes: String,
    }
    pub fn save(sql: &Connection, r: &VisibilityRow) -> rusqlite::Result<()> {
        sql.prepare_cached("INSERT OR REPLACE INTO engine_visibility VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13,?14,?15,?16,?17,?18,?19)")?.execute(params![
            r.run, r.namespace, r.workflow_id, r.run_id, r.workflow_type, r.task_queue, r.status, r.start_time, r.execution_time, r.close_time, r.history_length, r.history_size,
            r.parent_workflow_id, r.parent_run_id, r.root_workflow_id, r.root_run_id, r.memo, r.search_attributes, r.attributes])?;
        Ok(())
    }
}
