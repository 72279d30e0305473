-- Ids, keys and digests are compared byte by byte, as the other adapter does: a database's own collation may ignore
-- punctuation. Times are milliseconds since the epoch. JSON is text, because it comes back as it was written, NUL included.

-- Bodies by the SHA-256 of their canonical bytes. Messages and tool results are bodies too: whoever needs one refers to it.
CREATE TABLE blobs (
    digest TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    body   BYTEA NOT NULL,
    -- When somebody last stored it for a workflow that may hold the only reference to it. Empty for bodies that were
    -- stored along with a reference, and once no open run is old enough to hold one.
    put_at BIGINT
);
CREATE INDEX blobs_put ON blobs (put_at) WHERE put_at IS NOT NULL;

CREATE TABLE sessions (
    workspace    TEXT COLLATE "C" NOT NULL,
    id           TEXT COLLATE "C" NOT NULL,
    name         TEXT,
    spec         TEXT COLLATE "C" REFERENCES blobs (digest),
    metadata     TEXT   NOT NULL,
    -- The metadata once more, each as a JSON array of key and value, to be searched.
    tags         TEXT[] COLLATE "C" NOT NULL,
    summary      TEXT   NOT NULL,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT NOT NULL,
    ended_at     BIGINT,
    PRIMARY KEY (workspace, id)
);
CREATE INDEX sessions_recent ON sessions (workspace, last_used_at, id);
CREATE INDEX sessions_ended ON sessions (ended_at) WHERE ended_at IS NOT NULL;
CREATE INDEX sessions_of_spec ON sessions (spec) WHERE spec IS NOT NULL;
CREATE INDEX sessions_tagged ON sessions USING gin (tags);

-- The parent is not a foreign key: a child may be opened in a store that its parent's row has not reached.
CREATE TABLE runs (
    id            TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    workspace     TEXT COLLATE "C" NOT NULL,
    session       TEXT COLLATE "C",
    -- The workflow execution that opened it, so that a run is never taken for another one of the same id. Empty while the
    -- run is only reserved; so is the digest of its agent.
    execution     TEXT COLLATE "C",
    agent_id      TEXT COLLATE "C" NOT NULL,
    agent_digest  TEXT COLLATE "C",
    model_id      TEXT COLLATE "C" NOT NULL,
    name          TEXT,
    spec          TEXT COLLATE "C" REFERENCES blobs (digest),
    parent        TEXT COLLATE "C",
    parent_call   TEXT COLLATE "C",
    labels        TEXT   NOT NULL,
    metadata      TEXT   NOT NULL,
    tags          TEXT[] COLLATE "C" NOT NULL,
    status        TEXT COLLATE "C" NOT NULL,
    phase         TEXT COLLATE "C" NOT NULL,
    input_preview TEXT   NOT NULL,
    created_at    BIGINT NOT NULL,
    updated_at    BIGINT NOT NULL,
    -- Set by the terminal event; from then on the log takes no new key.
    closed_at     BIGINT,
    -- What the row shows of that event, as JSON.
    ending        TEXT,
    -- How many messages the run was opened with, and how many of those were new to the session.
    opening_len   BIGINT NOT NULL,
    new_messages  BIGINT NOT NULL,
    head_len      BIGINT NOT NULL,
    head_digest   TEXT COLLATE "C" NOT NULL,
    last_seq      BIGINT NOT NULL,
    FOREIGN KEY (workspace, session) REFERENCES sessions (workspace, id)
-- The columns that change with every event are in no index, so that an update needs no new index entries as long as its
-- page has room.
) WITH (fillfactor = 70);
CREATE INDEX runs_newest ON runs (created_at, id);
CREATE INDEX runs_of_workspace ON runs (workspace, created_at, id);
CREATE INDEX runs_of_session ON runs (session, created_at, id) WHERE session IS NOT NULL;
CREATE INDEX runs_of_parent ON runs (parent, created_at, id) WHERE parent IS NOT NULL;
CREATE INDEX runs_open ON runs (created_at) WHERE closed_at IS NULL;
CREATE INDEX runs_closed ON runs (closed_at) WHERE closed_at IS NOT NULL;
CREATE INDEX runs_of_spec ON runs (spec) WHERE spec IS NOT NULL;
CREATE INDEX runs_of_agent ON runs (agent_digest) WHERE agent_digest IS NOT NULL;
CREATE INDEX runs_tagged ON runs USING gin (tags);

