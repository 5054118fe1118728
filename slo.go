package parley

import "time"

// An SLO is what users are promised of a request. A zero field promises nothing.
type SLO struct {
	// TTFT is the longest wait for the first token, and CachedTTFT the longest
	// where at least half of the prompt was cached.
	TTFT, CachedTTFT time.Duration
	// TPOT is the longest mean time of the tokens after the first.
	TPOT time.Duration
}

// DefaultSLO is the promise unless another one is made. Of TTFT it is meant
// for 95 requests in 100, of the others for 99.
func DefaultSLO() SLO {
	return SLO{TTFT: time.Second, CachedTTFT: 700 * time.Millisecond, TPOT: 50 * time.Millisecond}
}

// Met reports whether the promise was kept to a request that waited so long for
// its first token and then, on average, for each later one (0 if there were none).
func (s *SLO) Met(ttft, tpot time.Duration, promptTokens, cachedTokens int) bool {
	limit := s.TTFT
	if s.CachedTTFT > 0 && promptTokens > 0 && 2*cachedTokens >= promptTokens {
		limit = s.CachedTTFT
	}
	return (limit == 0 || ttft <= limit) && (s.TPOT == 0 || tpot <= s.TPOT)
}
