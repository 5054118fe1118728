-- Secrets that keys had before and that hold for a while longer.
CREATE TABLE old_secrets (
	prefix TEXT NOT NULL PRIMARY KEY,
	key_id TEXT NOT NULL REFERENCES api_keys ON DELETE CASCADE,
	digest BLOB NOT NULL,
	until  INTEGER NOT NULL
) STRICT;
CREATE INDEX old_secrets_of_key ON old_secrets (key_id);
