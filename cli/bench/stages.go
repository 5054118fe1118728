package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"parley/cli/remote"
	"parley/gateway/ledger"
	"parley/internal/load"
)

// A stageCount is the histogram of one stage: how many requests took at most as
// long as each bound, in seconds.
type stageCount struct {
	bounds, counts []float64
	sum, n         float64
}

const (
	stageMetric = "parley_stage_seconds"
	stagesWait  = 5 * time.Second
)

// stagesNow reads the stages of a server's metrics. A server that does not tell,
// such as another's, has none.
func stagesNow(ctx context.Context, url string) map[string]*stageCount {
	ctx, cancel := context.WithTimeout(ctx, stagesWait)
	defer cancel()
	c, err := remote.New(url)
	if err != nil {
		return nil
	}
	text, err := c.Get(ctx, "/metrics")
	if err != nil {
		return nil
	}
	return parseStages(text)
}

// parseStages reads the histograms of stages from Prometheus' text.
func parseStages(text []byte) map[string]*stageCount {
	stages := map[string]*stageCount{}
	for scan := bufio.NewScanner(bytes.NewReader(text)); scan.Scan(); {
		rest, ok := strings.CutPrefix(scan.Text(), stageMetric+"_")
		kind, rest, braced := strings.Cut(rest, "{")
		end := remote.LabelsEnd("{" + rest)
		if !ok || !braced || end < 1 {
			continue
		}
		labels, name := rest[:end-1], remote.Label(rest[:end-1], "stage")
		value, err := strconv.ParseFloat(strings.TrimSpace(rest[end:]), 64)
		if err != nil || name == "" {
			continue
		}
		if stages[name] == nil {
			stages[name] = &stageCount{}
		}
		stages[name].take(kind, remote.Label(labels, "le"), value)
	}
	return stages
}

func (s *stageCount) take(kind, bound string, value float64) {
	switch kind {
	case "sum":
		s.sum = value
	case "count":
		s.n = value
	case "bucket":
		if le, err := strconv.ParseFloat(bound, 64); err == nil {
			s.bounds, s.counts = append(s.bounds, le), append(s.counts, value)
		}
	}
}

// stagesSince returns where the time of the requests between two readings went,
// in the order of a request.
func stagesSince(before, after map[string]*stageCount) (times []load.StageTime) {
	for stage := range ledger.StageCount {
		now, was := after[stage.String()], before[stage.String()]
		if now == nil || was == nil || now.n <= was.n || len(now.counts) != len(was.counts) {
			continue
		}
		d := stageCount{bounds: now.bounds, counts: slices.Clone(now.counts), sum: now.sum - was.sum, n: now.n - was.n}
		for i := range d.counts {
			d.counts[i] -= was.counts[i]
		}
		times = append(times, load.StageTime{
			Name:   stage.String(),
			Mean:   millis(d.sum / d.n),
			P50:    millis(d.quantile(0.5)),
			P95:    millis(d.quantile(0.95)),
			Budget: load.Millis(ledger.StageBudgets[stage]),
		})
	}
	return times
}

func millis(seconds float64) load.Millis { return load.Millis(seconds * float64(time.Second)) }

// quantile estimates a quantile: evenly spread within its bucket.
func (s *stageCount) quantile(q float64) float64 {
	rank, below, from := q*s.n, 0.0, 0.0
	for i, bound := range s.bounds {
		if s.counts[i] >= rank {
			if bound > 1e9 {
				return from // the last bucket has no end
			}
			return from + (bound-from)*(rank-below)/max(s.counts[i]-below, 1)
		}
		below, from = s.counts[i], bound
	}
	return from
}

// printStages prints where the time to the first token went beside what it may
// take.
func printStages(out io.Writer, stages []load.StageTime) {
	if len(stages) == 0 {
		return
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "stages, milliseconds\tmean\tp50\tp95\tbudget p50\t")
	text := func(m load.Millis) string { return fmt.Sprintf("%.2f", float64(m)/float64(time.Millisecond)) }
	for _, s := range stages {
		budget := "-"
		if s.Budget > 0 {
			budget = text(s.Budget)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\n", s.Name, text(s.Mean), text(s.P50), text(s.P95), budget)
	}
	w.Flush()
	fmt.Fprintln(out)
}
