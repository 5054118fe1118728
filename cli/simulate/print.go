package simulate

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"parley/sim"
)

// rowsPrinted is how many windows are printed at most.
const rowsPrinted = 24

// refusalsPrinted is how many limits are printed at most.
const refusalsPrinted = 10

func printResult(out io.Writer, r *sim.Result) {
	fmt.Fprintf(out, "%s (seed %d, %s)\n%s\n\n", r.Name, r.Seed, duration(r.Duration), r.About)
	for _, f := range r.Findings {
		fmt.Fprintln(out, f)
	}
	t, w := r.Total, tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\nRequests\t%d\tretried %d, rejected %d, given up %d, too large %d, moved %d, answered %d\n",
		t.Arrived, t.Retried, t.Rejected, t.HungUp, t.Failed, t.Moved, t.Finished)
	fmt.Fprintf(w, "Within objectives\t%.2f %%\tTTFT %s and TPOT %s: %.2f requests/s\n", 100*t.Attainment,
		seconds(r.TTFT), seconds(r.TPOT), t.Goodput)
	fmt.Fprintf(w, "Throughput\t%.0f tokens/s\n", t.Throughput)
	fmt.Fprintf(w, "Prompt tokens cached\t%.1f %%\n", 100*t.HitRate)
	for _, row := range []struct {
		name string
		of   sim.Spread
	}{{"TTFT", t.TTFT}, {"TPOT", t.TPOT}, {"Gap", r.Fleet.Gap}, {"Queue", t.Queue}} {
		fmt.Fprintf(w, "%s\tp50 %s\tp95 %s, p99 %s\n", row.name, seconds(row.of.P50), seconds(row.of.P95),
			seconds(row.of.P99))
	}
	f := r.Fleet
	fmt.Fprintf(w, "Replicas\t%.1f\t%.1f ready, busy %.0f %% of the time\n", f.Count, f.Ready, 100*f.Busy)
	fmt.Fprintf(w, "KV memory\t%.1f %%\tfullest worker %.1f %%, %d preemptions\n", 100*f.KV, 100*f.KVMost, f.Preempted)
	fmt.Fprintf(w, "Cost\t$%.2f\t$%.2f per million output tokens\n", f.Dollars,
		f.Dollars/max(1, t.Throughput*r.Duration)*1e6)
	if t.Limited+t.Truncated > 0 {
		fmt.Fprintf(w, "Limits\t%d\tattempts refused, %d answers cut short\n", t.Limited, t.Truncated)
	}
	for _, o := range r.Refused[:min(len(r.Refused), refusalsPrinted)] {
		fmt.Fprintf(w, "\t%d\t%s of %s\n", o.Attempts, o.Limit, o.Organisation)
	}
	w.Flush()
	if len(r.Traffic) > 1 {
		printTraffic(out, r)
	}
	printRows(out, r)
}

func printTraffic(out io.Writer, r *sim.Result) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\ntraffic\trequests\trejected\tgiven up\tin objectives\tTTFT p50\tp95\tTPOT p95\tcached\t")
	for _, t := range r.Traffic {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%.2f %%\t%s\t%s\t%s\t%.1f %%\t\n", t.Name, t.Arrived, t.Rejected, t.HungUp,
			100*t.Attainment, seconds(t.TTFT.P50), seconds(t.TTFT.P95), seconds(t.TPOT.P95), 100*t.HitRate)
	}
	w.Flush()
}

func printRows(out io.Writer, r *sim.Result) {
	step := (len(r.Rows) + rowsPrinted - 1) / rowsPrinted
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\nat\trequests\trejected\tTTFT p50\tp95\tTPOT p95\tqueued\tcached\tKV\tready\tbottleneck\t")
	for i := 0; i < len(r.Rows); i += step {
		row := &r.Rows[i]
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%.0f\t%.0f %%\t%.0f %%\t%.0f\t%s\t\n", duration(row.At), row.Arrived,
			row.Rejected, seconds(row.TTFT.P50), seconds(row.TTFT.P95), seconds(row.TPOT.P95), row.Queued,
			100*row.HitRate, 100*row.KV, row.Ready, row.Bottleneck)
	}
	w.Flush()
	if step > 1 {
		fmt.Fprintf(out, "One of %d windows is shown; --json and --html have all.\n", step)
	}
}

func seconds(s float64) string {
	switch {
	case s == 0:
		return "-"
	case s < 1:
		return fmt.Sprintf("%.1f ms", 1000*s)
	}
	return fmt.Sprintf("%.2f s", s)
}

func duration(s float64) string {
	return time.Duration(s * float64(time.Second)).Round(time.Second).String()
}
