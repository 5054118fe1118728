package convo

import (
	"context"
	"errors"
	"fmt"

	"parley"
)

// A Quota bounds what a tenant, and each of its users, may store. Zero
// bounds nothing.
type Quota struct {
	// Bytes bounds conversations and responses together, Conversations how many
	// conversations there are, of the tenant.
	Bytes, Conversations int64
	// UserBytes and UserConversations bound the same of one user.
	UserBytes, UserConversations int64
}

// A Usage is what is stored of an owner, or of all owners of a tenant.
type Usage struct{ Conversations, Responses, Bytes int64 }

// Within returns the store as a caller with a quota sees it: what the quota has no
// room for is refused with [parley.QuotaExceeded].
func (d *Store) Within(q Quota) *Store {
	limited := *d
	limited.quota = q
	return &limited
}

// Usage returns what the owner's tenant stores, and what the owner does.
func (d *Store) Usage(ctx context.Context, owner Owner) (organization, user Usage, err error) {
	if err := checked(owner); err != nil {
		return organization, user, err
	}
	err = d.read(ctx, func(t *transaction) error {
		if organization, err = t.usage(owner, false); err != nil {
			return err
		}
		user, err = t.usage(owner, true)
		return err
	})
	return organization, user, err
}

// usage returns what an owner stores alone, or what all owners of its tenant do. In
// a transaction that writes, it is as of before that.
func (t *transaction) usage(owner Owner, alone bool) (u Usage, err error) {
	query := `SELECT CAST(coalesce(sum(conversations), 0) AS BIGINT), CAST(coalesce(sum(responses), 0) AS BIGINT),
		CAST(coalesce(sum(bytes), 0) AS BIGINT) FROM stored_usage WHERE tenant = $1`
	args := []any{owner.Tenant}
	if alone {
		query, args = query+` AND user_id = $2`, append(args, owner.User)
	}
	return u, t.one(query, args, &u.Conversations, &u.Responses, &u.Bytes)
}

// room returns an error unless q has room for the given conversations and bytes. Until
// the transaction ends, others that ask for room of the same tenant wait, so that
// writers together cannot take more than there is.
func (t *transaction) room(owner Owner, q *Quota, conversations, bytes int64) error {
	if *q == (Quota{}) {
		return nil
	}
	if err := t.Serialize("quota " + owner.Tenant); err != nil {
		return err
	}
	for _, part := range []struct {
		whose                string
		alone                bool
		bytes, conversations int64
	}{{"Your organisation", false, q.Bytes, q.Conversations}, {"You", true, q.UserBytes, q.UserConversations}} {
		if part.bytes == 0 && part.conversations == 0 {
			continue
		}
		used, err := t.usage(owner, part.alone)
		if err != nil {
			return err
		}
		if part.conversations > 0 && conversations > 0 && used.Conversations+conversations > part.conversations {
			return outOfRoom(
				"%s may store %d conversations, and %d are stored. Delete some with DELETE /v1/conversations/{id}.",
				part.whose, part.conversations, used.Conversations)
		}
		if part.bytes > 0 && bytes > 0 && used.Bytes+bytes > part.bytes {
			return outOfRoom(
				"%s may store %d bytes of conversations and responses, %d are stored, and this needs %d more. "+
					"Delete conversations with DELETE /v1/conversations/{id}, or responses with DELETE "+
					"/v1/responses/{id}.",
				part.whose, part.bytes, used.Bytes, bytes)
		}
	}
	return nil
}

// errNoRoom is in the error of what a quota refuses.
var errNoRoom = errors.New("a store quota is used up")

func outOfRoom(format string, args ...any) error {
	return fmt.Errorf("%w (%w)", parley.Errorf(parley.QuotaExceeded, format, args...), errNoRoom)
}

// writeWithin is write for what may find no room. If it does not, what the owner has
// deleted and could still restore is removed for good, and the write tried again.
func (d *Store) writeWithin(ctx context.Context, owner Owner, do func(*transaction) error) error {
	err := d.write(ctx, do)
	if !errors.Is(err, errNoRoom) {
		return err
	}
	if reclaimed, failed := d.reclaim(ctx, owner); failed != nil || !reclaimed {
		return errors.Join(failed, err)
	}
	return d.write(ctx, do)
}

// reclaim removes what the owner has deleted, and reports whether there was any.
func (d *Store) reclaim(ctx context.Context, owner Owner) (some bool, err error) {
	var marked int64
	err = d.write(ctx, func(t *transaction) (err error) {
		marked, err = t.exec(`UPDATE conversations SET deleted = $3 WHERE tenant = $1 AND user_id = $2 AND deleted > 0`,
			owner.Tenant, owner.User, discarded)
		return err
	})
	if err != nil || marked == 0 {
		return false, err
	}
	return true, d.discardAll(ctx, discarded)
}
