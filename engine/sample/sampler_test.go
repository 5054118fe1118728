package sample

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"parley"
)

func mustChoose(t *testing.T, s *Sampler, logits []float32, scratch *Scratch) parley.Token {
	t.Helper()
	token, err := s.Choose(logits, scratch)
	if err != nil {
		t.Fatal(err)
	}
	return token
}

func TestStepsComeInTheDocumentedOrder(t *testing.T) {
	bias := func(pairs ...float32) map[parley.Token]float32 {
		m := map[parley.Token]float32{}
		for i := 0; i < len(pairs); i += 2 {
			m[parley.Token(pairs[i])] = pairs[i+1]
		}
		return m
	}
	for _, c := range []struct {
		name           string
		sampling       parley.Sampling
		prompt, answer []parley.Token
		logits         []float32
		want           parley.Token
	}{
		{name: "zero value is the best score", logits: []float32{1, 3, 2}, want: 1},
		{name: "lowest id wins a tie", logits: []float32{1, 3, 3}, want: 1},
		{name: "bias is added", sampling: parley.Sampling{LogitBias: bias(0, 2.5)}, logits: []float32{1, 3, 2},
			want: 0},
		{name: "bias of -100 bans", sampling: parley.Sampling{LogitBias: bias(1, -100)},
			logits: []float32{-20, 30, -25}, want: 0},
		{name: "bias of 100 forces", sampling: parley.Sampling{LogitBias: bias(2, 100)},
			logits: []float32{-20, 30, -25}, want: 2},
		{name: "bias comes before repetition", sampling: parley.Sampling{LogitBias: bias(0, 4), RepetitionPenalty: 2},
			prompt: []parley.Token{0}, logits: []float32{-1, 1.6}, want: 1}, // 3/2 < 1.6, but -2+4 > 1.6
		{name: "repetition divides what is positive", sampling: parley.Sampling{RepetitionPenalty: 2},
			prompt: []parley.Token{0}, logits: []float32{3, 2}, want: 1},
		{name: "repetition multiplies what is negative", sampling: parley.Sampling{RepetitionPenalty: 2},
			prompt: []parley.Token{0}, logits: []float32{-2, -3}, want: 1},
		{name: "repetition counts the answer", sampling: parley.Sampling{RepetitionPenalty: 2},
			answer: []parley.Token{0}, logits: []float32{3, 2}, want: 1},
		{name: "repetition counts once", sampling: parley.Sampling{RepetitionPenalty: 2},
			prompt: []parley.Token{0, 0, 0}, answer: []parley.Token{0}, logits: []float32{3, 1.4}, want: 0},
		{name: "repetition comes before the subtractions",
			sampling: parley.Sampling{RepetitionPenalty: 2, PresencePenalty: 1},
			answer:   []parley.Token{0}, logits: []float32{4, 1.2}, want: 1}, // 4/2-1 < 1.2, but (4-1)/2 > 1.2
		{name: "presence leaves the prompt alone", sampling: parley.Sampling{PresencePenalty: 2},
			prompt: []parley.Token{0}, logits: []float32{3, 2}, want: 0},
		{name: "presence counts the answer", sampling: parley.Sampling{PresencePenalty: 2}, answer: []parley.Token{0},
			logits: []float32{3, 2}, want: 1},
		{name: "presence counts once", sampling: parley.Sampling{PresencePenalty: 0.9},
			answer: []parley.Token{0, 0, 0}, logits: []float32{3, 2}, want: 0},
		{name: "frequency leaves the prompt alone", sampling: parley.Sampling{FrequencyPenalty: 2},
			prompt: []parley.Token{0}, logits: []float32{3, 2}, want: 0},
		{name: "frequency counts each time", sampling: parley.Sampling{FrequencyPenalty: 0.4},
			answer: []parley.Token{0, 0, 0}, logits: []float32{3, 2}, want: 1},
		{name: "a negative penalty rewards", sampling: parley.Sampling{PresencePenalty: -2}, answer: []parley.Token{1},
			logits: []float32{3, 2}, want: 1},
		{name: "top_k of 1 is greedy", sampling: parley.Sampling{Temperature: 5, TopK: 1}, logits: []float32{1, 3, 3},
			want: 1},
		{name: "a tiny top_p is greedy", sampling: parley.Sampling{Temperature: 5, TopP: 1e-6},
			logits: []float32{1, 3, 2}, want: 1},
		{name: "min_p of 1 is greedy", sampling: parley.Sampling{Temperature: 5, MinP: 1}, logits: []float32{1, 3, 2},
			want: 1},
		{name: "a tiny temperature is greedy", sampling: parley.Sampling{Temperature: 1e-30},
			logits: []float32{1, 3, 2}, want: 1},
	} {
		sampler := New(c.sampling, c.prompt, len(c.logits), 0)
		for _, token := range c.answer {
			sampler.Accept(token)
		}
		if got := mustChoose(t, sampler, c.logits, new(Scratch)); got != c.want {
			t.Errorf("%s: chose %d, want %d", c.name, got, c.want)
		}
	}
}

