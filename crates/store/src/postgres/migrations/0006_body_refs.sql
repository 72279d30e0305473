-- Bodies that refer to other bodies: a message to the bytes of an image or a document. What a body refers to is kept for as
-- long as the body is. `target` is no foreign key: a caller may send a reference to a body that does not exist.
CREATE TABLE body_refs (
    body   TEXT COLLATE "C" NOT NULL,
    target TEXT COLLATE "C" NOT NULL,
    PRIMARY KEY (body, target)
);
CREATE INDEX body_refs_of_target ON body_refs (target);

-- Triggers, because processes of an older build write and delete bodies, too.
--
-- In canonical JSON a reference begins like this. The text of a message cannot contain it: quotes are escaped there.
CREATE FUNCTION blobs_refer() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO body_refs (body, target)
        SELECT DISTINCT NEW.digest, matched[1]
        FROM regexp_matches(encode(NEW.body, 'escape'), '"blob":\{[^{}]*"digest":"([0-9a-f]{64})"', 'g') AS matched
        ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER blobs_refer AFTER INSERT ON blobs FOR EACH ROW
    WHEN (position('"blob":{'::bytea IN NEW.body) > 0) EXECUTE FUNCTION blobs_refer();

CREATE FUNCTION blobs_keep() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM body_refs WHERE target = OLD.digest) THEN
        RETURN NULL;
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER blobs_keep BEFORE DELETE ON blobs FOR EACH ROW EXECUTE FUNCTION blobs_keep();

-- What only this body referred to is as if it had been put long ago: the sweep that deletes the body looks at it, or the
-- next one does.
CREATE FUNCTION blobs_free() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE blobs SET put_at = 0
        WHERE put_at IS NULL AND digest IN (SELECT target FROM body_refs WHERE body = OLD.digest);
    DELETE FROM body_refs WHERE body = OLD.digest;
    RETURN NULL;
END $$;
CREATE TRIGGER blobs_free AFTER DELETE ON blobs FOR EACH ROW EXECUTE FUNCTION blobs_free();
