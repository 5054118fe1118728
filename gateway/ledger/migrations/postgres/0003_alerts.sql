-- What was told of budgets that are nearly spent: once for each account and month.
-- month is year*12 + month, January being 0; share is in thousandths. teller is who
-- told it. key_id is empty for an organisation; name and prefix are the key's then.
CREATE TABLE budget_alerts (
	account TEXT NOT NULL,
	month BIGINT NOT NULL,
	at BIGINT NOT NULL,
	teller TEXT NOT NULL,
	organization TEXT NOT NULL,
	key_id TEXT NOT NULL,
	name TEXT NOT NULL,
	prefix TEXT NOT NULL,
	spent_micros BIGINT NOT NULL,
	budget_micros BIGINT NOT NULL,
	share BIGINT NOT NULL,
	PRIMARY KEY (account, month)
);
CREATE INDEX budget_alerts_by_time ON budget_alerts (at);
