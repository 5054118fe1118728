package convo

import (
	"cmp"
	"context"
	"errors"
	"time"

	"parley/gateway/db"
)

// Heartbeat says that process is alive until then. A process sends one before its
// first turn and again well before the time is over.
func (d *Store) Heartbeat(ctx context.Context, process string, until time.Time) error {
	if err := checkName("process", process); err != nil {
		return err
	}
	return d.write(ctx, func(t *transaction) error {
		_, err := t.exec(`INSERT INTO processes (id, alive_until) VALUES ($1, $2)
			ON CONFLICT (id) DO UPDATE SET alive_until = excluded.alive_until`, process, db.Stamp(until))
		return err
	})
}

// recoverAtOnce bounds how much one transaction recovers.
const recoverAtOnce = 100

// Recover marks what dead processes left in progress as incomplete, with
// what was kept of it, and returns it.
func (d *Store) Recover(ctx context.Context, now time.Time) (all Recovery, err error) {
	for {
		var part Recovery
		err := d.write(ctx, func(t *transaction) error {
			part, err = t.recoverPart(now)
			return err
		})
		if err != nil {
			return all, err
		}
		all.Answers = append(all.Answers, part.Answers...)
		all.Responses = append(all.Responses, part.Responses...)
		if len(part.Answers)+len(part.Responses) == 0 {
			return all, d.forget(ctx, now)
		}
	}
}

// forget removes processes that are dead and own nothing any more.
func (d *Store) forget(ctx context.Context, now time.Time) error {
	return d.write(ctx, func(t *transaction) error {
		_, err := t.exec(`DELETE FROM processes WHERE alive_until < $1`, db.Stamp(now))
		return err
	})
}

// dead is the condition that no living process has the id that it ends with;
// $1 is now.
const dead = `NOT EXISTS (SELECT 1 FROM processes p WHERE p.alive_until >= $1 AND p.id = `

func (t *transaction) recoverPart(now time.Time) (part Recovery, err error) {
	scanAnswer := func(r db.Row, a *RecoveredAnswer) error {
		return r.Scan(&a.Owner.Tenant, &a.Owner.User, &a.Conversation, &a.Message)
	}
	stale, err := all(t, scanAnswer,
		`SELECT c.tenant, c.user_id, c.id, m.id FROM messages m JOIN conversations c ON c.id = m.conversation
		WHERE m.status = 'in_progress' AND c.deleted = 0 AND `+dead+`m.process) ORDER BY c.id, m.seq LIMIT $2`,
		db.Stamp(now), recoverAtOnce)
	if err != nil {
		return part, err
	}
	for _, a := range stale {
		done, err := t.interrupt(a, now)
		if err != nil {
			return part, err
		}
		if done {
			part.Answers = append(part.Answers, a)
		}
	}
	part.Responses, err = t.recoverResponses(now)
	return part, err
}

