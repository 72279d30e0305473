-- What a run was asked to do by its caller, as a digest: a repeat of the same request is told apart from another one.
ALTER TABLE runs ADD COLUMN request TEXT;

-- Starts of accepted runs whose workflows are not known to exist. A row goes when the workflow opens its run, when it is
-- found, or when the run ends before it began. `plan` is empty for runs that an older build accepted.
CREATE TABLE starts (
    run_id TEXT NOT NULL PRIMARY KEY REFERENCES runs (id),
    plan   TEXT
) STRICT, WITHOUT ROWID;
INSERT INTO starts (run_id) SELECT id FROM runs WHERE execution = '' AND closed_at IS NULL;

-- Which installation this store is, and the ids of the Temporal namespaces it has been used with, as JSON.
CREATE TABLE installation (
    only_row   INTEGER NOT NULL PRIMARY KEY CHECK (only_row = 1),
    id         TEXT    NOT NULL,
    namespaces TEXT    NOT NULL
) STRICT;
