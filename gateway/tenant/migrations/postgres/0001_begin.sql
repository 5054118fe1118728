-- Times are microseconds since 1970, 0 for none. Flags are 0 or 1. models is a
-- JSON list of names or empty for any; limits a JSON object. No column is null.

CREATE TABLE organizations (
	id      TEXT    NOT NULL PRIMARY KEY,
	tier    TEXT    NOT NULL,
	limits  TEXT    NOT NULL,
	models  TEXT    NOT NULL,
	blocked BIGINT NOT NULL,
	created BIGINT NOT NULL
);
-- It owns what was kept before there were keys.
INSERT INTO organizations (id, tier, limits, models, blocked, created) VALUES ('local', 'enterprise', '{}', '', 0, 0);

CREATE TABLE users (
	organization TEXT    NOT NULL REFERENCES organizations ON DELETE CASCADE,
	id           TEXT    NOT NULL,
	blocked      BIGINT NOT NULL,
	created      BIGINT NOT NULL,
	PRIMARY KEY (organization, id)
);

CREATE TABLE api_keys (
	id           TEXT    NOT NULL PRIMARY KEY,
	prefix       TEXT    NOT NULL UNIQUE,
	digest       BYTEA   NOT NULL,
	name         TEXT    NOT NULL,
	organization TEXT    NOT NULL REFERENCES organizations,
	user_id      TEXT    NOT NULL, -- empty for nobody
	tier         TEXT    NOT NULL, -- empty for the organisation's
	limits       TEXT    NOT NULL,
	models       TEXT    NOT NULL,
	admin        BIGINT NOT NULL,
	blocked      BIGINT NOT NULL,
	created      BIGINT NOT NULL,
	expires      BIGINT NOT NULL,
	used         BIGINT NOT NULL
);
CREATE INDEX api_keys_listed ON api_keys (created, id);

-- generation grows with every change that a gateway must know of.
CREATE TABLE tenant_state (generation BIGINT NOT NULL);
INSERT INTO tenant_state (generation) VALUES (1);

CREATE TABLE server_secrets (
	name   TEXT NOT NULL PRIMARY KEY,
	secret BYTEA NOT NULL
);
