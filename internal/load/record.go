package load

import (
	"fmt"
	"strconv"
	"time"

	"parley"
)

// An Outcome says how a request ended.
type Outcome string

const (
	// Completed requests got a whole answer.
	Completed Outcome = "completed"
	// Rejected requests were turned away by the server: status 429 or 503.
	Rejected Outcome = "rejected"
	// Failed requests got an error, half an answer, or none in time.
	Failed Outcome = "failed"
	// Unfinished requests were under way when the user ended the run. They say
	// nothing about the server.
	Unfinished Outcome = "unfinished"
	// Dropped requests were not sent, because too many were under way.
	Dropped Outcome = "dropped"
)

// Millis is a duration that JSON writes in milliseconds.
type Millis time.Duration

// MarshalJSON writes milliseconds with three decimals.
func (m Millis) MarshalJSON() ([]byte, error) {
	return strconv.AppendFloat(nil, float64(time.Duration(m).Microseconds())/1000, 'f', -1, 64), nil
}

// UnmarshalJSON reads milliseconds.
func (m *Millis) UnmarshalJSON(text []byte) error {
	f, err := strconv.ParseFloat(string(text), 64)
	const most = float64(1<<62) / float64(time.Millisecond)
	if err != nil || !(f >= -most && f <= most) {
		return fmt.Errorf("%.40q is not a time in milliseconds", text)
	}
	*m = Millis(f * float64(time.Millisecond))
	return nil
}

// A Record is what became of one request. Times other than Intended and Late
// are 0 unless the request was completed.
type Record struct {
	Timing
	// The counts of tokens are the server's own. Counted is true if it gave
	// none, and OutputTokens is the number of pieces.
	PromptTokens int  `json:"prompt_tokens"`
	CachedTokens int  `json:"cached_tokens"`
	OutputTokens int  `json:"output_tokens"`
	WantedTokens int  `json:"wanted_tokens"`
	Pieces       int  `json:"pieces"`
	Counted      bool `json:"counted,omitempty"`
	// Outcome says how it ended; Kind and Message say why it was rejected,
	// failed or dropped.
	Outcome Outcome `json:"outcome"`
	Kind    string  `json:"kind,omitempty"`
	Message string  `json:"message,omitempty"`
}

// Timing is when a request was sent, and how long its answer took.
type Timing struct {
	// Intended is when the request was to start, since the start of the run;
	// Late is how long after that it was really sent.
	Intended Millis `json:"intended_ms"`
	Late     Millis `json:"late_ms"`
	TTFT     Millis `json:"ttft_ms"`
	TPOT     Millis `json:"tpot_ms"`
	Gap      Millis `json:"gap_ms"`
	Total    Millis `json:"total_ms"`
}

// end returns when the request ended, since the start of the run.
func (r *Record) end() time.Duration { return time.Duration(r.Intended + r.Total) }

// met reports whether the request was completed within the objectives.
func (r *Record) met(s *parley.SLO) bool {
	return r.Outcome == Completed && s.Met(time.Duration(r.TTFT), time.Duration(r.TPOT), r.PromptTokens, r.CachedTokens)
}