// TestFiltersKeepWhatTheyShould draws often and looks at which tokens come.
func TestFiltersKeepWhatTheyShould(t *testing.T) {
	ln := func(p float64) float32 { return float32(math.Log(p)) }
	logits := []float32{ln(0.1), ln(0.4), ln(0.05), ln(0.3), ln(0.15)}
	for _, c := range []struct {
		name     string
		sampling parley.Sampling
		want     []parley.Token
	}{
		{"all", parley.Sampling{Temperature: 1}, []parley.Token{0, 1, 2, 3, 4}},
		{"top_k", parley.Sampling{Temperature: 1, TopK: 2}, []parley.Token{1, 3}},
		{"top_p includes the token that crosses", parley.Sampling{Temperature: 1, TopP: 0.75}, []parley.Token{1, 3, 4}},
		{"top_p after temperature", parley.Sampling{Temperature: 0.25, TopP: 0.72}, []parley.Token{1}},
		{"top_p is a share of top_k", parley.Sampling{Temperature: 1, TopK: 2, TopP: 0.55}, []parley.Token{1}},
		{"min_p", parley.Sampling{Temperature: 1, MinP: 0.3}, []parley.Token{1, 3, 4}},
		{"min_p after temperature", parley.Sampling{Temperature: 2, MinP: 0.45}, []parley.Token{0, 1, 3, 4}},
		{"top_p is a share of what min_p drops too", parley.Sampling{Temperature: 1, TopP: 0.65, MinP: 0.7},
			[]parley.Token{1, 3}},
		{"min_p after top_p", parley.Sampling{Temperature: 1, TopP: 0.95, MinP: 0.3}, []parley.Token{1, 3, 4}},
	} {
		sampler := New(c.sampling, nil, len(logits), 0)
		seen := map[parley.Token]bool{}
		for range 2000 {
			token := mustChoose(t, sampler, logits, new(Scratch))
			seen[token] = true
			sampler.Accept(token)
		}
		for token := range parley.Token(5) {
			if seen[token] != slices.Contains(c.want, token) {
				t.Errorf("%s: token %d seen is %v, want exactly %v", c.name, token, seen[token], c.want)
			}
		}
	}
}

