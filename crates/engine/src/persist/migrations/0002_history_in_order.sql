-- Batches in the order in which they were written. Those of one commit lie next to each other, whichever runs they belong to,
-- and a batch of up to a page needs no page of its own, as it does in a table that is sorted by anything else.
CREATE TABLE engine_batches (
    number INTEGER PRIMARY KEY,
    run INTEGER NOT NULL,
    first_event INTEGER NOT NULL,
    last_event INTEGER NOT NULL,
    -- temporal.api.history.v1.History
    events BLOB NOT NULL
) STRICT;
INSERT INTO engine_batches (run, first_event, last_event, events)
    SELECT run, first_event, last_event, events FROM engine_history ORDER BY run, first_event;
DROP TABLE engine_history;
ALTER TABLE engine_batches RENAME TO engine_history;
CREATE UNIQUE INDEX engine_history_of_run ON engine_history (run, first_event);
