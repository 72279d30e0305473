-- Where updates of a run are sent. The address and the credentials are a secret of the run, under the name `secret`.
-- `ended_at` is set when nothing more is sent; with an `error` if the delivery was given up.
CREATE TABLE push_configs (
    run_id     TEXT    NOT NULL,
    id         TEXT    NOT NULL,
    workspace  TEXT    NOT NULL,
    version    TEXT    NOT NULL,
    secret     TEXT    NOT NULL,
    created_at INTEGER NOT NULL,
    ended_at   INTEGER,
    error      TEXT,
    PRIMARY KEY (run_id, id)
) STRICT;
