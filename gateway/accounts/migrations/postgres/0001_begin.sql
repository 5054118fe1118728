-- Times are microseconds since 1970, 0 for none. Flags are 0 or 1. models is a
-- JSON list of names or empty for any. No column is null.

CREATE TABLE accounts (
	id           TEXT   NOT NULL PRIMARY KEY,
	email        TEXT   NOT NULL,
	email_key    TEXT   NOT NULL UNIQUE, -- in lower case
	name         TEXT   NOT NULL,
	role         TEXT   NOT NULL,
	organization TEXT   NOT NULL,
	tier         TEXT   NOT NULL, -- empty for the organisation's
	models       TEXT   NOT NULL,
	disabled     BIGINT NOT NULL,
	password     TEXT   NOT NULL, -- an argon2id hash, empty for none
	created      BIGINT NOT NULL,
	signed_in    BIGINT NOT NULL
);
CREATE INDEX accounts_of_organization ON accounts (organization, created);

-- What issuers of OpenID Connect call an account.
CREATE TABLE external_identities (
	issuer  TEXT   NOT NULL,
	subject TEXT   NOT NULL,
	account TEXT   NOT NULL REFERENCES accounts ON DELETE CASCADE,
	created BIGINT NOT NULL,
	PRIMARY KEY (issuer, subject)
);
CREATE INDEX external_identities_of_account ON external_identities (account);

-- digest is of the token in the link; account is set if a password is chosen anew.
CREATE TABLE invitations (
	id           TEXT   NOT NULL PRIMARY KEY,
	digest       BYTEA NOT NULL UNIQUE,
	account      TEXT   NOT NULL, -- empty for a new one
	email        TEXT   NOT NULL,
	role         TEXT   NOT NULL,
	organization TEXT   NOT NULL,
	tier         TEXT   NOT NULL,
	models       TEXT   NOT NULL,
	invited_by   TEXT   NOT NULL,
	created      BIGINT NOT NULL,
	expires      BIGINT NOT NULL
);

-- Browsers that are signed in; digest is of the cookie.
CREATE TABLE account_sessions (
	digest  BYTEA NOT NULL PRIMARY KEY,
	id      TEXT   NOT NULL UNIQUE,
	account TEXT   NOT NULL REFERENCES accounts ON DELETE CASCADE,
	scope   TEXT   NOT NULL,
	agent   TEXT   NOT NULL,
	method  TEXT   NOT NULL,
	created BIGINT NOT NULL,
	seen    BIGINT NOT NULL,
	expires BIGINT NOT NULL
);
CREATE INDEX account_sessions_of_account ON account_sessions (account, created);

-- generation grows with every change that a gateway must know of.
CREATE TABLE account_state (generation BIGINT NOT NULL);
INSERT INTO account_state (generation) VALUES (1);
