-- Rows refer to each other by numbers instead of texts, digests are 32 bytes instead of 64 hexadecimal digits, and bodies
-- may be packed and refer to parts of other bodies (`splice.rs`). Rows that are copied here are readable as they are: JSON
-- that is not packed begins with printable text.
--
-- No process of an older build can work on these tables; it is the first migration that demands to be alone.

DROP TRIGGER blobs_refer;
DROP TRIGGER blobs_keep;
DROP TRIGGER blobs_free;
DROP VIEW transcript;

-- `digest` is found by its first bytes: an index of whole digests would be as large again.
CREATE TABLE bodies (
    number INTEGER PRIMARY KEY,
    digest BLOB NOT NULL,
    put_at INTEGER,
    body   BLOB NOT NULL
) STRICT;
INSERT INTO bodies (number, digest, put_at, body)
    SELECT rowid, coalesce(unhex(digest), CAST(digest AS BLOB)), put_at, body FROM blobs;

CREATE TABLE chats (
    workspace    TEXT    NOT NULL,
    id           TEXT    NOT NULL,
    created_at   INTEGER NOT NULL,
    ended_at     INTEGER,
    name         TEXT,
    spec         INTEGER REFERENCES bodies (number),
    metadata     TEXT    NOT NULL,
    summary      TEXT    NOT NULL DEFAULT '',
    last_used_at INTEGER NOT NULL,
    agent        TEXT,
    PRIMARY KEY (workspace, id)
) STRICT, WITHOUT ROWID;
INSERT INTO chats (workspace, id, created_at, ended_at, name, spec, metadata, summary, last_used_at, agent)
    SELECT workspace, id, created_at, ended_at, name, (SELECT rowid FROM blobs WHERE digest = spec), metadata, summary,
        last_used_at, agent
    FROM sessions;

-- The digest of the agent is that of a body which may not be stored, so it is no number.
CREATE TABLE numbered (
    number        INTEGER PRIMARY KEY,
    id            TEXT    NOT NULL UNIQUE,
    workspace     TEXT    NOT NULL,
    session       TEXT,
    execution     TEXT    NOT NULL,
    agent_id      TEXT    NOT NULL,
    root_agent    TEXT    NOT NULL DEFAULT '',
    agent_digest  BLOB    NOT NULL,
    model_id      TEXT    NOT NULL,
    name          TEXT,
    spec          INTEGER REFERENCES bodies (number),
    request       BLOB,
    parent        TEXT,
    parent_call   TEXT,
    labels        TEXT    NOT NULL,
    metadata      TEXT    NOT NULL,
    status        TEXT    NOT NULL,
    phase         TEXT    NOT NULL,
    input_preview TEXT    NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    closed_at     INTEGER,
    opening_len   INTEGER NOT NULL,
    new_messages  INTEGER NOT NULL,
    prefix_len    INTEGER NOT NULL DEFAULT 0,
    head_len      INTEGER NOT NULL,
    head_digest   BLOB    NOT NULL,
    last_seq      INTEGER NOT NULL,
    ending        TEXT,
    FOREIGN KEY (workspace, session) REFERENCES chats (workspace, id)
) STRICT;
INSERT INTO numbered (number, id, workspace, session, execution, agent_id, root_agent, agent_digest, model_id, name, spec,
        request, parent, parent_call, labels, metadata, status, phase, input_preview, created_at, updated_at, closed_at,
        opening_len, new_messages, prefix_len, head_len, head_digest, last_seq, ending)
    SELECT rowid, id, workspace, session, execution, agent_id, root_agent,
        coalesce(unhex(agent_digest), CAST(agent_digest AS BLOB)), model_id, name,
        (SELECT rowid FROM blobs WHERE digest = spec), unhex(request), parent, parent_call, labels, metadata, status, phase,
        input_preview, created_at, updated_at, closed_at, opening_len, new_messages, prefix_len, head_len,
        coalesce(unhex(head_digest), CAST(head_digest AS BLOB)), last_seq, ending
    FROM runs;

