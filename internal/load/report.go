package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"parley"
	"parley/internal/stat"
)

// Schema names the shape of the JSON document.
const Schema = "parley-bench/1"

// A Report is what a run found out. The package comment describes its JSON.
type Report struct {
	Schema      string       `json:"schema"`
	Program     string       `json:"program,omitempty"`
	Started     time.Time    `json:"started"`
	Elapsed     Millis       `json:"elapsed_ms"`
	Interrupted bool         `json:"interrupted"`
	Target      ReportTarget `json:"target"`
	Load        Description  `json:"load"`
	Requests    Requests     `json:"requests"`
	Tokens      Tokens       `json:"tokens"`
	Throughput  Throughput   `json:"throughput"`
	Latency     Latency      `json:"latency"`
	// Stages are where the time to the first token went, if the server reports it.
	Stages  []StageTime `json:"stages,omitempty"`
	SLO     Goodput     `json:"slo"`
	Samples []Record    `json:"samples"`
}

// ReportTarget says what was measured.
type ReportTarget struct {
	URL   string `json:"url"`
	Model string `json:"model"`
	Send  Form   `json:"send"`
}

// A Description says which load was asked for, so that two reports can be told
// apart.
type Description struct {
	Loop            string  `json:"loop"`
	Users           int     `json:"users,omitempty"`
	ThinkMillis     Millis  `json:"think_ms,omitempty"`
	RatePerSecond   float64 `json:"rate,omitempty"`
	Arrival         string  `json:"arrival,omitempty"`
	CV              float64 `json:"cv,omitempty"`
	Workload        string  `json:"workload"`
	PromptTokens    string  `json:"prompt_tokens,omitempty"`
	OutputTokens    string  `json:"output_tokens,omitempty"`
	SharedTokens    int     `json:"shared_tokens,omitempty"`
	HistoryTokens   int     `json:"history_tokens,omitempty"`
	Groups          int     `json:"groups,omitempty"`
	GroupUsers      int     `json:"group_users,omitempty"`
	Turns           string  `json:"turns,omitempty"`
	Conversations   int     `json:"conversations,omitempty"`
	Trace           string  `json:"trace,omitempty"`
	TraceFormat     string  `json:"trace_format,omitempty"`
	Scale           float64 `json:"scale,omitempty"`
	Speed           float64 `json:"speed,omitempty"`
	SpreadMillis    Millis  `json:"spread_ms,omitempty"`
	LeftOutRequests int     `json:"left_out_requests,omitempty"`
	WarmUpRequests  int     `json:"warm_up_requests"`
	Seed            uint64  `json:"seed"`
}

// Same reports whether two runs were asked for the same load. The seed may
// differ: it makes another sample of that load.
func (d Description) Same(other Description) bool {
	d.Seed, d.LeftOutRequests = other.Seed, other.LeftOutRequests
	return d == other
}

// Requests counts the requests by outcome. Sent leaves out those dropped.
type Requests struct {
	Sent       int            `json:"sent"`
	Completed  int            `json:"completed"`
	Rejected   int            `json:"rejected"`
	Failed     int            `json:"failed"`
	Unfinished int            `json:"unfinished"`
	Dropped    int            `json:"dropped"`
	Kinds      map[string]int `json:"kinds,omitempty"`
}

// Tokens counts the tokens of completed requests.
type Tokens struct {
	Prompt          int `json:"prompt"`
	Cached          int `json:"cached"`
	Output          int `json:"output"`
	WantedOutput    int `json:"wanted_output"`
	CountedRequests int `json:"counted_requests"`
}

// A Throughput is what the server completed each second.
type Throughput struct {
	Requests     float64 `json:"requests"`
	OutputTokens float64 `json:"output_tokens"`
	TotalTokens  float64 `json:"total_tokens"`
}

// A Latency has the statistics of completed requests.
type Latency struct {
	TTFT  Percentiles `json:"ttft_ms"`
	TPOT  Percentiles `json:"tpot_ms"`
	Gap   Percentiles `json:"gap_ms"`
	Total Percentiles `json:"total_ms"`
	Late  Percentiles `json:"late_ms"`
}

// A StageTime is the time that requests spent in one stage of the server on the
// way to the first token, as its metrics tell: estimates, up to the width of their
// buckets. Budget is what the stage may take in the median, 0 if that is not said.
type StageTime struct {
	Name   string `json:"name"`
	Mean   Millis `json:"mean_ms"`
	P50    Millis `json:"p50_ms"`
	P95    Millis `json:"p95_ms"`
	Budget Millis `json:"budget_ms,omitempty"`
}

// Outside returns how long requests took on average until the first token besides waiting and computing the prompt: in
// HTTP, the gateway and the client. It is not known if the server does not report its stages.
func (r *Report) Outside() (took time.Duration, known bool) {
	took = time.Duration(r.Latency.TTFT.Mean)
	for _, stage := range r.Stages {
		if stage.Name == "queue" || stage.Name == "prefill" {
			took -= time.Duration(stage.Mean)
			known = true
		}
	}
	return max(0, took), known
}

// Percentiles are exact, by nearest rank over N samples.
type Percentiles struct {
	N    int    `json:"n"`
	Mean Millis `json:"mean"`
	P50  Millis `json:"p50"`
	P90  Millis `json:"p90"`
	P95  Millis `json:"p95"`
	P99  Millis `json:"p99"`
	P999 Millis `json:"p999"`
	Max  Millis `json:"max"`
}

