-- Whether the server asked, beside a request: for a title, a summary or a judgement. It is paid for with that request.
ALTER TABLE ledger ADD COLUMN internal BIGINT NOT NULL DEFAULT 0;
UPDATE ledger SET internal = 1 WHERE id LIKE '%-title%' OR id LIKE '%-summary%' OR id LIKE '%-guard%';
