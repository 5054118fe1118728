package schemas

import (
	"fmt"
	"io"
	"regexp"
	"slices"
	"time"
)

// The bars.
const (
	acceptedBar = 0.90
	medianBar   = 10 * time.Millisecond
)

// A Report is what was measured. Its bars are about the schemas that people wrote for their
// own data; of those that test implementations, only answers count.
type Report struct {
	Sets map[string]*Set
	// Total counts the schemas outside of test suites.
	Total Set
	// Median and P99 are of the time that a schema takes to compile or to be refused.
	Median, P99 time.Duration
	// Answers were complete and validated; Endless were not complete in time.
	Answers, Endless int
	// Unchecked schemas are accepted, and the validator cannot read them.
	Unchecked int
	// Valid are the examples that satisfy their schemas, ValidTaken those of them that an
	// answer may be, and InvalidRefused the others, none of which an answer may be.
	Valid, ValidTaken, InvalidRefused int
	Failures                          []Failure
	// Reasons say why schemas were refused, and how many.
	Reasons map[string]int
	times   []time.Duration
}

// A Set counts the schemas of one folder.
type Set struct{ Schemas, Accepted int }

// A Failure is an answer that does not satisfy its schema, or that could not be written.
type Failure struct{ Schema, Reason, Text string }

func newReport() *Report { return &Report{Sets: map[string]*Set{}, Reasons: map[string]int{}} }

// varying are the parts of an error that differ from schema to schema.
var varying = regexp.MustCompile(`at #[^:]*: |\d+`)

// compiled counts a schema that was compiled, or refused with err.
func (r *Report) compiled(s *source, took time.Duration, err error) {
	if r.Sets[s.set] == nil {
		r.Sets[s.set] = &Set{}
	}
	counts := []*Set{r.Sets[s.set]}
	if !s.suite {
		counts = append(counts, &r.Total)
		r.times = append(r.times, took)
	}
	for _, c := range counts {
		c.Schemas++
		if err == nil {
			c.Accepted++
		}
	}
	if err != nil && !s.suite {
		r.Reasons[varying.ReplaceAllString(err.Error(), "")]++
	}
}

func (r *Report) fail(s *source, reason, text string) {
	r.Failures = append(r.Failures, Failure{s.name, reason, text})
}

// finish sums up.
func (r *Report) finish() {
	slices.Sort(r.times)
	if n := len(r.times); n > 0 {
		r.Median, r.P99 = r.times[n/2], r.times[n*99/100]
	}
}

// Missed names the bars that were missed; answers is how many there must be.
func (r *Report) Missed(answers int) (bars []string) {
	if t := r.Total; t.Schemas > 0 && float64(t.Accepted) < acceptedBar*float64(t.Schemas) {
		bars = append(bars, "accepted schemas")
	}
	if r.Median > medianBar {
		bars = append(bars, "median time to compile")
	}
	if len(r.Failures) > 0 {
		bars = append(bars, "valid answers")
	}
	if r.Answers < answers {
		bars = append(bars, "number of answers")
	}
	return bars
}

// WriteText writes the report for people; all lists every failure and reason.
func (r *Report) WriteText(w io.Writer, all bool) error {
	p := &printer{w: w}
	for _, name := range sorted(r.Sets) {
		s := r.Sets[name]
		p.line("%-32s %6d schemas, %6d accepted, %5.1f %%", name, s.Schemas, s.Accepted, percent(s.Accepted, s.Schemas))
	}
	t := r.Total
	p.line("accepted in strict mode  %d of %d, %.1f %% (bar: %.0f %%)", t.Accepted, t.Schemas,
		percent(t.Accepted, t.Schemas), 100*acceptedBar)
	p.line("time to compile          median %v (bar: %v), 99th percentile %v", r.Median.Round(time.Microsecond),
		medianBar, r.P99.Round(time.Microsecond))
	p.line("answers                  %d, of which invalid %d (bar: 0); not ended in time %d; schemas not checkable %d",
		r.Answers, len(r.Failures), r.Endless, r.Unchecked)
	p.line("examples                 %d invalid refused; %d of %d valid may be answers, %.1f %%", r.InvalidRefused,
		r.ValidTaken, r.Valid, percent(r.ValidTaken, r.Valid))
	limit := 10
	if all {
		limit = len(r.Failures) + len(r.Reasons)
	}
	for _, f := range r.Failures[:min(limit, len(r.Failures))] {
		p.line("INVALID %s: %.400s\n  %.400s", f.Schema, f.Reason, f.Text)
	}
	reasons := sorted(r.Reasons)
	slices.SortStableFunc(reasons, func(a, b string) int { return r.Reasons[b] - r.Reasons[a] })
	for _, reason := range reasons[:min(limit, len(reasons))] {
		p.line("refused %5d: %s", r.Reasons[reason], reason)
	}
	return p.err
}

// A printer keeps the first error.
type printer struct {
	w   io.Writer
	err error
}

func (p *printer) line(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.w, format+"\n", args...)
	}
}

func sorted[V any](m map[string]V) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func percent(part, whole int) float64 { return 100 * float64(part) / float64(max(whole, 1)) }