func TestScoresThatAreNotNumbers(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, temperature := range []float32{0, 1, inf} {
		s := parley.Sampling{Temperature: temperature, LogitBias: map[parley.Token]float32{3: 1}}
		for _, c := range []struct {
			logits []float32
			want   parley.Token
		}{
			{[]float32{nan, -5, nan, nan}, 1},
			{[]float32{-inf, -inf, -5, -inf}, 2},
			{[]float32{-inf, nan, -inf, -math.MaxFloat32}, 3},
		} {
			if got := mustChoose(t, New(s, nil, 4, 0), c.logits, new(Scratch)); got != c.want {
				t.Errorf("temperature %v: chose %d from %v, want %d", temperature, got, c.logits, c.want)
			}
		}
		if _, err := New(s, nil, 4, 0).Choose([]float32{nan, -inf, nan, -inf}, new(Scratch)); !errors.Is(err,
			ErrNoToken) {
			t.Errorf("temperature %v: nothing to choose gave %v, want ErrNoToken", temperature, err)
		}
	}
	logits := []float32{1, inf, 5, inf, math.MaxFloat32}
	if got := mustChoose(t, New(parley.Sampling{}, nil, 5, 0), logits, new(Scratch)); got != 1 {
		t.Errorf("greedy among infinities chose %d, want 1", got)
	}
	for seed := range uint64(50) {
		sampler := New(parley.Sampling{Temperature: 1, Seed: seed}, nil, 5, 0)
		if got := mustChoose(t, sampler, logits, new(Scratch)); got != 1 && got != 3 && got != 4 {
			t.Errorf("a draw among infinities chose %d", got)
		}
	}
}

func TestChooseRefusesTheWrongNumberOfScores(t *testing.T) {
	for _, n := range []int{0, 3, 5} {
		if _, err := New(parley.Sampling{}, nil, 4, 0).Choose(make([]float32, n), new(Scratch)); err == nil {
			t.Errorf("%d scores for 4 tokens were taken", n)
		}
	}
}

func TestTokensOutsideTheVocabularyAreIgnored(t *testing.T) {
	s := parley.Sampling{RepetitionPenalty: 2, LogitBias: map[parley.Token]float32{-1: 5, 9: 5}}
	sampler := New(s, []parley.Token{-3, 99}, 3, -1)
	sampler.Accept(-1)
	sampler.Accept(3)
	if got := mustChoose(t, sampler, []float32{1, 3, 2}, new(Scratch)); got != 1 {
		t.Errorf("chose %d, want 1", got)
	}
}

func TestSameSeedSameTextWhateverElseRuns(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 8))
	rows := make([][]float32, 30)
	for i := range rows {
		rows[i] = modelLike(rng, 300)
	}
	sampling := parley.Sampling{Temperature: 4, TopP: 0.95, FrequencyPenalty: 0.5, Seed: 77}
	run := func(choice int, scratch *Scratch, between func()) (text []parley.Token) {
		sampler := New(sampling, nil, 300, choice)
		for _, row := range rows {
			between()
			token := mustChoose(t, sampler, row, scratch)
			if again := mustChoose(t, sampler, row, scratch); again != token {
				t.Fatalf("choosing again before accepting gave %d, then %d", token, again)
			}
			text = append(text, token)
			sampler.Accept(token)
		}
		return text
	}
	alone := run(0, new(Scratch), func() {})
	shared := new(Scratch)
	other := New(parley.Sampling{Temperature: 1, TopK: 50, Seed: 5}, nil, 700, 0)
	crowded := run(0, shared, func() { other.Accept(mustChoose(t, other, modelLike(rng, 700), shared)) })
	if !slices.Equal(alone, crowded) {
		t.Errorf("alone %v, beside another request %v", alone, crowded)
	}
	if slices.Equal(alone, run(1, shared, func() {})) {
		t.Error("two choices of one seed are the same")
	}
}

func TestTheCallersScoresAreLeftAsTheyAre(t *testing.T) {
	logits := []float32{1, float32(math.Inf(1)), float32(math.NaN()), -4, float32(math.Copysign(0, -1))}
	before := fmt.Sprint(logits)
	s := parley.Sampling{Temperature: 1, TopP: 0.5, TopK: 3, RepetitionPenalty: 1.5,
		LogitBias: map[parley.Token]float32{0: 2}}
	scratch := new(Scratch)
	mustChoose(t, New(s, []parley.Token{3}, 5, 0), logits, scratch)
	Logprobs(logits, 1, 3, scratch)
	if after := fmt.Sprint(logits); after != before {
		t.Errorf("scores were %s and are %s", before, after)
	}
}

