-- Sign-ins that a browser has begun; digest is of a random state, used once.
CREATE TABLE sign_in_flows (
	digest BYTEA NOT NULL PRIMARY KEY,
	document BYTEA NOT NULL,
	expires BIGINT NOT NULL
);
CREATE INDEX sign_in_flows_by_end ON sign_in_flows (expires);

-- Attempts to sign in, by the digest of a name. free is when they stop counting.
CREATE TABLE sign_in_attempts (
	name BYTEA NOT NULL PRIMARY KEY,
	free BIGINT  NOT NULL
);
CREATE INDEX sign_in_attempts_by_end ON sign_in_attempts (free);

-- What signs in to an account without a password. site is the domain it was made for.
CREATE TABLE passkeys (
	id         TEXT NOT NULL PRIMARY KEY,
	credential BYTEA NOT NULL UNIQUE,
	account    TEXT NOT NULL REFERENCES accounts ON DELETE CASCADE,
	name       TEXT NOT NULL,
	site       TEXT NOT NULL,
	public_key BYTEA NOT NULL,
	signatures BIGINT  NOT NULL,
	created BIGINT NOT NULL,
	used BIGINT NOT NULL
);
CREATE INDEX passkeys_of_account ON passkeys (account, created);
