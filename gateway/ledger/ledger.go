package ledger

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley"
	"parley/gateway/db"
	"parley/limit"
)

//go:embed migrations
var migrationFiles embed.FS

// A Ledger writes entries and sums them up. It is safe for concurrent use.
type Ledger struct {
	db  *db.DB
	log *slog.Logger
	// inserts write as many entries as rowsAtOnce says.
	inserts [len(rowsAtOnce)]*db.Statement
	// args is room for the values of one statement. It belongs to the writer.
	args []any

	mu      sync.Mutex
	waiting []*pending
	closed  bool
	// wake signals the writer that entries wait.
	wake   chan struct{}
	stop   context.CancelFunc
	writer sync.WaitGroup
}

// A pending entry waits to be written.
type pending struct {
	Entry
	written chan struct{}
}

// rowsAtOnce is how many entries are written by one statement: each statement
// costs about as much as two rows.
var rowsAtOnce = [...]int{48, 16, 8, 4, 2, 1}

const (
	// waitingMax bounds how many entries wait while the database is away.
	waitingMax = 200_000
	retryEvery = 250 * time.Millisecond
	// A commit costs as much as many rows. Where more than crowd came for the last
	// one, the next waits for more; see pause.
	crowd        = 4
	crowdWait    = 5 * time.Millisecond
	crowdWaitMax = 20 * time.Millisecond
	closeWait    = 10 * time.Second
)

// Open brings the ledger's tables up to date. The caller closes d, after
// [Ledger.Close].
func Open(ctx context.Context, d *db.DB, log *slog.Logger) (*Ledger, error) {
	files, err := fs.Sub(migrationFiles, "migrations")
	if err != nil {
		return nil, err
	}
	if err := d.Migrate(ctx, db.Schema{Versions: "ledger_versions", Migrations: files}); err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l := &Ledger{db: d, log: log, wake: make(chan struct{}, 1),
		args: make([]any, 0, rowsAtOnce[0]*(strings.Count(columns, ",")+1))}
	for i, rows := range rowsAtOnce {
		if l.inserts[i], err = d.Prepare(ctx, insertOf(rows)); err != nil {
			return nil, fmt.Errorf("ledger: %w", err)
		}
	}
	background, stop := context.WithCancel(context.Background())
	l.stop = stop
	l.writer.Go(func() { l.write(background) })
	return l, nil
}

// Append writes an entry and returns when it is safe. If ctx ends before that, or
// the database is away, it returns an error and the entry is written later: it is
// lost only if the process ends before. An entry that is there already changes
// nothing.
func (l *Ledger) Append(ctx context.Context, e *Entry) error {
	p, err := l.enqueue(e)
	if err != nil {
		return err
	}
	select {
	case <-p.written:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// AppendWithin is Append for a caller that waits for a time only. The entry is written in any case.
func (l *Ledger) AppendWithin(most time.Duration, e *Entry) error {
	p, err := l.enqueue(e)
	if err != nil {
		return err
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case <-p.written:
		return nil
	case <-late.C:
		return context.DeadlineExceeded
	}
}

// enqueue has an entry written with those that wait.
func (l *Ledger) enqueue(e *Entry) (*pending, error) {
	p := &pending{Entry: *e, written: make(chan struct{})}
	l.mu.Lock()
	if l.closed || len(l.waiting) >= waitingMax {
		l.mu.Unlock()
		return nil, parley.Errorf(parley.Unavailable,
			"The ledger cannot be written: its database is unreachable or closed.")
	}
	l.waiting = append(l.waiting, p)
	l.mu.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
	return p, nil
}

// write writes what waits, all of it at once, until ctx ends.
func (l *Ledger) write(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-l.wake:
		}
		n, err := l.writeWaiting(ctx)
		for err != nil && ctx.Err() == nil {
			time.Sleep(retryEvery)
			n, err = l.writeWaiting(ctx)
		}
		time.Sleep(pause(n))
	}
}

// pause is how long to wait for more after a commit of entries: not at all where few
// end, and a millisecond for each where many do. That grows to its limit
// only where more than a thousand end in a second, and there a commit for each few
// would be a tenth of all work.
func pause(entries int) time.Duration {
	if entries <= crowd {
		return 0
	}
	return min(max(crowdWait, time.Duration(entries)*time.Millisecond), crowdWaitMax)
}

// writeWaiting writes what waits now, in one transaction.
func (l *Ledger) writeWaiting(ctx context.Context) (int, error) {
	l.mu.Lock()
	batch := l.waiting
	l.waiting = nil
	l.mu.Unlock()
	if len(batch) == 0 {
		return 0, nil
	}
	err := l.db.Write(l.lasting(ctx), func(t *db.Tx) error { return l.insert(t, batch) })
	if err != nil {
		l.log.Error("ledger write failed; retrying", "entries", len(batch), "error", err)
		l.mu.Lock()
		l.waiting = append(batch, l.waiting...)
		l.mu.Unlock()
		return 0, err
	}
	for _, p := range batch {
		close(p.written)
	}
	return len(batch), nil
}

