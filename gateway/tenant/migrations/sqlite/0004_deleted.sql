-- When a key was deleted; 0 if it was not. It can be restored for a while.
ALTER TABLE api_keys ADD COLUMN deleted INTEGER NOT NULL DEFAULT 0;