func TestChoosingDoesNotAllocate(t *testing.T) {
	logits := modelLike(rand.New(rand.NewPCG(4, 4)), 5000)
	scratch := new(Scratch)
	for _, s := range []parley.Sampling{
		{}, {Temperature: 1}, {Temperature: 1, TopK: 40}, {Temperature: 9, TopK: 2000, TopP: 0.9, MinP: 0.1},
		{Temperature: 0.7, TopP: 0.9, RepetitionPenalty: 1.1, LogitBias: map[parley.Token]float32{3: -100}},
	} {
		sampler := New(s, []parley.Token{1, 2, 3}, len(logits), 0)
		sampler.Accept(mustChoose(t, sampler, logits, scratch))
		if allocs := testing.AllocsPerRun(50, func() { mustChoose(t, sampler, logits, scratch) }); allocs != 0 {
			t.Errorf("%+v: %v allocations for each token, want none", s, allocs)
		}
	}
}

func TestCheckNamesTheField(t *testing.T) {
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for param, samplings := range map[string][]parley.Sampling{
		"temperature":        {{Temperature: -1}, {Temperature: nan}, {Temperature: inf}},
		"top_k":              {{TopK: -1}},
		"top_p":              {{TopP: 1.1}, {TopP: -0.1}, {TopP: nan}},
		"min_p":              {{MinP: 1.1}, {MinP: -0.1}, {MinP: nan}},
		"repetition_penalty": {{RepetitionPenalty: -1}, {RepetitionPenalty: nan}},
		"presence_penalty":   {{PresencePenalty: nan}},
		"frequency_penalty":  {{FrequencyPenalty: -inf}},
		"logit_bias": {{LogitBias: map[parley.Token]float32{10: 1}},
			{LogitBias: map[parley.Token]float32{-1: 1}}, {LogitBias: map[parley.Token]float32{1: nan}}},
	} {
		for _, s := range samplings {
			problem, ok := errors.AsType[*parley.Error](Check(s, 10))
			if !ok || problem.Param != param || problem.Code != parley.InvalidRequest {
				t.Errorf("Check(%+v) = %v, want it to name %s", s, problem, param)
			}
		}
	}
	good := parley.Sampling{Temperature: 2, TopK: 99, TopP: 1, MinP: 1, RepetitionPenalty: 1.3, PresencePenalty: -2,
		FrequencyPenalty: 2, LogitBias: map[parley.Token]float32{9: -100}}
	if err := errors.Join(Check(good, 10), Check(parley.Sampling{}, MaxVocab)); err != nil {
		t.Error(err)
	}
	if Check(good, 0) == nil || Check(good, MaxVocab+1) == nil {
		t.Error("an impossible vocabulary was taken")
	}
}

// TestAheadDrawsWhatWillBeDrawn compares guesses with the tokens that are chosen
// later from the same scores.
func TestAheadDrawsWhatWillBeDrawn(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 3))
	var scratch Scratch
	rows := make([][]float32, 20)
	for i := range rows {
		rows[i] = make([]float32, 50)
		for j := range rows[i] {
			rows[i][j] = rng.Float32() * 4
		}
	}
	for _, temperature := range []float32{0, guessCold, 0.8, 2} {
		s := New(parley.Sampling{Temperature: temperature, TopP: 0.95, Seed: 7}, nil, 50, 1)
		var guesses []parley.Token
		for i, row := range rows {
			guess, err := s.Ahead(i, row, &scratch)
			if err != nil {
				t.Fatal(err)
			}
			guesses = append(guesses, guess)
		}
		for i, row := range rows {
			tok, err := s.Choose(row, &scratch)
			if err != nil {
				t.Fatal(err)
			}
			want := tok
			if temperature <= guessCold {
				want = parley.Token(argmax(row))
			}
			if guesses[i] != want {
				t.Errorf("temperature %v, token %d: guessed %d, want %d", temperature, i, guesses[i], want)
			}
			s.Accept(tok)
		}
	}
}
