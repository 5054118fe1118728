package gateway

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/gateway/db"
	"parley/gateway/ledger"
	"parley/gateway/tenant"
	"parley/limit"
)

// A vanishing database goes away when somebody asks for the time and the change
// that gone looks for is stored.
type vanishing struct {
	*db.DB
	gone atomic.Pointer[func() bool]
}

func (v *vanishing) now() time.Time {
	if gone := v.gone.Load(); gone != nil && (*gone)() && v.gone.CompareAndSwap(gone, nil) {
		v.Close()
	}
	return time.Now()
}

// startVanishing serves with keys and a ledger in one database that can go away.
func startVanishing(t *testing.T) (*server, *tenantRig, *vanishing) {
	v, name := &vanishing{}, newStoreName(t)
	s, rig := startGuarded(t, &worker{}, name, func(c *Config) {
		v.DB = must(db.Open(context.Background(), name))(t)
		t.Cleanup(func() { v.Close() })
		store := must(tenant.New(context.Background(), v.DB))(t)
		c.Keys = must(tenant.NewKeyring(context.Background(), store, tenant.DefaultTiers(), c.Log))(t)
		t.Cleanup(c.Keys.Close)
		c.Ledger = must(ledger.Open(context.Background(), v.DB, slog.New(slog.DiscardHandler)))(t)
		t.Cleanup(func() { c.Ledger.Close() })
		c.Now = v.now
	})
	return s, rig, v
}

// TestSecretsAreToldOnceMade lets the database go away between a change and its
// answer. A secret is told then, as nobody can ask for it again; a change without
// one is answered with an error.
func TestSecretsAreToldOnceMade(t *testing.T) {
	for _, c := range []struct {
		name, path, body string
		status           int
	}{
		{"made", "", `{"name":"new","limits":{"monthly_budget":"2.50"}}`, 200},
		{"rotated", "/{key}/rotate", `{}`, 200},
		{"changed", "/{key}", `{"name":"new"}`, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			s, rig, v := startVanishing(t)
			admin, _ := rig.key(tenant.NewKey{Admin: true})
			_, old := rig.key(tenant.NewKey{Limits: limit.Limits{MonthlyBudget: 1}})
			before := must(rig.store.State(t.Context()))(t)
			if err := s.gateway.config.Keys.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			v.gone.Store(new(func() bool {
				now, err := rig.store.State(context.Background())
				return err == nil && now.Generation > before.Generation
			}))
			status, o := s.call("POST", keysPath+strings.Replace(c.path, "{key}", old, 1), c.body, bearer(admin)...)
			if v.gone.Load() != nil {
				t.Fatalf("the database did not go away: %d %v", status, o)
			}
			if status != c.status {
				t.Fatalf("%d %v", status, o)
			}
			if status != 200 {
				return
			}
			who, err := rig.ring.Identify(t.Context(), o.text("value"))
			if err != nil || who.Key != o.text("id") {
				t.Errorf("the secret of %v is %s's: %v", o, who.Key, err)
			}
		})
	}
}

// TestNobodyLocksThemselvesOut has an admin block what it acts with, which is refused, and
// another one, which is not. A deleted key comes back with its secret.
func TestNobodyLocksThemselvesOut(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	admin, own := rig.key(tenant.NewKey{Organization: "acme", User: "ann", Admin: true})
	secret, other := rig.key(tenant.NewKey{Organization: "beta"})
	if err := s.gateway.config.Keys.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path, body string
		status     int
	}{
		{projectsPath + "/acme", `{"blocked":true}`, 409},
		{projectsPath + "/acme/archive", ``, 409},
		{projectsPath + "/acme", `{"tier":"pro"}`, 200},
		{projectsPath + "/acme", `{"blocked":false}`, 200},
		{projectsPath + "/acme/users/ann", `{"blocked":true}`, 409},
		{keysPath + "/" + own, `{"blocked":true}`, 409},
		{adminKeysPath + "/" + own, `{"blocked":true}`, 409},
		{projectsPath + "/beta", `{"blocked":true}`, 200},
	} {
		status, o := s.call("POST", c.path, c.body, bearer(admin)...)
		if status != c.status {
			t.Errorf("%s %s: %d %v, want %d", c.path, c.body, status, o, c.status)
		}
		if text := o.text("error", "message"); status == 409 && !strings.Contains(text, "lock yourself out") {
			t.Errorf("%s: %s", c.path, text)
		}
	}
	if status, o := s.call("GET", keysPath+"/"+other, "", bearer(admin)...); o.text("blocked_by") != "organization" {
		t.Errorf("a key of a blocked organisation: %d %v", status, o)
	}
	for _, call := range [][3]string{
		{"POST", projectsPath + "/beta", `{"blocked":false}`},
		{"DELETE", keysPath + "/" + other, ""},
	} {
		if status, o := s.call(call[0], call[1], call[2], bearer(admin)...); status != 200 {
			t.Fatalf("%v: %d %v", call, status, o)
		}
	}
	if status, _ := s.call("GET", "/v1/models", "", bearer(secret)...); status != 401 {
		t.Errorf("a deleted key: %d", status)
	}
	for query, want := range map[string]int{"": 1, "?include_deleted=true": 2} {
		status, o := s.call("GET", keysPath+query, "", bearer(admin)...)
		if list, _ := o["data"].([]any); status != 200 || len(list) != want {
			t.Errorf("keys%s: %d %v, want %d of them", query, status, o, want)
		}
	}
	if status, o := s.call("POST", keysPath+"/"+other+"/restore", "", bearer(admin)...); status != 200 {
		t.Fatalf("restore: %d %v", status, o)
	}
	if status, _ := s.call("GET", "/v1/models", "", bearer(secret)...); status != 200 {
		t.Errorf("a restored key: %d", status)
	}
}
