-- One row for each change of the server that was asked for. at is microseconds since 1970.
CREATE TABLE audit_log (
	id TEXT NOT NULL PRIMARY KEY,
	at BIGINT NOT NULL,
	action TEXT NOT NULL,
	target TEXT NOT NULL,
	actor_kind TEXT NOT NULL,
	organization TEXT NOT NULL,
	user_id TEXT NOT NULL,
	key_id TEXT NOT NULL,
	remote TEXT NOT NULL,
	request_id TEXT NOT NULL,
	status BIGINT NOT NULL,
	before_change TEXT NOT NULL,
	after_change TEXT NOT NULL
);
CREATE INDEX audit_log_by_time ON audit_log (at, id);
