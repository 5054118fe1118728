package convo

import (
	"context"
	"errors"
	"strings"
	"time"

	"parley/gateway/db"
)

// Large conversations are written in pieces, each in a transaction of its own, so
// that other writers wait for no more than a piece. Until all is written, the
// conversation is staged: its column deleted is below 0, which hides it from
// everything but this file. What a process left half written is removed by Purge.
// What is removed for good is removed in pieces, too, and hidden before.

const (
	// pieceBytes is how much of messages one transaction writes or removes, or a
	// single message that is larger.
	pieceBytes = 1 << 20
	// pieceRows bounds the rows of a piece.
	pieceRows = 64
	// discarded, in the column deleted, marks a conversation that is being removed. A
	// staged one has the time at which it was begun, below 0.
	discarded = int64(-1)
	// stagedMax is how long it may take to write a conversation in pieces.
	stagedMax = 10 * time.Minute
	// discardWait bounds removing what could not be written to the end.
	discardWait = 5 * time.Second
)

// writePiece is write for a piece of something large. Of all pieces of this process
// only one at a time asks for the database, so that a small write waits for one at
// most.
func (d *Store) writePiece(ctx context.Context, do func(*transaction) error) error {
	select {
	case d.pieces <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-d.pieces }()
	return d.write(ctx, do)
}

// load makes a conversation of messages that together are large. finish may change
// it before it is shown.
func (d *Store) load(ctx context.Context, owner Owner, n NewConversation, messages []Message,
	finish func(*Conversation), now time.Time) (c Conversation, err error) {
	bytes := 0
	for i := range messages {
		bytes += len(messages[i].Content)
	}
	if len(messages) > MessagesMax || bytes > ConversationBytesMax {
		return c, ErrFull
	}
	staged := -db.Stamp(now)
	made := false
	err = d.writeWithin(ctx, owner, func(t *transaction) (err error) {
		if c, made, err = t.makeConversation(owner, &n, &d.quota, bytes, now); err != nil || !made {
			return err
		}
		// All of its bytes count from now on, so that no other writer takes their room.
		_, err = t.exec(`UPDATE conversations SET deleted = $2, bytes = $3 WHERE id = $1`, c.ID, staged, bytes)
		return err
	})
	if err != nil || !made {
		return c, err
	}
	if err = d.loadMessages(ctx, owner, &c, staged, messages, now); err == nil {
		finish(&c)
		err = d.show(ctx, &c, staged, now)
	}
	if err != nil {
		clean, cancel := context.WithTimeout(context.WithoutCancel(ctx), discardWait)
		defer cancel()
		return Conversation{}, errors.Join(err, d.discardOne(clean, c.ID)) // what is left, Purge removes
	}
	return d.Conversation(ctx, owner, c.ID)
}

