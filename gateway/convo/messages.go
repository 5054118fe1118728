package convo

import (
	"context"
	"errors"
	"time"

	"parley"
	"parley/gateway/db"
)

const messageColumns = `m.conversation, m.id, m.parent, m.seq, m.kind, m.role, m.content, m.text, m.status, m.process, m.model,
	m.tokens_in, m.tokens_cached, m.tokens_out, m.cost_micros, m.finish, m.error_code, m.error_text, m.queued, m.prefill, m.decode, m.created, m.completed`

func scanMessage(r db.Row, m *Message) error {
	var code, text string
	var queued, prefill, decode, created, completed int64
	err := r.Scan(&m.Conversation, &m.ID, &m.Parent, &m.Seq, &m.Kind, &m.Role, (*[]byte)(&m.Content), &m.Text,
		&m.Status, &m.Process, &m.Model,
		&m.Usage.PromptTokens, &m.Usage.CachedTokens, &m.Usage.OutputTokens, &m.CostMicros, &m.Finish, &code, &text,
		&queued, &prefill, &decode, &created, &completed)
	m.Err = unkept(code, text)
	m.Usage.Queued, m.Usage.Prefill, m.Usage.Decode = micros(queued), micros(prefill), micros(decode)
	m.Created, m.Completed = db.Unstamp(created), db.Unstamp(completed)
	return err
}

// message returns one message of a conversation whose owner was checked.
func (t *transaction) message(conversation, id string) (Message, error) {
	return only(t, scanMessage, `SELECT `+messageColumns+` FROM messages m WHERE m.conversation = $1 AND m.id = $2`,
		conversation, id)
}

// A turnKey is what an answer keeps of the call that began its turn.
type turnKey struct{ key, fingerprint, question string }

// insert adds a message as it is.
func (t *transaction) insert(m *Message, k turnKey) error {
	code, text := kept(m.Err)
	u := &m.Usage
	_, err := t.exec(
		`INSERT INTO messages (conversation, id, parent, seq, kind, role, content, text, status, process, model, tokens_in, tokens_cached, tokens_out,
			cost_micros, finish, error_code, error_text, queued, prefill, decode, created, completed, retry_key, fingerprint, question)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23, $24, $25, $26)`,
		m.Conversation, m.ID, m.Parent, m.Seq, m.Kind, m.Role, blob(m.Content), m.Text, string(m.Status), m.Process,
		m.Model, u.PromptTokens, u.CachedTokens, u.OutputTokens,
		m.CostMicros, string(m.Finish), code, text, u.Queued.Microseconds(), u.Prefill.Microseconds(),
		u.Decode.Microseconds(), db.Stamp(m.Created), db.Stamp(m.Completed), k.key, k.fingerprint, k.question)
	return err
}

// A writer adds messages to a conversation that is locked.
type writer struct {
	t     *transaction
	owner Owner
	c     Conversation
	now   time.Time
}

// open locks the conversation for writing.
func (t *transaction) open(owner Owner, conversation string, now time.Time) (*writer, error) {
	c, err := t.lockConversation(owner, conversation)
	if err != nil {
		return nil, err
	}
	return &writer{t: t, owner: owner, c: c, now: now}, nil
}

// parent returns the id of the message that the next one follows, which must
// not be in progress: it could still say anything.
func (w *writer) parent(wanted string) (string, error) {
	if wanted == Root {
		return "", nil
	}
	if wanted == "" {
		wanted = w.c.Leaf
	}
	if wanted == "" {
		return "", nil
	}
	m, err := w.t.message(w.c.ID, wanted)
	if err == nil && m.Status == InProgress {
		err = ErrRunning
	}
	return m.ID, err
}

// add inserts m as the next message and the current leaf, and lets search find it.
func (w *writer) add(m *Message, k turnKey) error {
	if err := w.insert(m, k); err != nil || m.Text == "" {
		return err
	}
	return w.t.index(w.owner, w.c.ID, m.ID, m.Text, w.now)
}

// insert inserts m as the next message and the current leaf.
func (w *writer) insert(m *Message, k turnKey) error {
	w.c.seq++
	w.c.Messages++
	w.c.Bytes += int64(len(m.Content))
	if w.c.Messages > MessagesMax || w.c.Bytes > ConversationBytesMax {
		return ErrFull
	}
	m.Conversation, m.Seq = w.c.ID, w.c.seq
	w.c.Leaf = m.ID
	return w.t.insert(m, k)
}

// close writes what the conversation keeps of its messages.
func (w *writer) close() error {
	_, err := w.t.exec(
		`UPDATE conversations SET leaf = $2, seq = $3, messages = $4, bytes = $5, updated = $6 WHERE id = $1`,
		w.c.ID, w.c.Leaf, w.c.seq, w.c.Messages, w.c.Bytes, db.Stamp(w.now))
	return err
}

