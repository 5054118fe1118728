package planner

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"text/tabwriter"

	"parley/sim/plan"
)

// planSections are the numbers that a plan prints, in their order.
var planSections = []struct {
	title string
	cells []string
}{
	{"Memory", []string{"kv_token", "kv_session", "weights_gpu", "kv_room", "sessions_memory", "sessions_gpu"}},
	{"Latency at peak", []string{"prefill_miss", "prefill_hit", "ttft_tail", "tpot_mean", "batch"}},
	{"Fleet", []string{
		"peak", "trough", "in_flight", "replica_rate", "replicas_peak", "replicas_trough", "gpus_peak",
		"tokens_in", "tokens_out",
	}},
	{"Cost", []string{
		"cost_million", "cost_served", "cost_message", "cold_start", "warm", "month_peak", "month_follow",
		"follow_share",
	}},
}

func printPlan(out io.Writer, sheet *plan.Sheet, r *plan.Result) {
	fmt.Fprintf(out, "%s\n\n%s\n", planHeading(r), r.Sentence)
	sections := planSections
	switch {
	case r.Values["sessions_memory"] < 1:
		sections = sections[:1] // without memory nothing else has a meaning
	case !r.Attainable:
		fmt.Fprintln(out, "The numbers below leave that objective out.")
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, s := range sections {
		fmt.Fprintf(w, "\n%s\n", s.title)
		for _, name := range s.cells {
			fmt.Fprintf(w, "  %s\t%s\t%s\n", name, r.Text(name), sheet.Cell(name).Title)
		}
	}
	fmt.Fprintf(w, "\nRequests/s of one replica by each limit\n")
	for _, l := range r.Limits {
		fmt.Fprintf(w, "  %s\t%s\n", l.Name, plan.Format(plan.RequestsPerSecond, l.Rate))
	}
	w.Flush()
	fmt.Fprintln(out, "\nparley plan --why NAME shows how a number is computed.")
}

func planHeading(r *plan.Result) string {
	s := r.Settings
	return fmt.Sprintf("%s on %s × %s a replica, weights %s, keys and values %s",
		s[plan.ModelName], r.Text("gpus"), s[plan.DeviceName], typeText(s[plan.WeightsName], r.Values["weight_bytes"]),
		typeText(s[plan.KVName], r.Values["kv_bytes"]))
}

// typeText names a number type, or its bytes where none was named.
func typeText(name string, bytes float64) string {
	if name != "" {
		return name
	}
	return strconv.FormatFloat(8*bytes, 'g', 3, 64) + "-bit"
}

// printChange writes the numbers that a change moves, before and after.
func printChange(out io.Writer, sheet *plan.Sheet, before *plan.Result, c planChange) {
	fmt.Fprintf(out, "\nWhat if %s\n  %s\n", c.set, c.after.Sentence)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\n  \tbefore\tafter\tratio\t")
	for _, s := range planSections {
		for _, name := range s.cells {
			was, is := before.Values[name], c.after.Values[name]
			if was != is {
				fmt.Fprintf(w, "  %s\t%s\t%s\t×%s\t%s\n", name, before.Text(name), c.after.Text(name),
					plan.Format(plan.Count, is/was), sheet.Cell(name).Title)
			}
		}
	}
	w.Flush()
}

// A planDocument is a plan as JSON.
type planDocument struct {
	*plan.Result
	Values map[string]*float64 `json:"values"`
	WhatIf []planVariant       `json:"what_if,omitempty"`
}

// A planVariant is a plan after a change.
type planVariant struct {
	Set string `json:"set"`
	planDocument
}

func planJSON(before *plan.Result, changes []planChange) planDocument {
	doc := planDocument{Result: before, Values: before.Numbers()}
	for _, c := range changes {
		doc.WhatIf = append(doc.WhatIf, planVariant{c.set, planDocument{Result: c.after, Values: c.after.Numbers()}})
	}
	return doc
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