const columns = `id, at, organization, user_id, key_id, model, tier, route, input, cached, output, cost_micros, ` +
	`worker, reason, outcome, shared, batch, stages, estimated, tags, internal`

// appendTo appends the values of the columns.
func (e *Entry) appendTo(args []any) []any {
	return append(args, e.ID, db.Stamp(e.At), e.Organization, e.User, e.Key, e.Model, e.Tier.String(), e.Route, e.Input,
		e.Cached, e.Output, int64(e.Cost),
		e.Worker, e.Reason, e.Outcome, db.Flag(e.Shared), db.Flag(e.Batch), e.Stages.text(), db.Flag(e.Estimated),
		e.Tags.text(), db.Flag(e.Internal))
}

// text returns the times in microseconds, in order.
func (s *Stages) text() string {
	b := make([]byte, 0, 64)
	for i, d := range s {
		if i > 0 {
			b = append(b, ' ')
		}
		b = strconv.AppendInt(b, d.Microseconds(), 10)
	}
	return string(b)
}

// lasting is ctx for a transaction. A file is never away for long, and what can be
// broken off costs SQLite a goroutine for each statement.
func (l *Ledger) lasting(ctx context.Context) context.Context {
	if l.db.Kind() == db.SQLite {
		return context.WithoutCancel(ctx)
	}
	return ctx
}

// insertOf is the statement for a number of rows.
func insertOf(rows int) string {
	row := strings.Count(columns, ",") + 1
	var values []string
	for i := range rows {
		var places []string
		for n := range row {
			places = append(places, "$"+strconv.Itoa(i*row+n+1))
		}
		values = append(values, "("+strings.Join(places, ", ")+")")
	}
	return "INSERT INTO ledger (" + columns + ") VALUES " + strings.Join(values,
		", ") + " ON CONFLICT (at, id) DO NOTHING"
}

// insert writes entries that are not there yet. A commit whose outcome was not
// known is repeated by that.
func (l *Ledger) insert(t *db.Tx, entries []*pending) error {
	args := l.args
	defer func() { clear(args[:cap(args)]) }()
	for i, rows := range rowsAtOnce {
		for len(entries) >= rows {
			args = args[:0]
			for _, e := range entries[:rows] {
				args = e.appendTo(args)
			}
			if err := t.Run(l.inserts[i], args...); err != nil {
				return err
			}
			entries = entries[rows:]
		}
	}
	return nil
}

// Close writes what waits and ends the writer.
func (l *Ledger) Close() error {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.stop()
	l.writer.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), closeWait)
	defer cancel()
	_, err := l.writeWaiting(ctx)
	return err
}

// purgeAtOnce bounds how much one transaction removes, so that others wait little.
const purgeAtOnce = 500

// Purge removes entries from before a time.
func (l *Ledger) Purge(ctx context.Context, before time.Time) error {
	for {
		var removed int64
		err := l.db.Write(ctx, func(t *db.Tx) (err error) {
			removed, err = t.Exec(
				`DELETE FROM ledger WHERE at < $1 AND (at, id) IN (SELECT at, id FROM ledger WHERE at < $1 ORDER BY at LIMIT $2)`, db.Stamp(before), purgeAtOnce)
			return err
		})
		if err != nil || removed == 0 {
			return err
		}
	}
}

// SaveAccounts keeps what accounts have used of their limits.
func (l *Ledger) SaveAccounts(ctx context.Context, changed map[string]limit.State) error {
	return l.db.Write(ctx, func(t *db.Tx) error {
		for name, s := range changed {
			_, err := t.Exec(`INSERT INTO limit_accounts (name, at, by_second, by_minute, input, output, light)
				VALUES ($1, $2, $3, $4, $5, $6, $7)
				ON CONFLICT (name) DO UPDATE SET at = $2, by_second = $3, by_minute = $4, input = $5, output = $6, light = $7`,
				name, s.At, s.Debt[0], s.Debt[1], s.Debt[2], s.Debt[3], s.Debt[4])
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// accountsKept is how long an account is remembered that is not used: longer
// than any bucket takes to fill.
const accountsKept = time.Hour

// LoadAccounts returns what SaveAccounts kept and still matters at now, and
// forgets the rest.
func (l *Ledger) LoadAccounts(ctx context.Context, now time.Time) (map[string]limit.State, error) {
	kept := map[string]limit.State{}
	err := l.db.Write(ctx, func(t *db.Tx) error {
		if _, err := t.Exec(`DELETE FROM limit_accounts WHERE at < $1`, db.Stamp(now.Add(-accountsKept))); err != nil {
			return err
		}
		_, err := db.All(t, func(r db.Row, _ *struct{}) error {
			var name string
			var s limit.State
			err := r.Scan(&name, &s.At, &s.Debt[0], &s.Debt[1], &s.Debt[2], &s.Debt[3], &s.Debt[4])
			kept[name] = s
			return err
		}, `SELECT name, at, by_second, by_minute, input, output, light FROM limit_accounts`)
		return err
	})
	return kept, err
}
