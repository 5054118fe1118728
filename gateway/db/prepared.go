package db

import (
	"context"
	"database/sql"
	"regexp"
)

// A Statement is a statement that is run again and again. SQLite reads it once;
// PostgreSQL's driver remembers by itself.
type Statement struct {
	query string
	stmt  *sql.Stmt
}

// Prepare prepares a statement for [DB.Write], whose parameters stand in their
// order, each once. It must not be called in a transaction. The database's end is
// its own.
func (d *DB) Prepare(ctx context.Context, query string) (*Statement, error) {
	p := &Statement{query: query}
	if d.kind != SQLite {
		return p, nil
	}
	var err error
	p.stmt, err = d.writer.PrepareContext(ctx, numbered.ReplaceAllString(query, "?"))
	return p, d.explain(ctx, err)
}

// numbered parameters have names, which SQLite looks for in a list.
var numbered = regexp.MustCompile(`\$\d+`)

// Run runs a prepared statement.
func (t *Tx) Run(p *Statement, args ...any) error {
	if p.stmt == nil {
		_, err := t.Exec(p.query, args...)
		return err
	}
	if err := findable(args); err != nil {
		return err
	}
	_, err := t.tx.StmtContext(t.ctx, p.stmt).ExecContext(t.ctx, args...)
	return err
}
