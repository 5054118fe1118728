package ablation

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"parley/internal/chart"
)

// WriteText writes the report for people.
func (r *Report) WriteText(out io.Writer) error {
	var text strings.Builder
	fmt.Fprintf(&text, "%s\n%s\n%s\n\n", r.Program, r.Machine, r.lengthText())
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tmechanism\tmeasured\toff\ton\tgain\tinterval\tfloor\tpublished")
	for i := range r.Results {
		x := &r.Results[i]
		off, gain := "", ""
		if x.Rule != Within {
			off, gain = number(x.OffMedian), times(x.Gain)
		}
		fmt.Fprintf(w, "%s\t%s\t%s, %s\t%s\t%s\t%s\t%s\t%s\t%s: %s\n", x.verdict(), x.Name, x.Metric, x.Unit, off,
			number(x.OnMedian), gain, x.intervalText(), x.floorText(), x.Source, x.Claim)
	}
	w.Flush()
	fmt.Fprintln(&text)
	w = tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	for i := range r.Results {
		x := &r.Results[i]
		fmt.Fprintf(w, "%s\t%s\t%s\n", x.Name, x.sides(), x.Note)
	}
	w.Flush()
	fmt.Fprintln(&text, "\n"+r.summary())
	_, err := io.WriteString(out, text.String())
	return err
}

func (r *Report) lengthText() string {
	text := fmt.Sprintf("%s, %v", r.Started.UTC().Format("2006-01-02 15:04 UTC"),
		(time.Duration(r.Seconds) * time.Second))
	if r.Quick {
		text += ", quick: fewer and shorter rounds"
	}
	return text
}

func (r *Report) summary() string {
	missed := r.Missed()
	text := fmt.Sprintf("Floors met: %d of %d.", len(r.Results)-len(missed), len(r.Results))
	if len(missed) > 0 {
		text += " Missed: " + strings.Join(missed, ", ") + "."
	}
	return text
}

func (x *Result) verdict() string {
	if x.Met {
		return "met"
	}
	return "MISSED"
}

// sides says what was compared with what.
func (x *Result) sides() string {
	if x.Off == "" {
		return x.On
	}
	return x.Off + " / " + x.On
}

// intervalText writes the interval and how sure it is; a single round has none.
func (x *Result) intervalText() string {
	i := x.Interval
	if i.Coverage == 0 {
		return "one round"
	}
	return fmt.Sprintf("%s-%s (%.0f%%)", number(i.Low), number(i.High), 100*i.Coverage)
}

func (x *Result) floorText() string {
	switch x.Rule {
	case Within:
		return fmt.Sprintf("at most %s", number(x.Floor))
	case SurelyGains:
		return times(x.Floor) + " surely"
	}
	return times(x.Floor)
}

func times(v float64) string { return number(v) + "x" }

// number writes three digits.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

// Plot draws the gains beside their floors. Where there is only one side, the
// gain is how far the number stayed below its limit.
func (r *Report) Plot() *chart.Plot {
	p := &chart.Plot{Title: "What each mechanism is worth: on against off",
		Axis: "times better, with its interval; the stroke is the floor"}
	for i := range r.Results {
		x := &r.Results[i]
		row := chart.Row{
			Label: x.Name + ": " + x.Metric,
			Value: x.Gain,
			Low:   x.Interval.Low,
			High:  x.Interval.High,
			Goal:  x.Floor,
			Good:  x.Met,
			Bad:   !x.Met,
			Note:  times(x.Gain),
		}
		if x.Claimed != "" {
			row.Note += ", published " + x.Claimed
		}
		if x.Rule == Within {
			row.Value, row.Low, row.High, row.Goal = x.Floor/x.OnMedian, x.Floor/x.Interval.High, x.Floor/
				x.Interval.Low, 1
			row.Note = fmt.Sprintf("%s of %s %s", number(x.OnMedian), number(x.Floor), x.Unit)
		}
		p.Rows = append(p.Rows, row)
	}
	return p
}
