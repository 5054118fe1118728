-- What each owner stores: conversations, deleted ones included until they are purged,
-- responses, and the bytes of both. Triggers keep it, so that it is exact whatever
-- changes a row.
CREATE TABLE stored_usage (
	tenant        TEXT    NOT NULL,
	user_id       TEXT    NOT NULL,
	conversations INTEGER NOT NULL,
	responses     INTEGER NOT NULL,
	bytes         INTEGER NOT NULL,
	PRIMARY KEY (tenant, user_id)
) STRICT, WITHOUT ROWID;
INSERT INTO stored_usage (tenant, user_id, conversations, responses, bytes)
	SELECT tenant, user_id, sum(conversations), sum(responses), sum(bytes) FROM (
		SELECT tenant, user_id, count(*) AS conversations, 0 AS responses, sum(bytes) AS bytes FROM conversations GROUP BY tenant, user_id
		UNION ALL
		SELECT tenant, user_id, 0, count(*), sum(bytes) FROM responses GROUP BY tenant, user_id
	) GROUP BY tenant, user_id;

CREATE TRIGGER conversations_counted AFTER INSERT ON conversations BEGIN
	INSERT OR IGNORE INTO stored_usage VALUES (new.tenant, new.user_id, 0, 0, 0);
	UPDATE stored_usage SET conversations = conversations + 1, bytes = bytes + new.bytes
		WHERE tenant = new.tenant AND user_id = new.user_id;
END;
CREATE TRIGGER conversations_resized AFTER UPDATE OF bytes ON conversations WHEN new.bytes <> old.bytes BEGIN
	UPDATE stored_usage SET bytes = bytes + new.bytes - old.bytes WHERE tenant = new.tenant AND user_id = new.user_id;
END;
CREATE TRIGGER conversations_uncounted AFTER DELETE ON conversations BEGIN
	UPDATE stored_usage SET conversations = conversations - 1, bytes = bytes - old.bytes
		WHERE tenant = old.tenant AND user_id = old.user_id;
END;
CREATE TRIGGER responses_counted AFTER INSERT ON responses BEGIN
	INSERT OR IGNORE INTO stored_usage VALUES (new.tenant, new.user_id, 0, 0, 0);
	UPDATE stored_usage SET responses = responses + 1, bytes = bytes + new.bytes
		WHERE tenant = new.tenant AND user_id = new.user_id;
END;
CREATE TRIGGER responses_resized AFTER UPDATE OF bytes ON responses WHEN new.bytes <> old.bytes BEGIN
	UPDATE stored_usage SET bytes = bytes + new.bytes - old.bytes WHERE tenant = new.tenant AND user_id = new.user_id;
END;
CREATE TRIGGER responses_uncounted AFTER DELETE ON responses BEGIN
	UPDATE stored_usage SET responses = responses - 1, bytes = bytes - old.bytes
		WHERE tenant = old.tenant AND user_id = old.user_id;
END;

-- Conversations that are being written in pieces, or removed in pieces.
CREATE INDEX conversations_staged ON conversations (deleted) WHERE deleted < 0;
CREATE INDEX conversations_changed ON conversations (updated) WHERE deleted = 0;
