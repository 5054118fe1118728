-- What members of an issuer's groups are given at each sign-in. Empty columns leave it open.
CREATE TABLE sign_in_groups (
	name         TEXT NOT NULL PRIMARY KEY,
	role         TEXT NOT NULL,
	organization TEXT NOT NULL,
	tier         TEXT NOT NULL,
	models       TEXT NOT NULL
) STRICT;
