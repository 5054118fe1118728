package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/admin"
	"parley/gateway/ops"
	"parley/gateway/tenant"
)

// atHome asks as one who sits at the machine.
func (s *server) atHome(ctx context.Context, path string, change ...func(*http.Request)) *httptest.ResponseRecorder {
	r := httptest.NewRequestWithContext(ctx, "GET", path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:5000", "127.0.0.1:8080"
	for _, f := range change {
		f(r)
	}
	w := httptest.NewRecorder()
	s.gateway.ServeHTTP(w, r)
	return w
}

func decodeAs[T any](t *testing.T, body string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v in %s", err, body)
	}
	return v
}

func TestNowAndHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "one two three", 100*time.Millisecond)})
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		go s.gateway.Observe(ctx)
		for range 60 {
			if status, body := s.chat(""); status != 200 {
				t.Fatalf("%d: %s", status, body)
			}
			time.Sleep(time.Second)
		}
		s.do("POST", "/v1/chat/completions", `{"model":`)
		time.Sleep(2 * time.Second)
		p := decodeAs[admin.Picture](t, s.atHome(t.Context(), "/admin/api/now").Body.String())
		if p.Verdict.Bottleneck != admin.NoBottleneck || p.Verdict.Happy ||
			!strings.Contains(p.Verdict.Sentence, "the time between tokens was 100 ms at p99") ||
			p.Rates.Requests < 0.3 ||
			p.Rates.Decode < 1 || p.TTFT.Count == 0 || p.TTFT.P95 < 0.05 || p.TTFT.P95 > 0.2 {
			t.Errorf("picture %+v", p)
		}
		if len(p.Promises) != 3 || p.Promises[0].Kept != 1 || p.Promises[0].Count < 50 || p.Promises[2].Kept != 0 {
			t.Errorf("promises %+v: all were answered, every gap took 100 ms", p.Promises)
		}
		h := decodeAs[ops.HistoryList](t, s.atHome(t.Context(), "/admin/api/history?range=15m").Body.String())
		if len(h.Data) < 4 || h.Data[2].Requests == 0 || h.Data[2].Decode == 0 ||
			h.StepSeconds != 15 || h.Until-h.From != 900 {
			t.Errorf("%d points, %+v", len(h.Data), h.Data)
		}
		if w := s.atHome(t.Context(), "/admin/api/history?range=1y"); w.Code != 400 {
			t.Errorf("range=1y gives %d", w.Code)
		}
	})
}

func TestLivePicturesEndWithTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "one", time.Millisecond)})
		done := make(chan *httptest.ResponseRecorder)
		go func() { done <- s.atHome(t.Context(), "/admin/api/live") }()
		time.Sleep(3500 * time.Millisecond)
		s.gateway.Drain()
		events := strings.Count((<-done).Body.String(), "data: {")
		if events != 4 {
			t.Errorf("%d pictures in 3.5 s", events)
		}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		s.gateway.draining.Store(false)
		if w := s.atHome(ctx, "/admin/api/live"); strings.Count(w.Body.String(), "data: {") != 1 {
			t.Errorf("one who left is still served: %s", w.Body)
		}
	})
}

func TestLivesOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "one two three", 100*time.Millisecond)})
		response, _ := s.do("POST", "/v1/chat/completions", chatBody(`,"stream":true`), "X-Client-Request-Id", "mine")
		s.do("POST", "/v1/chat/completions", `{"model":"nope","messages":[{"role":"user","content":"x"}]}`)
		synctest.Wait()
		l := decodeAs[admin.RequestRecord](t, s.atHome(t.Context(), "/admin/api/requests/mine").Body.String())
		if l.ID != response.Header.Get("X-Request-Id") || l.Outcome != admin.OK || l.Model != modelID || !l.Stream ||
			l.Miss != "new" || l.CachedTokens != 2 || l.Worker == "" || l.TTFTms != 100 {
			t.Errorf("life %+v", l)
		}
		var told []string
		end := 0.
		for _, g := range l.Stages {
			told = append(told, g.Where+": "+g.Name)
			if g.StartMs < end-0.01 {
				t.Errorf("stage %+v begins before the one before it has ended", g)
			}
			end = g.StartMs + g.Ms
		}
		if got := strings.Join(told, ", "); !strings.Contains(got, "engine: prefill, engine: decode") ||
			end > l.TotalMs+0.01 {
			t.Errorf("stages %s, until %v of %v ms", got, end, l.TotalMs)
		}
		list := decodeAs[ops.RequestList](t, s.atHome(t.Context(), "/admin/api/requests?outcome=refused").Body.String())
		if len(list.Data) != 1 || list.Data[0].Status != 404 || !strings.Contains(list.Data[0].Error, "nope") {
			t.Errorf("refused: %+v", list.Data)
		}
		if w := s.atHome(t.Context(), "/admin/api/requests/unheard"); w.Code != 404 {
			t.Errorf("a request that never was gives %d", w.Code)
		}
	})
}

func TestOutcomesAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: func(r *parley.Request) []say { return []say{{err: context.DeadlineExceeded}} }})
		s.chat("")
		s.do("POST", "/v1/chat/completions", `{"model":`)
		s.wantMetric(`parley_outcomes_total{outcome="refused"}`, "1")
		s.wantMetric(`parley_outcomes_total{outcome="failed"}`, "1")
	})
}

func TestTheFleetIsShownAndTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		state := "up"
		set := func(to string) func(string) error {
			return func(name string) error {
				if name != "a/b" {
					return parley.Errorf(parley.NotFound, "no worker %s", name)
				}
				state = to
				return nil
			}
		}
		s := start(t, &worker{}, func(c *Config) {
			c.Fleet = &admin.Fleet{Drain: set("draining"), Resume: set("up"), Sleep: set("asleep"), Wake: set("up"),
				Workers: func() []admin.Worker {
					return []admin.Worker{{Name: "a/b", Pool: "p", State: state, KV: 0.5}}
				}}
		})
		tell := func(verb, body string) *httptest.ResponseRecorder {
			time.Sleep(time.Second)
			return s.atHome(t.Context(), "/admin/api/workers/"+verb, func(r *http.Request) {
				r.Method, r.Body = "POST", io.NopCloser(strings.NewReader(body))
				r.Header.Set("Content-Type", "application/json")
			})
		}
		if w := tell("drain", `{"worker":"a/b"}`); w.Code != 200 ||
			decodeAs[admin.Picture](t, w.Body.String()).Workers[0].State != "draining" {
			t.Errorf("drain gives %d: %s", w.Code, w.Body)
		}
		if w := tell("resume", `{"worker":"a/b"}`); w.Code != 200 ||
			decodeAs[admin.Picture](t, w.Body.String()).Workers[0].State != "up" {
			t.Errorf("resume gives %d: %s", w.Code, w.Body)
		}
		if w := tell("sleep", `{"worker":"a/b"}`); w.Code != 200 ||
			decodeAs[admin.Picture](t, w.Body.String()).Workers[0].State != "asleep" {
			t.Errorf("sleep gives %d: %s", w.Code, w.Body)
		}
		if w := tell("wake", `{"worker":"a/b"}`); w.Code != 200 ||
			decodeAs[admin.Picture](t, w.Body.String()).Workers[0].State != "up" {
			t.Errorf("wake gives %d: %s", w.Code, w.Body)
		}
		if w := tell("drain", `{"worker":"c"}`); w.Code != 404 {
			t.Errorf("one who is not there gives %d", w.Code)
		}
		if w := tell("drain", `{}`); w.Code != 400 {
			t.Errorf("nobody gives %d", w.Code)
		}
	})
}

// TestPromptsThatChange has three applications ask a model that this process computes. One of them, which names itself
// in its metadata, begins to put a time near the beginning of its system prompt: operators are told which application,
// what changed, and where. The log says so without the text of the prompt.
func TestPromptsThatChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		held := map[parley.BlockHash]bool{}
		s := start(t, &worker{script: func(r *parley.Request) []say {
			cached := 0
			for i, name := range parley.AppendBlockHashes(nil, parley.BlockHash{}, r.Salt, r.Prompt, 16) {
				if held[name] && cached == 16*i {
					cached += 16
				}
				held[name] = true
			}
			used := &parley.Usage{PromptTokens: len(r.Prompt), CachedTokens: cached}
			return []say{{delta: parley.Delta{Finish: parley.FinishStop, Usage: used}}}
		}}, func(c *Config) { c.Models[0].ContextTokens = 1000 })
		ask := func(application, system string, i int) {
			body := fmt.Sprintf(`{"model":%q,"metadata":{"application":%q},"messages":[{"role":"system","content":%q},`+
				`{"role":"user","content":"Question %d."}]}`, modelID, application, system, i)
			if r, said := s.do("POST", "/v1/chat/completions", body); r.StatusCode != http.StatusOK {
				t.Fatal(r.Status, said)
			}
		}
		rules := strings.Repeat("Answer in one sentence, and never guess. ", 12)
		for i := range 160 {
			now := "noon"
			if i >= 80 {
				now = fmt.Sprintf("%d past %d", i%60, i%24)
			}
			ask("orders", "The time is "+now+". "+rules, i)
			ask("", "Translate to French. "+rules, i)
			ask("", "Rank pages by how well they answer the query. "+strings.Repeat("Be fair to all of them. ", 12), i)
		}
		found := decodeAs[ops.FindingList](t, s.atHome(t.Context(), "/admin/api/findings").Body.String())
		if len(found.Data) != 1 || !strings.Contains(found.Data[0].Family, "orders") ||
			!strings.HasPrefix(found.Data[0].System, "The time is noon") || found.Data[0].WasText == "" {
			t.Errorf("findings %+v", found.Data)
		}
		s.wantMetric("parley_prefix_breaks_total", "1")
		s.wantLog("prompt prefix changed")
		if strings.Contains(s.log.String(), "noon") {
			t.Error("the log has text of the prompt")
		}
	})
}

