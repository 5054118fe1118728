package bench

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"parley/internal/load"
)

// printReport writes a report for people.
func printReport(out io.Writer, r *load.Report) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s at %s, sent as %s\n%s\n\n", r.Target.Model, r.Target.URL, r.Target.Send, loadText(&r.Load))
	printTotals(&text, r)
	printLatency(&text, &r.Latency)
	printStages(&text, r.Stages)
	printNotes(&text, r)
	text.WriteString(verdictText(r) + "\n")
	_, err := io.WriteString(out, text.String())
	return err
}

// loadText says in a line which load it was.
func loadText(l *load.Description) string {
	parts := []string{fmt.Sprintf("open loop: %g requests/s, %s arrivals", l.RatePerSecond, l.Arrival)}
	switch {
	case l.Loop == "closed":
		parts[0] = fmt.Sprintf("closed loop: %d users", l.Users)
		if l.ThinkMillis > 0 {
			parts[0] += fmt.Sprintf(" who think for %v", time.Duration(l.ThinkMillis))
		}
	case l.Trace != "":
		parts[0] = fmt.Sprintf("open loop: %s at %g times its speed, %s", l.Trace, l.Speed, spreadText(l))
	case l.Arrival == "gamma":
		parts[0] += fmt.Sprintf(" with CV %g", l.CV)
	}
	parts = append(parts, workloadText(l)...)
	return strings.Join(append(parts, fmt.Sprintf("seed %d", l.Seed)), "; ")
}

func spreadText(l *load.Description) string {
	if l.SpreadMillis == 0 {
		return "as stamped"
	}
	return fmt.Sprintf("spread over %v", time.Duration(l.SpreadMillis))
}

func workloadText(l *load.Description) []string {
	if l.Trace != "" {
		text := fmt.Sprintf("lengths times %g", l.Scale)
		if l.Loop == "closed" {
			text = l.Trace + ", " + text
		}
		return []string{text}
	}
	parts := []string{fmt.Sprintf("%s requests, %s prompt and %s output tokens", l.Workload, l.PromptTokens,
		l.OutputTokens)}
	if l.SharedTokens > 0 {
		parts = append(parts, fmt.Sprintf("%d shared tokens", l.SharedTokens))
	}
	if l.Groups > 0 {
		parts = append(parts,
			fmt.Sprintf("%d groups of %d users with %d tokens of history", l.Groups, l.GroupUsers, l.HistoryTokens))
	}
	if l.Turns != "" {
		parts = append(parts, l.Turns+" turns")
	}
	return parts
}

func printTotals(out io.Writer, r *load.Report) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	q, t := &r.Requests, &r.Tokens
	fmt.Fprintf(w, "requests\t%s in %v\n", outcomeText(q), time.Duration(r.Elapsed).Round(time.Millisecond))
	if n := q.Completed; n > 0 {
		fmt.Fprintf(w, "prompts\t%d tokens, %d on average; %.1f%% cached\n", t.Prompt, t.Prompt/n,
			percent(t.Cached, t.Prompt))
		fmt.Fprintf(w, "answers\t%d tokens, %d on average; %d wanted\n", t.Output, t.Output/n, t.WantedOutput)
	}
	fmt.Fprintf(w, "throughput\t%.2f requests/s, %.1f output tokens/s, %.1f tokens/s with prompts\n",
		r.Throughput.Requests, r.Throughput.OutputTokens, r.Throughput.TotalTokens)
	w.Flush()
}

// outcomeText names rejections and failures even if there are none: latency
// means nothing without them.
func outcomeText(q *load.Requests) string {
	text := fmt.Sprintf("%d sent, %d completed, %d rejected, %d failed", q.Sent, q.Completed, q.Rejected, q.Failed)
	if q.Unfinished > 0 {
		text += fmt.Sprintf(", %d unfinished", q.Unfinished)
	}
	if q.Dropped > 0 {
		text += fmt.Sprintf("; %d more dropped here", q.Dropped)
	}
	return text
}

func percent(part, whole int) float64 {
	if whole == 0 {
		return 0
	}
	return 100 * float64(part) / float64(whole)
}

func printLatency(out io.Writer, l *load.Latency) {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "milliseconds\tmean\tp50\tp90\tp95\tp99\tp99.9\tmax\t")
	for _, row := range []struct {
		name string
		p    *load.Percentiles
	}{{"TTFT", &l.TTFT}, {"TPOT", &l.TPOT}, {"longest gap", &l.Gap}, {"total", &l.Total}} {
		fmt.Fprintf(w, "%s\t", row.name)
		for _, v := range []load.Millis{row.p.Mean, row.p.P50, row.p.P90, row.p.P95, row.p.P99, row.p.P999, row.p.Max} {
			fmt.Fprintf(w, "%s\t", millisText(v, row.p.N))
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	fmt.Fprintln(out)
}

func millisText(v load.Millis, samples int) string {
	if samples == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f", float64(v)/float64(time.Millisecond))
}

// lateWorth is when the lateness of this program is worth a word.
const lateWorth = 20 * time.Millisecond

// printNotes says what a reader must know before trusting the numbers.
func printNotes(out io.Writer, r *load.Report) {
	for _, kind := range slices.Sorted(maps.Keys(r.Requests.Kinds)) {
		fmt.Fprintf(out, "%s: %d%s\n", kind, r.Requests.Kinds[kind], firstMessage(r.Samples, kind))
	}
	if n := r.Tokens.CountedRequests; n > 0 {
		fmt.Fprintf(out, "note: %d answers came without usage; their tokens are counted by pieces of text\n", n)
	}
	if n := r.Load.LeftOutRequests; n > 0 {
		fmt.Fprintf(out, "note: %d requests were left out: too long for the model's context\n", n)
	}
	if late := time.Duration(r.Latency.Late.P99); late > lateWorth {
		fmt.Fprintf(out,
			"note: this program sent one request in a hundred more than %v late: it lacked processor time, and the "+
				"server looks slower than it is\n", late.Round(time.Millisecond))
	}
	if r.Interrupted {
		fmt.Fprintln(out, "note: the run was interrupted; this is what it had measured")
	}
}

func firstMessage(samples []load.Record, kind string) string {
	for i := range samples {
		if samples[i].Kind == kind && samples[i].Message != "" {
			return ", such as: " + samples[i].Message
		}
	}
	return ""
}

// verdictText says in a line whether the objectives were met.
func verdictText(r *load.Report) string {
	s := &r.SLO
	var limits []string
	if s.TTFT > 0 {
		limits = append(limits, fmt.Sprintf("TTFT within %v", time.Duration(s.TTFT)))
	}
	if s.CachedTTFT > 0 {
		limits = append(limits, fmt.Sprintf("within %v if cached", time.Duration(s.CachedTTFT)))
	}
	if s.TPOT > 0 {
		limits = append(limits, fmt.Sprintf("TPOT within %v", time.Duration(s.TPOT)))
	}
	if len(limits) == 0 {
		limits = []string{"an answer"}
	}
	judged := r.Requests.Sent - r.Requests.Unfinished + r.Requests.Dropped
	return fmt.Sprintf("SLO: %d of %d requests (%.1f%%) had %s; goodput %.2f requests/s",
		s.Met, judged, 100*s.Share, strings.Join(limits, " and "), s.PerSecond)
}
