package load

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/sim/traffic"

	"parley"
)

const ms = Millis(time.Millisecond)

func TestLatenciesAreExact(t *testing.T) {
	for _, form := range Forms() {
		s := &script{first: 300 * time.Millisecond, between: 20 * time.Millisecond}
		rig(t, s, form, func(ctx context.Context, c *Client) {
			r := mustRun(t, ctx, c, every(time.Second, 3))
			want := Record{
				Timing: Timing{TTFT: 300 * ms, TPOT: 20 * ms, Gap: 20 * ms, Total: 380 * ms}, Pieces: 5,
				PromptTokens: 20, CachedTokens: 16, OutputTokens: 5, WantedTokens: 5, Outcome: Completed,
			}
			for i := range 3 {
				want.Intended = Millis(i) * 1000 * ms
				if !reflect.DeepEqual(r.Records[i], want) {
					t.Errorf("%s: %+v\nwant %+v", form, r.Records[i], want)
				}
			}
			if r.Elapsed != 2380*time.Millisecond || r.Interrupted {
				t.Errorf("%s: elapsed %v", form, r.Elapsed)
			}
		})
		check(t, form, &s.calls[0])
	}
}

// check looks at what the server was asked.
func check(t *testing.T, form Form, c *call) {
	t.Helper()
	if c.Model != "polly" || c.MaxTokens != 5 || !c.Stream || !c.IgnoreEnd || !c.StreamOptions.IncludeUsage {
		t.Errorf("%s: %+v", form, c)
	}
	n := 0
	switch form {
	case Chat:
		n = len(strings.Fields(c.Messages[0].Content))
	case Text:
		n = len(strings.Fields(c.Prompt.(string)))
	case IDs:
		n = len(c.Prompt.([]any))
	}
	if n != 16 {
		t.Errorf("%s: a prompt of %d, want 16: %+v", form, n, c)
	}
}

func TestUsersWaitForAnswersAndThink(t *testing.T) {
	rig(t, &script{first: 100 * time.Millisecond, between: 25 * time.Millisecond}, Chat,
		func(ctx context.Context, c *Client) {
			p := users(3, 12)
			p.Think = traffic.Gaps{Mean: 800 * time.Millisecond}
			r := mustRun(t, ctx, c, p)
			for i, record := range r.Records {
				if want := Millis(i/3) * 1000 * ms; record.Intended != want || record.Total != 200*ms {
					t.Errorf("request %d began at %v and took %v", i, time.Duration(record.Intended),
						time.Duration(record.Total))
				}
			}
			if len(r.Records) != 12 {
				t.Errorf("%d requests, want 12", len(r.Records))
			}
		})
}

// A server that stands still for ten seconds shows in the percentiles of an
// open loop, because everybody who came in that time waited. A closed loop
// hides it: its one user was the only one to wait.
func TestStallsAreNotOmitted(t *testing.T) {
	stalling := func() *script {
		s := &script{between: time.Millisecond}
		var origin time.Time
		s.special = func(_ http.ResponseWriter, _ *http.Request, n int) bool {
			if n == 1 {
				origin = time.Now()
			}
			if at := time.Since(origin); at >= 5*time.Second && at < 15*time.Second {
				time.Sleep(15*time.Second - at)
			}
			return false
		}
		return s
	}
	rig(t, stalling(), Text, func(ctx context.Context, c *Client) {
		report := Summarize(mustRun(t, ctx, c, every(100*time.Millisecond, 400)), parley.SLO{TTFT: time.Second})
		// 100 of 400 requests came while it stood: at 5.0 s, 5.1 s, ... 14.9 s.
		l := &report.Latency.TTFT
		if l.Max != 10_000*ms || l.P99 != 9600*ms || l.P95 != 8000*ms || l.P90 != 6000*ms || l.P50 != 0 {
			t.Errorf("%+v", l)
		}
		// 10 of the 100 waited for at most a second.
		if report.SLO.Met != 300+10 {
			t.Errorf("%d met the objective", report.SLO.Met)
		}
	})
	rig(t, stalling(), Text, func(ctx context.Context, c *Client) {
		p := users(1, 400)
		p.Think = traffic.Gaps{Mean: 96 * time.Millisecond}
		l := Summarize(mustRun(t, ctx, c, p), parley.SLO{}).Latency.TTFT
		if l.P99 != 0 || l.Max < 9_000*ms {
			t.Errorf("a closed loop saw %+v", l)
		}
	})
}

