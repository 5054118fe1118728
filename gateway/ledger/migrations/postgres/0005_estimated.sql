-- Whether the tokens of an entry are estimates, as the upstream that answered reported none.
ALTER TABLE ledger ADD COLUMN estimated BIGINT NOT NULL DEFAULT 0;
