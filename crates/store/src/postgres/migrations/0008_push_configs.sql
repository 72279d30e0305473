-- Where updates of a run are sent. The address and the credentials are a secret of the run, under the name `secret`.
-- `ended_at` is set when nothing more is sent; with an `error` if the delivery was given up.
CREATE TABLE push_configs (
    run_id     TEXT COLLATE "C" NOT NULL,
    id         TEXT COLLATE "C" NOT NULL,
    workspace  TEXT COLLATE "C" NOT NULL,
    version    TEXT COLLATE "C" NOT NULL,
    secret     TEXT COLLATE "C" NOT NULL,
    created_at BIGINT NOT NULL,
    ended_at   BIGINT,
    error      TEXT COLLATE "C",
    PRIMARY KEY (run_id, id)
);
