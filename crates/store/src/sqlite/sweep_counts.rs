//! Counts what sweeps would delete, as `crate::sweep_counts` does, on this adapter's tables.

/// How many `runs`, `events`, `sessions` and `blobs` would go. `$1` is the time before which things must have ended, `$2` the
/// [`horizon`](crate::sweeping::horizon).
pub(super) const COUNTS: &str = "
    WITH gone AS MATERIALIZED (
        SELECT id, number FROM runs WHERE closed_at < $1
        UNION ALL
        SELECT id, number FROM runs WHERE closed_at IS NULL AND created_at < $1 AND coalesce(execution, '') = ''
    ), ended AS MATERIALIZED (
        SELECT workspace, id AS session, spec FROM sessions
        WHERE ended_at < $1
            AND NOT EXISTS (SELECT 1 FROM runs
                            WHERE runs.session = sessions.id AND runs.workspace = sessions.workspace
                                AND runs.id NOT IN (SELECT id FROM gone))
    ), freed AS (
        SELECT blob FROM run_messages WHERE run IN (SELECT number FROM gone)
        UNION SELECT result FROM tool_calls WHERE run IN (SELECT number FROM gone)
        UNION SELECT spec FROM runs WHERE number IN (SELECT number FROM gone)
        UNION SELECT blobs.number FROM runs JOIN blobs
            ON substr(digest, 1, 8) = substr(agent_digest, 1, 8) AND digest = agent_digest
            WHERE runs.number IN (SELECT number FROM gone)
        UNION SELECT blob FROM session_messages JOIN ended USING (workspace, session)
        UNION SELECT spec FROM ended
        UNION SELECT number FROM blobs WHERE put_at < $2
    ), considered AS (
        SELECT blob FROM freed
        UNION SELECT blobs.number FROM body_refs JOIN freed ON body_refs.body = freed.blob JOIN blobs
            ON substr(digest, 1, 8) = substr(target, 1, 8) AND digest = target
    ), unkept AS MATERIALIZED (
        SELECT number AS blob, digest FROM considered JOIN blobs ON number = considered.blob
        WHERE (put_at IS NULL OR put_at < $2)
            AND NOT EXISTS (SELECT 1 FROM run_messages
                            WHERE run_messages.blob = considered.blob AND run NOT IN (SELECT number FROM gone))
            AND NOT EXISTS (SELECT 1 FROM session_messages
                            WHERE session_messages.blob = considered.blob
                                AND (workspace, session) NOT IN (SELECT workspace, session FROM ended))
            AND NOT EXISTS (SELECT 1 FROM tool_calls
                            WHERE tool_calls.result = considered.blob AND run NOT IN (SELECT number FROM gone))
            AND NOT EXISTS (SELECT 1 FROM runs
                            WHERE runs.spec = considered.blob AND runs.number NOT IN (SELECT number FROM gone))
            AND NOT EXISTS (SELECT 1 FROM runs
                            WHERE substr(agent_digest, 1, 8) = substr(digest, 1, 8) AND agent_digest = digest
                                AND runs.number NOT IN (SELECT number FROM gone))
            AND NOT EXISTS (SELECT 1 FROM sessions
                            WHERE sessions.spec = considered.blob
                                AND (workspace, id) NOT IN (SELECT workspace, session FROM ended))
    ), referring AS MATERIALIZED (
        SELECT blob FROM unkept WHERE NOT EXISTS (SELECT 1 FROM body_refs WHERE target = unkept.digest)
    )
    SELECT (SELECT count(*) FROM gone) AS runs,
        (SELECT count(*) FROM events WHERE run IN (SELECT number FROM gone)) AS events,
        (SELECT count(*) FROM ended) AS sessions,
        (SELECT count(*) FROM unkept
         WHERE NOT EXISTS (SELECT 1 FROM body_refs
                           WHERE target = unkept.digest AND body NOT IN (SELECT blob FROM referring))
        ) AS blobs";