// TestScalingIsReported takes what an autoscaler reports with the operate token, shows it to
// operators and in metrics, and leaves it out of the audit log.
func TestScalingIsReported(t *testing.T) {
	dsn := newStoreName(t)
	s, rig := startGuarded(t, &worker{}, dsn, auditedBy(t, dsn), withEverything)
	key, _ := rig.key(tenant.NewKey{Admin: true})
	post := func(body string, want int, headers ...string) {
		t.Helper()
		r := httptest.NewRequest("POST", "http://127.0.0.1:8080"+scalePath, strings.NewReader(body))
		r.RemoteAddr = "127.0.0.1:9"
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		s.gateway.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s gives %d, want %d: %s", body, w.Code, want, w.Body)
		}
	}
	const good = `{"target":"deployment/w","desired":3,"ready":2,"why":"it is noon","price":2,"starting":1}`
	post(good, 401)
	post(good, 200, bearer(operateToken)...)
	post(`{"target":"deployment/w","desired":-3}`, 400, bearer(operateToken)...)
	post(`{"target":`, 400, bearer(operateToken)...)
	for path, want := range map[string]string{
		"/admin/api/scale?range=6h": `"why":"it is noon"`,
		"/metrics":                  `parley_scale_desired_workers{target="deployment/w"} 3`,
		"/admin/api/scale":          `"cost":6,"cost_desired":6`,
	} {
		if w := s.askHere("GET", path, bearer(key)...); w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%s gives %d, want %s: %s", path, w.Code, want, w.Body)
		}
	}
	if w := s.askHere("GET", "/admin/api/scale?range=1y", bearer(key)...); w.Code != 400 {
		t.Errorf("a range that there is not gives %d", w.Code)
	}
	if w := s.askHere("GET", auditPath, bearer(key)...); strings.Contains(w.Body.String(), scalePath) {
		t.Errorf("reports are audited: %s", w.Body)
	}
}

// TestServerIsDescribed: the process, its models and settings, for operators alone.
func TestServerIsDescribed(t *testing.T) {
	s, rig := startGuarded(t, &worker{}, newStoreName(t), func(c *Config) {
		c.Version = "1.2.3"
		c.Settings = []ops.Setting{{Key: "queue-depth", Values: []string{"77"}, From: "flag", Help: "queue N"}}
	})
	rig.person(s, "boss@example.com", accounts.Grant{Role: accounts.ServerAdmin, Organization: "local"})
	_, member := rig.person(s, "ann@example.com", accounts.Grant{Organization: "acme"})
	const path = "/admin/api/server"
	s.wants(t, 401, "GET", path, "")
	s.wants(t, 401, "GET", path, "", member...)
	boss := s.enter(t, "/admin/session", "boss@example.com", password)
	d := decodeAs[ops.Server](t, s.askHere("GET", path, boss...).Body.String())
	if d.Version != "1.2.3" || d.CPUs < 1 || d.Started.IsZero() || d.HeapBytes <= 0 || d.ResidentBytes < d.HeapBytes {
		t.Errorf("the process is %+v", d)
	}
	if len(d.Models) == 0 || d.Models[0].ID != modelID || d.Models[0].ContextTokens <= 0 || d.Models[0].Unready != "" {
		t.Errorf("its models are %+v", d.Models)
	}
	if len(d.Settings) != 1 || d.Settings[0].Key != "queue-depth" || d.Settings[0].Values[0] != "77" {
		t.Errorf("its settings are %+v", d.Settings)
	}
}
