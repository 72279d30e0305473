-- What grows with every step lies in the order in which it was written: rows of one commit share their pages, whichever runs
-- they belong to, and a row of up to a page needs no page of its own, as it does in a table that is sorted by run.

CREATE TABLE log (
    number INTEGER PRIMARY KEY,
    run_id TEXT    NOT NULL REFERENCES runs (id),
    seq    INTEGER NOT NULL,
    key    TEXT    NOT NULL,
    at     INTEGER NOT NULL,
    type   TEXT    NOT NULL,
    data   TEXT    NOT NULL,
    UNIQUE (run_id, seq),
    UNIQUE (run_id, key)
) STRICT;
INSERT INTO log (run_id, seq, key, at, type, data) SELECT run_id, seq, key, at, type, data FROM events ORDER BY run_id, seq;
DROP TABLE events;
ALTER TABLE log RENAME TO events;

CREATE TABLE responses (
    number INTEGER PRIMARY KEY,
    run_id TEXT    NOT NULL REFERENCES runs (id),
    turn   INTEGER NOT NULL,
    output TEXT,
    UNIQUE (run_id, turn)
) STRICT;
INSERT INTO responses (run_id, turn, output) SELECT run_id, turn, output FROM plans ORDER BY run_id, turn;
DROP TABLE plans;
ALTER TABLE responses RENAME TO plans;

CREATE TABLE calls (
    number      INTEGER PRIMARY KEY,
    run_id      TEXT    NOT NULL REFERENCES runs (id),
    call_id     TEXT    NOT NULL,
    dispatch    INTEGER NOT NULL,
    state       TEXT    NOT NULL CHECK (state IN ('started', 'finished', 'released', 'unknown')),
    output      TEXT,
    result      TEXT REFERENCES blobs (digest),
    late_output TEXT,
    UNIQUE (run_id, call_id),
    CHECK ((state = 'finished') = (output IS NOT NULL))
) STRICT;
INSERT INTO calls (run_id, call_id, dispatch, state, output, result, late_output)
    SELECT run_id, call_id, dispatch, state, output, result, late_output FROM tool_calls ORDER BY run_id, call_id;
DROP TABLE tool_calls;
ALTER TABLE calls RENAME TO tool_calls;
CREATE INDEX tool_calls_of_body ON tool_calls (result) WHERE result IS NOT NULL;
