-- Bodies by the SHA-256 of their canonical bytes. Messages and tool results are bodies too: whoever needs one refers to it.
CREATE TABLE blobs (
    digest TEXT NOT NULL PRIMARY KEY,
    body   BLOB NOT NULL
) STRICT;

CREATE TABLE sessions (
    workspace  TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    ended_at   INTEGER,
    PRIMARY KEY (workspace, id)
) STRICT, WITHOUT ROWID;

-- The parent is not a foreign key: a child may be opened in a store that its parent's row has not reached.
CREATE TABLE runs (
    id             TEXT    NOT NULL PRIMARY KEY,
    workspace      TEXT    NOT NULL,
    session        TEXT,
    -- The workflow execution that opened it, so that a run is never taken for another one of the same id.
    execution      TEXT    NOT NULL,
    agent_id       TEXT    NOT NULL,
    agent_digest   TEXT    NOT NULL,
    model_id       TEXT    NOT NULL,
    parent         TEXT,
    parent_call    TEXT,
    labels         TEXT    NOT NULL,
    metadata       TEXT    NOT NULL,
    status         TEXT    NOT NULL,
    phase          TEXT    NOT NULL,
    input_preview  TEXT    NOT NULL,
    created_at     INTEGER NOT NULL,
    updated_at     INTEGER NOT NULL,
    -- Set by the terminal event; from then on the log takes no new key.
    closed_at      INTEGER,
    -- How many messages the run was opened with, and how many of those were new to the session.
    opening_len    INTEGER NOT NULL,
    new_messages   INTEGER NOT NULL,
    head_len       INTEGER NOT NULL,
    head_digest    TEXT    NOT NULL,
    last_seq       INTEGER NOT NULL,
    FOREIGN KEY (workspace, session) REFERENCES sessions (workspace, id)
) STRICT;

CREATE INDEX runs_newest ON runs (created_at, id);
CREATE INDEX runs_of_workspace ON runs (workspace, created_at, id);
CREATE INDEX runs_of_session ON runs (session, created_at, id) WHERE session IS NOT NULL;
CREATE INDEX runs_of_parent ON runs (parent, created_at, id) WHERE parent IS NOT NULL;

-- `chain` is the digest of the transcript's head right after this message.
CREATE TABLE transcript (
    run_id TEXT    NOT NULL REFERENCES runs (id),
    idx    INTEGER NOT NULL,
    digest TEXT    NOT NULL REFERENCES blobs (digest),
    chain  TEXT    NOT NULL,
    PRIMARY KEY (run_id, idx)
) STRICT, WITHOUT ROWID;

CREATE TABLE session_messages (
    workspace TEXT    NOT NULL,
    session   TEXT    NOT NULL,
    idx       INTEGER NOT NULL,
    digest    TEXT    NOT NULL REFERENCES blobs (digest),
    run_id    TEXT    NOT NULL REFERENCES runs (id),
    PRIMARY KEY (workspace, session, idx),
    FOREIGN KEY (workspace, session) REFERENCES sessions (workspace, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX session_messages_of_run ON session_messages (run_id);

CREATE TABLE events (
    run_id TEXT    NOT NULL REFERENCES runs (id),
    seq    INTEGER NOT NULL,
    key    TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    type   TEXT    NOT NULL,
    data   TEXT    NOT NULL,
    PRIMARY KEY (run_id, seq),
    UNIQUE (run_id, key)
) STRICT, WITHOUT ROWID;

-- Without an output the turn was given up: whoever still works on it must not write.
CREATE TABLE plans (
    run_id TEXT    NOT NULL REFERENCES runs (id),
    turn   INTEGER NOT NULL,
    output TEXT,
    PRIMARY KEY (run_id, turn)
) STRICT, WITHOUT ROWID;

CREATE TABLE tool_calls (
    run_id      TEXT    NOT NULL REFERENCES runs (id),
    call_id     TEXT    NOT NULL,
    dispatch    INTEGER NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('started', 'finished', 'released', 'unknown')),
    output      TEXT,
    result      TEXT REFERENCES blobs (digest),
    -- The outcome of an executor that reported after the call was settled as unknown or handed to a later dispatch.
    late_output TEXT,
    PRIMARY KEY (run_id, call_id),
    CHECK ((state = 'finished') = (output IS NOT NULL))
) STRICT, WITHOUT ROWID;

-- `folded` is the lower-cased key and text, because SQLite itself folds ASCII only.
CREATE TABLE notes (
    workspace  TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    text       TEXT    NOT NULL,
    folded     TEXT    NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (workspace, key)
) STRICT, WITHOUT ROWID;