-- A run's own messages. The digest of each of its heads follows from these and is not stored.
CREATE TABLE said (
    run  INTEGER NOT NULL REFERENCES numbered (number),
    idx  INTEGER NOT NULL,
    blob INTEGER NOT NULL REFERENCES bodies (number),
    PRIMARY KEY (run, idx)
) STRICT, WITHOUT ROWID;
INSERT INTO said (run, idx, blob)
    SELECT runs.rowid, idx, blobs.rowid FROM run_messages JOIN runs ON runs.id = run_id JOIN blobs USING (digest);

CREATE TABLE conversations (
    workspace TEXT    NOT NULL,
    session   TEXT    NOT NULL,
    idx       INTEGER NOT NULL,
    blob      INTEGER NOT NULL REFERENCES bodies (number),
    chain     BLOB,
    run_id    TEXT    NOT NULL,
    PRIMARY KEY (workspace, session, idx),
    FOREIGN KEY (workspace, session) REFERENCES chats (workspace, id)
) STRICT, WITHOUT ROWID;
INSERT INTO conversations (workspace, session, idx, blob, chain, run_id)
    SELECT workspace, session, idx, blobs.rowid, unhex(chain), run_id FROM session_messages JOIN blobs USING (digest);

-- `body` is the type, the data and the key, with line feeds between them. Two keys of a run may have one hash.
CREATE TABLE log (
    number   INTEGER PRIMARY KEY,
    run      INTEGER NOT NULL REFERENCES numbered (number),
    seq      INTEGER NOT NULL,
    key_hash INTEGER NOT NULL,
    at       INTEGER NOT NULL,
    body     BLOB    NOT NULL,
    UNIQUE (run, seq)
) STRICT;
INSERT INTO log (number, run, seq, key_hash, at, body)
    SELECT events.number, runs.rowid, seq, short_hash(key), at, CAST(type || char(10) || data || char(10) || key AS BLOB)
    FROM events JOIN runs ON runs.id = run_id ORDER BY events.number;

CREATE TABLE responses (
    number INTEGER PRIMARY KEY,
    run    INTEGER NOT NULL REFERENCES numbered (number),
    turn   INTEGER NOT NULL,
    output BLOB,
    UNIQUE (run, turn)
) STRICT;
INSERT INTO responses (run, turn, output)
    SELECT runs.rowid, turn, CAST(output AS BLOB) FROM plans JOIN runs ON runs.id = run_id ORDER BY plans.number;

-- `state` is 1 for a call that is started, 2 for a finished, 3 for a released and 4 for an unknown one.
CREATE TABLE calls (
    number      INTEGER PRIMARY KEY,
    run         INTEGER NOT NULL REFERENCES numbered (number),
    call_id     TEXT    NOT NULL,
    dispatch    INTEGER NOT NULL,
    state       INTEGER NOT NULL CHECK (state BETWEEN 1 AND 4),
    output      BLOB,
    result      INTEGER REFERENCES bodies (number),
    late_output BLOB,
    UNIQUE (run, call_id),
    CHECK ((state = 2) = (output IS NOT NULL))
) STRICT;
INSERT INTO calls (run, call_id, dispatch, state, output, result, late_output)
    SELECT runs.rowid, call_id, dispatch,
        CASE state WHEN 'started' THEN 1 WHEN 'finished' THEN 2 WHEN 'released' THEN 3 ELSE 4 END,
        CAST(output AS BLOB), (SELECT rowid FROM blobs WHERE digest = result), CAST(late_output AS BLOB)
    FROM tool_calls JOIN runs ON runs.id = run_id ORDER BY tool_calls.number;

CREATE TABLE pending (
    run  INTEGER NOT NULL PRIMARY KEY REFERENCES numbered (number),
    plan TEXT
) STRICT;
INSERT INTO pending (run, plan) SELECT runs.rowid, plan FROM starts JOIN runs ON runs.id = run_id;

