-- Whether a run has ended and nothing of it is left to do. It changes once in the life of a run, so an index of the others
-- costs nothing while they go on; one of the moments at which something happens had to be rewritten by every step.
ALTER TABLE engine_runs ADD COLUMN at_rest INTEGER NOT NULL DEFAULT 0;
UPDATE engine_runs SET at_rest = 1
    WHERE next_due IS NULL AND ready = 0
        AND EXISTS (SELECT 1 FROM engine_visibility WHERE run = number AND close_time IS NOT NULL);
DROP INDEX engine_runs_due;
CREATE INDEX engine_runs_awake ON engine_runs (number) WHERE at_rest = 0;
