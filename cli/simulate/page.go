package simulate

import (
	"fmt"
	"html"
	"io"
	"strings"

	"parley/internal/chart"
	"parley/sim"
)

const pageHead = `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>%s</title>
<style>
:root{color-scheme:light dark}
body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}
svg{max-width:100%%;height:auto;display:block;margin:1rem 0}
pre{overflow-x:auto;font-size:13px}
</style></head><body>
<h1>%s</h1><p>%s</p>
`

// A view is a chart of the report: lines over the windows.
type view struct {
	title, unit string
	level       float64
	levelLabel  string
	lines       []viewLine
}

type viewLine struct {
	label string
	good  bool
	of    func(r *sim.Row) float64
}

func views(r *sim.Result) []view {
	return []view{
		{"Time to first token", "seconds", r.TTFT, "objective", []viewLine{
			{"p50", true, func(r *sim.Row) float64 { return r.TTFT.P50 }},
			{"p95", false, func(r *sim.Row) float64 { return r.TTFT.P95 }},
		}},
		{"Time per output token", "milliseconds", 1000 * r.TPOT, "objective", []viewLine{
			{"p50", true, func(r *sim.Row) float64 { return 1000 * r.TPOT.P50 }},
			{"p95", false, func(r *sim.Row) float64 { return 1000 * r.TPOT.P95 }},
		}},
		{"Time in the queue", "seconds", 0, "", []viewLine{
			{"p50", true, func(r *sim.Row) float64 { return r.Queue.P50 }},
			{"p95", false, func(r *sim.Row) float64 { return r.Queue.P95 }},
		}},
		{"Requests", "per second", 0, "", []viewLine{
			{"within objectives", true, func(row *sim.Row) float64 { return row.Goodput }},
			{"arrived", false, func(row *sim.Row) float64 { return float64(row.Arrived+row.Retried) / r.Window }},
		}},
		{"Rejected or given up", "per second", 0, "", []viewLine{
			{"", false, func(row *sim.Row) float64 { return float64(row.Rejected+row.HungUp) / r.Window }},
		}},
		{"Prompt tokens cached", "percent", 0, "", []viewLine{
			{"", true, func(r *sim.Row) float64 { return 100 * r.HitRate }},
		}},
		{"KV memory in use", "percent", 100, "", []viewLine{
			{"mean", true, func(r *sim.Row) float64 { return 100 * r.KV }},
			{"fullest", false, func(r *sim.Row) float64 { return 100 * r.KVMost }},
		}},
		{"Replicas", "count", 0, "", []viewLine{
			{"ready", true, func(r *sim.Row) float64 { return r.Ready }},
			{"paid", false, func(r *sim.Row) float64 { return r.Count }},
		}},
		{"Cost", "dollars per hour", 0, "", []viewLine{
			{"", true, func(row *sim.Row) float64 { return row.Dollars / r.Window * 3600 }},
		}},
	}
}

// drawPage writes a result as a page that needs nothing else.
func drawPage(w io.Writer, r *sim.Result) error {
	name, about := html.EscapeString(r.Name), html.EscapeString(r.About)
	fmt.Fprintf(w, pageHead, name, name, about)
	fmt.Fprint(w, "<ul>")
	for _, f := range r.Findings {
		fmt.Fprintf(w, "<li>%s</li>", html.EscapeString(f))
	}
	fmt.Fprint(w, "</ul>\n")
	for _, v := range views(r) {
		c := chart.TimeSeries{
			Title:      v.title,
			X:          "minutes",
			Y:          v.unit,
			Step:       r.Window / 60,
			Level:      v.level,
			LevelLabel: v.levelLabel,
		}
		for _, l := range v.lines {
			line := chart.Line{Label: l.label, Good: l.good}
			for i := range r.Rows {
				line.Values = append(line.Values, l.of(&r.Rows[i]))
			}
			c.Lines = append(c.Lines, line)
		}
		if err := c.WriteSVG(w); err != nil {
			return err
		}
	}
	var text strings.Builder
	printResult(&text, r)
	_, err := fmt.Fprintf(w, "<pre>%s</pre></body></html>\n", html.EscapeString(text.String()))
	return err
}
