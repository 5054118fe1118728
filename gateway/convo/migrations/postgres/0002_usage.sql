-- What each owner stores: conversations, deleted ones included until they are purged,
-- responses, and the bytes of both. Triggers keep it, so that it is exact whatever
-- changes a row. They run at the end of a transaction, so that its row is always the
-- last to be locked.
CREATE TABLE stored_usage (
	tenant        TEXT   NOT NULL,
	user_id       TEXT   NOT NULL,
	conversations BIGINT NOT NULL,
	responses     BIGINT NOT NULL,
	bytes         BIGINT NOT NULL,
	PRIMARY KEY (tenant, user_id)
);
INSERT INTO stored_usage (tenant, user_id, conversations, responses, bytes)
	SELECT tenant, user_id, sum(conversations), sum(responses), sum(bytes) FROM (
		SELECT tenant, user_id, count(*) AS conversations, 0 AS responses, sum(bytes) AS bytes FROM conversations GROUP BY tenant, user_id
		UNION ALL
		SELECT tenant, user_id, 0, count(*), sum(bytes) FROM responses GROUP BY tenant, user_id
	) AS counted GROUP BY tenant, user_id;

CREATE FUNCTION count_stored() RETURNS trigger LANGUAGE plpgsql AS $count$
DECLARE
	more BIGINT := 0;
	size BIGINT := 0;
	owner RECORD;
BEGIN
	IF TG_OP <> 'DELETE' THEN
		owner := NEW;
		more := more + 1;
		size := size + NEW.bytes;
	END IF;
	IF TG_OP <> 'INSERT' THEN
		owner := OLD;
		more := more - 1;
		size := size - OLD.bytes;
	END IF;
	IF more <> 0 OR size <> 0 THEN
		INSERT INTO stored_usage AS u (tenant, user_id, conversations, responses, bytes) VALUES (owner.tenant, owner.user_id,
			CASE TG_TABLE_NAME WHEN 'conversations' THEN more ELSE 0 END, CASE TG_TABLE_NAME WHEN 'responses' THEN more ELSE 0 END, size)
		ON CONFLICT (tenant, user_id) DO UPDATE SET conversations = u.conversations + excluded.conversations,
			responses = u.responses + excluded.responses, bytes = u.bytes + excluded.bytes;
	END IF;
	RETURN NULL;
END
$count$;
CREATE CONSTRAINT TRIGGER conversations_counted AFTER INSERT OR DELETE OR UPDATE OF bytes ON conversations
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION count_stored();
CREATE CONSTRAINT TRIGGER responses_counted AFTER INSERT OR DELETE OR UPDATE OF bytes ON responses
	DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION count_stored();

-- Conversations that are being written in pieces, or removed in pieces.
CREATE INDEX conversations_staged ON conversations (deleted) WHERE deleted < 0;
CREATE INDEX conversations_changed ON conversations (updated) WHERE deleted = 0;