// loadMessages writes the messages of a staged conversation, and then lets search
// find them, piece by piece.
func (d *Store) loadMessages(ctx context.Context, owner Owner, c *Conversation, staged int64, messages []Message,
	now time.Time) error {
	for rest := messages; len(rest) > 0; {
		n := pieceOf(len(rest), func(i int) int { return len(rest[i].Content) })
		err := d.writePiece(ctx, func(t *transaction) error {
			w := &writer{t: t, owner: owner, c: *c, now: now}
			for i := range rest[:n] {
				if err := w.insert(&rest[i], turnKey{}); err != nil {
					return err
				}
			}
			if err := t.stagedStill(c.ID, staged); err != nil {
				return err
			}
			*c = w.c
			_, err := t.exec(`UPDATE conversations SET leaf = $2, seq = $3, messages = $4 WHERE id = $1`, c.ID, c.Leaf,
				c.seq, c.Messages)
			return err
		})
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return d.loadWords(ctx, owner, c.ID, messages, now)
}

func (d *Store) loadWords(ctx context.Context, owner Owner, id string, messages []Message, now time.Time) error {
	words := make([]string, 0, pieceRows)
	for rest := messages; len(rest) > 0; {
		n, size := 0, 0
		for words = words[:0]; n < len(rest) && n < pieceRows && size < indexBytesMax; n++ {
			words = append(words, wordsOf(rest[n].Text))
			size += len(words[n])
		}
		err := d.writePiece(ctx, func(t *transaction) error {
			for i := range n {
				if err := t.indexWords(owner, id, rest[i].ID, words[i], now); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		rest = rest[n:]
	}
	return nil
}

// pieceOf returns how many of n things make a piece.
func pieceOf(n int, size func(int) int) int {
	sum := 0
	for i := range min(n, pieceRows) {
		if sum += size(i); i > 0 && sum > pieceBytes {
			return i
		}
	}
	return min(n, pieceRows)
}

// stagedStill wants that a conversation is staged, so that it is not removed while
// it is written.
func (t *transaction) stagedStill(id string, staged int64) error {
	var now int64
	if err := t.one(`SELECT deleted FROM conversations WHERE id = $1`+t.LockRow(), []any{id}, &now); err != nil {
		return err
	}
	if now != staged {
		return ErrTaken
	}
	return nil
}

// show ends the staging of a conversation.
func (d *Store) show(ctx context.Context, c *Conversation, staged int64, now time.Time) error {
	return d.writePiece(ctx, func(t *transaction) error {
		if err := t.stagedStill(c.ID, staged); err != nil {
			return err
		}
		_, err := t.exec(`UPDATE conversations SET deleted = 0, leaf = $2, updated = $3 WHERE id = $1`, c.ID, c.Leaf,
			db.Stamp(now))
		return err
	})
}

// discardOne removes a staged conversation.
func (d *Store) discardOne(ctx context.Context, id string) error {
	err := d.write(ctx, func(t *transaction) error {
		_, err := t.exec(`UPDATE conversations SET deleted = $2 WHERE id = $1 AND deleted < 0`, id, discarded)
		return err
	})
	if err != nil {
		return err
	}
	return d.discardAll(ctx, discarded)
}

// discardAll removes the conversations whose column deleted is below 0, and at least
// as large as from.
func (d *Store) discardAll(ctx context.Context, from int64) error {
	for {
		ids, err := d.hidden(ctx, from)
		if err != nil || len(ids) == 0 {
			return err
		}
		for _, id := range ids {
			if err := d.discard(ctx, id); err != nil {
				return err
			}
		}
	}
}

func (d *Store) hidden(ctx context.Context, from int64) (ids []string, err error) {
	err = d.read(ctx, func(t *transaction) error {
		ids, err = all(t, func(r db.Row, id *string) error { return r.Scan(id) },
			`SELECT id FROM conversations WHERE deleted < 0 AND deleted >= $1 LIMIT $2`, from, pieceRows)
		return err
	})
	return ids, err
}

// discard removes a hidden conversation: what search finds, then the messages, then
// itself.
func (d *Store) discard(ctx context.Context, id string) error {
	for {
		var removed int64
		over := false
		err := d.writePiece(ctx, func(t *transaction) (err error) {
			for _, statement := range discardPieces {
				if removed, err = t.exec(statement, id, pieceRows, pieceBytes); err != nil || removed > 0 {
					return err
				}
			}
			over = true
			_, err = t.exec(`DELETE FROM conversations WHERE id = $1 AND deleted < 0`, id)
			return err
		})
		if err != nil || over {
			return err
		}
	}
}

// discardPieces remove a piece of a conversation each.
var discardPieces = []string{
	strings.NewReplacer("ROWS", "documents", "KEY", "message", "SIZE", "words", "RANK", "n").Replace(discardPiece),
	strings.NewReplacer("ROWS", "messages", "KEY", "id", "SIZE", "content", "RANK", "seq").Replace(discardPiece),
}

const discardPiece = `DELETE FROM ROWS WHERE conversation = $1 AND KEY IN (SELECT s.KEY FROM (
	SELECT f.KEY, sum(f.size) OVER (ORDER BY f.RANK) - f.size AS before FROM (
		SELECT KEY, RANK, length(SIZE) AS size FROM ROWS WHERE conversation = $1 ORDER BY RANK LIMIT $2
	) AS f
) AS s WHERE s.before < $3)`
