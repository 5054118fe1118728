package llamacpp

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// WriteText writes the report for people, and for the repository.
func (r *Report) WriteText(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "# %s against %s\n# %s, %d threads%s\n# %s, %.0f s\n", r.Program, r.Peer, r.Machine, r.Threads,
		r.numericsText(), r.Started.UTC().Format("2006-01-02 15:04 MST"), r.Seconds)
	if n := len(r.BandwidthGB); n > 0 {
		fmt.Fprintf(&text, "# all threads read %s GB/s from memory\n", rounds(r.BandwidthGB))
	}
	text.WriteString("\n")
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "verdict\tcheck\tparley\tllama.cpp\tunit\tjudged\tinterval\tbar")
	for i := range r.Results {
		x := &r.Results[i]
		fmt.Fprintf(w, "%s\t%s\t%.4g\t%.4g\t%s\t%s\t%.3g - %.3g (%.3g%%)\t%s %g\n", x.Verdict, x.Name, x.OurMedian,
			x.TheirMedian, x.Unit, x.scoreText(),
			x.Interval.Low, x.Interval.High, 100*x.Interval.Coverage, x.barText(), x.Bar)
	}
	w.Flush()
	r.writeDetails(&text)
	_, err := io.WriteString(out, text.String())
	return err
}

func (r *Report) numericsText() string {
	if r.Fast {
		return ", fast numerics"
	}
	return ""
}

func (x *Result) scoreText() string {
	if x.Rule == Times {
		return fmt.Sprintf("%.3gx", x.Score)
	}
	return fmt.Sprintf("%.3g", x.Score)
}

func (x *Result) barText() string {
	if x.Rule == AtMost {
		return "at most"
	}
	return "at least"
}

// writeDetails says what each number is, and every round of it.
func (r *Report) writeDetails(out *strings.Builder) {
	for i := range r.Results {
		x := &r.Results[i]
		fmt.Fprintf(out, "\n%s: %s, %s\n  parley     %s\n  llama.cpp  %s\n", x.Name, x.Metric, x.Unit,
			rounds(x.OurRounds), rounds(x.TheirRounds))
		if x.Fault != "" {
			fmt.Fprintf(out, "  fault: %s\n", x.Fault)
		}
		for _, n := range x.Notes {
			fmt.Fprintf(out, "  %s\n", n)
		}
	}
}

func rounds(values []float64) string {
	var parts []string
	for _, v := range values {
		parts = append(parts, fmt.Sprintf("%.4g", v))
	}
	return strings.Join(parts, " ")
}
