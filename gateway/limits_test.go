package gateway

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/batch"
	"parley/gateway/book"
	"parley/gateway/ledger"
	"parley/gateway/openai"
	"parley/gateway/tenant"
	"parley/limit"
)

// batchOf uploads a batch of so many chats and returns its id.
func (s *server) batchOf(chats int, extra string, headers ...string) string {
	s.t.Helper()
	var lines strings.Builder
	for i := range chats {
		fmt.Fprintf(&lines, `{"custom_id":"c%d","method":"POST","url":"/v1/chat/completions","body":%s}`+"\n", i,
			chatBody(extra))
	}
	contentType, body := form("purpose", "batch", "file", lines.String())
	_, file := s.do("POST", "/v1/files", body, append([]string{"Content-Type", contentType}, headers...)...)
	request := `{"input_file_id":"` + decode[openai.File](s.t,
		file).ID + `","endpoint":"/v1/chat/completions","completion_window":"24h"}`
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
	sums, err := s.gateway.config.Ledger.Sums(s.t.Context(), ledger.Query{From: time.Unix(1, 0),
		To: time.Now().Add(time.Hour), Only: map[ledger.By][]string{ledger.ByKey: {key}}})
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
		// a file and a batch are two
		secret, id := rig.key(tenant.NewKey{Organization: "acme", User: "ann",
			Limits: limit.Limits{RequestsPerMinute: 4}})
		other, _ := rig.key(tenant.NewKey{Organization: "acme", User: "ann"})
		b := s.batchOf(5, `,"max_tokens":9`, bearer(secret)...)
		time.Sleep(2 * time.Second)
		if got := s.usedBy(id); got.Requests != 2 {
			t.Errorf("at once the key's ledger has %+v", got)
		}
		if r, body := s.do("POST", "/v1/chat/completions", chatBody(""), bearer(secret)...); r.StatusCode != 429 ||
			!strings.Contains(body, "Rate limit of your key reached") {
			t.Errorf("beside its batch the key gets %d: %s", r.StatusCode, body)
		}
		time.Sleep(time.Second) // the tier allows two a second
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

// TestBatchesOfASpentBudgetFailAtOnce has a key leave a batch for which it has no
// money: to ask again changes nothing.
func TestBatchesOfASpentBudgetFailAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rig := startKeyed(t, &worker{script: speak(t, "Hello", 0)})
		secret, id := rig.key(tenant.NewKey{Organization: "acme", Limits: limit.Limits{MonthlyBudget: 1}})
		b := s.batchOf(3, `,"max_tokens":9`, bearer(secret)...)
		time.Sleep(time.Second / 2)
		now, failures := s.batchNow(b, bearer(secret)...)
		if now.Status != openai.BatchCompleted || now.RequestCounts.Failed != 3 ||
			!strings.Contains(failures, "insufficient_quota") {
			t.Errorf("%+v: %s", now, failures)
		}
		if got := s.usedBy(id); got.Requests != 0 {
			t.Errorf("the key's ledger has %+v", got)
		}
	})
}

// TestSmallLimitsHoldUpNobody has a key leave more than its limits allow for hours,
// and another key a batch after that.
func TestSmallLimitsHoldUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, rig := startKeyed(t, &worker{script: speak(t, "Hello", 0)})
		slow, slowID := rig.key(tenant.NewKey{Organization: "acme", Limits: limit.Limits{RequestsPerMinute: 3}})
		quick, _ := rig.key(tenant.NewKey{Organization: "other"})
		s.batchOf(100, `,"max_tokens":9`, bearer(slow)...)
		time.Sleep(time.Second)
		b := s.batchOf(10, `,"max_tokens":9`, bearer(quick)...)
		time.Sleep(20 * time.Second) // its tier allows two a second
		if now, failures := s.batchNow(b, bearer(quick)...); now.RequestCounts.Completed != 10 {
			t.Errorf("behind a batch that waits: %+v: %s", now, failures)
		}
		time.Sleep(10 * time.Minute)
		if got := s.usedBy(slowID).Requests; got < 28 || got > 34 {
			t.Errorf("%d requests of a minute's limit of 3 in ten minutes", got)
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
				secret, id := rig.key(tenant.NewKey{Organization: "acme", User: "ann",
					Limits: limit.Limits{RequestsPerMinute: 3}})
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
				if now.RequestCounts != (openai.BatchRequestCounts{Total: 20, Completed: 1, Failed: 19}) ||
					strings.Count(failures, c.want) != 19 || strings.Count(failures, `"status_code":401`) != 19 {
					t.Errorf("%+v: %.600s", now, failures)
				}
				if got := s.usedBy(id); got.Requests != 1 {
					t.Errorf("the key's ledger has %+v", got)
				}
			})
		})
	}
}

// A tally is a worker that finds, whenever it is asked, whether just what it may
// come to use is held of the budget of acme.
type tally struct {
	*worker
	server *server
	asked  atomic.Int64
}

// enough is a budget that nothing here comes near.
const enough limit.Micros = 1 << 30

