package openai

import "parley"

// A Progress says how far a request is before its first token. The first four
// members are llama.cpp's, whose clients ask for them with return_progress; the
// others are extras.
type Progress struct {
	Total     int     `json:"total"`
	Cache     int     `json:"cache"`
	Processed int     `json:"processed"`
	TimeMs    float64 `json:"time_ms"`
	// Waiting requests are not computed yet: about Ahead others go before. WaitMs
	// is how long that is expected to take, left out if that is not known.
	Waiting bool `json:"waiting,omitempty"`
	// Loading says that the model is brought into memory first.
	Loading bool    `json:"loading,omitempty"`
	Ahead   int     `json:"ahead,omitempty"`
	WaitMs  float64 `json:"wait_ms,omitempty"`
}

// ProgressOf returns p in the shape clients read; nil of nil.
func ProgressOf(p *parley.Progress) *Progress {
	if p == nil {
		return nil
	}
	return &Progress{
		Total:     p.PromptTokens,
		Cache:     p.CachedTokens,
		Processed: p.DoneTokens,
		TimeMs:    milliseconds(p.Spent),
		Waiting:   p.Waiting,
		Loading:   p.Loading,
		Ahead:     p.Ahead,
		WaitMs:    milliseconds(p.Wait),
	}
}

// A Route says who computed an answer and why, when its first token came, and
// what it cost.
type Route struct {
	Worker string  `json:"worker,omitempty"`
	Reason string  `json:"worker_reason,omitempty"`
	TTFTMs float64 `json:"ttft_ms,omitempty"`
	// Pool is where the worker stands, and Moves how often the answer failed over to
	// another one.
	Pool  string `json:"pool,omitempty"`
	Moves int    `json:"moves,omitempty"`
	// CostMicros is in millionths of the unit that prices are in.
	CostMicros int64 `json:"cost_micros,omitempty"`
}

// RouteOf returns what is known of who computed an answer. Where there is one
// worker for each model, in this process, there was no choice to explain.
func RouteOf(r *parley.Routing) Route {
	if r == nil {
		return Route{Worker: "local", Reason: "only worker"}
	}
	return Route{Worker: r.Worker, Reason: r.Reason, Pool: r.Pool, Moves: r.Moves}
}

// TimingsPart is the type of a [TimingsNote] among the parts of an answer.
const TimingsPart = "timings"

// A TimingsNote keeps the timings of an answer with it, as a part that the model
// is not shown.
type TimingsNote struct {
	Type string `json:"type"`
	Timings
}
