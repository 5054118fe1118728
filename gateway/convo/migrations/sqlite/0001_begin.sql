-- Times are microseconds since 1970, 0 for none. Flags are 0 or 1. No column is
-- null: an empty text or 0 says that there is nothing.

CREATE TABLE conversations (
	id        TEXT    NOT NULL PRIMARY KEY,
	tenant    TEXT    NOT NULL,
	user_id   TEXT    NOT NULL,
	retry_key TEXT    NOT NULL,
	model     TEXT    NOT NULL,
	title     TEXT    NOT NULL,
	pinned    INTEGER NOT NULL,
	temporary INTEGER NOT NULL,
	policy    TEXT    NOT NULL,
	metadata  TEXT    NOT NULL, -- a JSON object of strings
	leaf      TEXT    NOT NULL,
	seq       INTEGER NOT NULL, -- of the newest message ever
	messages  INTEGER NOT NULL,
	bytes     INTEGER NOT NULL,
	created   INTEGER NOT NULL,
	updated   INTEGER NOT NULL,
	deleted   INTEGER NOT NULL
) STRICT;
CREATE INDEX conversations_listed ON conversations (tenant, user_id, updated, id) WHERE deleted = 0;
CREATE INDEX conversations_purged ON conversations (deleted) WHERE deleted > 0;
CREATE INDEX conversations_temporary ON conversations (updated) WHERE temporary = 1;
CREATE UNIQUE INDEX conversations_keys ON conversations (tenant, user_id, retry_key) WHERE retry_key <> '';

CREATE TABLE messages (
	conversation  TEXT    NOT NULL REFERENCES conversations ON DELETE CASCADE,
	id            TEXT    NOT NULL,
	parent        TEXT    NOT NULL,
	seq           INTEGER NOT NULL,
	kind          TEXT    NOT NULL,
	role          TEXT    NOT NULL,
	content       BLOB    NOT NULL,
	text          TEXT    NOT NULL,
	status        TEXT    NOT NULL,
	process       TEXT    NOT NULL,
	model         TEXT    NOT NULL,
	tokens_in     INTEGER NOT NULL,
	tokens_cached INTEGER NOT NULL,
	tokens_out    INTEGER NOT NULL,
	cost_micros   INTEGER NOT NULL,
	finish        TEXT    NOT NULL,
	error_code    TEXT    NOT NULL,
	error_text    TEXT    NOT NULL,
	queued        INTEGER NOT NULL, -- microseconds, as the next two
	prefill       INTEGER NOT NULL,
	decode        INTEGER NOT NULL,
	created       INTEGER NOT NULL,
	completed     INTEGER NOT NULL,
	retry_key     TEXT    NOT NULL, -- of the turn, at its answer, as the next two
	fingerprint   TEXT    NOT NULL,
	question      TEXT    NOT NULL,
	PRIMARY KEY (conversation, id)
) STRICT;
CREATE UNIQUE INDEX messages_seq ON messages (conversation, seq);
CREATE UNIQUE INDEX messages_keys ON messages (conversation, retry_key) WHERE retry_key <> '';
CREATE INDEX messages_running ON messages (process) WHERE status = 'in_progress';

CREATE TABLE summaries (
	conversation TEXT    NOT NULL,
	message      TEXT    NOT NULL,
	content      BLOB    NOT NULL,
	model        TEXT    NOT NULL,
	tokens       INTEGER NOT NULL,
	created      INTEGER NOT NULL,
	PRIMARY KEY (conversation, message),
	FOREIGN KEY (conversation, message) REFERENCES messages ON DELETE CASCADE
) STRICT;

-- What search finds: a title (message is empty) or a message. words is what
-- the package's own word finder made of the text.
CREATE TABLE documents (
	n            INTEGER PRIMARY KEY AUTOINCREMENT,
	conversation TEXT    NOT NULL REFERENCES conversations ON DELETE CASCADE,
	message      TEXT    NOT NULL,
	created      INTEGER NOT NULL,
	words        TEXT    NOT NULL
) STRICT;
CREATE UNIQUE INDEX documents_named ON documents (conversation, message);

CREATE VIRTUAL TABLE search USING fts5 (
	words, content = 'documents', content_rowid = 'n', detail = 'none',
	tokenize = 'ascii'
);
CREATE TRIGGER documents_added AFTER INSERT ON documents BEGIN
	INSERT INTO search (rowid, words) VALUES (new.n, new.words);
END;
CREATE TRIGGER documents_changed AFTER UPDATE ON documents BEGIN
	INSERT INTO search (search, rowid, words) VALUES ('delete', old.n, old.words);
	INSERT INTO search (rowid, words) VALUES (new.n, new.words);
END;
CREATE TRIGGER documents_removed AFTER DELETE ON documents BEGIN
	INSERT INTO search (search, rowid, words) VALUES ('delete', old.n, old.words);
END;

CREATE TABLE responses (
	id            TEXT    NOT NULL PRIMARY KEY,
	tenant        TEXT    NOT NULL,
	user_id       TEXT    NOT NULL,
	retry_key     TEXT    NOT NULL,
	fingerprint   TEXT    NOT NULL,
	previous      TEXT    NOT NULL,
	conversation  TEXT    NOT NULL,
	model         TEXT    NOT NULL,
	status        TEXT    NOT NULL,
	background    INTEGER NOT NULL,
	cancel_asked  INTEGER NOT NULL,
	request       BLOB    NOT NULL,
	body          BLOB    NOT NULL,
	tokens_in     INTEGER NOT NULL,
	tokens_cached INTEGER NOT NULL,
	tokens_out    INTEGER NOT NULL,
	cost_micros   INTEGER NOT NULL,
	error_code    TEXT    NOT NULL,
	error_text    TEXT    NOT NULL,
	queued        INTEGER NOT NULL,
	prefill       INTEGER NOT NULL,
	decode        INTEGER NOT NULL,
	process       TEXT    NOT NULL,
	events        INTEGER NOT NULL,
	bytes         INTEGER NOT NULL, -- of items and events
	created       INTEGER NOT NULL,
	used          INTEGER NOT NULL, -- created, or followed last
	completed     INTEGER NOT NULL
) STRICT;
CREATE UNIQUE INDEX responses_keys ON responses (tenant, user_id, retry_key) WHERE retry_key <> '';
CREATE INDEX responses_following ON responses (previous) WHERE previous <> '';
CREATE INDEX responses_running ON responses (process) WHERE status IN ('queued', 'in_progress');
CREATE INDEX responses_used ON responses (used);

CREATE TABLE response_items (
	response TEXT    NOT NULL REFERENCES responses ON DELETE CASCADE,
	side     TEXT    NOT NULL,
	n        INTEGER NOT NULL,
	id       TEXT    NOT NULL,
	content  BLOB    NOT NULL,
	PRIMARY KEY (response, side, n)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX response_items_named ON response_items (response, side, id);

CREATE TABLE response_events (
	response TEXT    NOT NULL REFERENCES responses ON DELETE CASCADE,
	n        INTEGER NOT NULL,
	event    BLOB    NOT NULL,
	PRIMARY KEY (response, n)
) STRICT, WITHOUT ROWID;

CREATE TABLE processes (
	id          TEXT    NOT NULL PRIMARY KEY,
	alive_until INTEGER NOT NULL
) STRICT;
