-- What accounts have used of their rate of light requests.
ALTER TABLE limit_accounts ADD COLUMN light BIGINT NOT NULL DEFAULT 0;
