package convo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"parley"
	"parley/gateway/db"
)

const responseColumns = `id, previous, conversation, model, status, background, cancel_asked, request, body,
	tokens_in, tokens_cached, tokens_out, cost_micros, error_code, error_text, queued, prefill, decode, process, events, bytes, created, completed`

func scanResponse(r db.Row, v *Response) error {
	var code, text string
	var queued, prefill, decode, created, completed int64
	err := r.Scan(&v.ID, &v.Previous, &v.Conversation, &v.Model, &v.Status, &v.Background, &v.CancelAsked,
		(*[]byte)(&v.Request), (*[]byte)(&v.Body),
		&v.Usage.PromptTokens, &v.Usage.CachedTokens, &v.Usage.OutputTokens, &v.CostMicros, &code, &text, &queued,
		&prefill, &decode, &v.Process, &v.Events, &v.bytes, &created, &completed)
	v.Err = unkept(code, text)
	v.Usage.Queued, v.Usage.Prefill, v.Usage.Decode = micros(queued), micros(prefill), micros(decode)
	v.Created, v.Completed = db.Unstamp(created), db.Unstamp(completed)
	return err
}

func (t *transaction) response(owner Owner, id string) (Response, error) {
	return only(t, scanResponse,
		`SELECT `+responseColumns+` FROM responses WHERE id = $1 AND tenant = $2 AND user_id = $3`, id, owner.Tenant,
		owner.User)
}

// lockResponse is response for one who will change it.
func (t *transaction) lockResponse(owner Owner, id string) (Response, error) {
	return only(t, scanResponse,
		`SELECT `+responseColumns+` FROM responses WHERE id = $1 AND tenant = $2 AND user_id = $3`+t.LockRow(), id,
		owner.Tenant, owner.User)
}

func (r *NewResponse) fingerprint() string {
	parts := []string{r.Previous, r.Conversation, r.Model, fmt.Sprint(r.Background), string(r.Request)}
	for i := range r.Input {
		parts = append(parts, string(r.Input[i].Content))
	}
	return fingerprintOf(parts...)
}

// CreateResponse stores a response with its input, before it is answered. A
// key that the owner used before gives the response made then; so does its
// id.
func (d *Store) CreateResponse(ctx context.Context, owner Owner, n NewResponse,
	now time.Time) (r Response, err error) {
	if err := checked(owner, n.check()); err != nil {
		return r, err
	}
	err = d.writeWithin(ctx, owner, func(t *transaction) error {
		r, err = t.responseOf(owner, &n)
		if !errors.Is(err, ErrNotFound) {
			return err
		}
		if err := t.room(owner, &d.quota, 0, int64(len(n.Request))+bytesOf(n.Input)); err != nil {
			return err
		}
		r, err = t.createResponse(owner, &n, now)
		return err
	})
	return r, err
}

// FindResponse returns the response that the owner made with the key of n; ErrNotFound if none was.
func (d *Store) FindResponse(ctx context.Context, owner Owner, n NewResponse) (r Response, err error) {
	if err := checked(owner, n.check()); err != nil {
		return r, err
	}
	err = d.read(ctx, func(t *transaction) error {
		r, err = t.responseOf(owner, &n)
		return err
	})
	return r, err
}

// responseOf returns the response that was made with n's key or id; ErrNotFound
// if none was.
func (t *transaction) responseOf(owner Owner, n *NewResponse) (r Response, err error) {
	if n.Key == "" && n.ID == "" {
		return r, ErrNotFound
	}
	var id, before string
	err = t.one(
		`SELECT id, fingerprint FROM responses WHERE tenant = $1 AND user_id = $2 AND (retry_key = $3 AND retry_key <> '' OR id = $4)`, []any{owner.Tenant, owner.User, n.Key, n.ID}, &id, &before)
	if err == nil && before != n.fingerprint() {
		err = ErrKeyReused
	}
	if err != nil {
		return r, err
	}
	return t.response(owner, id)
}

