//! Namespaces and their search attributes.

use std::collections::BTreeMap;

use prost::Message as _;
use rusqlite::{Connection, params};
use temporalio_protos::temporal::api::enums::v1::IndexedValueType;

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
