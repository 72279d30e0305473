-- Keys may expire.
ALTER TABLE api_keys ADD COLUMN expires_at INTEGER;

-- Whose a run or a session is for a key that is bound to agents: a run is its root's agent's, a session that of its first
-- run or of its spec. A child whose root is not known belongs to none.
ALTER TABLE runs ADD COLUMN root_agent TEXT NOT NULL DEFAULT '';
UPDATE runs SET root_agent = agent_id WHERE parent IS NULL;
UPDATE runs SET root_agent = coalesce(
    (SELECT root.agent_id FROM runs AS root WHERE root.id = substr(runs.id, 1, instr(runs.id, '/') - 1)), '')
    WHERE parent IS NOT NULL;
ALTER TABLE sessions ADD COLUMN agent TEXT;
UPDATE sessions SET agent = (
    SELECT runs.root_agent FROM runs WHERE runs.workspace = sessions.workspace AND runs.session = sessions.id
    ORDER BY runs.created_at, runs.id LIMIT 1);