func (t *transaction) createResponse(owner Owner, n *NewResponse, now time.Time) (r Response, err error) {
	if err := t.alive(n.Process, now); err != nil {
		return r, err
	}
	if n.Previous != "" {
		if err := t.touch(`UPDATE responses SET used = $4 WHERE id = $1 AND tenant = $2 AND user_id = $3`, n.Previous,
			owner.Tenant, owner.User, db.Stamp(now)); err != nil {
			return r, err
		}
	}
	if n.Conversation != "" {
		if _, err := t.conversation(owner, n.Conversation); err != nil {
			return r, err
		}
	}
	status := InProgress
	if n.Background {
		status = Queued
	}
	id, bytes := cmp.Or(n.ID, NewResponseID()), int64(len(n.Request))+bytesOf(n.Input)
	if bytes > ResponseBytesMax {
		return r, ErrFull
	}
	added, err := t.exec(
		`INSERT INTO responses (id, tenant, user_id, retry_key, fingerprint, previous, conversation, model, status, background, cancel_asked, request, body,
			tokens_in, tokens_cached, tokens_out, cost_micros, error_code, error_text, queued, prefill, decode, process, events, bytes, created, used, completed)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, 0, $11, $12, 0, 0, 0, 0, '', '', 0, 0, 0, $13, 0, $14, $15, $15, 0) ON CONFLICT DO NOTHING`,
		id, owner.Tenant, owner.User, n.Key, n.fingerprint(), n.Previous, n.Conversation, n.Model, string(status),
		db.Flag(n.Background), blob(n.Request), []byte{},
		n.Process, bytes, db.Stamp(now))
	if err == nil && added == 0 {
		return t.responseOf(owner, n) // another call was faster
	}
	if err != nil {
		return r, err
	}
	if err := t.addItems(id, Input, n.Input); err != nil {
		return r, err
	}
	return t.response(owner, id)
}

func bytesOf(items []Item) (n int64) {
	for i := range items {
		n += int64(len(items[i].Content))
	}
	return n
}

// Response returns one response without its items.
func (d *Store) Response(ctx context.Context, owner Owner, id string) (r Response, err error) {
	if err := checked(owner); err != nil {
		return r, err
	}
	err = d.read(ctx, func(t *transaction) error {
		r, err = t.response(owner, id)
		return err
	})
	return r, err
}

// addItems adds one side of a response.
func (t *transaction) addItems(id string, side Side, items []Item) error {
	rows := make([][]any, len(items))
	for i, item := range items {
		if item.ID == "" {
			item.ID = newID("item")
		}
		rows[i] = []any{int64(i), item.ID, blob(item.Content)}
	}
	return t.insertRows(`INSERT INTO response_items (response, side, n, id, content) VALUES `, []any{id, string(side)},
		rows)
}

// rowsAtOnce is how many rows one statement inserts.
const rowsAtOnce = 50

// insertRows inserts rows that begin with the same values.
func (t *transaction) insertRows(into string, same []any, rows [][]any) error {
	for len(rows) > 0 {
		n := min(len(rows), rowsAtOnce)
		args := append([]any(nil), same...)
		tuples := make([]string, n)
		for i, r := range rows[:n] {
			args = append(args, r...)
			tuples[i] = tuple(len(same), len(args)-len(r), len(r))
		}
		if _, err := t.exec(into+strings.Join(tuples, ", "), args...); err != nil {
			return err
		}
		rows = rows[n:]
	}
	return nil
}

// tuple returns the parameters 1 to same, and n more after the first before.
func tuple(same, before, n int) string {
	var parts []string
	for i := range same {
		parts = append(parts, fmt.Sprintf("$%d", i+1))
	}
	for i := range n {
		parts = append(parts, fmt.Sprintf("$%d", before+i+1))
	}
	return "(" + strings.Join(parts, ", ") + ")"
}

// A placedItem is an item with its number.
type placedItem struct {
	Item
	n int64
}

func scanItem(r db.Row, v *placedItem) error { return r.Scan(&v.n, &v.ID, (*[]byte)(&v.Content)) }

// ResponseItems lists the input or the output. The cursors of page are item ids.
func (d *Store) ResponseItems(ctx context.Context, owner Owner, id string, side Side,
	page Page) (list List[Item], err error) {
	s, err := page.scan()
	if err := checked(owner, err); err != nil {
		return list, err
	}
	err = d.read(ctx, func(t *transaction) error {
		if _, err := t.response(owner, id); err != nil {
			return err
		}
		query, args := `SELECT n, id, content FROM response_items WHERE response = $1 AND side = $2`, []any{id,
			string(side), s.limit + 1}
		if s.cursor != "" {
			var n int64
			if err := t.one(`SELECT n FROM response_items WHERE response = $1 AND side = $2 AND id = $3`,
				[]any{id, string(side), s.cursor}, &n); err != nil {
				return err
			}
			query, args = query+` AND n `+s.compare+` $4`, append(args, n)
		}
		rows, err := all(t, scanItem, query+` ORDER BY n `+s.order+` LIMIT $3`, args...)
		list = listOf(s, itemsOf(rows), func(i *Item) string { return i.ID })
		return err
	})
	return list, err
}

