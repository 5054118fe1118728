package gateway

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/compute"
	"parley/engine"
	"parley/engine/kv"
	"parley/engine/sched"
)

// newSlowEngine starts a real engine, with its real cache, whose steps take as long
// as they have tokens, and some more or less: what an attacker would time.
func newSlowEngine(t *testing.T) *engine.Engine {
	noise := rand.New(rand.NewPCG(1, 1))
	vocab := tinyTokenizer().Size()
	e, err := engine.New(engine.Config{
		Model: parley.Model{ID: modelID, ContextTokens: 256}, Vocab: vocab, Bytes: tinyTokenizer().Bytes,
		Forward: func(s *compute.Step, logits []float32) {
			time.Sleep(time.Duration(len(s.Tokens))*time.Millisecond + time.Duration(
				noise.ExpFloat64()*float64(5*time.Millisecond)))
			clear(logits)
		},
		Move:  func(kv.Move) error { return nil },
		Sched: sched.Config{Blocks: 512, StepTokens: 256, StepOutputs: 8, Seqs: 8},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// A probe is what an attacker learns of a prompt.
type probe struct {
	took   time.Duration
	cached int
}

// ask sends a prompt for a tenant.
func (s *server) probe(tenant, prompt string) (p probe) {
	began := time.Now()
	response, body := s.do("POST", "/v1/completions", fmt.Sprintf(
		`{"model":%q,"prompt":%q,"max_tokens":1,"temperature":0}`, modelID, prompt), "Authorization", "Bearer "+tenant)
	p.took = time.Since(began)
	var answer struct {
		Usage struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		} `json:"usage"`
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || response.StatusCode != 200 {
		s.t.Fatalf("%s: %v", body, err)
	}
	p.cached = answer.Usage.Details.Cached
	return p
}

// secret is a text that nobody guesses by chance.
func secret(rng *rand.Rand) (text string) {
	for range 24 {
		text += fmt.Sprintf("%x ", rng.IntN(1<<12))
	}
	return text
}

// signTest returns how likely it is that so many of the differences point one way
// by chance. Differences of 0 say nothing.
func signTest(differences []float64) float64 {
	up, n := 0, 0
	for _, d := range differences {
		if d != 0 {
			n++
		}
		if d > 0 {
			up++
		}
	}
	if n == 0 {
		return 1
	}
	z := max(0, math.Abs(float64(2*up-n))-1) / math.Sqrt(float64(n))
	return math.Erfc(z / math.Sqrt2)
}

// attack has a victim ask something, and an attacker ask for just that and for
// something else, in random order, over and over. It returns how likely what the
// attacker measured is if it had learnt nothing.
func attack(t *testing.T, victim, attacker string, pairs int) (timing, usage float64) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, newSlowEngine(t), func(c *Config) { c.Share.Off = true })
		s.gateway.who = byKey
		rng := rand.New(rand.NewPCG(7, 7))
		var times, counts []float64
		for range pairs {
			asked, other := secret(rng), secret(rng)
			s.probe(victim, asked+"and what follows")
			var right, wrong probe
			if rng.IntN(2) == 0 {
				right, wrong = s.probe(attacker, asked), s.probe(attacker, other)
			} else {
				wrong, right = s.probe(attacker, other), s.probe(attacker, asked)
			}
			times = append(times, (wrong.took - right.took).Seconds())
			counts = append(counts, float64(right.cached-wrong.cached))
		}
		timing, usage = signTest(times), signTest(counts)
	})
	return timing, usage
}

// TestTenantsDoNotLearnOfOneAnother pairs 2,000 probes for what another tenant has
// just asked with probes for what nobody has: neither times nor usage differ. The
// same attack on somebody with the same salt is seen at once.
func TestTenantsDoNotLearnOfOneAnother(t *testing.T) {
	timing, usage := attack(t, "free-victim", "free-attacker", 2000)
	t.Logf("another tenant: p = %.3f by time, %.3f by usage", timing, usage)
	if timing <= 0.01 || usage <= 0.01 {
		t.Error("an attacker learns what another tenant asked")
	}
	timing, usage = attack(t, "free-shared", "free-shared", 200)
	t.Logf("a shared salt: p = %.3g by time, %.3g by usage", timing, usage)
	if timing > 1e-6 || usage > 1e-6 {
		t.Error("the attack does not work where it should, so the test shows nothing")
	}
}
