package fleet

import (
	"context"
	"errors"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// A scripted worker does what a function says.
type scripted func(ctx context.Context, r *parley.Request, yield func(parley.Delta, error) bool)

func (s scripted) Models() []parley.Model { return []parley.Model{{ID: modelID, ContextTokens: 4096}} }

func (s scripted) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) { s(ctx, r, yield) }
}

// member returns the worker as one with a role that exchanges blocks.
func (s scripted) member(name string, role parley.WorkerRole) Member {
	return Member{
		Name:        name,
		Pool:        "default",
		Worker:      s,
		BlockTokens: 16,
		Withdraws:   true,
		Blocks: func(string, time.Time) parley.BlockSource {
			return parley.BlockSource{URL: "http://" + name, Ticket: "ticket"}
		},
		Probe: func(context.Context) (Condition, error) {
			return Condition{Instance: name, Format: "f", BlockBytes: 1024, Role: role}, nil
		},
	}
}

// answers yields an answer of one token after what came of a fetch.
func answers(yield func(parley.Delta, error) bool, came *parley.Transfer, cached int) {
	_ = yield(parley.Delta{Transfer: came}, nil) && yield(parley.Delta{Tokens: []parley.Token{7}}, nil) &&
		yield(parley.Delta{Finish: parley.FinishLength}, nil) &&
		yield(parley.Delta{Usage: &parley.Usage{PromptTokens: 512, CachedTokens: cached, OutputTokens: 1}}, nil)
}

// TestAPromptIsComputedBesideItsAnswer has the worker for prompts end in all ways while the
// one that decodes has been asked already, and has it end in all ways meanwhile.
func TestAPromptIsComputedBesideItsAnswer(t *testing.T) {
	whole := &parley.Transfer{From: "prefill", AskedTokens: 496, CameTokens: 496}
	for name, test := range map[string]struct {
		fault    error             // of the worker for prompts, after the other was asked
		came     *parley.Transfer  // what the other one says then
		leaves   bool              // the client does
		stays    bool              // the worker for prompts never ends by itself
		fails    bool              // the other worker does
		cached   int               // as the client is told
		attempts map[string]string // how they end
	}{
		"whole": {came: whole, cached: 16, attempts: map[string]string{"prefill": "done", "decode": "done"}},
		"prefill fails": {
			fault:    errors.New("out of memory"),
			came:     &parley.Transfer{From: "prefill", AskedTokens: 496, CameTokens: 96, Miss: "gone"},
			cached:   400,
			attempts: map[string]string{"prefill": "failed", "decode": "done"},
		},
		"too slow": {
			came:     &parley.Transfer{From: "prefill", AskedTokens: 496, CameTokens: 96, Miss: "too slow"},
			stays:    true,
			cached:   400,
			attempts: map[string]string{"prefill": "withdrawn", "decode": "done"},
		},
		"prefill does not end": {
			came:     whole,
			stays:    true,
			cached:   0,
			attempts: map[string]string{"prefill": "withdrawn", "decode": "done"},
		},
		"the client leaves": {leaves: true, stays: true,
			attempts: map[string]string{"prefill": "final", "decode": "left"}},
		"decode fails": {fails: true, stays: true, cached: 496,
			attempts: map[string]string{"prefill": "done", "decode": "failed"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				asked, computed, again := make(chan string, 1), make(chan struct{}), false
				prefill := scripted(func(ctx context.Context, r *parley.Request, yield func(parley.Delta, error) bool) {
					if again { // it answers instead of the other one
						answers(yield, nil, 496)
						return
					}
					again = test.fails
					request := <-asked // a fleet that asks one after the other stands still here
					if request != r.ID || r.ID == "" || r.MaxTokens != 1 {
						t.Errorf("the blocks of request %q are fetched, request %q computes %d tokens", request, r.ID,
							r.MaxTokens)
					}
					if close(computed); test.stays {
						<-ctx.Done()
						yield(parley.Delta{}, parley.Errorf(parley.Cancelled, "cancelled"))
						return
					}
					if test.fault != nil {
						yield(parley.Delta{}, test.fault)
						return
					}
					yield(parley.Delta{Usage: &parley.Usage{PromptTokens: 512, CachedTokens: 16}}, nil)
				})
				decode := scripted(func(ctx context.Context, r *parley.Request, yield func(parley.Delta, error) bool) {
					if r.Fetch == nil {
						t.Error("nothing is fetched")
						return
					}
					asked <- r.Fetch.Request
					<-computed
					switch {
					case test.leaves:
						cancel()
						<-ctx.Done()
						yield(parley.Delta{}, parley.Errorf(parley.Cancelled, "cancelled"))
					case test.fails:
						yield(parley.Delta{}, errors.New("out of memory"))
					default:
						answers(yield, test.came, 496)
					}
				})
				f := newFleet(t, Config{SlowStart: -1}, prefill.member("prefill", parley.RolePrefill),
					decode.member("decode", parley.RoleDecode))
				synctest.Wait()
				log := &parley.AttemptLog{}
				r := &parley.Request{Model: modelID, Prompt: make([]parley.Token, 512), MaxTokens: 1}
				got, err := hear(parley.WithAttemptLog(ctx, log), f, r)
				if test.leaves != (err != nil) {
					t.Fatal(err)
				}
				if err == nil {
					if u := got[len(got)-1].Usage; u.CachedTokens != test.cached || u.PromptTokens != 512 {
						t.Errorf("usage %+v, want %d tokens cached", u, test.cached)
					}
				}
				all, _ := log.Attempts()
				for _, a := range all {
					if want := test.attempts[a.Worker]; a.End != want && !test.fails {
						t.Errorf("%s: %s, %q, want %s", a.Worker, a.End, a.Why, want)
					}
				}
				synctest.Wait()
				for _, s := range f.Standings() {
					if s.Answering != 0 || s.Name == "prefill" && s.Failed > 0 && test.fault == nil {
						t.Errorf("%+v", s)
					}
				}
			})
		})
	}
}