-- Files that a message refers to. The target need not exist.
CREATE TABLE file_refs (
    body   INTEGER NOT NULL,
    target BLOB    NOT NULL,
    PRIMARY KEY (body, target)
) STRICT, WITHOUT ROWID;
INSERT INTO file_refs (body, target)
    SELECT blobs.rowid, unhex(target) FROM body_refs JOIN blobs ON blobs.digest = body_refs.body
    WHERE length(unhex(target)) = 32;

-- Bodies that are stored with parts of other bodies. Before one of those is deleted, the body is stored whole.
CREATE TABLE splices (
    body   INTEGER NOT NULL REFERENCES bodies (number) ON DELETE CASCADE,
    target INTEGER NOT NULL REFERENCES bodies (number),
    PRIMARY KEY (body, target)
) STRICT, WITHOUT ROWID;

DROP TABLE body_refs;
DROP TABLE starts;
DROP TABLE tool_calls;
DROP TABLE plans;
DROP TABLE events;
DROP TABLE session_messages;
DROP TABLE run_messages;
DROP TABLE runs;
DROP TABLE sessions;
DROP TABLE blobs;
ALTER TABLE bodies RENAME TO blobs;
ALTER TABLE chats RENAME TO sessions;
ALTER TABLE numbered RENAME TO runs;
ALTER TABLE said RENAME TO run_messages;
ALTER TABLE conversations RENAME TO session_messages;
ALTER TABLE log RENAME TO events;
ALTER TABLE responses RENAME TO plans;
ALTER TABLE calls RENAME TO tool_calls;
ALTER TABLE pending RENAME TO starts;
ALTER TABLE file_refs RENAME TO body_refs;

-- What reads each index stands behind it. Where rows of one time are sorted by id, SQLite sorts those few itself.
CREATE INDEX blobs_of_digest ON blobs (substr(digest, 1, 8));                       -- every put and every read by digest
CREATE INDEX blobs_put ON blobs (put_at) WHERE put_at IS NOT NULL;                   -- sweeps
CREATE INDEX body_refs_of_target ON body_refs (target);                              -- sweeps
CREATE INDEX splices_of_target ON splices (target);                                  -- sweeps
CREATE INDEX sessions_recent ON sessions (workspace, last_used_at);                  -- lists
CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at IS NOT NULL;       -- sweeps
CREATE INDEX sessions_of_spec ON sessions (spec) WHERE spec IS NOT NULL;             -- sweeps of bodies
CREATE INDEX runs_newest ON runs (created_at);                                       -- lists of all workspaces
CREATE INDEX runs_of_workspace ON runs (workspace, created_at);                      -- lists
CREATE INDEX runs_of_session ON runs (session, created_at) WHERE session IS NOT NULL; -- lists, sweeps of sessions
CREATE INDEX runs_of_parent ON runs (parent, created_at) WHERE parent IS NOT NULL;   -- the children of a run
CREATE INDEX runs_open ON runs (created_at) WHERE closed_at IS NULL;                 -- sweeps, reconciliation
CREATE INDEX runs_closed ON runs (closed_at) WHERE closed_at IS NOT NULL;            -- sweeps
CREATE INDEX runs_of_spec ON runs (spec) WHERE spec IS NOT NULL;                     -- sweeps of bodies
CREATE INDEX runs_of_agent ON runs (substr(agent_digest, 1, 8));                     -- sweeps of bodies
CREATE INDEX run_messages_of_body ON run_messages (blob);                            -- sweeps of bodies
CREATE INDEX session_messages_of_run ON session_messages (run_id);                   -- the end of a turn
CREATE INDEX session_messages_of_body ON session_messages (blob);                    -- sweeps of bodies
CREATE INDEX events_of_key ON events (run, key_hash);                                -- every append
CREATE INDEX tool_calls_of_body ON tool_calls (result) WHERE result IS NOT NULL;     -- sweeps of bodies

-- All messages of a run: the part of its session's conversation that it refers to, then its own.
CREATE VIEW transcript (run, idx, blob) AS
    SELECT run, idx, blob FROM run_messages
    UNION ALL
    SELECT runs.number, said.idx, said.blob
    FROM runs JOIN session_messages AS said
        ON said.workspace = runs.workspace AND said.session = runs.session AND said.idx < runs.prefix_len;
