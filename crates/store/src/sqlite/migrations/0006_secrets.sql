-- Encrypted values. `nonce` and `ciphertext` are AES-256-GCM's, with the key whose id is `key_id`.
-- A secret with an owner was split from the spec of a run or of a session and is deleted with it. The owner is no foreign
-- key: a secret is stored before the run or the session whose spec refers to it.
CREATE TABLE secrets (
    workspace     TEXT    NOT NULL,
    name          TEXT    NOT NULL,
    owner_run     TEXT,
    owner_session TEXT,
    key_id        TEXT    NOT NULL,
    nonce         BLOB    NOT NULL,
    ciphertext    BLOB    NOT NULL,
    created_at    INTEGER NOT NULL,
    updated_at    INTEGER NOT NULL,
    PRIMARY KEY (workspace, name),
    CHECK (owner_run IS NULL OR owner_session IS NULL)
) STRICT;
CREATE INDEX secrets_of_run ON secrets (owner_run) WHERE owner_run IS NOT NULL;
CREATE INDEX secrets_of_session ON secrets (workspace, owner_session) WHERE owner_session IS NOT NULL;
CREATE INDEX secrets_owned ON secrets (created_at) WHERE owner_run IS NOT NULL OR owner_session IS NOT NULL;
