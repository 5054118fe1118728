package gauge

import "testing"

// TestGaugeLearns starts with what is usual and comes close to what a service counts.
func TestGaugeLearns(t *testing.T) {
	g := New()
	if p, a := g.Prompt(100), g.Answer(400); p != 100 || a != 100 {
		t.Errorf("before: a prompt of 100 is %d, an answer of 400 bytes %d", p, a)
	}
	for range 300 {
		g.LearnPrompt(1000, 700)
		g.LearnAnswer(600, 100)
	}
	if p, a := g.Prompt(1000), g.Answer(600); p < 690 || p > 710 || a < 98 || a > 102 {
		t.Errorf("after: a prompt of 1000 is %d, an answer of 600 bytes %d", p, a)
	}
	if g.Prompt(0) != 0 || g.Prompt(1) != 1 || (*Gauge)(nil).Prompt(7) != 7 {
		t.Error("nothing is not 0, a little not 1, or a known tokenizer is not believed")
	}
}

// TestGaugeIsBounded hears nonsense and keeps estimates within a factor of what is usual.
func TestGaugeIsBounded(t *testing.T) {
	g := New()
	for range 10_000 {
		g.LearnPrompt(100_000, 1)
		g.LearnAnswer(1, 1_000_000)
		g.LearnPrompt(0, 5)
		g.LearnPrompt(5, -1)
	}
	if p, a := g.Prompt(800), g.Answer(400); p != 100 || a != 800 {
		t.Errorf("a prompt of 800 is %d, an answer of 400 bytes %d", p, a)
	}
}
