package convo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"parley/gateway/db"
)

const conversationColumns = `id, model, title, pinned, temporary, policy, metadata, leaf, seq, messages, bytes, created, updated`

func scanConversation(r db.Row, c *Conversation) error {
	var metadata string
	var created, updated int64
	err := r.Scan(&c.ID, &c.Model, &c.Title, &c.Pinned, &c.Temporary, &c.Policy, &metadata, &c.Leaf, &c.seq,
		&c.Messages, &c.Bytes, &created, &updated)
	if err != nil {
		return err
	}
	c.Created, c.Updated = db.Unstamp(created), db.Unstamp(updated)
	return json.Unmarshal([]byte(metadata), &c.Metadata)
}

// metadataText is how metadata is kept. A map of strings always has a JSON.
func metadataText(metadata map[string]string) string {
	if metadata == nil {
		return "{}"
	}
	text, _ := json.Marshal(metadata)
	return string(text)
}

// conversation returns the owner's conversation.
func (t *transaction) conversation(owner Owner, id string) (Conversation, error) {
	return only(t, scanConversation, `SELECT `+conversationColumns+` FROM conversations
		WHERE id = $1 AND tenant = $2 AND user_id = $3 AND deleted = 0`, id, owner.Tenant, owner.User)
}

// lockConversation is conversation with a lock until the end of the transaction.
func (t *transaction) lockConversation(owner Owner, id string) (Conversation, error) {
	return only(t, scanConversation, `SELECT `+conversationColumns+` FROM conversations
		WHERE id = $1 AND tenant = $2 AND user_id = $3 AND deleted = 0`+t.LockRow(), id, owner.Tenant, owner.User)
}

// CreateConversation makes an empty conversation. A key that the owner used
// before gives the conversation made then.
func (d *Store) CreateConversation(ctx context.Context, owner Owner, n NewConversation,
	now time.Time) (c Conversation, err error) {
	if err := checked(owner, n.check()); err != nil {
		return c, err
	}
	if sizeOf(n.Messages) > pieceBytes {
		return d.load(ctx, owner, n, newMessages(n.Messages, now), func(*Conversation) {}, now)
	}
	err = d.writeWithin(ctx, owner, func(t *transaction) error {
		c, err = t.createConversation(owner, n, &d.quota, now)
		return err
	})
	return c, err
}

// makeConversation makes an empty conversation, if q has room for it and for
// bytes of messages, or returns the one that was made with the same key.
func (t *transaction) makeConversation(owner Owner, n *NewConversation, q *Quota, bytes int,
	now time.Time) (c Conversation, made bool, err error) {
	id, full := newID("conv"), t.room(owner, q, 1, int64(bytes))
	if n.Policy == "" {
		n.Policy = Refuse
	}
	added, err := t.exec(
		`INSERT INTO conversations (id, tenant, user_id, retry_key, model, title, pinned, temporary, policy, metadata, leaf, seq, messages, bytes, created, updated, deleted)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, '', 0, 0, 0, $11, $11, 0) ON CONFLICT DO NOTHING`,
		id, owner.Tenant, owner.User, n.Key, n.Model, n.Title, db.Flag(n.Pinned), db.Flag(n.Temporary),
		string(n.Policy), metadataText(n.Metadata), db.Stamp(now))
	if err != nil {
		return c, false, err
	}
	if added == 0 {
		c, err = only(t, scanConversation, `SELECT `+conversationColumns+` FROM conversations
			WHERE tenant = $1 AND user_id = $2 AND retry_key = $3 AND deleted = 0`, owner.Tenant, owner.User, n.Key)
		if errors.Is(err, ErrNotFound) {
			err = ErrKeyReused // for one that was deleted since, or is being written
		}
		return c, false, err
	}
	if full != nil {
		return c, false, full
	}
	if err := t.index(owner, id, "", n.Title, now); err != nil {
		return c, false, err
	}
	c, err = t.conversation(owner, id)
	return c, true, err
}

func (t *transaction) createConversation(owner Owner, n NewConversation, q *Quota,
	now time.Time) (Conversation, error) {
	c, made, err := t.makeConversation(owner, &n, q, sizeOf(n.Messages), now)
	if err != nil || !made || len(n.Messages) == 0 {
		return c, err
	}
	w := &writer{t: t, owner: owner, c: c, now: now}
	if _, err := w.addAll("", n.Messages); err != nil {
		return c, err
	}
	return w.c, w.close()
}

