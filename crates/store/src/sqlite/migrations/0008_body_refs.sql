-- Bodies that refer to other bodies: a message to the bytes of an image or a document. What a body refers to is kept for as
-- long as the body is. `target` is no foreign key: a caller may send a reference to a body that does not exist.
CREATE TABLE body_refs (
    body   TEXT NOT NULL,
    target TEXT NOT NULL,
    PRIMARY KEY (body, target)
) STRICT, WITHOUT ROWID;
CREATE INDEX body_refs_of_target ON body_refs (target);

-- Triggers, because processes of an older build that are still running write and delete bodies, too.
--
-- In canonical JSON a reference begins like this. The text of a message cannot contain it: quotes are escaped there.
CREATE TRIGGER blobs_refer AFTER INSERT ON blobs WHEN instr(NEW.body, CAST('"blob":{' AS BLOB)) > 0 BEGIN
    INSERT INTO body_refs (body, target)
        SELECT DISTINCT NEW.digest, json_extract(value, '$.digest') FROM json_tree(CAST(NEW.body AS TEXT))
        WHERE key = 'blob' AND type = 'object' AND length(json_extract(value, '$.digest')) = 64
        ON CONFLICT DO NOTHING;
END;
CREATE TRIGGER blobs_keep BEFORE DELETE ON blobs WHEN EXISTS (SELECT 1 FROM body_refs WHERE target = OLD.digest) BEGIN
    SELECT RAISE(IGNORE);
END;
-- What only this body referred to is as if it had been put long ago: the sweep that deletes the body looks at it, or the
-- next one does.
CREATE TRIGGER blobs_free AFTER DELETE ON blobs WHEN EXISTS (SELECT 1 FROM body_refs WHERE body = OLD.digest) BEGIN
    UPDATE blobs SET put_at = 0
        WHERE put_at IS NULL AND digest IN (SELECT target FROM body_refs WHERE body = OLD.digest);
    DELETE FROM body_refs WHERE body = OLD.digest;
END;
