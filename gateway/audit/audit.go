// Package audit keeps the record of every change that is made to a server: who
// asked for it, with which credential and from where, what changed, and how it
// was before and after. Each entry is a row in the server's database and a line
// in its log. Entries are never changed; only retention removes them.
package audit

import (
	"context"
	"crypto/rand"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"os/user"
	"strings"
	"sync"
	"time"

	"parley/gateway/db"
)

// The kinds of actors.
const (
	// APIKey is a request with an API key.
	APIKey = "api_key"
	// Account is a request of a person who is signed in; User is the account's id.
	Account = "account"
	// LocalToken is a request with the token of a server that has no keys yet.
	LocalToken = "local_token"
	// OperateToken is a request with the fleet's operate token.
	OperateToken = "operate_token"
	// Command is a command on the server's own machine that opens its store.
	Command = "command"
)

// An Actor is who asked for a change.
type Actor struct {
	// Kind is which credential was shown: one of the constants above.
	Kind string `json:"type"`
	// Organization, User and Key are those of an API key. For a command, User is
	// the account of the operating system.
	Organization string `json:"project,omitempty"`
	User         string `json:"user,omitempty"`
	Key          string `json:"api_key,omitempty"`
}

// An Entry is one change that was asked for.
type Entry struct {
	ID string    `json:"id"`
	At time.Time `json:"-"`
	// Action says what was done, such as "api_key.created".
	Action string `json:"type"`
	// Target is the id of what was changed.
	Target string `json:"target,omitempty"`
	Actor  Actor  `json:"actor"`
	// Remote is the address of the client; empty if addresses are not recorded.
	Remote string `json:"ip_address,omitempty"`
	// Request is the id of the HTTP request.
	Request string `json:"request_id,omitempty"`
	// Status is the HTTP status of the answer: 400 and above is a change that
	// was refused or failed. 0 is a command that succeeded.
	Status int `json:"status,omitempty"`
	// Before and After are what was changed, as JSON without secrets.
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// MarshalJSON writes the time as OpenAI's audit logs do.
func (e Entry) MarshalJSON() ([]byte, error) {
	type plain Entry
	return json.Marshal(struct {
		plain
		EffectiveAt int64 `json:"effective_at"`
	}{plain(e), e.At.Unix()})
}

// UnmarshalJSON reads what MarshalJSON writes.
func (e *Entry) UnmarshalJSON(text []byte) error {
	type plain Entry
	wire := struct {
		*plain
		EffectiveAt int64 `json:"effective_at"`
	}{plain: (*plain)(e)}
	if err := json.Unmarshal(text, &wire); err != nil {
		return err
	}
	e.At = time.Unix(wire.EffectiveAt, 0)
	return nil
}

//go:embed migrations
var migrations embed.FS

// A Log is the audit log in a database. It is safe for concurrent use.
type Log struct {
	db  *db.DB
	log *slog.Logger
	// keep is how long entries stay; 0 is for ever.
	keep time.Duration

	mu     sync.Mutex
	purged time.Time
}

// Open brings the log's tables up to date. Entries older than keep are removed
// now and then while others are written; 0 keeps all.
func Open(ctx context.Context, d *db.DB, keep time.Duration, log *slog.Logger) (*Log, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	if err := d.Migrate(ctx, db.Schema{Versions: "audit_migrations", Migrations: files}); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	return &Log{db: d, keep: keep, log: log}, nil
}

// AppendCommand writes what a command changed on the store, in the name of the account of
// the machine that runs it. A document is nil where there is none.
func (l *Log) AppendCommand(ctx context.Context, now time.Time, action, target string, before, after any) error {
	e := Entry{At: now, Action: action, Target: target, Actor: Actor{Kind: Command}}
	if account, err := user.Current(); err == nil {
		e.Actor.User = account.Username
	}
	for _, side := range []struct {
		document any
		into     *json.RawMessage
	}{{before, &e.Before}, {after, &e.After}} {
		if side.document == nil {
			continue
		}
		text, err := json.Marshal(side.document)
		if err != nil {
			return err
		}
		*side.into = text
	}
	if err := l.Append(ctx, e); err != nil {
		return fmt.Errorf("the change was made, but could not be written to the audit log: %w", err)
	}
	return nil
}

// Append writes an entry: first as a log line, which cannot fail, then to the
// database, also when its disk is full. It gives the entry its ID.
func (l *Log) Append(ctx context.Context, e Entry) error {
	e.ID = "audit_log-" + strings.ToLower(rand.Text())
	e.Target = printable(e.Target) // may be any path of a request
	l.log.LogAttrs(ctx, slog.LevelInfo, "audit", e.attributes()...)
	err := l.db.WriteReserved(ctx, func(t *db.Tx) error {
		_, err := t.Exec(
			`INSERT INTO audit_log (`+columns+`) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
			e.ID, db.Stamp(e.At), e.Action, e.Target, e.Actor.Kind, e.Actor.Organization, e.Actor.User, e.Actor.Key,
			e.Remote, e.Request, e.Status, string(e.Before), string(e.After))
		return err
	})
	if err == nil && l.purgeDue(e.At) {
		err = l.Purge(ctx, e.At.Add(-l.keep))
	}
	return err
}

// purgeEvery is how often entries that are too old are looked for.
const purgeEvery = time.Hour

func (l *Log) purgeDue(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.keep == 0 || now.Sub(l.purged) < purgeEvery {
		return false
	}
	l.purged = now
	return true
}

// printable bounds a text, and leaves out what a database does not store.
func printable(text string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), 256)], ""), "\x00", "")
}

const columns = `id, at, action, target, actor_kind, organization, user_id, key_id, remote, request_id, status, before_change, after_change`

func (e *Entry) attributes() []slog.Attr {
	attrs := []slog.Attr{slog.String("audit_id", e.ID), slog.String("action", e.Action),
		slog.String("actor", e.Actor.Kind)}
	for _, a := range []struct{ name, value string }{
		{"target", e.Target},
		{"organization", e.Actor.Organization},
		{"user", e.Actor.User},
		{"key", e.Actor.Key},
		{"remote", e.Remote},
		{"id", e.Request},
		{"before", string(e.Before)},
		{"after", string(e.After)},
	} {
		if a.value != "" {
			attrs = append(attrs, slog.String(a.name, a.value))
		}
	}
	if e.Status != 0 {
		attrs = append(attrs, slog.Int("status", e.Status))
	}
	return attrs
}

// A Filter chooses entries. Fields that are empty choose all.
type Filter struct {
	// Action chooses one action, or all that begin with it if it ends in a dot.
	Action string
	// Actor is the id of a key, user or tenant that acted.
	Actor  string
	Target string
	// Since and Until bound the time.
	Since, Until time.Time
	// After is the ID of the entry that the page before ended with.
	After string
	// Limit is how many to return at most.
	Limit int
}

// List returns entries, the latest first.
func (l *Log) List(ctx context.Context, f Filter) (list []Entry, err error) {
	query, args := f.query()
	return list, l.db.Read(ctx, func(t *db.Tx) (err error) {
		list, err = db.All(t, scan, query, args...)
		return err
	})
}

func (f *Filter) query() (string, []any) {
	where, args := []string{"TRUE"}, []any{}
	add := func(condition string, values ...any) {
		for _, v := range values {
			args = append(args, v)
			condition = strings.Replace(condition, "?", fmt.Sprintf("$%d", len(args)), 1)
		}
		where = append(where, condition)
	}
	switch {
	case strings.HasSuffix(f.Action, "."):
		add("substr(action, 1, ?) = ?", len(f.Action), f.Action)
	case f.Action != "":
		add("action = ?", f.Action)
	}
	if f.Actor != "" {
		add("(key_id = ? OR user_id = ? OR organization = ?)", f.Actor, f.Actor, f.Actor)
	}
	if f.Target != "" {
		add("target = ?", f.Target)
	}
	if !f.Since.IsZero() {
		add("at >= ?", db.Stamp(f.Since))
	}
	if !f.Until.IsZero() {
		add("at < ?", db.Stamp(f.Until))
	}
	if f.After != "" {
		add("(at, id) < (SELECT at, id FROM audit_log WHERE id = ?)", f.After)
	}
	args = append(args, f.Limit)
	return fmt.Sprintf(`SELECT %s FROM audit_log WHERE %s ORDER BY at DESC, id DESC LIMIT $%d`,
		columns, strings.Join(where, " AND "), len(args)), args
}

func scan(r db.Row, e *Entry) error {
	var at, status int64
	var before, after string
	err := r.Scan(&e.ID, &at, &e.Action, &e.Target, &e.Actor.Kind, &e.Actor.Organization, &e.Actor.User, &e.Actor.Key,
		&e.Remote, &e.Request, &status, &before, &after)
	e.At, e.Status = db.Unstamp(at), int(status)
	if before != "" {
		e.Before = json.RawMessage(before)
	}
	if after != "" {
		e.After = json.RawMessage(after)
	}
	return err
}

// purgeAtOnce is how many entries one transaction removes.
const purgeAtOnce = 500

// Purge removes entries from before a time, in small transactions.
func (l *Log) Purge(ctx context.Context, before time.Time) error {
	for {
		var removed int64
		err := l.db.WriteReserved(ctx, func(t *db.Tx) (err error) {
			removed, err = t.Exec(`DELETE FROM audit_log WHERE id IN (SELECT id FROM audit_log WHERE at < $1 LIMIT $2)`,
				db.Stamp(before), purgeAtOnce)
			return err
		})
		if err != nil || removed < purgeAtOnce {
			return err
		}
	}
}
