package index

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"
)

// A Result is one measurement.
type Result struct {
	Name string `json:"name"`
	// Value is the median of the rounds that count and Best the best of them; AllValue
	// is the median of all rounds.
	Value    float64 `json:"value"`
	Best     float64 `json:"best"`
	AllValue float64 `json:"all_value,omitempty"`
	Unit     string  `json:"unit"`
	// Rounds is how many count of AllRounds.
	Rounds    int `json:"rounds,omitempty"`
	AllRounds int `json:"all_rounds,omitempty"`
	// Bar is what Value must reach, or stay within if AtMost.
	Bar    float64 `json:"bar"`
	AtMost bool    `json:"at_most"`
	// Floor is the same work if only memory cost something; 0 if none was measured.
	Floor float64 `json:"floor,omitempty"`
}

// Met reports whether the bar is reached.
func (r *Result) Met() bool {
	if r.AtMost {
		return r.Value <= r.Bar
	}
	return r.Value >= r.Bar
}

// A Report is the results of a run and where they come from.
type Report struct {
	Program string    `json:"program"`
	Machine string    `json:"machine"`
	Started time.Time `json:"started"`
	Workers int       `json:"workers"`
	Blocks  int       `json:"blocks"` // of each worker
	Results []Result  `json:"results"`
}

// Missed names the bars that are.
func (r *Report) Missed() (names []string) {
	for i := range r.Results {
		if !r.Results[i].Met() {
			names = append(names, r.Results[i].Name)
		}
	}
	return names
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w,
		"%s\n%s\n%s\n%d workers with %d blocks of 16 tokens each; one processor; medians of the calm rounds, the "+
			"best of them beside it, and the median of all\n\n",
		r.Program, r.Machine, r.Started.UTC().Format("2006-01-02 15:04 MST"), r.Workers, r.Blocks)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tmeasured\tmedian\tbest\tbar\tmemory alone\tall rounds")
	for i := range r.Results {
		result := &r.Results[i]
		verdict, bound, floor := "met", "at least", ""
		if !result.Met() {
			verdict = "MISSED"
		}
		if result.AtMost {
			bound = "at most"
		}
		if result.Floor > 0 {
			floor = fmt.Sprintf("%.1f %s", result.Floor, result.Unit)
		}
		all := ""
		if result.AllRounds > 0 {
			all = fmt.Sprintf("%.2f (%d of %d count)", result.AllValue, result.Rounds, result.AllRounds)
		}
		fmt.Fprintf(table, "%s\t%s\t%.2f %s\t%.2f\t%s %g\t%s\t%s\n", verdict, result.Name, result.Value, result.Unit,
			result.Best, bound, result.Bar, floor, all)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w,
		"\nCalm are rounds before and after which the core did a piece of other work, always the same, within %.0f "+
			"%% of the least time: it was not shared with another machine.\n", 100*(calmWithin-1))
	return err
}
