-- What the API keeps and asks for: sessions that are created before their runs, runs that are accepted before they begin,
-- how runs ended, keys; and what it takes to delete old runs.

ALTER TABLE sessions ADD COLUMN name TEXT;
ALTER TABLE sessions ADD COLUMN spec TEXT REFERENCES blobs (digest);
ALTER TABLE sessions ADD COLUMN metadata TEXT NOT NULL DEFAULT '{}';
ALTER TABLE sessions ADD COLUMN summary TEXT NOT NULL DEFAULT '';
ALTER TABLE sessions ADD COLUMN last_used_at INTEGER NOT NULL DEFAULT 0;
UPDATE sessions SET
    last_used_at = max(created_at, coalesce(
        (SELECT max(created_at) FROM runs WHERE runs.session = sessions.id AND runs.workspace = sessions.workspace), 0)),
    summary = coalesce(
        (SELECT input_preview FROM runs WHERE runs.session = sessions.id AND runs.workspace = sessions.workspace
         ORDER BY created_at, id LIMIT 1), '');
CREATE INDEX sessions_recent ON sessions (workspace, last_used_at, id);
CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX sessions_of_spec ON sessions (spec) WHERE spec IS NOT NULL;

-- While a run is only reserved, its `execution` and its `agent_digest` are empty.
ALTER TABLE runs ADD COLUMN name TEXT;
ALTER TABLE runs ADD COLUMN spec TEXT REFERENCES blobs (digest);
-- What the row shows of the terminal event, as JSON.
ALTER TABLE runs ADD COLUMN ending TEXT;
UPDATE runs SET ending = (
    SELECT json_object(
        'outputPreview', substr(json_extract(data, '$.text'), 1, 120),
        'error', json_extract(data, '$.error'),
        'errorClass', json_extract(data, '$.errorClass'),
        'finishReason', json_extract(data, '$.finishReason'),
        'usage', json(json_extract(data, '$.usage')),
        'turns', json_extract(data, '$.turns'),
        'toolCalls', json_extract(data, '$.toolCalls'))
    FROM events WHERE run_id = runs.id AND seq = runs.last_seq)
WHERE closed_at IS NOT NULL;
CREATE INDEX runs_open ON runs (created_at) WHERE closed_at IS NULL;
CREATE INDEX runs_closed ON runs (closed_at) WHERE closed_at IS NOT NULL;
CREATE INDEX runs_of_spec ON runs (spec) WHERE spec IS NOT NULL;
CREATE INDEX runs_of_agent ON runs (agent_digest);

-- A conversation outlives the runs that added to it, so `run_id` no longer refers to a row.
CREATE TABLE conversation (
    workspace TEXT    NOT NULL,
    session   TEXT    NOT NULL,
    idx       INTEGER NOT NULL,
    digest    TEXT    NOT NULL REFERENCES blobs (digest),
    run_id    TEXT    NOT NULL,
    PRIMARY KEY (workspace, session, idx),
    FOREIGN KEY (workspace, session) REFERENCES sessions (workspace, id)
) STRICT, WITHOUT ROWID;
INSERT INTO conversation SELECT workspace, session, idx, digest, run_id FROM session_messages;
DROP TABLE session_messages;
ALTER TABLE conversation RENAME TO session_messages;
CREATE INDEX session_messages_of_run ON session_messages (run_id);

-- Who refers to a body.
CREATE INDEX session_messages_of_body ON session_messages (digest);
CREATE INDEX transcript_of_body ON transcript (digest);
CREATE INDEX tool_calls_of_body ON tool_calls (result) WHERE result IS NOT NULL;

-- When somebody last stored a body for a workflow that may hold the only reference to it. Empty for bodies that were
-- stored along with a reference, and once no open run is old enough to hold one.
ALTER TABLE blobs ADD COLUMN put_at INTEGER;
UPDATE blobs SET put_at = unixepoch() * 1000 WHERE NOT EXISTS (SELECT 1 FROM transcript WHERE transcript.digest = blobs.digest);
CREATE INDEX blobs_put ON blobs (put_at) WHERE put_at IS NOT NULL;

CREATE TABLE api_keys (
    id           TEXT    NOT NULL PRIMARY KEY,
    workspace    TEXT    NOT NULL,
    name         TEXT    NOT NULL,
    prefix       TEXT    NOT NULL,
    hash         BLOB    NOT NULL,
    scopes       TEXT    NOT NULL,
    agents       TEXT,
    created_at   INTEGER NOT NULL,
    last_used_at INTEGER,
    revoked_at   INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX api_keys_of_workspace ON api_keys (workspace, created_at, id);
