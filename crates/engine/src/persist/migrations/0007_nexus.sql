-- Nexus endpoints. They are few, belong to no namespace, and are kept in memory; the table is read on start only.
CREATE TABLE engine_nexus_endpoints (
    id TEXT PRIMARY KEY,
    -- EndpointRecord
    record BLOB NOT NULL
) STRICT, WITHOUT ROWID;
