-- Lists and counts of many closed runs. See docs/adr/0055-visibility-of-many-runs.md.

ALTER TABLE engine_visibility ADD COLUMN state_transitions INTEGER NOT NULL DEFAULT 0;
-- The attribute TemporalNamespaceDivision. Lists leave out runs that have one, unless a query names it.
ALTER TABLE engine_visibility ADD COLUMN division TEXT;
UPDATE engine_visibility
    SET division = NULLIF((SELECT value FROM json_each(attributes) WHERE key = 'TemporalNamespaceDivision'), '')
    WHERE attributes LIKE '%TemporalNamespaceDivision%' AND json_valid(attributes);

-- The order of lists has the closing times too.
DROP INDEX engine_visibility_closed;
-- With the status, so that counts by type and status need no rows.
CREATE INDEX engine_visibility_type ON engine_visibility
    (namespace, workflow_type, COALESCE(close_time, 9223372036854775807) DESC, start_time DESC, run_id, status);

-- How many runs have each status. Kept with every row that is written, so that a count reads no runs.
CREATE TABLE engine_visibility_counts (
    namespace TEXT NOT NULL,
    -- Empty for runs without a division.
    division TEXT NOT NULL,
    -- WorkflowExecutionStatus
    status INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    PRIMARY KEY (namespace, division, status)
) STRICT, WITHOUT ROWID;
INSERT INTO engine_visibility_counts
    SELECT namespace, COALESCE(division, ''), status, COUNT(*) FROM engine_visibility GROUP BY 1, 2, 3;

-- The names of search attributes, as numbers, because each one is repeated for many runs.
CREATE TABLE engine_attribute_names (
    id INTEGER PRIMARY KEY,
    namespace TEXT NOT NULL,
    name TEXT NOT NULL,
    UNIQUE (namespace, name)
) STRICT;
-- The values of search attributes of closed runs, in the order of lists. Open runs have none here: they are few, and
-- each change of an attribute would be a write more.
CREATE TABLE engine_closed_attributes (
    attribute INTEGER NOT NULL,
    held ANY NOT NULL COLLATE NOCASE,
    closed_at INTEGER NOT NULL,
    closed_run INTEGER NOT NULL,
    PRIMARY KEY (attribute, held, closed_at DESC, closed_run)
) STRICT, WITHOUT ROWID;
INSERT OR IGNORE INTO engine_attribute_names (namespace, name)
    SELECT DISTINCT namespace, held.key
    FROM engine_visibility, json_each(IIF(json_valid(attributes), attributes, '{}')) AS held
    WHERE close_time IS NOT NULL;
INSERT OR IGNORE INTO engine_closed_attributes
    SELECT names.id, item.value, close_time, run
    FROM engine_visibility AS listed
    JOIN json_each(IIF(json_valid(attributes), attributes, '{}')) AS held
    JOIN json_each(IIF(held.type = 'array', held.value, json_array(held.value))) AS item
    JOIN engine_attribute_names AS names ON names.namespace = listed.namespace AND names.name = held.key
    WHERE close_time IS NOT NULL AND held.type IN ('array', 'text', 'integer', 'real') AND item.type IN ('text', 'integer', 'real')
        AND (item.type != 'text' OR (length(CAST(item.value AS BLOB)) <= 255 AND item.value NOT LIKE ' %'));
INSERT OR IGNORE INTO engine_closed_attributes
    SELECT names.id, held.value, close_time, run
    FROM engine_visibility AS listed
    JOIN json_each(IIF(json_valid(attributes), attributes, '{}')) AS held
    JOIN engine_attribute_names AS names ON names.namespace = listed.namespace AND names.name = held.key
    WHERE close_time IS NOT NULL AND held.type IN ('true', 'false');