// tallied serves a tally to acme, which has a budget and pays what metered says.
func tallied(t *testing.T, change ...func(*Config)) *tally {
	w := &tally{}
	w.worker = &worker{script: func(r *parley.Request) []say {
		w.asked.Add(1)
		held := limit.Micros(10*len(r.Prompt) + 100*r.MaxTokens)
		w.wantLeft("while it is written", enough-w.server.used().Cost-held)
		return speech(t, r, 0, "Yes<|im_end|>")
	}}
	w.server = start(t, w, append([]func(*Config){metered(t), roomy}, change...)...)
	closing(t, w.server)
	w.server.limited(limit.Limits{MonthlyBudget: enough})
	return w
}

// wantLeft wants that so much is left of the budget, no more and no less.
func (w *tally) wantLeft(when string, left limit.Micros) {
	w.server.t.Helper()
	for _, more := range []limit.Micros{1, 0} {
		probe := &limit.Hold{ID: fmt.Sprint("probe ", when, more), Group: "acme", Use: limit.Use{Cost: left + more},
			Accounts: []limit.Account{{Name: "acme", Limits: limit.Limits{MonthlyBudget: enough}}}}
		v, err := w.server.gateway.config.Limits.Reserve(w.server.t.Context(), probe)
		if err != nil || (v.Refused == "") != (more == 0) {
			w.server.t.Errorf("%s %d more than %d is taken: %+v, %v", when, more, left, v, err)
		}
		if v.Refused == "" {
			w.server.gateway.config.Limits.Settle(probe, limit.Use{})
		}
	}
}

// overSocket sends one frame and returns what comes back, up to the end or to an
// error.
func (s *server) overSocket(path, frame, last string) string {
	conn := s.mustDial(path)
	defer conn.CloseNow()
	sendFrame(s.t, conn, frame)
	var all strings.Builder
	for {
		_, got, err := conn.Read(s.t.Context())
		if err != nil {
			s.t.Fatalf("%v after %s", err, all.String())
		}
		all.Write(got)
		if text := string(got); strings.Contains(text, last) ||
			strings.Contains(text, `"error"`) && !strings.Contains(text, `"error":null`) {
			return all.String()
		}
	}
}

// TestEveryWayIsHeldToLimits asks in the ways that are not a plain request with
// its answer: what one may use is held while it is written, what it used is
// charged, and it is refused when there is no more, as the interface has it.
func TestEveryWayIsHeldToLimits(t *testing.T) {
	for name, ask := range map[string]func(s *server) string{
		"fim": func(s *server) string {
			_, body := s.fim(`,"prompt":"a","suffix":"c","max_tokens":9`)
			return body
		},
		"fim streamed": func(s *server) string {
			_, body := s.fim(`,"prompt":"a","suffix":"c","max_tokens":9,"stream":true`)
			return body
		},
		"chat socket": func(s *server) string {
			return s.overSocket("/v1/chat/completions", chatBody(`,"max_tokens":9`), "[DONE]")
		},
		"response socket": func(s *server) string {
			return s.overSocket("/v1/responses",
				`{"type":"response.create","model":"`+modelID+`","input":"Hi","max_output_tokens":9}`,
				"response.completed")
		},
		"batch": func(s *server) string {
			id := s.batchOf(1, `,"max_tokens":9`)
			time.Sleep(5 * time.Minute)
			_, failures := s.batchNow(id)
			return failures
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := must(batch.Open(t.TempDir(), batch.Limits{}))(t)
				t.Cleanup(func() { store.Close() })
				w := tallied(t, func(c *Config) { c.Batches = store })
				s := w.server
				answer := ask(s)
				cost := w.wantSettled(answer, 1, 0)
				for want, l := range map[string]limit.Limits{"insufficient_quota": {MonthlyBudget: cost + 1},
					"rate_limit_exceeded": {InputTokensPerMinute: 1}} {
					s.limited(l)
					if answer := ask(s); !strings.Contains(answer, `"`+want+`"`) {
						t.Errorf("with nothing left: %s", answer)
					}
				}
				w.wantSettled("refused", 1, 0)
			})
		})
	}
}

// wantSettled wants that all the worker was asked for is in the ledger and gone
// from the budget, and nothing else; what the server asked for itself, internal times, is
// paid for and is not a request. It returns what that cost.
func (w *tally) wantSettled(answer string, asked, internal int64) limit.Micros {
	w.server.t.Helper()
	synctest.Wait()
	got := w.server.used()
	if n := w.asked.Load(); n != asked || got.Requests != asked-internal ||
		got.Output != asked*int64(len(tokensOf(w.server.t, "Yes<|im_end|>"))) || got.Cost == 0 {
		w.server.t.Errorf("the worker was asked %d times, want %d; the ledger has %+v: %s", n, asked, got, answer)
	}
	w.wantLeft("after it", enough-got.Cost)
	return got.Cost
}

