//! Nexus endpoints.

use prost::Message as _;
use rusqlite::{Connection, params};
use temporalio_protos::temporal::api::nexus::v1::EndpointSpec;

use super::readable;
use crate::time::Nanos;

#[derive(Clone, PartialEq, prost::Message)]
pub(crate) struct EndpointRecord {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(int64, tag = "2")]
    pub(crate) version: i64,
    #[prost(message, required, tag = "3")]
    pub(crate) spec: EndpointSpec,
    /// Zero after an update, as on the real server.
    #[prost(int64, tag = "4")]
    pub(crate) created: Nanos,
    #[prost(int64, tag = "5")]
    pub(crate) modified: Nanos,
}

pub(crate) fn endpoints(sql: &Connection) -> rusqlite::Result<Vec<EndpointRecord>> {
    let mut records = sql.prepare("SELECT record, id FROM engine_nexus_endpoints ORDER BY id")?;
    readable(records.query([])?, ("engine_nexus_endpoints", "id"), |row| {
        let blob: Vec<u8> = row.get(0)?;
        EndpointRecord::decode(&*blob)
            .map_err(|error| rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(error)))
    })
}

pub(crate) fn save_endpoint(sql: &Connection, record: &EndpointRecord) -> rusqlite::Result<()> {
    sql.prepare_cached("INSERT OR REPLACE INTO engine_nexus_endpoints (id, record) VALUES (?1, ?2)")?
        .execute(params![record.id, record.encode_to_vec()])?;
    Ok(())
}

pub(crate) fn remove_endpoint(sql: &Connection, id: &str) -> rusqlite::Result<()> {
    sql.prepare_cached("DELETE FROM engine_nexus_endpoints WHERE id = ?1")?.execute([id])?;
    Ok(())
}
