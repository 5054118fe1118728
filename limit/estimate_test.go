package limit

import "testing"

func TestEstimate(t *testing.T) {
	var e Estimate
	if got := e.Tokens(1 << 20); got != firstTokens {
		t.Errorf("%d before anything was learned", got)
	}
	if got := e.Tokens(100); got != 100 {
		t.Errorf("%d for an answer of at most 100", got)
	}
	for range 50 {
		e.Learn(20)
	}
	if got := e.Tokens(1 << 20); got != leastTokens {
		t.Errorf("%d after short answers", got)
	}
	for i := range 200 {
		e.Learn(int64(3000 + i%2*1000))
	}
	if got := e.Tokens(1 << 20); got < 4000 || got > 6000 {
		t.Errorf("%d after answers of 3000 and 4000", got)
	}
}