func itemsOf(placed []placedItem) []Item {
	items := make([]Item, len(placed))
	for i := range placed {
		items[i] = placed[i].Item
	}
	return items
}

// Chain returns the items of the response and of all before it, oldest
// first: each one's input, then its output.
func (d *Store) Chain(ctx context.Context, owner Owner, id string) (items []Item, err error) {
	if err := checked(owner); err != nil {
		return nil, err
	}
	err = d.read(ctx, func(t *transaction) error {
		depth, err := t.chainDepth(owner, id)
		if err != nil {
			return err
		}
		scanned, err := all(t, scanItem,
			chainQuery+`SELECT i.n, i.id, i.content FROM chain c JOIN response_items i ON i.response = c.id
			ORDER BY c.depth DESC, i.side, i.n`, id, owner.Tenant, owner.User, depth)
		items = itemsOf(scanned)
		return err
	})
	return items, err
}

// chainQuery walks from $1, whose owner is $2 and $3, back to the first
// response, at most $4 of them.
const chainQuery = `WITH RECURSIVE chain (id, previous, depth) AS (
		SELECT id, previous, CAST(1 AS BIGINT) FROM responses WHERE id = $1 AND tenant = $2 AND user_id = $3
		UNION ALL
		SELECT r.id, r.previous, c.depth + 1 FROM chain c JOIN responses r ON r.id = c.previous WHERE r.tenant = $2 AND r.user_id = $3 AND c.depth < $4
	) `

// chainDepth returns how many responses the chain has. One that was deleted
// in the middle, and one that is too long, cannot be continued.
func (t *transaction) chainDepth(owner Owner, id string) (depth int64, err error) {
	var first string
	err = t.one(chainQuery+`SELECT depth, previous FROM chain ORDER BY depth DESC LIMIT 1`,
		[]any{id, owner.Tenant, owner.User, ChainMax}, &depth, &first)
	if err == nil && first != "" {
		err = ErrNotFound
		if depth == ChainMax {
			err = ErrFull
		}
	}
	if err != nil {
		return 0, err
	}
	var bytes int64
	err = t.one(
		chainQuery+
			`SELECT CAST(coalesce(sum(length(i.content)), 0) AS BIGINT) FROM chain c JOIN response_items i ON i.response = c.id`, []any{id, owner.Tenant, owner.User, depth}, &bytes)
	if err == nil && bytes > ChainBytesMax {
		err = ErrFull
	}
	return depth, err
}

// AppendEvents adds to the response's event log. Events that are there
// already are passed over, so a batch may be sent again.
func (d *Store) AppendEvents(ctx context.Context, owner Owner, id string, batch EventBatch) (p Progress, err error) {
	if err := checked(owner, batch.check()); err != nil {
		return p, err
	}
	err = d.writeTogether(ctx, func(t *transaction) error {
		r, err := t.lockResponse(owner, id)
		if err != nil {
			return err
		}
		if r.Status.Ended() || r.Process != batch.Process {
			return ErrTaken
		}
		if err := t.addEvents(&r, &batch); err != nil {
			return err
		}
		p = Progress{Next: r.Events, CancelAsked: r.CancelAsked}
		_, err = t.exec(`UPDATE responses SET status = 'in_progress', events = $2, bytes = $3 WHERE id = $1`, id,
			r.Events, r.bytes)
		return err
	})
	return p, err
}

// addEvents adds what is new in batch to the log of r.
func (t *transaction) addEvents(r *Response, batch *EventBatch) error {
	if batch.First > r.Events {
		return parley.Errorf(parley.Internal,
			"events of %s: the batch begins with number %d, and the log ends before %d", r.ID, batch.First, r.Events)
	}
	known := min(r.Events-batch.First, int64(len(batch.Events)))
	var rows [][]any
	for _, event := range batch.Events[known:] {
		rows = append(rows, []any{r.Events, blob(event)})
		r.Events++
		r.bytes += int64(len(event))
	}
	if r.Events > EventsMax || r.bytes > ResponseBytesMax {
		return ErrFull
	}
	return t.insertRows(`INSERT INTO response_events (response, n, event) VALUES `, []any{r.ID}, rows)
}

