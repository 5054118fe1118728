package convo

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"parley"
	"parley/gateway/db"
)

// alive wants that process has said it is alive.
func (t *transaction) alive(process string, now time.Time) error {
	var until int64
	err := t.one(`SELECT alive_until FROM processes WHERE id = $1`, []any{process}, &until)
	if errors.Is(err, ErrNotFound) || err == nil && until < db.Stamp(now) {
		return ErrNotAlive
	}
	return err
}

// fingerprintOf identifies a call, to detect different ones with the same key.
func fingerprintOf(parts ...string) string {
	sum := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(sum, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(sum.Sum(nil)[:16])
}

func (t *NewTurn) fingerprint() string {
	if t.Question == nil {
		return fingerprintOf(t.Parent, t.Model)
	}
	return fingerprintOf(t.Parent, t.Model, t.Question.Kind, t.Question.Role, string(t.Question.Content))
}

// size returns how many bytes the question has.
func (t *NewTurn) size() int64 {
	if t.Question == nil {
		return 1 // an answer needs room, too
	}
	return int64(len(t.Question.Content))
}

// BeginTurn writes the question and an empty answer that is in progress, and
// makes the answer the current leaf. A key used before in the conversation
// gives the turn begun then, as it is now; so does the answer's id.
func (d *Store) BeginTurn(ctx context.Context, owner Owner, conversation string, n NewTurn,
	now time.Time) (turn Turn, err error) {
	if err := checked(owner, n.check()); err != nil {
		return turn, err
	}
	err = d.writeWithin(ctx, owner, func(t *transaction) error {
		w, err := t.open(owner, conversation, now)
		if err != nil {
			return err
		}
		turn, err = t.turnOf(conversation, &n)
		if !errors.Is(err, ErrNotFound) {
			return err
		}
		if err := t.room(owner, &d.quota, 0, n.size()); err != nil {
			return err
		}
		turn, err = w.begin(&n)
		return err
	})
	return turn, err
}

// turnOf returns the turn that was begun with n's key or for its answer;
// ErrNotFound if none was.
func (t *transaction) turnOf(conversation string, n *NewTurn) (turn Turn, err error) {
	if n.Key == "" && n.Answer == "" {
		return turn, ErrNotFound
	}
	var answer, before, question string
	err = t.one(
		`SELECT id, fingerprint, question FROM messages WHERE conversation = $1 AND (retry_key = $2 AND retry_key <> '' OR id = $3)`, []any{conversation, n.Key, n.Answer}, &answer, &before, &question)
	if err != nil {
		return turn, err
	}
	if before != n.fingerprint() {
		return turn, ErrKeyReused
	}
	turn.Begun = answer == n.Answer
	if turn.Answer, err = t.message(conversation, answer); err != nil || question == "" {
		return turn, err
	}
	turn.Question, err = t.message(conversation, question)
	if errors.Is(err, ErrNotFound) {
		err = nil // the question was deleted since
	}
	return turn, err
}

// begin writes the question and the answer to be.
func (w *writer) begin(n *NewTurn) (turn Turn, err error) {
	if err := w.t.alive(n.Process, w.now); err != nil {
		return turn, err
	}
	parent, err := w.parent(n.Parent)
	if err != nil {
		return turn, err
	}
	key := turnKey{key: n.Key, fingerprint: n.fingerprint()}
	if n.Question != nil {
		turn.Question = newMessage(n.Question, parent, w.now)
		if err := w.free(n.Question.ID); err != nil {
			return turn, err
		}
		if err := w.add(&turn.Question, turnKey{}); err != nil {
			return turn, err
		}
		parent, key.question = turn.Question.ID, turn.Question.ID
	} else if parent == "" {
		return turn, parley.Invalid("parent",
			"There is nothing to answer: give a question, or the message to answer again.")
	}
	turn.Answer = newMessage(&NewMessage{ID: n.Answer, Role: "assistant", Content: emptyContent, Model: n.Model},
		parent, w.now)
	turn.Answer.Status, turn.Answer.Process, turn.Answer.Completed = InProgress, n.Process, time.Time{}
	if err := w.add(&turn.Answer, key); err != nil {
		return turn, err
	}
	turn.Begun = true
	return turn, w.close()
}

// emptyContent is what an answer says before anything was kept of it.
var emptyContent = json.RawMessage(`[]`)

// answer returns an answer and the locked conversation it is in.
func (t *transaction) answer(owner Owner, id AnswerID, now time.Time) (*writer, Message, error) {
	w, err := t.open(owner, id.Conversation, now)
	if err != nil {
		return nil, Message{}, err
	}
	m, err := t.message(id.Conversation, id.Message)
	return w, m, err
}

// Checkpoint keeps what there is of an answer so far. ErrTaken says that the
// answer is not this process's to write any more.
func (d *Store) Checkpoint(ctx context.Context, owner Owner, id AnswerID, content json.RawMessage) error {
	if err := checked(owner, checkContent("content", content)); err != nil {
		return err
	}
	return d.writeTogether(ctx, func(t *transaction) error {
		w, m, err := t.answer(owner, id, time.Time{})
		if err != nil {
			return err
		}
		if m.Status != InProgress || m.Process != id.Process {
			return ErrTaken
		}
		if err := w.grow(len(content) - len(m.Content)); err != nil {
			return err
		}
		_, err = t.exec(`UPDATE messages SET content = $3 WHERE conversation = $1 AND id = $2`, m.Conversation, m.ID,
			blob(content))
		return err
	})
}

// grow adds bytes to the size of the conversation.
func (w *writer) grow(bytes int) error {
	w.c.Bytes += int64(bytes)
	if bytes > 0 && w.c.Bytes > ConversationBytesMax {
		return ErrFull
	}
	_, err := w.t.exec(`UPDATE conversations SET bytes = $2 WHERE id = $1`, w.c.ID, w.c.Bytes)
	return err
}

// FinishTurn ends an answer. Ending it again changes nothing.
func (d *Store) FinishTurn(ctx context.Context, owner Owner, id AnswerID, o Outcome,
	now time.Time) (m Message, err error) {
	if err := checked(owner, o.check()); err != nil {
		return m, err
	}
	err = d.write(ctx, func(t *transaction) error {
		w, found, err := t.answer(owner, id, now)
		m = found
		if err != nil || m.endedAs(id.Process, o.Status) {
			return err
		}
		if !m.writableBy(id.Process) {
			return ErrTaken
		}
		// An answer is kept even where it makes the conversation too full to continue.
		before := len(m.Content)
		o.apply(&m, now)
		w.c.Bytes += int64(len(m.Content) - before)
		if err := t.finish(w.owner, &m); err != nil {
			return err
		}
		return w.close()
	})
	return m, err
}

// endedAs reports whether process has ended the answer like that before.
func (m *Message) endedAs(process string, s Status) bool {
	return m.Process == process && m.Status == s && !interrupted(m.Status, m.Err)
}

// writableBy reports whether process may still end the answer. One that was
// taken for dead, but was only slow, may.
func (m *Message) writableBy(process string) bool {
	return m.Process == process && (m.Status == InProgress || interrupted(m.Status, m.Err))
}

// apply ends m as o says.
func (o *Outcome) apply(m *Message, now time.Time) {
	if o.Content != nil {
		m.Content = o.Content
	}
	m.Text = PlainText(m.Content)
	m.Model = cmp.Or(o.Model, m.Model)
	m.Status, m.Finish, m.Err = o.Status, o.Finish, unkept(kept(o.Err))
	m.CostMicros, m.Completed = o.CostMicros, db.Unstamp(db.Stamp(now))
	m.Usage = storedUsage(o.Usage)
}

// storedUsage returns what is kept of a usage: whole microseconds, and neither
// the reason for a cache miss nor what was thought.
func storedUsage(u parley.Usage) parley.Usage {
	u.Miss, u.ReasoningTokens = "", 0
	u.Queued, u.Prefill, u.Decode = u.Queued.Truncate(time.Microsecond), u.Prefill.Truncate(
		time.Microsecond), u.Decode.Truncate(time.Microsecond)
	return u
}

// finish writes how an answer ended, and lets search find it.
func (t *transaction) finish(owner Owner, m *Message) error {
	code, text := kept(m.Err)
	u := &m.Usage
	_, err := t.exec(
		`UPDATE messages SET content = $3, text = $4, status = $5, tokens_in = $6, tokens_cached = $7, tokens_out = $8, cost_micros = $9,
			finish = $10, error_code = $11, error_text = $12, queued = $13, prefill = $14, decode = $15, completed = $16, model = $17
		WHERE conversation = $1 AND id = $2`,
		m.Conversation, m.ID, blob(m.Content), m.Text, string(m.Status), u.PromptTokens, u.CachedTokens,
		u.OutputTokens, m.CostMicros,
		string(m.Finish), code, text, u.Queued.Microseconds(), u.Prefill.Microseconds(), u.Decode.Microseconds(),
		db.Stamp(m.Completed), m.Model)
	if err != nil {
		return err
	}
	return t.index(owner, m.Conversation, m.ID, m.Text, m.Created)
}

// ResumeTurn gives an answer that ended without completing, or whose process
// is dead, to answer.Process, in progress and with what was kept of it.
// ErrRunning says that another living process is writing it: what
// answer.Process itself writes is for its caller to know.
func (d *Store) ResumeTurn(ctx context.Context, owner Owner, id AnswerID, now time.Time) (m Message, err error) {
	if err := checked(owner, checkName("process", id.Process)); err != nil {
		return m, err
	}
	err = d.write(ctx, func(t *transaction) error {
		if err := t.alive(id.Process, now); err != nil {
			return err
		}
		_, m, err = t.answer(owner, id, now)
		if err != nil {
			return err
		}
		if m.Role != "assistant" || m.Status == Completed {
			return ErrComplete
		}
		if m.Status == InProgress && m.Process != id.Process {
			if err := t.abandoned(m.Process, now); err != nil {
				return err
			}
		}
		m.Status, m.Process, m.Completed, m.Err, m.Finish = InProgress, id.Process, time.Time{}, nil, ""
		_, err := t.exec(
			`UPDATE messages SET status = $3, process = $4, completed = 0, error_code = '', error_text = '', finish = '' WHERE conversation = $1 AND id = $2`,
			m.Conversation, m.ID, string(m.Status), m.Process)
		return err
	})
	return m, err
}

// abandoned wants that process is dead.
func (t *transaction) abandoned(process string, now time.Time) error {
	err := t.alive(process, now)
	if err == nil {
		return ErrRunning
	}
	if errors.Is(err, ErrNotAlive) {
		return nil
	}
	return err
}

// errInterrupted is what Recover says of what a dead process left.
var errInterrupted = parley.Errorf(parley.Unavailable, "The server stopped while this was being generated.")

// interrupted reports whether something ended by Recover.
func interrupted(s Status, err *parley.Error) bool {
	return s == Incomplete && err != nil && err.Code == errInterrupted.Code
}
