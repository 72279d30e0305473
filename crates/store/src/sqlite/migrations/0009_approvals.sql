-- Grants: calls that are not asked about again. `body` is the grant; the other columns are what it is found by.
CREATE TABLE approval_grants (
    workspace  TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    tool       TEXT    NOT NULL,
    scope_kind TEXT    NOT NULL,
    scope_id   TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    granted_at INTEGER NOT NULL,
    revoked_at INTEGER,
    PRIMARY KEY (workspace, id)
) STRICT;
CREATE INDEX approval_grants_of_scope ON approval_grants (workspace, scope_kind, scope_id, tool);

-- The approval rules of a session or of a run. The owner is no foreign key: the rules of a run are stored before the run.
CREATE TABLE approval_rules (
    workspace  TEXT    NOT NULL,
    owner_kind TEXT    NOT NULL,
    owner_id   TEXT    NOT NULL,
    body       TEXT    NOT NULL,
    set_at     INTEGER NOT NULL,
    PRIMARY KEY (workspace, owner_kind, owner_id)
) STRICT;

-- The roles of a key; NULL is none.
ALTER TABLE api_keys ADD COLUMN roles TEXT;