// Conversation returns one conversation.
func (d *Store) Conversation(ctx context.Context, owner Owner, id string) (c Conversation, err error) {
	if err := checked(owner); err != nil {
		return c, err
	}
	err = d.read(ctx, func(t *transaction) error {
		c, err = t.conversation(owner, id)
		return err
	})
	return c, err
}

// Conversations lists the owner's, last changed first unless the page says
// otherwise. Temporary ones are not listed.
func (d *Store) Conversations(ctx context.Context, owner Owner, filter Filter,
	page Page) (list List[Conversation], err error) {
	s, err := page.scan()
	if err := checked(owner, err); err != nil {
		return list, err
	}
	query := `SELECT ` + conversationColumns +
		` FROM conversations WHERE tenant = $1 AND user_id = $2 AND deleted = 0 AND temporary = 0`
	args := []any{owner.Tenant, owner.User, s.limit + 1}
	if filter.Pinned != nil {
		args = append(args, db.Flag(*filter.Pinned))
		query += fmt.Sprintf(` AND pinned = $%d`, len(args))
	}
	if s.cursor != "" {
		at, err := parsePageCursor(s.cursor)
		if err != nil {
			return list, err
		}
		args = append(args, at.number, at.name)
		query += fmt.Sprintf(` AND (updated, id) %s ($%d, $%d)`, s.compare, len(args)-1, len(args))
	}
	query += ` ORDER BY updated ` + s.order + `, id ` + s.order + ` LIMIT $3`
	err = d.read(ctx, func(t *transaction) error {
		rows, err := all(t, scanConversation, query, args...)
		list = listOf(s, rows, func(c *Conversation) string { return pageCursor{db.Stamp(c.Updated), c.ID}.encode() })
		return err
	})
	return list, err
}

// ChangeConversation renames, pins and so on: whatever change names.
func (d *Store) ChangeConversation(ctx context.Context, owner Owner, id string, change Change,
	now time.Time) (c Conversation, err error) {
	if err := checked(owner, change.check()); err != nil {
		return c, err
	}
	err = d.write(ctx, func(t *transaction) error {
		if c, err = t.lockConversation(owner, id); err != nil {
			return err
		}
		change.apply(&c)
		c.Updated = db.Unstamp(db.Stamp(now))
		_, err := t.exec(
			`UPDATE conversations SET model = $2, title = $3, pinned = $4, policy = $5, metadata = $6, updated = $7 WHERE id = $1`,
			id, c.Model, c.Title, db.Flag(c.Pinned), string(c.Policy), metadataText(c.Metadata), db.Stamp(now))
		if err != nil || change.Title == nil {
			return err
		}
		return t.index(owner, id, "", c.Title, now)
	})
	return c, err
}

// apply changes c as change says.
func (change *Change) apply(c *Conversation) {
	assign(&c.Title, change.Title)
	assign(&c.Model, change.Model)
	assign(&c.Pinned, change.Pinned)
	assign(&c.Policy, change.Policy)
	if change.Metadata != nil {
		c.Metadata = change.Metadata
	}
}

func assign[T any](to, from *T) {
	if from != nil {
		*to = *from
	}
}

// DeleteConversation hides the conversation and all in it. It can be undone
// until Purge has removed it.
func (d *Store) DeleteConversation(ctx context.Context, owner Owner, id string, now time.Time) error {
	if err := checked(owner); err != nil {
		return err
	}
	return d.writeReserved(ctx, func(t *transaction) error {
		return t.touch(
			`UPDATE conversations SET deleted = $4 WHERE id = $1 AND tenant = $2 AND user_id = $3 AND deleted = 0`,
			id, owner.Tenant, owner.User, max(1, db.Stamp(now)))
	})
}

// UndeleteConversation brings a deleted conversation back as it was.
func (d *Store) UndeleteConversation(ctx context.Context, owner Owner, id string) (c Conversation, err error) {
	if err := checked(owner); err != nil {
		return c, err
	}
	err = d.write(ctx, func(t *transaction) error {
		err := t.touch(
			`UPDATE conversations SET deleted = 0 WHERE id = $1 AND tenant = $2 AND user_id = $3 AND deleted > 0`, id,
			owner.Tenant, owner.User)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		c, err = t.conversation(owner, id)
		return err
	})
	return c, err
}

// touch runs a statement that must touch a row; else there is none such.
func (t *transaction) touch(query string, args ...any) error {
	n, err := t.exec(query, args...)
	if err == nil && n == 0 {
		return ErrNotFound
	}
	return err
}