// newMessage returns n as a completed message.
func newMessage(n *NewMessage, parent string, now time.Time) Message {
	m := Message{
		ID:      n.ID,
		Parent:  parent,
		Kind:    n.Kind,
		Role:    n.Role,
		Content: n.Content,
		Text:    PlainText(n.Content),
		Status:  Completed,
		Result:  Result{Model: n.Model, Completed: db.Unstamp(db.Stamp(now))},
		Created: db.Unstamp(db.Stamp(now)),
	}
	if m.ID == "" {
		m.ID = NewMessageID()
	}
	if m.Kind == "" {
		m.Kind = "message"
	}
	return m
}

// newMessages returns completed messages, each the child of the one before.
func newMessages(list []NewMessage, now time.Time) []Message {
	messages, parent := make([]Message, len(list)), ""
	for i := range list {
		messages[i] = newMessage(&list[i], parent, now)
		parent = messages[i].ID
	}
	return messages
}

// sizeOf returns how many bytes of contents messages have.
func sizeOf(messages []NewMessage) (bytes int) {
	for i := range messages {
		bytes += len(messages[i].Content)
	}
	return bytes
}

// AppendMessages adds completed messages, each the child of the one before,
// the first the child of parent (empty: the current leaf; Root: none). The
// last becomes the current leaf.
func (d *Store) AppendMessages(ctx context.Context, owner Owner, conversation, parent string, messages []NewMessage,
	now time.Time) (added []Message, err error) {
	if err := checked(owner, checkMessages(messages, 1, AppendMax)); err != nil {
		return nil, err
	}
	size := sizeOf(messages)
	if size > ContentBytesMax {
		return nil, parley.Invalid("items",
			"The items have %d bytes together, and those of one request may have %d: send them in several requests.",
			size, ContentBytesMax)
	}
	err = d.writeWithin(ctx, owner, func(t *transaction) error {
		w, err := t.open(owner, conversation, now)
		if err != nil {
			return err
		}
		if err := t.room(owner, &d.quota, 0, int64(size)); err != nil {
			return err
		}
		follows, err := w.parent(parent)
		if err != nil {
			return err
		}
		if added, err = w.addAll(follows, messages); err != nil {
			return err
		}
		return w.close()
	})
	return added, err
}

// addAll adds messages, each the child of the one before, the first of parent.
func (w *writer) addAll(parent string, messages []NewMessage) (added []Message, err error) {
	for i := range messages {
		m := newMessage(&messages[i], parent, w.now)
		if err := w.free(messages[i].ID); err != nil {
			return nil, err
		}
		if err := w.add(&m, turnKey{}); err != nil {
			return nil, err
		}
		added, parent = append(added, m), m.ID
	}
	return added, nil
}

// free wants that the conversation has no message of the id that a caller
// chose.
func (w *writer) free(id string) error {
	if id == "" {
		return nil
	}
	_, err := w.t.message(w.c.ID, id)
	if errors.Is(err, ErrNotFound) {
		return nil
	}
	if err == nil {
		err = parley.Invalid("id", "The conversation has an item with the id %q already.", id)
	}
	return err
}

// Messages lists the path that ends in leaf; an empty leaf means the current
// one. The cursors of page are message ids.
func (d *Store) Messages(ctx context.Context, owner Owner, conversation, leaf string,
	page Page) (list List[Message], err error) {
	s, err := page.scan()
	if err := checked(owner, err); err != nil {
		return list, err
	}
	err = d.read(ctx, func(t *transaction) error {
		c, err := t.conversation(owner, conversation)
		if err != nil {
			return err
		}
		if leaf != "" {
			if _, err := t.message(conversation, leaf); err != nil {
				return err
			}
			c.Leaf = leaf
		}
		rows, err := t.path(&c, s)
		list = listOf(s, rows, func(m *Message) string { return m.ID })
		return err
	})
	return list, err
}

// path returns the messages from the first to c.Leaf, as far as s wants them.
func (t *transaction) path(c *Conversation, s scan) ([]Message, error) {
	query := `WITH RECURSIVE path (id, parent) AS (
			SELECT id, parent FROM messages WHERE conversation = $1 AND id = $2
			UNION ALL
			SELECT m.id, m.parent FROM path p JOIN messages m ON m.conversation = $1 AND m.id = p.parent
		)
		SELECT ` + messageColumns + ` FROM path p JOIN messages m ON m.conversation = $1 AND m.id = p.id`
	args := []any{c.ID, c.Leaf, s.limit + 1}
	if s.cursor != "" {
		at, err := t.message(c.ID, s.cursor)
		if err != nil {
			return nil, err
		}
		args = append(args, at.Seq)
		query += ` WHERE m.seq ` + s.compare + ` $4`
	}
	return all(t, scanMessage, query+` ORDER BY m.seq `+s.order+` LIMIT $3`, args...)
}

