package gateway

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/ledger"
	"parley/gateway/limit"
	"parley/gateway/openai"
	"parley/gateway/tenant"
)

// batchOf uploads a batch of so many chats and returns its id.
func (s *server) batchOf(chats int, extra string, headers ...string) string {
	s.t.Helper()
	var lines strings.Builder
	for i := range chats {
		fmt.Fprintf(&lines, `{"custom_id":"c%d","method":"POST","url":"/v1/chat/completions","body":%s}`+"\n", i, chatBody(extra))
	}
	contentType, body := form("purpose", "batch", "file", lines.String())
	_, file := s.do("POST", "/v1/files", body, append([]string{"Content-Type", contentType}, headers...)...)
	request := `{"input_file_id":"` + decode[openai.File](s.t, file).ID + `","endpoint":"/v1/chat/completions","completion_window":"24h"}`
	r, made := s.do("POST", "/v1/batches", request, headers...)
	if r.StatusCode != 200 {
		s.t.Fatalf("%d: %s", r.StatusCode, made)
	}
	return decode[openai.Batch](s.t, made).ID
}

// batchNow returns how far a batch is, and its results that are errors.
func (s *server) batchNow(id string, headers ...string) (now openai.Batch, failures string) {
	s.t.Helper()
	_, body := s.do("GET", "/v1/batches/"+id, "", headers...)
	now = decode[openai.Batch](s.t, body)
	if now.ErrorFileID != "" {
		_, failures = s.do("GET", "/v1/files/"+now.ErrorFileID+"/content", "", headers...)
	}
	return now, failures
}

// usedBy sums up the ledger of one key.
func (s *server) usedBy(key string) (sum ledger.Sum) {
	s.t.Helper()
	sums, err := s.gateway.config.Ledger.Sums(s.t.Context(), ledger.Query{From: time.Unix(1, 0), To: time.Now().Add(time.Hour), Only: map[ledger.By][]string{ledger.ByKey: {key}}})
	if err != nil || len(sums) > 1 {
		s.t.Fatalf("%v, %v", sums, err)
	}
	for _, sum = range sums {
	}
	return sum
}

// startKeyed serves w to those with keys, and meters them.
func startKeyed(t *testing.T, w parley.Worker) (*server, *tenantRig) {
	meter := metered(t)
	return startGuarded(t, w, newStoreName(t), func(c *Config) {
		store := c.Store
		meter(c)
		c.Store = store
	})
}

// TestBatchesObeyTheirKey has a key leave a batch that is larger than its limits:
// its requests are made as the limits of the key allow, and are the key's in the
// ledger, whichever secret it has by then.
func TestBatchesObeyTheirKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rig := startKeyed(t, &worker{script: speak(t, "Hello", 0)})
		secret, id := rig.key(tenant.NewKey{Organization: "acme", User: "ann", Limits: limit.Limits{RequestsPerMinute: 2}})
		other, _ := rig.key(tenant.NewKey{Organization: "acme", User: "ann"})
		b := s.batchOf(5, `,"max_tokens":9`, bearer(secret)...)
		time.Sleep(time.Second)
		if got := s.usedBy(id); got.Requests != 2 {
			t.Errorf("at once the key's ledger has %+v", got)
		}
		if r, body := s.do("POST", "/v1/chat/completions", chatBody(""), bearer(secret)...); r.StatusCode != 429 || !strings.Contains(body, "rate_limit_exceeded") {
			t.Errorf("beside its batch the key gets %d: %s", r.StatusCode, body)
		}
		if r, body := s.do("POST", "/v1/chat/completions", chatBody(""), bearer(other)...); r.StatusCode != 200 {
			t.Errorf("another key gets %d: %s", r.StatusCode, body)
		}
		_, secret, err := rig.store.RotateKey(t.Context(), id, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Minute)
		now, failures := s.batchNow(b, bearer(secret)...)
		if now.Status != openai.BatchCompleted || now.RequestCounts.Completed != 5 {
			t.Errorf("%+v: %s", now, failures)
		}
		if got := s.usedBy(id); got.Requests != 5 || got.Output != 5*int64(len(tokensOf(t, "Hello"))) {
			t.Errorf("in the end the key's ledger has %+v", got)
		}
	})
}

// TestBatchesEndWithTheirKey has a key lose its right while its batch waits for
// room: what is left of the batch fails, and says why.
func TestBatchesEndWithTheirKey(t *testing.T) {
	yes := true
	for name, c := range map[string]struct {
		end  func(t *testing.T, store *tenant.Store, key string) error
		want string
	}{
		"blocked": {func(t *testing.T, store *tenant.Store, key string) error {
			_, err := store.ChangeKey(t.Context(), key, tenant.KeyChange{Blocked: &yes})
			return err
		}, "This API key is blocked"},
		"deleted": {func(t *testing.T, store *tenant.Store, key string) error {
			return store.DeleteKey(t.Context(), key)
		}, "was deleted"},
		"user blocked": {func(t *testing.T, store *tenant.Store, _ string) error {
			return store.BlockUser(t.Context(), "acme", "ann", true)
		}, "This API key is blocked"},
		"expired": {func(t *testing.T, store *tenant.Store, key string) error {
			now := time.Now()
			_, err := store.ChangeKey(t.Context(), key, tenant.KeyChange{Expires: &now})
			return err
		}, "has expired"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, rig := startKeyed(t, &worker{script: speak(t, "Hello", 0)})
				secret, id := rig.key(tenant.NewKey{Organization: "acme", User: "ann", Limits: limit.Limits{RequestsPerMinute: 1}})
				b := s.batchOf(20, `,"max_tokens":9`, bearer(secret)...)
				time.Sleep(time.Second)
				if err := c.end(t, rig.store, id); err != nil {
					t.Fatal(err)
				}
				time.Sleep(10 * time.Minute)
				if err := rig.store.BlockUser(t.Context(), "acme", "ann", false); err != nil {
					t.Fatal(err)
				}
				reader, _ := rig.key(tenant.NewKey{Organization: "acme", User: "ann"})
				now, failures := s.batchNow(b, bearer(reader)...)
				if now.RequestCounts != (openai.BatchRequestCounts{Total: 20, Completed: 1, Failed: 19}) || strings.Count(failures, c.want) != 19 || strings.Count(failures, `"status_code":401`) != 19 {
					t.Errorf("%+v: %.600s", now, failures)
				}
				if got := s.usedBy(id); got.Requests != 1 {
					t.Errorf("the key's ledger has %+v", got)
				}
			})
		})
	}
}
