package sample

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"parley"
)

func randomLogits(rng *rand.Rand, vocab int) []float32 {
	shape := rng.IntN(6)
	spread := math.Exp(rng.Float64()*8 - 3)
	logits := make([]float32, vocab)
	for i := range logits {
		switch shape {
		case 0, 1, 2:
			logits[i] = float32(rng.NormFloat64() * spread)
		case 3:
			logits[i] = float32(rng.IntN(5)) * float32(spread)
		case 4:
			logits[i] = float32(i%13) / 4
		}
		if shape == 2 && rng.IntN(8) == 0 {
			logits[i] = []float32{float32(math.NaN()), float32(math.Inf(-1)), -math.MaxFloat32, 0}[rng.IntN(4)]
		}
	}
	if shape == 2 && rng.IntN(4) == 0 {
		logits[rng.IntN(vocab)] = float32(math.Inf(1))
	}
	return logits
}

// sometimes returns 0 half of the time, so that every setting is often absent.
func sometimes(rng *rand.Rand, x float64) float32 {
	return float32(x * float64(rng.IntN(2)))
}

func randomSampling(rng *rand.Rand, vocab int) parley.Sampling {
	s := parley.Sampling{
		Temperature:       float32(math.Exp(rng.Float64()*6 - 3)),
		TopP:              sometimes(rng, rng.Float64()),
		MinP:              sometimes(rng, rng.Float64()*rng.Float64()),
		RepetitionPenalty: sometimes(rng, 0.5+rng.Float64()),
		PresencePenalty:   sometimes(rng, rng.NormFloat64()),
		FrequencyPenalty:  sometimes(rng, rng.NormFloat64()),
		Seed:              rng.Uint64(),
	}
	if rng.IntN(8) == 0 {
		s.Temperature = 0
	}
	if rng.IntN(2) == 0 {
		s.TopK = 1 + rng.IntN(vocab+2)
	}
	if rng.IntN(2) == 0 {
		s.LogitBias = map[parley.Token]float32{
			parley.Token(rng.IntN(vocab)): float32(rng.NormFloat64() * 5),
			parley.Token(rng.IntN(vocab)): []float32{100, -100}[rng.IntN(2)],
		}
	}
	return s
}

// compare answers a few tokens with both samplers.
func compare(t *testing.T, rng *rand.Rand, s parley.Sampling, vocab, tokens int, scratch *Scratch) {
	t.Helper()
	prompt := []parley.Token{parley.Token(rng.IntN(vocab)), parley.Token(rng.IntN(vocab))}
	choice := rng.IntN(3)
	fast := New(s, prompt, vocab, choice)
	slow := &slowSampler{sampling: s, prompt: prompt, choice: choice}
	for range tokens {
		logits := randomLogits(rng, vocab)
		got, gotErr := fast.Choose(logits, scratch)
		want, wantErr := slow.choose(logits)
		if got != want || !errors.Is(gotErr, wantErr) {
			t.Fatalf("%+v over %d tokens, draw %d: chose %d (%v), the full sort %d (%v)", s, vocab, len(slow.answer),
				got, gotErr, want, wantErr)
		}
		fast.Accept(got)
		slow.answer = append(slow.answer, got)
	}
}

func TestChooseEqualsTheFullSort(t *testing.T) {
	rng := rand.New(rand.NewPCG(2024, 7))
	scratch := new(Scratch)
	for range 6000 {
		vocab := 1 + rng.IntN(1+rng.IntN(400))
		compare(t, rng, randomSampling(rng, vocab), vocab, 4, scratch)
	}
}

func TestChooseEqualsTheFullSortOnLargeVocabularies(t *testing.T) {
	if testing.Short() {
		t.Skip("sorts large vocabularies")
	}
	rng := rand.New(rand.NewPCG(6, 11))
	scratch := new(Scratch)
	for range 40 {
		vocab := 5000 + rng.IntN(20000)
		compare(t, rng, randomSampling(rng, vocab), vocab, 2, scratch)
	}
	for _, s := range []parley.Sampling{
		{Temperature: 1, TopP: 0.9}, {Temperature: 1, TopK: 40}, {Temperature: 2, TopK: 60000, TopP: 0.7},
		{Temperature: 1}, {Temperature: 1.5, MinP: 0.02}, {Temperature: 1.5, TopP: 0.99, MinP: 0.001},
	} {
		compare(t, rng, s, benchVocab, 2, scratch)
	}
}

