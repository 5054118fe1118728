-- What the client says that a request was for: a JSON object of texts.
ALTER TABLE ledger ADD COLUMN tags TEXT NOT NULL DEFAULT '{}';
