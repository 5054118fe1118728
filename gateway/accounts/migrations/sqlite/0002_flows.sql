-- Sign-ins that a browser has begun; digest is of a random state, used once.
CREATE TABLE sign_in_flows (
	digest   BLOB    NOT NULL PRIMARY KEY,
	document BLOB    NOT NULL,
	expires  INTEGER NOT NULL
) STRICT;
CREATE INDEX sign_in_flows_by_end ON sign_in_flows (expires);

-- Attempts to sign in, by the digest of a name. free is when they stop counting.
CREATE TABLE sign_in_attempts (
	name BLOB    NOT NULL PRIMARY KEY,
	free INTEGER NOT NULL
) STRICT;
CREATE INDEX sign_in_attempts_by_end ON sign_in_attempts (free);

-- What signs in to an account without a password. site is the domain it was made for.
CREATE TABLE passkeys (
	id         TEXT    NOT NULL PRIMARY KEY,
	credential BLOB    NOT NULL UNIQUE,
	account    TEXT    NOT NULL REFERENCES accounts ON DELETE CASCADE,
	name       TEXT    NOT NULL,
	site       TEXT    NOT NULL,
	public_key BLOB    NOT NULL,
	signatures INTEGER NOT NULL,
	created    INTEGER NOT NULL,
	used       INTEGER NOT NULL
) STRICT;
CREATE INDEX passkeys_of_account ON passkeys (account, created);