func TestFailuresAreCountedByKind(t *testing.T) {
	special := func(w http.ResponseWriter, r *http.Request, n int) bool {
		switch n {
		case 1:
			http.Error(w, `{"error":{"message":"slow\u001b[31m down","code":429}}`, http.StatusTooManyRequests)
		case 2:
			http.Error(w, `{"error":"full"}`, http.StatusServiceUnavailable)
		case 3:
			http.Error(w, `{"object":"error","message":"too long"}`, http.StatusBadRequest)
		case 4:
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(`{"choices":[]}`))
		case 5:
			w.Header().Set("Content-Type", "text/event-stream")
			send(w, `{"choices":[{"text":"half"}]}`)
		case 6:
			w.Header().Set("Content-Type", "text/event-stream")
			send(w, `{"choices":[{"text":"half"}]}`)
			send(w, `{"error":{"message":"worker died","code":500}}`)
		case 7:
			w.Header().Set("Content-Type", "text/event-stream")
			send(w, `not json`)
		case 8:
			pause(r, 2*time.Minute)
		case 9:
			panic(http.ErrAbortHandler)
		case 10:
			http.Redirect(w, &http.Request{}, "http://example.com/", http.StatusTemporaryRedirect)
		default:
			return false
		}
		return true
	}
	rig(t, &script{special: special}, Text, func(ctx context.Context, c *Client) {
		c.http.CheckRedirect = newHTTP(false).CheckRedirect
		report := Summarize(mustRun(t, ctx, c, every(3*time.Minute, 12)), parley.SLO{})
		want := Requests{Sent: 12, Completed: 2, Rejected: 2, Failed: 8, Kinds: map[string]int{
			"http 429": 1, "http 503": 1, "http 400": 1, "no stream": 1, "cut short": 1, "error event": 1,
			"malformed": 1,
			"timeout":   1, "connection broke": 1, "http 307": 1,
		}}
		if !reflect.DeepEqual(report.Requests, want) {
			t.Errorf("%+v\nwant %+v", report.Requests, want)
		}
		if n := report.Latency.Total.N; n != 2 {
			t.Errorf("latency of %d requests, want the 2 completed", n)
		}
		if report.SLO.Share != 2.0/12 {
			t.Errorf("the share is %v", report.SLO.Share)
		}
		for i, message := range []string{"slow [31m down", "full", "too long"} {
			if got := report.Samples[i].Message; got != message {
				t.Errorf("message %q, want %q", got, message)
			}
		}
	})
}

func TestTokensAreCountedWithoutUsage(t *testing.T) {
	rig(t, &script{noUsage: true, noDone: true, between: time.Millisecond}, Chat, func(ctx context.Context, c *Client) {
		report := Summarize(mustRun(t, ctx, c, users(1, 2)), parley.SLO{})
		if report.Tokens != (Tokens{Output: 10, WantedOutput: 10, CountedRequests: 2}) {
			t.Errorf("%+v", report.Tokens)
		}
	})
}

func TestInterruptKeepsWhatWasMeasured(t *testing.T) {
	s := &script{first: 400 * time.Millisecond, between: 100 * time.Millisecond}
	rig(t, s, Chat, func(ctx context.Context, c *Client) {
		ctx, cancel := context.WithTimeout(ctx, 1400*time.Millisecond)
		defer cancel()
		r := mustRun(t, ctx, c, every(500*time.Millisecond, 100))
		if !r.Interrupted || len(r.Records) != 3 || r.Elapsed != 1400*time.Millisecond {
			t.Errorf("%+v", r)
		}
		if got := kinds(r); !slices.Equal(got, []string{"completed ", "unfinished "}) {
			t.Errorf("%q", got)
		}
	})
	rig(t, s, Chat, func(ctx context.Context, c *Client) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
		defer cancel()
		p := users(2, 100)
		p.Think = traffic.Gaps{Mean: time.Minute}
		if r := mustRun(t, ctx, c, p); !r.Interrupted || len(r.Records) != 2 || r.Elapsed != 2*time.Second {
			t.Errorf("a thinking user did not stop: %+v", r)
		}
	})
}

