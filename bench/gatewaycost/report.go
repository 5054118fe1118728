package gatewaycost

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A Report is the results of a run and where they come from.
type Report struct {
	Program string    `json:"program"`
	Machine string    `json:"machine"`
	Started time.Time `json:"started"`
	// Setup says what was switched on.
	Setup   string   `json:"setup"`
	Results []Result `json:"results"`
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
	fmt.Fprintf(w, "%s\n%s\n%s\n%s\n\n", r.Program, r.Machine, r.Started.UTC().Format("2006-01-02 15:04 MST"), r.Setup)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\tmeasured\tgateway\trounds\tscaled\tat most\tbeside")
	for i := range r.Results {
		result := &r.Results[i]
		verdict := "met"
		if !result.Met() {
			verdict = "MISSED"
		}
		var beside []string
		for _, name := range slices.Sorted(maps.Keys(result.Beside)) {
			beside = append(beside, fmt.Sprintf("%s %.2f", name, result.Beside[name]))
		}
		spread, scaled := "", ""
		if result.Scaled != 0 {
			scaled = fmt.Sprintf("%.2f", result.Scaled)
		}
		if result.Ratio != 0 {
			beside = append(beside, fmt.Sprintf("%.3f times before, at most %g", result.Ratio, ratioBar))
		}
		if len(result.Rounds) > 0 {
			spread = fmt.Sprintf("%.2f - %.2f", slices.Min(result.Rounds), slices.Max(result.Rounds))
		}
		fmt.Fprintf(table, "%s\t%s\t%.2f %s\t%s\t%s\t%g %s\t%s\n", verdict, result.Name, result.Value, result.Unit,
			spread, scaled, result.Bar, result.Unit, strings.Join(beside, ", "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	disturbed := 0
	for i := range r.Results {
		disturbed += r.Results[i].Disturbed
	}
	if disturbed > 0 {
		fmt.Fprintf(w,
			"\n%d more rounds do not count: the machine below this one took more than %g %% of their time.\n",
			disturbed, 100*stolenMax)
	}
	_, err := fmt.Fprintf(w,
		"\nScaled is what is judged: the same on a machine as fast as the one that the bars of processor time were "+
			"set on, where nginx takes %d us for\na request that is not streamed. Without nginx nothing is scaled.\n",
		referenceNginx)
	return err
}
