-- Grants: calls that are not asked about again. `body` is the grant; the other columns are what it is found by.
CREATE TABLE approval_grants (
    workspace  TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    tool       TEXT COLLATE "C" NOT NULL,
    scope_kind TEXT COLLATE "C" NOT NULL,
    scope_id   TEXT COLLATE "C" NOT NULL,
    body       TEXT NOT NULL,
    granted_at BIGINT NOT NULL,
    revoked_at BIGINT,
    PRIMARY KEY (workspace, id)
);
CREATE INDEX approval_grants_of_scope ON approval_grants (workspace, scope_kind, scope_id, tool);

-- The approval rules of a session or of a run. The owner is no foreign key: the rules of a run are stored before the run.
CREATE TABLE approval_rules (
    workspace  TEXT COLLATE "C" NOT NULL,
    owner_kind TEXT COLLATE "C" NOT NULL,
    owner_id   TEXT COLLATE "C" NOT NULL,
    body       TEXT NOT NULL,
    set_at     BIGINT NOT NULL,
    PRIMARY KEY (workspace, owner_kind, owner_id)
);

-- The roles of a key; NULL is none.
ALTER TABLE api_keys ADD COLUMN roles TEXT;
