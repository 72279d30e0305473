-- The engine's tables. Times are Unix nanoseconds. A run is known by a number of its own, so that history rows stay small.

CREATE TABLE engine_namespaces (
    name TEXT PRIMARY KEY,
    -- NamespaceRecord
    record BLOB NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE engine_search_attributes (
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    -- IndexedValueType
    kind INTEGER NOT NULL,
    PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;

-- What a run needs to go on. Rewritten by every step of the run.
CREATE TABLE engine_runs (
    number INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL UNIQUE,
    -- RunState
    state BLOB NOT NULL,
    -- The next moment at which something happens by itself.
    next_due INTEGER,
    -- Whether a task waits for a worker, or a message for another run.
    ready INTEGER NOT NULL
) STRICT;
CREATE INDEX engine_runs_due ON engine_runs (next_due) WHERE next_due IS NOT NULL;
CREATE INDEX engine_runs_ready ON engine_runs (number) WHERE ready = 1;

-- The latest run of each workflow id.
CREATE TABLE engine_current (
    namespace TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    number INTEGER NOT NULL,
    PRIMARY KEY (namespace, workflow_id)
) STRICT, WITHOUT ROWID;

-- Events in the batches in which they were written.
CREATE TABLE engine_history (
    run INTEGER NOT NULL,
    first_event INTEGER NOT NULL,
    last_event INTEGER NOT NULL,
    -- temporal.api.history.v1.History
    events BLOB NOT NULL,
    PRIMARY KEY (run, first_event)
) STRICT, WITHOUT ROWID;

-- What lists show and filter by. Written when a run starts, changes its attributes or ends.
CREATE TABLE engine_visibility (
    run INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    workflow_id TEXT NOT NULL,
    run_id TEXT NOT NULL,
    workflow_type TEXT NOT NULL,
    task_queue TEXT NOT NULL,
    -- WorkflowExecutionStatus
    status INTEGER NOT NULL,
    start_time INTEGER NOT NULL,
    execution_time INTEGER NOT NULL,
    close_time INTEGER,
    history_length INTEGER NOT NULL,
    history_size INTEGER NOT NULL,
    parent_workflow_id TEXT,
    parent_run_id TEXT,
    root_workflow_id TEXT NOT NULL,
    root_run_id TEXT NOT NULL,
    -- temporal.api.common.v1.Memo
    memo BLOB,
    -- temporal.api.common.v1.SearchAttributes
    search_attributes BLOB,
    -- The same as a JSON object, for filters: text, numbers, booleans, Unix nanoseconds for times, arrays of text.
    attributes TEXT NOT NULL
) STRICT;
-- In the order in which lists show runs: open ones first, then by closing time.
CREATE INDEX engine_visibility_order ON engine_visibility
    (namespace, COALESCE(close_time, 9223372036854775807) DESC, start_time DESC, run_id);
CREATE INDEX engine_visibility_workflow ON engine_visibility
    (namespace, workflow_id, COALESCE(close_time, 9223372036854775807) DESC, start_time DESC, run_id);
CREATE INDEX engine_visibility_status ON engine_visibility
    (namespace, status, COALESCE(close_time, 9223372036854775807) DESC, start_time DESC, run_id);
CREATE INDEX engine_visibility_closed ON engine_visibility (namespace, close_time) WHERE close_time IS NOT NULL;