// interrupt ends an answer that was seen to be abandoned, unless another
// server has done so meanwhile.
func (t *transaction) interrupt(a RecoveredAnswer, now time.Time) (bool, error) {
	_, m, err := t.answer(a.Owner, AnswerID{Conversation: a.Conversation, Message: a.Message}, now)
	if errors.Is(err, ErrNotFound) || err == nil && m.Status != InProgress {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	if err := t.abandoned(m.Process, now); err != nil {
		return false, ignore(err, ErrRunning)
	}
	o := Outcome{Status: Incomplete, Err: errInterrupted, Usage: m.Usage, CostMicros: m.CostMicros}
	o.apply(&m, now)
	if err := t.finish(a.Owner, &m); err != nil {
		return false, err
	}
	return true, t.nameByQuestion(a.Owner, &m, now)
}

// nameByQuestion gives a conversation without a title one made of the question before an answer.
func (t *transaction) nameByQuestion(owner Owner, answer *Message, now time.Time) error {
	c, err := t.lockConversation(owner, answer.Conversation)
	if err != nil || c.Title != "" {
		return err
	}
	question, err := t.message(c.ID, answer.Parent)
	if err != nil {
		return ignore(err, ErrNotFound)
	}
	title := TitleOf(question.Text)
	if _, err := t.exec(`UPDATE conversations SET title = $2 WHERE id = $1`, c.ID, title); err != nil {
		return err
	}
	return t.index(owner, c.ID, "", title, now)
}

// ignore returns err unless it is the one that does not matter.
func ignore(err, harmless error) error {
	if errors.Is(err, harmless) {
		return nil
	}
	return err
}

func (t *transaction) recoverResponses(now time.Time) ([]RecoveredResponse, error) {
	scanResponse := func(r db.Row, rr *RecoveredResponse) error {
		return r.Scan(&rr.ID, &rr.Owner.Tenant, &rr.Owner.User)
	}
	code, text := kept(errInterrupted)
	return all(t, scanResponse,
		`UPDATE responses SET status = 'incomplete', error_code = $3, error_text = $4, completed = $1
		WHERE status IN ('queued', 'in_progress') AND `+dead+`responses.process)
		AND id IN (SELECT r.id FROM responses r WHERE r.status IN ('queued', 'in_progress') AND `+dead+
			`r.process) ORDER BY r.id LIMIT $2)
		RETURNING id, tenant, user_id`, db.Stamp(now), recoverAtOnce, code, text)
}

// The defaults of a Retention.
const (
	keepDeleted   = 24 * time.Hour
	keepTemporary = 24 * time.Hour
	keepResponses = 30 * 24 * time.Hour
)

// purgeAtOnce bounds how much one transaction marks or removes, so that others wait
// little.
const (
	purgeAtOnce          = 100
	purgeResponsesAtOnce = 10
)

// Purge removes what keep no longer holds.
func (d *Store) Purge(ctx context.Context, now time.Time, keep Retention) error {
	before := func(given, otherwise time.Duration) int64 { return db.Stamp(now.Add(-cmp.Or(given, otherwise))) }
	marks := []purgeStep{
		{`deleted > 0 AND deleted <= $1`, before(keep.Deleted, keepDeleted)},
		{`deleted = 0 AND temporary = 1 AND updated <= $1`, before(keep.Temporary, keepTemporary)},
	}
	if keep.Conversations > 0 {
		marks = append(marks, purgeStep{`deleted = 0 AND updated <= $1`, before(keep.Conversations, 0)})
	}
	for _, p := range marks {
		// The outer condition is checked again on a row that another transaction was
		// changing when the inner one had chosen it.
		statement := `UPDATE conversations SET deleted = $2 WHERE ` + p.which +
			` AND id IN (SELECT id FROM conversations WHERE ` + p.which + ` LIMIT $3)`
		if err := d.purge(ctx, statement, p.before, discarded, purgeAtOnce); err != nil {
			return err
		}
	}
	if err := d.discardAll(ctx, -db.Stamp(now.Add(-stagedMax))); err != nil {
		return err
	}
	return d.purge(ctx,
		`DELETE FROM responses WHERE used <= $1 AND id IN (SELECT r.id FROM responses r WHERE r.used <= $1 AND r.status NOT IN ('queued', 'in_progress')
			AND NOT EXISTS (SELECT 1 FROM responses f WHERE f.previous = r.id) LIMIT $2)`,
		before(keep.Responses, keepResponses), purgeResponsesAtOnce)
}

// A purgeStep says which conversations are to be removed, as before says.
type purgeStep struct {
	which  string
	before int64
}

// purge runs statement until it finds nothing to do.
func (d *Store) purge(ctx context.Context, statement string, args ...any) error {
	for {
		var touched int64
		err := d.writePiece(ctx, func(t *transaction) (err error) {
			touched, err = t.exec(statement, args...)
			return err
		})
		if err != nil || touched == 0 {
			return err
		}
	}
}
