-- A run of a session refers to the conversation instead of copying it: its transcript is the first `prefix_len` messages of
-- its session, then its own messages.
--
-- `runs` comes first: a transaction of a running process locks it before the others, so none waits for this one while this
-- one waits for it.
ALTER TABLE runs ADD COLUMN prefix_len BIGINT NOT NULL DEFAULT 0;
ALTER TABLE transcript RENAME TO run_messages;

-- The digest of the conversation's head right after this message. A build that does not know the column leaves it empty;
-- it is filled in from the front when the next run needs it.
ALTER TABLE session_messages ADD COLUMN chain TEXT COLLATE "C";

-- Under its old name the transcript stays readable and writable for processes of an older build.
CREATE VIEW transcript (run_id, idx, digest, chain) AS
    SELECT run_id, idx, digest, chain FROM run_messages
    UNION ALL
    SELECT runs.id, said.idx, said.digest, said.chain
    FROM runs JOIN session_messages AS said
        ON said.workspace = runs.workspace AND said.session = runs.session AND said.idx < runs.prefix_len;
CREATE RULE transcript_insert AS ON INSERT TO transcript DO INSTEAD
    INSERT INTO run_messages (run_id, idx, digest, chain) VALUES (NEW.run_id, NEW.idx, NEW.digest, NEW.chain);
CREATE RULE transcript_delete AS ON DELETE TO transcript DO INSTEAD
    DELETE FROM run_messages WHERE run_id = OLD.run_id AND idx = OLD.idx;
