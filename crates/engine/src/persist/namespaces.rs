//! Namespaces and their search attributes.

use std::collections::BTreeMap;

use prost::Message as _;
use rusqlite::{Connection, params};
use temporalio_protos::temporal::api::{enums::v1::IndexedValueType, namespace::v1::BadBinaryInfo};

use super::readable;
use crate::time::Nanos;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct NamespaceRecord {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, tag = "2")]
    pub(crate) id: String,
    #[prost(string, tag = "3")]
    pub(crate) description: String,
    #[prost(string, tag = "4")]
    pub(crate) owner_email: String,
    /// Retention of closed runs.
    #[prost(int64, tag = "5")]
    pub(crate) retention: Nanos,
    #[prost(btree_map = "string, string", tag = "6")]
    pub(crate) data: BTreeMap<String, String>,
    /// `NamespaceState`; zero for a registered one.
    #[prost(int32, tag = "7")]
    pub(crate) state: i32,
    #[prost(message, required, tag = "8")]
    pub(crate) history_archival: ArchivalConfig,
    #[prost(message, required, tag = "9")]
    pub(crate) visibility_archival: ArchivalConfig,
    #[prost(btree_map = "string, message", tag = "10")]
    pub(crate) bad_binaries: BTreeMap<String, BadBinaryInfo>,
    /// The name before the namespace was deleted. Its runs still have this name.
    #[prost(string, tag = "11")]
    pub(crate) deleted_name: String,
}

/// Whether closed runs of a namespace are archived, and where. Once it is set, the URI never changes.
#[derive(Clone, PartialEq, Eq, prost::Message)]
pub(crate) struct ArchivalConfig {
    #[prost(bool, tag = "1")]
    pub(crate) enabled: bool,
    #[prost(string, tag = "2")]
    pub(crate) uri: String,
}

pub(crate) fn namespaces(sql: &Connection) -> rusqlite::Result<Vec<NamespaceRecord>> {
    let mut records = sql.prepare("SELECT record, name FROM engine_namespaces ORDER BY name")?;
    readable(records.query([])?, ("engine_namespaces", "name"), |row| {
        let blob: Vec<u8> = row.get(0)?;
        NamespaceRecord::decode(&*blob)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(error)))
    })
}

pub(crate) fn save_namespace(sql: &Connection, record: &NamespaceRecord) -> rusqlite::Result<()> {
    sql.prepare_cached("INSERT OR REPLACE INTO engine_namespaces (name, record) VALUES (?1, ?2)")?
        .execute(params![record.name, record.encode_to_vec()])?;
    Ok(())
}

/// Stores a namespace under another name.
pub(crate) fn rename_namespace(sql: &Connection, former: &str, record: &NamespaceRecord) -> rusqlite::Result<()> {
    sql.prepare_cached("DELETE FROM engine_namespaces WHERE name = ?1")?.execute([former])?;
    save_namespace(sql, record)
}

/// Removes a deleted namespace that has no runs any more, and what was kept for its former name.
pub(crate) fn remove_namespace(sql: &Connection, name: &str, former: &str) -> rusqlite::Result<()> {
    sql.prepare_cached("DELETE FROM engine_namespaces WHERE name = ?1")?.execute([name])?;
    for statement in [
        "DELETE FROM engine_search_attributes WHERE namespace = ?1",
        "DELETE FROM engine_attribute_names WHERE namespace = ?1",
        "DELETE FROM engine_visibility_counts WHERE namespace = ?1",
        "DELETE FROM engine_schedules WHERE namespace = ?1",
        "DELETE FROM engine_deployments WHERE namespace = ?1",
        "DELETE FROM engine_batches WHERE namespace = ?1",
    ] {
        sql.prepare_cached(statement)?.execute([former])?;
    }
    Ok(())
}

/// Workflow ids and run ids of a namespace.
pub(crate) fn runs_of(sql: &Connection, namespace: &str, limit: usize) -> rusqlite::Result<Vec<[String; 2]>> {
    let mut runs =
        sql.prepare_cached("SELECT workflow_id, run_id, run FROM engine_visibility WHERE namespace = ?1 LIMIT ?2")?;
    let runs = runs.query(params![namespace, i64::try_from(limit).unwrap_or(i64::MAX)])?;
    readable(runs, ("engine_visibility", "run"), |row| Ok([row.get(0)?, row.get(1)?]))
}

/// Namespace, name and type of every search attribute.
pub(crate) fn attributes(sql: &Connection) -> rusqlite::Result<Vec<(String, String, IndexedValueType)>> {
    let mut attributes = sql.prepare("SELECT namespace, name, kind FROM engine_search_attributes")?;
    readable(attributes.query([])?, ("engine_search_attributes", "name"), |row| {
        let kind: i32 = row.get(2)?;
        Ok((row.get(0)?, row.get(1)?, IndexedValueType::try_from(kind).unwrap_or_default()))
    })
}

pub(crate) fn save_attribute(
    sql: &Connection,
    namespace: &str,
    name: &str,
    kind: IndexedValueType,
) -> rusqlite::Result<()> {
    sql.prepare_cached("INSERT OR REPLACE INTO engine_search_attributes (namespace, name, kind) VALUES (?1, ?2, ?3)")?
        .execute(params![namespace, name, kind as i32])?;
    Ok(())
}

pub(crate) fn remove_attribute(sql: &Connection, namespace: &str, name: &str) -> rusqlite::Result<()> {
    sql.prepare_cached("DELETE FROM engine_search_attributes WHERE namespace = ?1 AND name = ?2")?
        .execute([namespace, name])?;
    Ok(())
}
