-- Rows are kept in the order of time: an entry is then written at the end of one
-- tree, and what is summed up lies together.
CREATE TABLE ledger_ordered (
	at BIGINT NOT NULL,
	id TEXT NOT NULL,
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
	stages TEXT NOT NULL,
	PRIMARY KEY (at, id)
) WITHOUT ROWID;
INSERT INTO ledger_ordered (id, at, organization, user_id, key_id, model, tier, route, input, cached, output, cost_micros, worker, reason, outcome, shared, batch, stages)
	SELECT id, at, organization, user_id, key_id, model, tier, route, input, cached, output, cost_micros, worker, reason, outcome, shared, batch, stages FROM ledger;
DROP TABLE ledger;
ALTER TABLE ledger_ordered RENAME TO ledger;