// TestTitlesAreHeldToLimits has a budget that is enough for a turn and not for its
// title: the conversation is called by what was asked.
func TestTitlesAreHeldToLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := tallied(t, func(c *Config) { c.NoTitles = false })
		s := w.server
		s.tell(s.converse(""), "Greet me, please.", `,"max_tokens":9`)
		s.gateway.runs.Wait()
		cost := w.wantSettled("a turn and its title", 2, 1)
		s.limited(limit.Limits{MonthlyBudget: cost + 24*100})
		path := s.converse("")
		s.tell(path, "Greet me, please.", `,"max_tokens":9`)
		s.gateway.runs.Wait()
		if n := w.asked.Load(); n != 3 {
			t.Errorf("the worker was asked %d times", n)
		}
		if _, o := s.call("GET", path, ""); o.text("title") != "Greet me, please" {
			t.Errorf("without a budget for a title: %v", o)
		}
	})
}

// TestSummariesAreHeldToLimits has a conversation outgrow its context with a budget
// that is enough for a turn and not for a summary.
func TestSummariesAreHeldToLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := tallied(t, func(c *Config) { c.Models[0].ContextTokens = 300 })
		s := w.server
		path := s.converse(`,"context_policy":"drop"`)
		grow := func() (int, object) {
			return s.call("POST", path+"/messages",
				`{"model":"`+modelID+`","max_tokens":1,"content":"`+strings.Repeat("long ", 12)+`"}`)
		}
		policy := func(p string) { s.call("POST", path, `{"context_policy":"`+p+`"}`) }
		for n := 0; ; n++ {
			if status, o := grow(); status != 200 || n == 20 {
				t.Fatalf("%d: %v", status, o)
			} else if o["context"] != nil {
				break
			}
		}
		cost := w.wantSettled("turns", w.asked.Load(), 0)
		const turn = 10*300 + 100
		s.limited(limit.Limits{MonthlyBudget: cost + turn})
		policy("summarise")
		before := w.asked.Load()
		if status, o := grow(); status != 429 || o.text("error", "code") != "insufficient_quota" ||
			w.asked.Load() != before {
			t.Errorf("without a budget for the summary: %d: %v", status, o)
		}
		w.wantSettled("refused", before, 0)
		s.limited(limit.Limits{MonthlyBudget: enough, ConcurrentRequests: 1})
		if status, o := grow(); status != 200 || o.text("context", "policy") != "summarise" {
			t.Errorf("with a budget for it: %d: %v", status, o)
		}
		n := w.asked.Load()
		if n < before+2 {
			t.Errorf("the worker was asked %d times, before %d", n, before)
		}
		w.wantSettled("with a summary", n, n-before-1)
		s.limited(limit.Limits{MonthlyBudget: s.used().Cost + turn})
		policy("drop")
		if status, o := grow(); status != 200 {
			t.Errorf("a turn alone, with what was too little for a summary: %d: %v", status, o)
		}
	})
}

// TestTiersOfOneOrganization has keys of two tiers in one organisation: what the
// larger one uses does not shut the smaller one out, asking with the smaller one
// does not slow the larger one down, and the organisation's own limit holds for both.
func TestTiersOfOneOrganization(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t))
	tier := func(class parley.Class) *parley.Class { return &class }
	var accounts [2][]limit.Account
	for i, class := range []parley.Class{parley.Pro, parley.Free} {
		secret, _ := rig.key(tenant.NewKey{Organization: "acme", Tier: tier(class)})
		if _, err := rig.store.ChangeOrganization(t.Context(), "acme",
			tenant.OrganizationChange{Limits: &limit.Limits{InputTokensPerMinute: 1000}}); err != nil {
			t.Fatal(err)
		}
		who := must(rig.ring.Identify(t.Context(), secret))(t)
		accounts[i] = s.gateway.jobs.Bills.AccountsOf(who)
	}
	now := time.Now()
	books, n := book.NewMemory(func() time.Time { return now }), 0
	ask := func(as int, use limit.Use) limit.Reason {
		n++
		h := &limit.Hold{ID: fmt.Sprint(n), Group: "acme", Accounts: accounts[as], Use: use}
		v := must(books.Reserve(t.Context(), h))(t)
		if v.Refused == "" {
			books.Settle(h, h.Use)
		}
		return v.Refused
	}
	const pro, free = 0, 1
	for range 30 { // 600 a minute
		for range 20 {
			if why := ask(pro, limit.Use{Requests: 1}); why != "" {
				t.Fatalf("pro is refused: %s", why)
			}
		}
		if why := ask(free, limit.Use{Requests: 1}); n < 200 && why != "" {
			t.Fatalf("free is refused for what pro uses: %s", why)
		}
		now = now.Add(2 * time.Second)
	}
	if why := ask(pro, limit.Use{Input: 900}); why != "" {
		t.Fatalf("pro is refused: %s", why)
	}
	if why := ask(free, limit.Use{Input: 200}); why != limit.InputRate {
		t.Fatalf("the organisation's own limit does not hold over its tiers: %q", why)
	}
}