// Goodput counts the requests that met the objectives. Share is over all
// requests that were sent and not given up by the user: one that was turned
// away met nothing.
type Goodput struct {
	TTFT Millis `json:"ttft_ms"`
	// CachedTTFT replaces TTFT where at least half of the prompt was cached.
	CachedTTFT Millis  `json:"cached_ttft_ms"`
	TPOT       Millis  `json:"tpot_ms"`
	Met        int     `json:"met"`
	Share      float64 `json:"share"`
	PerSecond  float64 `json:"goodput"`
}

// Summarize makes a report of a run. What was measured, and under which load,
// is left for the caller to fill in.
func Summarize(r *Result, slo parley.SLO) *Report {
	out := &Report{
		Schema:      Schema,
		Started:     r.Started,
		Elapsed:     Millis(r.Elapsed),
		Interrupted: r.Interrupted,
		Samples:     r.Records,
		SLO:         Goodput{TTFT: Millis(slo.TTFT), CachedTTFT: Millis(slo.CachedTTFT), TPOT: Millis(slo.TPOT)},
	}
	for i := range r.Records {
		record := &r.Records[i]
		out.Requests.add(record)
		out.Tokens.add(record)
		if record.met(&slo) {
			out.SLO.Met++
		}
	}
	if judged := out.Requests.Sent - out.Requests.Unfinished + out.Requests.Dropped; judged > 0 {
		out.SLO.Share = float64(out.SLO.Met) / float64(judged)
	}
	out.SLO.PerSecond = perSecond(out.SLO.Met, r.Elapsed)
	out.Throughput = Throughput{
		Requests:     perSecond(out.Requests.Completed, r.Elapsed),
		OutputTokens: perSecond(out.Tokens.Output, r.Elapsed),
		TotalTokens:  perSecond(out.Tokens.Output+out.Tokens.Prompt, r.Elapsed),
	}
	out.Latency = latencyOf(r.Records)
	return out
}

func perSecond(n int, elapsed time.Duration) float64 {
	if elapsed <= 0 {
		return 0
	}
	return math.Round(float64(n)/elapsed.Seconds()*1000) / 1000
}

func (q *Requests) add(r *Record) {
	switch r.Outcome {
	case Completed:
		q.Completed++
	case Rejected:
		q.Rejected++
	case Failed:
		q.Failed++
	case Unfinished:
		q.Unfinished++
	case Dropped:
		q.Dropped++
	}
	if r.Outcome != Dropped {
		q.Sent++
	}
	if r.Kind != "" {
		if q.Kinds == nil {
			q.Kinds = map[string]int{}
		}
		q.Kinds[r.Kind]++
	}
}

func (t *Tokens) add(r *Record) {
	if r.Outcome != Completed {
		return
	}
	t.Prompt += r.PromptTokens
	t.Cached += r.CachedTokens
	t.Output += r.OutputTokens
	t.WantedOutput += r.WantedTokens
	if r.Counted {
		t.CountedRequests++
	}
}

func latencyOf(records []Record) Latency {
	return Latency{
		TTFT:  percentilesOf(samples(records, ttftOf)),
		TPOT:  percentilesOf(samples(records, tpotOf)),
		Gap:   percentilesOf(samples(records, gapOf)),
		Total: percentilesOf(samples(records, totalOf)),
		Late:  percentilesOf(samples(records, lateOf)),
	}
}

// The accessors return a time of a completed request, and whether it is known.
func ttftOf(r *Record) (Millis, bool)  { return r.TTFT, true }
func tpotOf(r *Record) (Millis, bool)  { return r.TPOT, r.OutputTokens > 1 }
func gapOf(r *Record) (Millis, bool)   { return r.Gap, r.Pieces > 1 }
func totalOf(r *Record) (Millis, bool) { return r.Total, true }
func lateOf(r *Record) (Millis, bool)  { return r.Late, true }

// samples returns one time of all completed requests, sorted.
func samples(records []Record, of func(*Record) (Millis, bool)) []Millis {
	var out []Millis
	for i := range records {
		if v, ok := of(&records[i]); ok && records[i].Outcome == Completed {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

func percentilesOf(sorted []Millis) Percentiles {
	if len(sorted) == 0 {
		return Percentiles{}
	}
	var sum float64
	for _, v := range sorted {
		sum += float64(v)
	}
	at := func(p float64) Millis { return sorted[stat.Rank(p, len(sorted))] }
	return Percentiles{
		N:    len(sorted),
		Mean: Millis(sum / float64(len(sorted))),
		P50:  at(0.50),
		P90:  at(0.90),
		P95:  at(0.95),
		P99:  at(0.99),
		P999: at(0.999),
		Max:  sorted[len(sorted)-1],
	}
}

// reportBytesMax bounds the documents that ReadReport takes: a million samples
// are some 300 MB.
const reportBytesMax = 1 << 30

// ReadReport reads a report that was written as JSON.
func ReadReport(r io.Reader) (*Report, error) {
	limited := &io.LimitedReader{R: r, N: reportBytesMax}
	var out Report
	if err := json.NewDecoder(limited).Decode(&out); err != nil {
		if limited.N == 0 {
			return nil, fmt.Errorf("the report has more than %d bytes", reportBytesMax)
		}
		return nil, fmt.Errorf("no report of parley bench: %w", err)
	}
	if out.Schema != Schema {
		return nil, fmt.Errorf("a document of schema %.40q: expected %q, as parley bench --json writes it", out.Schema,
			Schema)
	}
	if out.Elapsed <= 0 || len(out.Samples) == 0 {
		return nil, errors.New("the report has no samples: nothing was measured")
	}
	return &out, nil
}
