-- Times are microseconds since 1970, 0 for none. Flags are 0 or 1. No column is
-- null: an empty text or 0 says that there is nothing.

CREATE TABLE conversations (
	id        TEXT    NOT NULL PRIMARY KEY,
	tenant    TEXT    NOT NULL,
	user_id   TEXT    NOT NULL,
	retry_key TEXT    NOT NULL,
	model     TEXT    NOT NULL,
	title     TEXT    NOT NULL,
	pinned    BIGINT  NOT NULL,
	temporary BIGINT  NOT NULL,
	policy    TEXT    NOT NULL,
	metadata  TEXT    NOT NULL, -- a JSON object of strings
	leaf      TEXT    NOT NULL,
	seq       BIGINT  NOT NULL, -- of the newest message ever
	messages  BIGINT  NOT NULL,
	bytes     BIGINT  NOT NULL,
	created   BIGINT  NOT NULL,
	updated   BIGINT  NOT NULL,
	deleted   BIGINT  NOT NULL
);
CREATE INDEX conversations_listed ON conversations (tenant, user_id, updated, id) WHERE deleted = 0;
CREATE INDEX conversations_purged ON conversations (deleted) WHERE deleted > 0;
CREATE INDEX conversations_temporary ON conversations (updated) WHERE temporary = 1;
CREATE UNIQUE INDEX conversations_keys ON conversations (tenant, user_id, retry_key) WHERE retry_key <> '';

CREATE TABLE messages (
	conversation  TEXT    NOT NULL REFERENCES conversations ON DELETE CASCADE,
	id            TEXT    NOT NULL,
	parent        TEXT    NOT NULL,
	seq           BIGINT  NOT NULL,
	kind          TEXT    NOT NULL,
	role          TEXT    NOT NULL,
	content       BYTEA   NOT NULL,
	text          TEXT    NOT NULL,
	status        TEXT    NOT NULL,
	process       TEXT    NOT NULL,
	model         TEXT    NOT NULL,
	tokens_in     BIGINT  NOT NULL,
	tokens_cached BIGINT  NOT NULL,
	tokens_out    BIGINT  NOT NULL,
	cost_micros   BIGINT  NOT NULL,
	finish        TEXT    NOT NULL,
	error_code    TEXT    NOT NULL,
	error_text    TEXT    NOT NULL,
	queued        BIGINT  NOT NULL, -- microseconds, as the next two
	prefill       BIGINT  NOT NULL,
	decode        BIGINT  NOT NULL,
	created       BIGINT  NOT NULL,
	completed     BIGINT  NOT NULL,
	retry_key     TEXT    NOT NULL, -- of the turn, at its answer, as the next two
	fingerprint   TEXT    NOT NULL,
	question      TEXT    NOT NULL,
	PRIMARY KEY (conversation, id)
);
CREATE UNIQUE INDEX messages_seq ON messages (conversation, seq);
CREATE UNIQUE INDEX messages_keys ON messages (conversation, retry_key) WHERE retry_key <> '';
CREATE INDEX messages_running ON messages (process) WHERE status = 'in_progress';

CREATE TABLE summaries (
	conversation TEXT    NOT NULL,
	message      TEXT    NOT NULL,
	content      BYTEA   NOT NULL,
	model        TEXT    NOT NULL,
	tokens       BIGINT  NOT NULL,
	created      BIGINT  NOT NULL,
	PRIMARY KEY (conversation, message),
	FOREIGN KEY (conversation, message) REFERENCES messages ON DELETE CASCADE
);

-- What search finds: a title (message is empty) or a message. words is what
-- the package's own word finder made of the text.
CREATE TABLE documents (
	n            BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	conversation TEXT    NOT NULL REFERENCES conversations ON DELETE CASCADE,
	message      TEXT    NOT NULL,
	created      BIGINT  NOT NULL,
	words        TEXT    NOT NULL,
	lexemes      TSVECTOR GENERATED ALWAYS AS (array_to_tsvector(string_to_array(words, ' '))) STORED
);
CREATE UNIQUE INDEX documents_named ON documents (conversation, message);

CREATE INDEX documents_words ON documents USING gin (lexemes);

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
	background    BIGINT  NOT NULL,
	cancel_asked  BIGINT  NOT NULL,
	request       BYTEA   NOT NULL,
	body          BYTEA   NOT NULL,
	tokens_in     BIGINT  NOT NULL,
	tokens_cached BIGINT  NOT NULL,
	tokens_out    BIGINT  NOT NULL,
	cost_micros   BIGINT  NOT NULL,
	error_code    TEXT    NOT NULL,
	error_text    TEXT    NOT NULL,
	queued        BIGINT  NOT NULL,
	prefill       BIGINT  NOT NULL,
	decode        BIGINT  NOT NULL,
	process       TEXT    NOT NULL,
	events        BIGINT  NOT NULL,
	bytes         BIGINT  NOT NULL, -- of items and events
	created       BIGINT  NOT NULL,
	used          BIGINT  NOT NULL, -- created, or followed last
	completed     BIGINT  NOT NULL
);
CREATE UNIQUE INDEX responses_keys ON responses (tenant, user_id, retry_key) WHERE retry_key <> '';
CREATE INDEX responses_following ON responses (previous) WHERE previous <> '';
CREATE INDEX responses_running ON responses (process) WHERE status IN ('queued', 'in_progress');
CREATE INDEX responses_used ON responses (used);

CREATE TABLE response_items (
	response TEXT    NOT NULL REFERENCES responses ON DELETE CASCADE,
	side     TEXT    NOT NULL,
	n        BIGINT  NOT NULL,
	id       TEXT    NOT NULL,
	content  BYTEA   NOT NULL,
	PRIMARY KEY (response, side, n)
);
CREATE UNIQUE INDEX response_items_named ON response_items (response, side, id);

CREATE TABLE response_events (
	response TEXT    NOT NULL REFERENCES responses ON DELETE CASCADE,
	n        BIGINT  NOT NULL,
	event    BYTEA   NOT NULL,
	PRIMARY KEY (response, n)
);

CREATE TABLE processes (
	id          TEXT    NOT NULL PRIMARY KEY,
	alive_until BIGINT  NOT NULL
);
