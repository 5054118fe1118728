package gateway

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"parley/gateway/batch"
	"parley/gateway/convo"
	"parley/gateway/db"
	"parley/gateway/ledger"
	"parley/gateway/openai"
)

// TestRetentionRemoves keeps the ledger for 32 days and files for a day: what is older
// is gone without anyone asking for it, and what is younger stays.
func TestRetentionRemoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const day = 24 * time.Hour
		d := must(db.Open(t.Context(), newStoreName(t)))(t)
		t.Cleanup(func() { d.Close() })
		book := must(ledger.Open(context.Background(), d, slog.New(slog.DiscardHandler)))(t)
		t.Cleanup(func() { _ = book.Close() })
		files := must(batch.Open(t.TempDir(), batch.Limits{Keep: 2 * time.Hour}))(t)
		t.Cleanup(func() { files.Close() })
		startKept(t, &worker{}, func(c *Config) {
			c.Ledger, c.Batches, c.Retention.Ledger = book, files, 32*day
		})
		begun := time.Now()
		for _, ago := range []time.Duration{40 * day, 20 * day} {
			e := &ledger.Entry{ID: ago.String(), At: begun.Add(-ago), Organization: "acme", Model: modelID}
			if err := book.Append(t.Context(), e); err != nil {
				t.Fatal(err)
			}
		}
		store := files.Of(convo.Owner{Tenant: "acme"})
		u := must(store.NewUpload())(t)
		if _, err := u.Write([]byte("{}\n")); err != nil {
			t.Fatal(err)
		}
		file := must(u.Keep("f", openai.FilePurpose, 0, begun))(t)
		time.Sleep(90 * time.Minute)
		if rows := ledgerRows(t, d); rows != 1 {
			t.Errorf("%d entries are in the ledger, want the younger one", rows)
		}
		if _, err := store.File(file.ID); err != nil {
			t.Errorf("the file is gone too early: %v", err)
		}
		time.Sleep(2 * time.Hour)
		if _, err := store.File(file.ID); err == nil {
			t.Error("the file is still there")
		}
	})
}

// ledgerRows counts what the ledger has.
func ledgerRows(t *testing.T, d *db.DB) (n int) {
	t.Helper()
	err := d.Read(t.Context(), func(tx *db.Tx) error { return tx.One(`SELECT count(*) FROM ledger`, nil, &n) })
	if err != nil {
		t.Fatal(err)
	}
	return n
}
