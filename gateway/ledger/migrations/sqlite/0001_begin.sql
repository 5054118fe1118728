-- One row for each generation. Times are microseconds; at is since 1970.
CREATE TABLE ledger (
	id TEXT NOT NULL PRIMARY KEY,
	at BIGINT NOT NULL,
	organization TEXT NOT NULL,
	user_id TEXT NOT NULL,
	key_id TEXT NOT NULL,
	model TEXT NOT NULL,
	tier TEXT NOT NULL,
	route TEXT NOT NULL,
	input BIGINT NOT NULL,
	cached BIGINT NOT NULL,
	output BIGINT NOT NULL,
	cost_micros BIGINT NOT NULL,
	worker TEXT NOT NULL,
	reason TEXT NOT NULL,
	outcome TEXT NOT NULL,
	shared BIGINT NOT NULL,
	batch BIGINT NOT NULL,
	stages TEXT NOT NULL
) WITHOUT ROWID;
CREATE INDEX ledger_by_organization ON ledger (organization, at);
CREATE INDEX ledger_by_time ON ledger (at);

-- What accounts have used of their limits; see limit.State.
CREATE TABLE limit_accounts (
	name TEXT NOT NULL PRIMARY KEY,
	at BIGINT NOT NULL,
	by_second BIGINT NOT NULL,
	by_minute BIGINT NOT NULL,
	input BIGINT NOT NULL,
	output BIGINT NOT NULL
);
