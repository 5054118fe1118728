package sample

import (
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"parley"
)

func TestLogprobsEqualTheTextbook(t *testing.T) {
	rng := rand.New(rand.NewPCG(21, 2))
	scratch := new(Scratch)
	for range 1500 {
		logits := randomLogits(rng, 1+rng.IntN(300))
		want := slowLogprobs(logits)
		token := rng.IntN(len(logits))
		got := Logprobs(logits, parley.Token(token), 20, scratch)
		if got.Token != parley.Token(token) || !near(got.Logprob, want[token]) {
			t.Fatalf("token %d of %v: %v, want %v", token, logits, got.Logprob, want[token])
		}
		sorted := (&slowSampler{}).sorted(logits)
		if len(got.Top) != min(20, len(sorted)) {
			t.Fatalf("%d alternatives of %d", len(got.Top), len(sorted))
		}
		for i, top := range got.Top {
			if int(top.Token) != sorted[i].id || !near(top.Logprob, want[top.Token]) {
				t.Fatalf("alternative %d is %v, want token %d with %v", i, top, sorted[i].id, want[sorted[i].id])
			}
		}
	}
}

func near(got float32, want float64) bool {
	return math.Abs(float64(got)-want) <= 1e-6*max(1, math.Abs(want))
}

func TestLogprobsAreAlwaysNumbers(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	scratch := new(Scratch)
	for _, c := range []struct {
		logits []float32
		token  parley.Token
		want   float32
	}{
		{[]float32{0, -inf}, 1, LeastLogprob},
		{[]float32{0, nan}, 1, LeastLogprob},
		{[]float32{0, nan}, 0, 0},
		{[]float32{nan, -inf}, 0, LeastLogprob},
		{[]float32{inf, 0, inf}, 2, float32(-math.Ln2)},
		{[]float32{inf, 0}, 1, LeastLogprob},
		{[]float32{0, 1}, 2, LeastLogprob},
		{[]float32{0, 1}, -1, LeastLogprob},
		{nil, 0, LeastLogprob},
		{[]float32{5, 5, 5, 5}, 0, float32(-2 * math.Ln2)},
	} {
		if got := Logprobs(c.logits, c.token, 0, scratch); got.Logprob != c.want && !near(got.Logprob,
			float64(c.want)) || got.Top != nil {
			t.Errorf("token %d of %v: %+v, want %v and no alternatives", c.token, c.logits, got, c.want)
		}
	}
}

func TestManyRowsEqualOneAtATime(t *testing.T) {
	const vocab, rows = 90, 7
	rng := rand.New(rand.NewPCG(2, 22))
	scratch := new(Scratch)
	var logits []float32
	var tokens []parley.Token
	for range rows {
		logits = append(logits, randomLogits(rng, vocab)...)
		tokens = append(tokens, parley.Token(rng.IntN(vocab)))
	}
	for _, top := range []int{-1, 0, 5, vocab + 3} {
		first := parley.Logprob{Token: 1, Logprob: -1}
		got, err := AppendLogprobs([]parley.Logprob{first}, logits, tokens, top, scratch)
		if err != nil {
			t.Fatal(err)
		}
		want := []parley.Logprob{first}
		for i, token := range tokens {
			want = append(want, Logprobs(logits[i*vocab:(i+1)*vocab], token, top, scratch))
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("top %d: rows together and one at a time differ", top)
		}
	}
	if _, err := AppendLogprobs(nil, logits[1:], tokens, 0, scratch); err == nil {
		t.Error("rows of different lengths were taken")
	}
	if got, err := AppendLogprobs(nil, nil, nil, 5, scratch); len(got) != 0 || err != nil {
		t.Errorf("no tokens gave %v, %v", got, err)
	}
}

func TestLogprobsDoNotDependOnScale(t *testing.T) {
	logits := []float32{1000, 999, -1000}
	shifted := []float32{1, 0, -1999}
	scratch := new(Scratch)
	a, b := Logprobs(logits, 1, 3, scratch), Logprobs(shifted, 1, 3, scratch)
	if a.Logprob != b.Logprob || !slices.Equal(a.Top, b.Top) {
		t.Errorf("%v and %v differ", a, b)
	}
}
