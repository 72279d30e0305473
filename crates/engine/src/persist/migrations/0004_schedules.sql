-- Schedules. A closed one is kept as long as a closed run, because requests about it are answered differently from those
-- about one that never was.
CREATE TABLE engine_schedules (
    namespace TEXT NOT NULL,
    schedule_id TEXT NOT NULL,
    created INTEGER NOT NULL,
    closed INTEGER,
    -- The next moment at which something happens by itself.
    next_due INTEGER,
    -- Whether it waits for runs, or has decided on starts: it is looked at after a restart.
    busy INTEGER NOT NULL,
    -- ScheduleState
    state BLOB NOT NULL,
    -- The search attributes as a JSON object, as in engine_visibility.
    attributes TEXT NOT NULL,
    UNIQUE (namespace, schedule_id)
) STRICT;
-- In the order in which lists show schedules.
CREATE INDEX engine_schedules_open ON engine_schedules (namespace, created DESC, schedule_id) WHERE closed IS NULL;
CREATE INDEX engine_schedules_closed ON engine_schedules (namespace, closed) WHERE closed IS NOT NULL;