// TestDrawsFollowTheDistribution compares counts of many draws with the
// probabilities of the full sort by Pearson's statistic. The seeds are fixed,
// so it either always passes or never does.
func TestDrawsFollowTheDistribution(t *testing.T) {
	const draws = 60000
	logits := modelLike(rand.New(rand.NewPCG(12, 1)), 60)
	for i, s := range []parley.Sampling{
		{Temperature: 3}, {Temperature: 5, TopK: 20}, {Temperature: 4, TopP: 0.8},
		{Temperature: 6, MinP: 0.1}, {Temperature: 5, TopK: 40, TopP: 0.9, MinP: 0.05},
	} {
		s.Seed = uint64(i + 1)
		kept := (&slowSampler{sampling: s}).kept(logits)
		total := 0.0
		for _, c := range kept {
			total += math.Exp(float64(c.score-kept[0].score) / float64(s.Temperature))
		}
		counts := make([]float64, len(logits))
		sampler, scratch := New(s, nil, len(logits), 0), new(Scratch)
		for range draws {
			token := mustChoose(t, sampler, logits, scratch)
			counts[token]++
			sampler.Accept(token)
		}
		statistic, drawn := 0.0, 0.0
		for _, c := range kept {
			expected := draws * math.Exp(float64(c.score-kept[0].score)/float64(s.Temperature)) / total
			statistic += (counts[c.id] - expected) * (counts[c.id] - expected) / expected
			drawn += counts[c.id]
		}
		// The statistic has mean n and deviation sqrt(2n) for n degrees of freedom.
		freedom := float64(len(kept) - 1)
		if limit := freedom + 4*math.Sqrt(2*freedom); statistic > limit || drawn != draws {
			t.Errorf("%+v: statistic %.1f over %v degrees, want below %.1f; %v of %d draws were allowed", s, statistic,
				freedom, limit, drawn, draws)
		}
	}
}

// TestChoicesAndSeedsAreIndependent counts pairs of draws that differ in one
// coordinate only.
func TestChoicesAndSeedsAreIndependent(t *testing.T) {
	const sides, draws = 6, 36000
	for name, next := range map[string]func(seed, choice, position uint64) (uint64, uint64, uint64){
		"position": func(s, c, p uint64) (uint64, uint64, uint64) { return s, c, p + 1 },
		"choice":   func(s, c, p uint64) (uint64, uint64, uint64) { return s, c + 1, p },
		"seed":     func(s, c, p uint64) (uint64, uint64, uint64) { return s + 1, c, p },
	} {
		var pairs [sides * sides]float64
		for i := range uint64(draws) {
			a := drawBelow(sides, 3, 0, 2*i)
			s, c, p := next(3, 0, 2*i)
			pairs[a*sides+drawBelow(sides, s, c, p)]++
		}
		statistic, expected := 0.0, float64(draws)/(sides*sides)
		for _, count := range pairs {
			statistic += (count - expected) * (count - expected) / expected
		}
		if limit := 35 + 4*math.Sqrt(70); statistic > limit {
			t.Errorf("%s: statistic %.1f, want below %.1f", name, statistic, limit)
		}
	}
}

func FuzzChoose(f *testing.F) {
	f.Add([]byte("some bytes that are read as scores"), float32(1), 3, float32(0.9), float32(0.1), float32(1.2),
		float32(0.5), uint64(1))
	f.Add([]byte{0, 0, 0x80, 0x7f, 0, 0, 0xc0, 0x7f, 0, 0, 0x80, 0xff}, float32(0.1), 0, float32(0), float32(0),
		float32(0), float32(0), uint64(9))
	f.Add(make([]byte, 400), float32(math.Inf(1)), -1, float32(math.NaN()), float32(2), float32(-1),
		float32(math.Inf(-1)), uint64(0))
	f.Fuzz(func(t *testing.T, data []byte, temperature float32, topK int, topP, minP, repetition, penalty float32,
		seed uint64) {
		vocab := min(len(data)/4, 4096)
		logits := make([]float32, vocab)
		for i := range logits {
			logits[i] = math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
		}
		s := parley.Sampling{Temperature: temperature, TopK: topK, TopP: topP, MinP: minP, Seed: seed,
			RepetitionPenalty: repetition,
			PresencePenalty:   penalty, FrequencyPenalty: penalty / 2, LogitBias: map[parley.Token]float32{2: penalty}}
		prompt, answer := []parley.Token{0, 1}, []parley.Token{1, 2, 2}
		fast := New(s, prompt, vocab, 1)
		for _, token := range answer {
			fast.Accept(token)
		}
		slow := &slowSampler{sampling: s, prompt: prompt, answer: answer, choice: 1, exact: true}
		before := slices.Clone(data)
		got, err := fast.Choose(logits, new(Scratch))
		want, wantErr := slow.choose(logits)
		if got != want || !errors.Is(err, wantErr) {
			t.Fatalf("%+v: chose %d (%v), the full sort %d (%v)", s, got, err, want, wantErr)
		}
		for i := range logits {
			if math.Float32bits(logits[i]) != binary.LittleEndian.Uint32(before[4*i:]) {
				t.Fatalf("score %d was changed", i)
			}
		}
		allowed := func(c candidate) bool { return c.id == int(got) }
		if err == nil && !slices.ContainsFunc(slow.kept(logits), allowed) {
			t.Fatalf("token %d of %d is not among those kept", got, vocab)
		}
	})
}
