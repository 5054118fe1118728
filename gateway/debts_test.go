package gateway

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/runs"
)

// A lossy store does what it is told, and its answer is lost on the way: so
// many times for each step.
type lossy struct {
	runs.Store
	mu   sync.Mutex
	lost map[string]int
}

var errLost = parley.Errorf(parley.Unavailable, "The store went away while it was storing this.")

// lose is the end of a step.
func (l *lossy) lose(step string, err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil || l.lost[step] == 0 {
		return err
	}
	l.lost[step]--
	return errLost
}

func (l *lossy) BeginTurn(ctx context.Context, owner convo.Owner, conversation string, n convo.NewTurn,
	now time.Time) (convo.Turn, error) {
	turn, err := l.Store.BeginTurn(ctx, owner, conversation, n, now)
	return turn, l.lose("begin", err)
}

func (l *lossy) FinishTurn(ctx context.Context, owner convo.Owner, id convo.AnswerID, o convo.Outcome,
	now time.Time) (convo.Message, error) {
	if l.lose("hear", nil) != nil {
		return convo.Message{}, errLost
	}
	m, err := l.Store.FinishTurn(ctx, owner, id, o, now)
	return m, l.lose("finish", err)
}

func (l *lossy) ResumeTurn(ctx context.Context, owner convo.Owner, id convo.AnswerID,
	now time.Time) (convo.Message, error) {
	m, err := l.Store.ResumeTurn(ctx, owner, id, now)
	return m, l.lose("resume", err)
}

func (l *lossy) CreateResponse(ctx context.Context, owner convo.Owner, n convo.NewResponse,
	now time.Time) (convo.Response, error) {
	r, err := l.Store.CreateResponse(ctx, owner, n, now)
	return r, l.lose("create", err)
}

func (l *lossy) FinishResponse(ctx context.Context, owner convo.Owner, id string, o convo.ResponseOutcome,
	now time.Time) (convo.Response, error) {
	if l.lose("hear", nil) != nil {
		return convo.Response{}, errLost
	}
	r, err := l.Store.FinishResponse(ctx, owner, id, o, now)
	return r, l.lose("finish", err)
}

// startLossy serves with a store that loses some answers.
func startLossy(t *testing.T, w parley.Worker, lost map[string]int) *server {
	return startKept(t, w, untitled, func(c *Config) { c.writes = &lossy{Store: c.Store, lost: lost} })
}

// outage is more often than a step is tried at once.
const outage = int(runs.StoreWait/runs.RetryEvery) + 2

// TestTurnsAreWrittenOnce asks in a conversation while answers of the store are
// lost, at every step, for a moment or for longer than anybody waits. Tried
// again with its key, a turn is there, once, and complete.
func TestTurnsAreWrittenOnce(t *testing.T) {
	for _, c := range []struct {
		name string
		lost map[string]int
		// first is what the first call is told, asked how often the model is.
		first, asked int
	}{
		{"begun", map[string]int{"begin": 1}, 200, 1},
		{"begun, for long", map[string]int{"begin": outage}, 503, 1},
		{"finished", map[string]int{"finish": 1}, 200, 1},
		{"finished, for long", map[string]int{"finish": outage}, 503, 1},
		{"not finished, for long", map[string]int{"hear": outage}, 503, 1},
		{"begun for long, then taken up", map[string]int{"begin": outage, "resume": 1}, 503, 1},
		{"begun for long, then taken up for long", map[string]int{"begin": outage, "resume": outage}, 503, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &worker{script: speak(t, "Yes<|im_end|>", time.Second)}
				s := startLossy(t, w, c.lost)
				path := s.converse("")
				body := `{"model":"` + modelID + `","content":"Hi"}`
				status, o := s.call("POST", path+"/messages", body, "Idempotency-Key", "k")
				if status != c.first {
					t.Errorf("the first call: %d %v", status, o)
				}
				for tries := 0; status != 200; tries++ {
					if tries == 10 {
						t.Fatalf("never complete: %d %v", status, o)
					}
					time.Sleep(runs.HeartbeatEvery)
					status, o = s.call("POST", path+"/messages", body, "Idempotency-Key", "k")
				}
				if o.text("choices", "message", "content") != "Yes" {
					t.Errorf("got %v", o)
				}
				wantTexts(t, s.spoken(path), "Hi", "Yes")
				if asked := w.times(); asked != c.asked {
					t.Errorf("the model was asked %d times", asked)
				}
			})
		})
	}
}

// TestNothingStaysInProgress loses what the store says for longer than anybody
// waits, and nobody tries again.
func TestNothingStaysInProgress(t *testing.T) {
	for step, status := range map[string]string{"begin": "incomplete", "finish": "completed", "hear": "completed"} {
		t.Run(step, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &worker{script: speak(t, "Yes<|im_end|>", time.Second)}
				s := startLossy(t, w, map[string]int{step: outage})
				path := s.converse("")
				s.call("POST", path+"/messages", `{"model":"`+modelID+`","content":"Hi"}`)
				time.Sleep(3 * runs.HeartbeatEvery)
				_, o := s.call("GET", path+"/items", "")
				if item := object(o["data"].([]any)[0].(map[string]any)); item.text("role") != "assistant" ||
					item.text("status") != status {
					t.Errorf("got %v", item)
				}
				synctest.Wait()
				if left := s.gateway.runs.Len(); left > 0 {
					t.Errorf("%d things are still claimed or owed", left)
				}
			})
		})
	}
}

// TestResponsesAreMadeOnce is TestTurnsAreWrittenOnce for responses.
func TestResponsesAreMadeOnce(t *testing.T) {
	for _, c := range []struct {
		name  string
		lost  map[string]int
		first int
		asked int
	}{
		{"created", map[string]int{"create": 1}, 200, 1},
		{"created, for long", map[string]int{"create": outage}, 503, 1},
		{"finished", map[string]int{"finish": 1}, 200, 1},
		{"finished, for long", map[string]int{"finish": outage}, 503, 1},
		{"not finished, for long", map[string]int{"hear": outage}, 503, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &worker{script: speak(t, "Yes<|im_end|>", time.Second)}
				s := startLossy(t, w, c.lost)
				status, o := s.call("POST", "/v1/responses", responseBody(`"Hi"`, ""), "Idempotency-Key", "k")
				if status != c.first {
					t.Errorf("the first call: %d %v", status, o)
				}
				time.Sleep(3 * runs.HeartbeatEvery)
				if status, o = s.call("POST", "/v1/responses", responseBody(`"Hi"`, ""), "Idempotency-Key",
					"k"); status != 200 || o.text("status") != "completed" {
					t.Errorf("again: %d %v", status, o)
				}
				if asked := w.times(); asked != c.asked {
					t.Errorf("the model was asked %d times", asked)
				}
				synctest.Wait()
				if left := s.gateway.runs.Len(); left > 0 {
					t.Errorf("%d things are still claimed or owed", left)
				}
			})
		})
	}
}