// Events returns up to limit events with numbers greater than after; -1 is
// before the first.
func (d *Store) Events(ctx context.Context, owner Owner, id string, after int64,
	limit int) (page EventPage, err error) {
	if limit < 1 || limit > EventBatchMax {
		return page, parley.Invalid("limit", "limit must be 1 to %d, not %d.", EventBatchMax, limit)
	}
	if err := checked(owner); err != nil {
		return page, err
	}
	scanEvent := func(r db.Row, e *json.RawMessage) error { return r.Scan((*[]byte)(e)) }
	err = d.read(ctx, func(t *transaction) error {
		r, err := t.response(owner, id)
		if err != nil {
			return err
		}
		page = EventPage{First: max(after, -1) + 1, Status: r.Status}
		page.Events, err = all(t, scanEvent,
			`SELECT event FROM response_events WHERE response = $1 AND n >= $2 ORDER BY n LIMIT $3`, id, page.First,
			limit)
		page.More = page.First+int64(len(page.Events)) < r.Events
		return err
	})
	return page, err
}

// FinishResponse ends a response, with its last events. Ending it again
// changes nothing.
func (d *Store) FinishResponse(ctx context.Context, owner Owner, id string, o ResponseOutcome,
	now time.Time) (r Response, err error) {
	if err := checked(owner, o.check()); err != nil {
		return r, err
	}
	err = d.write(ctx, func(t *transaction) error {
		if r, err = t.lockResponse(owner, id); err != nil {
			return err
		}
		stopped := interrupted(r.Status, r.Err)
		if r.Process == o.Batch.Process && r.Status == o.Status && !stopped {
			return nil
		}
		if r.Process != o.Batch.Process || r.Status.Ended() && !stopped {
			return ErrTaken
		}
		if err := t.finishResponse(&r, &o, now); err != nil || r.Conversation == "" || len(o.Messages) == 0 {
			return err
		}
		return t.tell(owner, r.Conversation, o.Messages, now)
	})
	return r, err
}

// tell adds what a response said to its conversation, if that is still there,
// even beside an answer that is being written: it must not get lost.
func (t *transaction) tell(owner Owner, conversation string, messages []NewMessage, now time.Time) error {
	w, err := t.open(owner, conversation, now)
	if err != nil {
		return ignore(err, ErrNotFound)
	}
	if _, err := w.addAll(w.c.Leaf, messages); err != nil {
		return err
	}
	return w.close()
}

func (t *transaction) finishResponse(r *Response, o *ResponseOutcome, now time.Time) error {
	r.bytes += bytesOf(o.Output) + int64(len(o.Body))
	if err := t.addEvents(r, &o.Batch); err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM response_items WHERE response = $1 AND side = 'output'`, r.ID); err != nil {
		return err
	}
	if err := t.addItems(r.ID, Output, o.Output); err != nil {
		return err
	}
	r.Status, r.Body, r.Usage, r.CostMicros = o.Status, o.Body, storedUsage(o.Usage), o.CostMicros
	r.Err, r.Completed = unkept(kept(o.Err)), db.Unstamp(db.Stamp(now))
	code, text := kept(o.Err)
	u := &r.Usage
	_, err := t.exec(
		`UPDATE responses SET status = $2, body = $3, tokens_in = $4, tokens_cached = $5, tokens_out = $6, cost_micros = $7, error_code = $8, error_text = $9,
			queued = $10, prefill = $11, decode = $12, events = $13, bytes = $14, completed = $15 WHERE id = $1`,
		r.ID, string(r.Status), blob(r.Body), u.PromptTokens, u.CachedTokens, u.OutputTokens, r.CostMicros, code, text,
		u.Queued.Microseconds(), u.Prefill.Microseconds(), u.Decode.Microseconds(), r.Events, r.bytes, db.Stamp(now))
	return err
}

// CancelResponse asks the server that computes the response to stop; see Progress.
// One that has ended stays as it is.
func (d *Store) CancelResponse(ctx context.Context, owner Owner, id string) (r Response, err error) {
	if err := checked(owner); err != nil {
		return r, err
	}
	err = d.write(ctx, func(t *transaction) error {
		if r, err = t.lockResponse(owner, id); err != nil || r.Status.Ended() {
			return err
		}
		r.CancelAsked = true
		_, err = t.exec(`UPDATE responses SET cancel_asked = 1 WHERE id = $1`, id)
		return err
	})
	return r, err
}

// DeleteResponse removes a response, its items and its events.
func (d *Store) DeleteResponse(ctx context.Context, owner Owner, id string) error {
	if err := checked(owner); err != nil {
		return err
	}
	return d.writeReserved(ctx, func(t *transaction) error {
		return t.touch(`DELETE FROM responses WHERE id = $1 AND tenant = $2 AND user_id = $3`, id, owner.Tenant,
			owner.User)
	})
}
