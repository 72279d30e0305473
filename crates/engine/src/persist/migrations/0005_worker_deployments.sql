-- Worker deployments with their versions and their routing.

CREATE TABLE engine_deployments (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    -- Deployment
    record BLOB NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
