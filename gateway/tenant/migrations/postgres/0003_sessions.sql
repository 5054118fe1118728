-- Browsers that are signed in. digest is of the cookie, secret of what was signed in
-- with; kind says what that is, and subject which one.
CREATE TABLE sessions (
	digest  BYTEA NOT NULL PRIMARY KEY,
	kind    TEXT NOT NULL,
	subject TEXT NOT NULL,
	secret  BYTEA NOT NULL,
	scope   TEXT NOT NULL,
	created BIGINT NOT NULL,
	expires BIGINT NOT NULL
);
CREATE INDEX sessions_of_subject ON sessions (kind, subject, created);