func TestDurationEndsTheRunButNotItsRequests(t *testing.T) {
	s := &script{first: 700 * time.Millisecond}
	rig(t, s, Chat, func(ctx context.Context, c *Client) {
		open, closed := every(time.Second, 1000), users(1, 1000)
		open.DurationMax, closed.DurationMax = 3*time.Second, 3*time.Second
		if r := mustRun(t, ctx, c, open); len(r.Records) != 3 || r.Interrupted || kinds(r)[0] != "completed " {
			t.Errorf("open: %d records, %q", len(r.Records), kinds(r))
		}
		if r := mustRun(t, ctx, c, closed); len(r.Records) != 5 || r.Elapsed != 3500*time.Millisecond {
			t.Errorf("closed: %d records in %v", len(r.Records), r.Elapsed)
		}
	})
}

func TestTooManyUnderWayAreDroppedNotDelayed(t *testing.T) {
	rig(t, &script{first: 10 * time.Second}, Chat, func(ctx context.Context, c *Client) {
		p := every(time.Second, 8)
		p.InFlightMax = 3
		report := Summarize(mustRun(t, ctx, c, p), parley.SLO{})
		if q := report.Requests; q.Sent != 3 || q.Completed != 3 || q.Dropped != 5 || report.SLO.Share != 3.0/8 {
			t.Errorf("%+v, share %v", q, report.SLO.Share)
		}
	})
}

func TestWarmUpIsNotRecorded(t *testing.T) {
	s := &script{first: time.Second}
	rig(t, s, Chat, func(ctx context.Context, c *Client) {
		p := every(time.Second, 2)
		p.WarmUp = traffic.Take(workload().Stream(1<<40, 1), 3)
		done := 0
		p.Progress = func(n int, _ time.Duration) { done = n }
		r := mustRun(t, ctx, c, p)
		if len(r.Records) != 2 || r.Records[0].Intended != 0 || len(s.calls) != 5 || done != 2 {
			t.Errorf("%d records, %d calls, %d done", len(r.Records), len(s.calls), done)
		}
		if s.calls[0].Messages[0] == s.calls[3].Messages[0] {
			t.Error("the warm-up sent what is measured")
		}
	})
	refuse := func(w http.ResponseWriter, _ *http.Request, _ int) bool {
		http.Error(w, `{"error":{"message":"no such model"}}`, http.StatusNotFound)
		return true
	}
	rig(t, &script{special: refuse}, Chat, func(ctx context.Context, c *Client) {
		p := every(time.Second, 2)
		p.WarmUp = traffic.Take(workload().Stream(1<<40, 1), 3)
		if _, err := Run(ctx, c, p); err == nil || !strings.Contains(err.Error(), "no such model") {
			t.Errorf("%v", err)
		}
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := Run(ctx, c, p); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}

func TestTurnsRepeatTheServersWords(t *testing.T) {
	s := &script{}
	rig(t, s, Chat, func(ctx context.Context, c *Client) {
		w := &traffic.Workload{Kind: traffic.Conversation, Prompt: traffic.Fixed(3), Output: traffic.Fixed(2),
			SharedTokens: 4, Turns: traffic.Fixed(3), Open: 1}
		mustRun(t, ctx, c,
			Plan{Users: []iter.Seq[traffic.Request]{w.Stream(0, 1)}, RequestsMax: 6, DurationMax: time.Hour})
		if len(c.answers.of) != 0 {
			t.Errorf("%d ended conversations are remembered", len(c.answers.of))
		}
	})
	third := s.calls[2].Messages
	var roles []traffic.Role
	for _, m := range third {
		roles = append(roles, m.Role)
	}
	want := []traffic.Role{"system", "user", "assistant", "user", "assistant", "user"}
	if !slices.Equal(roles, want) || third[2].Content != "word word " || third[4].Content != "word word " {
		t.Errorf("%+v", third)
	}
	if third[1] != s.calls[0].Messages[1] || third[3] != s.calls[1].Messages[3] || third[0] != s.calls[3].Messages[0] {
		t.Error("the turns before are not those that were sent")
	}
}

func TestPlansAreChecked(t *testing.T) {
	for _, spoil := range []func(*Plan){
		func(p *Plan) { p.Users = nil },
		func(p *Plan) { p.Schedule = p.Users[0] },
		func(p *Plan) { p.RequestsMax = 0 },
		func(p *Plan) { p.RequestsMax = RequestsLimit + 1 },
		func(p *Plan) { p.DurationMax = 0 },
		func(p *Plan) { p.DurationMax = 48 * time.Hour },
		func(p *Plan) { p.InFlightMax = -1 },
		func(p *Plan) { p.Think.Mean = -1 },
	} {
		p := users(1, 1)
		spoil(&p)
		if p.Validate() == nil {
			t.Errorf("%+v was taken", p)
		}
	}
}
