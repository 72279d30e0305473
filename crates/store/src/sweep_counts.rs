//! Counts what sweeps would delete. Nothing is changed and there are no batches: a session counts as free of runs when all the
//! runs it still has would be deleted.
//!
//! A body that refers to others is no target itself, so one level of references is followed.
//!
//! `$1` is the time before which things must have ended, `$2` the [`horizon`](crate::sweeping::horizon).

/// The oldest run that would still be open, as `oldest`.
pub(crate) const OLDEST_OPEN_RUN: &str = "
    SELECT min(created_at) AS oldest FROM runs
    WHERE closed_at IS NULL AND NOT (created_at < $1 AND coalesce(execution, '') = '')";

/// How many `runs`, `events`, `sessions` and `blobs` would go, in Postgres. SQLite has other tables, and its own.
pub(crate) const COUNTS: &str = "
    WITH gone AS MATERIALIZED (
        SELECT id FROM runs WHERE closed_at < $1
        UNION ALL
        SELECT id FROM runs WHERE closed_at IS NULL AND created_at < $1 AND coalesce(execution, '') = ''
    ), ended AS MATERIALIZED (
        SELECT workspace, id AS session, spec FROM sessions
        WHERE ended_at < $1
            AND NOT EXISTS (SELECT 1 FROM runs
                            WHERE runs.session = sessions.id AND runs.workspace = sessions.workspace
                                AND runs.id NOT IN (SELECT id FROM gone))
    ), freed AS (
        SELECT digest FROM run_messages WHERE run_id IN (SELECT id FROM gone)
        UNION SELECT result FROM tool_calls WHERE run_id IN (SELECT id FROM gone)
        UNION SELECT spec FROM runs WHERE id IN (SELECT id FROM gone)
        UNION SELECT agent_digest FROM runs WHERE id IN (SELECT id FROM gone)
        UNION SELECT digest FROM session_messages JOIN ended USING (workspace, session)
        UNION SELECT spec FROM ended
        UNION SELECT digest FROM blobs WHERE put_at < $2
    ), considered AS (
        SELECT digest FROM freed
        UNION SELECT target FROM body_refs JOIN freed ON body_refs.body = freed.digest
    ), unkept AS MATERIALIZED (
        SELECT digest FROM considered JOIN blobs USING (digest)
        WHERE (put_at IS NULL OR put_at < $2)
            AND NOT EXISTS (SELECT 1 FROM run_messages
                            WHERE run_messages.digest = considered.digest AND run_id NOT IN (SELECT id FROM gone))
            AND NOT EXISTS (SELECT 1 FROM session_messages
                            WHERE session_messages.digest = considered.digest
                                AND (workspace, session) NOT IN (SELECT workspace, session FROM ended))
            AND NOT EXISTS (SELECT 1 FROM tool_calls
                            WHERE tool_calls.result = considered.digest AND run_id NOT IN (SELECT id FROM gone))
            AND NOT EXISTS (SELECT 1 FROM runs
                            WHERE runs.spec = considered.digest AND runs.id NOT IN (SELECT id FROM gone))
            AND NOT EXISTS (SELECT 1 FROM runs
                            WHERE runs.agent_digest = considered.digest AND runs.id NOT IN (SELECT id FROM gone))
            AND NOT EXISTS (SELECT 1 FROM sessions
                            WHERE sessions.spec = considered.digest
                                AND (workspace, id) NOT IN (SELECT workspace, session FROM ended))
    ), referring AS MATERIALIZED (
        SELECT digest FROM unkept WHERE NOT EXISTS (SELECT 1 FROM body_refs WHERE target = unkept.digest)
    )
    SELECT (SELECT count(*) FROM gone) AS runs,
        (SELECT count(*) FROM events WHERE run_id IN (SELECT id FROM gone)) AS events,
        (SELECT count(*) FROM ended) AS sessions,
        (SELECT count(*) FROM unkept
         WHERE NOT EXISTS (SELECT 1 FROM body_refs
                           WHERE target = unkept.digest AND body NOT IN (SELECT digest FROM referring))
        ) AS blobs";