-- `chain` is the digest of the transcript's head right after this message.
CREATE TABLE transcript (
    run_id TEXT COLLATE "C" NOT NULL REFERENCES runs (id),
    idx    BIGINT NOT NULL,
    digest TEXT COLLATE "C" NOT NULL REFERENCES blobs (digest),
    chain  TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (run_id, idx)
);
CREATE INDEX transcript_of_body ON transcript (digest);

-- A conversation outlives the runs that added to it, so `run_id` refers to no row.
CREATE TABLE session_messages (
    workspace TEXT COLLATE "C" NOT NULL,
    session   TEXT COLLATE "C" NOT NULL,
    idx       BIGINT NOT NULL,
    digest    TEXT COLLATE "C" NOT NULL REFERENCES blobs (digest),
    run_id    TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (workspace, session, idx),
    FOREIGN KEY (workspace, session) REFERENCES sessions (workspace, id)
);
CREATE INDEX session_messages_of_run ON session_messages (run_id);
CREATE INDEX session_messages_of_body ON session_messages (digest);

CREATE TABLE events (
    run_id TEXT COLLATE "C" NOT NULL REFERENCES runs (id),
    seq    BIGINT NOT NULL,
    key    TEXT COLLATE "C" NOT NULL,
    at     BIGINT NOT NULL,
    type   TEXT COLLATE "C" NOT NULL,
    data   TEXT   NOT NULL,
    PRIMARY KEY (run_id, seq),
    UNIQUE (run_id, key)
);

-- Without an output the turn was given up: whoever still works on it must not write.
CREATE TABLE plans (
    run_id TEXT COLLATE "C" NOT NULL REFERENCES runs (id),
    turn   BIGINT NOT NULL,
    output TEXT,
    PRIMARY KEY (run_id, turn)
);

CREATE TABLE tool_calls (
    run_id      TEXT COLLATE "C" NOT NULL REFERENCES runs (id),
    call_id     TEXT COLLATE "C" NOT NULL,
    dispatch    BIGINT NOT NULL,
    state       TEXT COLLATE "C" NOT NULL CHECK (state IN ('started', 'finished', 'released', 'unknown')),
    output      TEXT,
    result      TEXT COLLATE "C" REFERENCES blobs (digest),
    -- The outcome of an executor that reported after the call was settled as unknown or handed to a later dispatch.
    late_output TEXT,
    PRIMARY KEY (run_id, call_id),
    CHECK ((state = 'finished') = (output IS NOT NULL))
);
CREATE INDEX tool_calls_of_body ON tool_calls (result) WHERE result IS NOT NULL;

CREATE TABLE api_keys (
    id           TEXT COLLATE "C" NOT NULL PRIMARY KEY,
    workspace    TEXT COLLATE "C" NOT NULL,
    name         TEXT   NOT NULL,
    prefix       TEXT   NOT NULL,
    hash         BYTEA  NOT NULL,
    scopes       TEXT   NOT NULL,
    agents       TEXT,
    created_at   BIGINT NOT NULL,
    last_used_at BIGINT,
    revoked_at   BIGINT
);
CREATE INDEX api_keys_of_workspace ON api_keys (workspace, created_at, id);

-- `folded` is the lower-cased key and text, folded by this program so that both adapters agree.
CREATE TABLE notes (
    workspace  TEXT COLLATE "C" NOT NULL,
    key        TEXT COLLATE "C" NOT NULL,
    text       TEXT   NOT NULL,
    folded     TEXT   NOT NULL,
    updated_at BIGINT NOT NULL,
    PRIMARY KEY (workspace, key)
);