// Message returns one message, of whatever branch.
func (d *Store) Message(ctx context.Context, owner Owner, conversation, id string) (m Message, err error) {
	if err := checked(owner); err != nil {
		return m, err
	}
	err = d.read(ctx, func(t *transaction) error {
		if _, err := t.conversation(owner, conversation); err != nil {
			return err
		}
		m, err = t.message(conversation, id)
		return err
	})
	return m, err
}

// Tree returns the shape of the conversation, all branches, ordered by Seq.
func (d *Store) Tree(ctx context.Context, owner Owner, conversation string) (nodes []Node, err error) {
	if err := checked(owner); err != nil {
		return nil, err
	}
	err = d.read(ctx, func(t *transaction) error {
		if _, err := t.conversation(owner, conversation); err != nil {
			return err
		}
		nodes, err = t.tree(conversation)
		return err
	})
	return nodes, err
}

func (t *transaction) tree(conversation string) ([]Node, error) {
	scanNode := func(r db.Row, n *Node) error { return r.Scan(&n.ID, &n.Parent, &n.Seq, &n.Role, &n.Status) }
	return all(t, scanNode, `SELECT id, parent, seq, role, status FROM messages WHERE conversation = $1 ORDER BY seq`,
		conversation)
}

// DeleteMessage removes one message; its children become its parent's.
func (d *Store) DeleteMessage(ctx context.Context, owner Owner, conversation, id string, now time.Time) error {
	if err := checked(owner); err != nil {
		return err
	}
	return d.writeReserved(ctx, func(t *transaction) error {
		w, err := t.open(owner, conversation, now)
		if err != nil {
			return err
		}
		m, err := t.message(conversation, id)
		if err != nil {
			return err
		}
		if err := t.remove(&m); err != nil {
			return err
		}
		w.c.Messages--
		w.c.Bytes -= int64(len(m.Content))
		if w.c.Leaf == id {
			w.c.Leaf = m.Parent
		}
		return w.close()
	})
}

// remove takes m out of its conversation; its children follow its parent.
func (t *transaction) remove(m *Message) error {
	if _, err := t.exec(`UPDATE messages SET parent = $3 WHERE conversation = $1 AND parent = $2`, m.Conversation,
		m.ID, m.Parent); err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM documents WHERE conversation = $1 AND message = $2`, m.Conversation,
		m.ID); err != nil {
		return err
	}
	_, err := t.exec(`DELETE FROM messages WHERE conversation = $1 AND id = $2`, m.Conversation, m.ID)
	return err
}

// ChooseBranch makes the newest end of the branch through message the
// current leaf, and returns it.
func (d *Store) ChooseBranch(ctx context.Context, owner Owner, conversation, message string,
	now time.Time) (leaf string, err error) {
	if err := checked(owner); err != nil {
		return "", err
	}
	err = d.write(ctx, func(t *transaction) error {
		w, err := t.open(owner, conversation, now)
		if err != nil {
			return err
		}
		nodes, err := t.tree(conversation)
		if err != nil {
			return err
		}
		forest, err := NewForest(nodes)
		if err != nil {
			return err
		}
		if !forest.has(message) {
			return ErrNotFound
		}
		leaf = forest.Tip(message)
		w.c.Leaf = leaf
		return w.close()
	})
	return leaf, err
}

// SaveSummary keeps what stands for all messages on the path up to upTo.
func (d *Store) SaveSummary(ctx context.Context, owner Owner, conversation, upTo string, s Summary,
	now time.Time) error {
	if err := checked(owner, checkContent("summary", s.Content), checkName("model", s.Model)); err != nil {
		return err
	}
	return d.write(ctx, func(t *transaction) error {
		if _, err := t.lockConversation(owner, conversation); err != nil {
			return err
		}
		if _, err := t.message(conversation, upTo); err != nil {
			return err
		}
		_, err := t.exec(
			`INSERT INTO summaries (conversation, message, content, model, tokens, created) VALUES ($1, $2, $3, $4, $5, $6)
			ON CONFLICT (conversation, message) DO UPDATE SET content = excluded.content, model = excluded.model, tokens = excluded.tokens, created = excluded.created`,
			conversation, upTo, blob(s.Content), s.Model, s.Tokens, db.Stamp(now))
		return err
	})
}

// Summary returns what SaveSummary kept for that message.
func (d *Store) Summary(ctx context.Context, owner Owner, conversation, upTo string) (s Summary, err error) {
	if err := checked(owner); err != nil {
		return s, err
	}
	err = d.read(ctx, func(t *transaction) error {
		if _, err := t.conversation(owner, conversation); err != nil {
			return err
		}
		return t.one(`SELECT content, model, tokens FROM summaries WHERE conversation = $1 AND message = $2`,
			[]any{conversation, upTo}, (*[]byte)(&s.Content), &s.Model, &s.Tokens)
	})
	return s, err
}
