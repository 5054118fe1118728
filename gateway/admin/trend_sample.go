package admin

// A Sample is what happened in some time. The first four fields are peaks, the others
// counts.
type Sample struct {
	// Running and Waiting count requests being computed and queued ones; of several
	// gateways it is the most that one of them saw.
	Running int `json:"running,omitempty"`
	Waiting int `json:"waiting,omitempty"`
	// KV and Busy are shares of the fullest pool's memory and the busiest worker's time.
	KV   float64 `json:"kv,omitempty"`
	Busy float64 `json:"busy,omitempty"`
	// Requests counts those that ended, Failed and Rejected are among them.
	Requests float64 `json:"requests,omitempty"`
	Failed   float64 `json:"failed,omitempty"`
	Rejected float64 `json:"rejected,omitempty"`
	// Prompt, Cached and Output count tokens; Cached are among Prompt.
	Prompt float64 `json:"prompt,omitempty"`
	Cached float64 `json:"cached,omitempty"`
	Output float64 `json:"output,omitempty"`
	// TTFT and Gap are the times to first token and between tokens.
	TTFT Latencies `json:"ttft,omitempty"`
	Gap  Latencies `json:"gap,omitempty"`
}

// Add adds what happened in other to s.
func (s *Sample) Add(other *Sample) {
	s.Running, s.Waiting = max(s.Running, other.Running), max(s.Waiting, other.Waiting)
	s.KV, s.Busy = max(s.KV, other.KV), max(s.Busy, other.Busy)
	s.Requests += other.Requests
	s.Failed += other.Failed
	s.Rejected += other.Rejected
	s.Prompt += other.Prompt
	s.Cached += other.Cached
	s.Output += other.Output
	s.TTFT = s.TTFT.plus(other.TTFT)
	s.Gap = s.Gap.plus(other.Gap)
}
