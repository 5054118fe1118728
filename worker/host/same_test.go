package host

import (
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"parley"
	"parley/compute"
	"parley/fleet"
	"parley/route"
)

var sameRequests = flag.Int("same", 32,
	"how many requests are answered by one worker, and by one that computes prompts with one that decodes")

// TestTogetherAndApart answers random requests with one worker, and with two of which one
// computes prompts and the other decodes what it fetches: greedily and with seeds, under
// grammars, with contexts of up to 8,192 tokens, with all types of the pool. The one worker does
// not speculate, the others do. The tokens must be the same.
func TestTogetherAndApart(t *testing.T) {
	var fetched, long atomic.Int64
	for kind := range compute.KVType(compute.KVTypes) {
		t.Run(kind.String(), func(t *testing.T) {
			model := Config{KVTokens: 8 * sameContext, ContextTokens: sameContext, KVType: kind}
			a, urlA := startWorker(t, ServerConfig{Key: transferKey, Role: parley.RolePrefill}, model)
			b, urlB := startWorker(t, ServerConfig{Key: transferKey, Role: parley.RoleDecode}, model)
			f := startFleetWith(t, route.Config{FetchTime: maxFetch, FetchGain: 1e6}, urlA, urlB)
			ck := openBuiltin(t, "polly-mini")
			ck.Config.Context = sameContext
			together := startHost(t, ck, Config{
				Name:          "polly-mini",
				KVTokens:      8 * sameContext,
				ContextTokens: sameContext,
				KVType:        kind,
				NoSpeculation: true,
			})
			text := chatPrompt(t, together, longQuestion+" "+longQuestion)
			rng := rand.New(rand.NewPCG(uint64(kind), 24))
			requests := make([]*parley.Request, max(1, *sameRequests/compute.KVTypes))
			for i := range requests {
				requests[i] = sameRequest(rng, text, i%16 == 0)
				if len(requests[i].Prompt) > 2048 {
					long.Add(1)
				}
			}
			each(requests, func(r *parley.Request) { sameTokens(t, f, together, r, &fetched) })
			sound(t, a, b)
		})
	}
	if n := fetched.Load(); n < int64(*sameRequests)/2 {
		t.Errorf("%d of %d requests fetched blocks: most were not apart", n, *sameRequests)
	}
	t.Logf("%d requests, %d with more than 2,048 tokens, %d with blocks that were fetched", *sameRequests, long.Load(),
		fetched.Load())
}

// each has requests made, eight at once.
func each(requests []*parley.Request, do func(*parley.Request)) {
	var all sync.WaitGroup
	next := make(chan *parley.Request)
	for range 8 {
		all.Go(func() {
			for r := range next {
				do(r)
			}
		})
	}
	for _, r := range requests {
		next <- r
	}
	close(next)
	all.Wait()
}

// sameContext is the context of the workers that are compared: longer than the model was trained
// for, which changes what it writes and not whether two workers write the same.
const sameContext = 8192

// sameRequest returns a random request: its prompt is of random pieces of a text.
func sameRequest(rng *rand.Rand, text []parley.Token, long bool) *parley.Request {
	r := &parley.Request{
		Model:     "polly-mini",
		MaxTokens: 1 + rng.IntN(40),
		Salt:      parley.Salt{byte(rng.IntN(4))},
		Stop:      parley.Stop{IgnoreEnd: rng.IntN(2) == 0},
	}
	length := 300 + rng.IntN(400)
	if long {
		length = 2048 + rng.IntN(sameContext-2048-r.MaxTokens)
	}
	for len(r.Prompt) < length {
		from := rng.IntN(len(text))
		r.Prompt = append(r.Prompt, text[from:min(len(text), from+1+rng.IntN(64))]...)
	}
	r.Prompt = r.Prompt[:length]
	if rng.IntN(2) == 0 {
		r.Sampling = parley.Sampling{Temperature: 0.5 + rng.Float32(), Seed: rng.Uint64(), TopP: 0.95}
	}
	switch rng.IntN(4) {
	case 0:
		r.Grammar = new(parley.Regex(`[A-Z][a-z ]{3,40}\.`))
	case 1:
		r.Grammar = new(parley.JSONSchema([]byte(`{"type":"object","properties":{"a":{"type":"integer"},`+
			`"b":{"enum":["x","y"]}},"required":["a","b"],"additionalProperties":false}`), true))
		r.FinishGrammar = r.MaxTokens > 24
	}
	return r
}

// sameTokens wants a fleet to give the tokens of one worker, and counts requests whose
// blocks were fetched.
func sameTokens(t *testing.T, f *fleet.Fleet, together *Host, r *parley.Request, fetched *atomic.Int64) {
	want := answer(t, together, r)
	got, _, all := askFleet(t, f, r)
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v: %d tokens, %+v, grammar %v, %+v", got, want, len(r.Prompt), r.Sampling, r.Grammar, all)
	}
	for _, a := range all {
		if a.Transfer != nil && a.Transfer.CameTokens > 0 {
			fetched.Add(1)
			return
		}
	}
}
