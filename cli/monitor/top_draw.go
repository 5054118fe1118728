package monitor

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"parley"
	"parley/cli"
	"parley/gateway/admin"
)

// topWidth is the width where the terminal's is unknown.
const topWidth = 100

// A pen writes in colours, or plainly.
type pen struct{ coloured bool }

// A style is a number of the terminal's SGR sequence.
type style string

const (
	penBold style = "1"
	penDim  style = "2"
	penGood style = "32"
	penBad  style = "1;31"
)

func (p pen) in(s style, text string) string {
	if !p.coloured || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[m"
}

// tone is good or bad.
func (p pen) tone(bad bool, text string) string {
	if bad {
		return p.in(penBad, text)
	}
	return p.in(penGood, text)
}

// drawTop draws the last of the pictures; those before it give the little charts.
func drawTop(root string, lately []*admin.Picture, width int, coloured bool) string {
	p, w := lately[len(lately)-1], pen{coloured}
	width = min(max(width, 40), 160)
	var out strings.Builder
	fmt.Fprintf(&out, "%s  %s  %s\n\n", w.in(penBold, "parley"), root, w.in(penDim, p.At.Local().Format(time.TimeOnly)))
	for _, line := range wrapWords(p.Verdict.Sentence, width) {
		fmt.Fprintln(&out, w.tone(!p.Verdict.Happy, line))
	}
	for _, line := range wrapWords(p.Verdict.Do, width) {
		fmt.Fprintln(&out, w.in(penDim, line))
	}
	out.WriteString("\n")
	drawPromises(&out, w, p)
	drawLoad(&out, w, p, lately)
	drawWorkers(&out, w, p, width)
	return out.String()
}

var promiseNames = map[string]string{"availability": "answered", "ttft": "first token", "gap": "tokens"}

func drawPromises(out *strings.Builder, w pen, p *admin.Picture) {
	for _, x := range p.Promises {
		kept := "      –"
		if x.Count > 0 {
			kept = fmt.Sprintf("%6.2f%%", 100*x.Kept)
		}
		within := ""
		if x.Limit > 0 {
			within = " within " + cli.ClockText(x.Limit)
		}
		name := promiseNames[x.Name]
		if x.Objective != "" && x.Objective != parley.DefaultObjective {
			name += ", " + x.Objective
		}
		fmt.Fprintf(out, "%-12s %s  %s\n", name, w.tone(x.Burn5m > 1, kept),
			w.in(penDim, fmt.Sprintf("of %.1f%%%s; error budget burn rate %.1fx over 5 min, %.1fx over 1 h",
				100*x.Goal, within, x.Burn5m, x.Burn1h)))
	}
	out.WriteString("\n")
}

func drawLoad(out *strings.Builder, w pen, p *admin.Picture, lately []*admin.Picture) {
	waiting, tiers := 0, ""
	for _, tier := range []string{"enterprise", "pro", "free"} {
		if n := p.Waiting[tier]; n > 0 {
			waiting += n
			tiers += fmt.Sprintf(" %s %d", tier, n)
		}
	}
	row := func(name, value, note string, of func(*admin.Picture) float64) {
		fmt.Fprintf(out, "%-12s %9s  %s  %s\n", name, value, spark(lately, of), w.in(penDim, note))
	}
	row("running", fmt.Sprint(p.Running), fmt.Sprintf("%.1f requests/s", p.Rates.Requests),
		func(p *admin.Picture) float64 { return float64(p.Running) })
	row("queued", fmt.Sprint(waiting), strings.TrimSpace(tiers+" about "+cli.ClockText(p.WaitSeconds)),
		func(p *admin.Picture) float64 { return p.WaitSeconds })
	row("first token", cli.ClockText(p.TTFT.P95), "p95; p50 "+cli.ClockText(p.TTFT.P50),
		func(p *admin.Picture) float64 {
			return p.TTFT.P95
		})
	row("tokens", cli.ClockText(p.Gap.P95), "between tokens, p95; p50 "+cli.ClockText(p.Gap.P50),
		func(p *admin.Picture) float64 { return p.Gap.P95 })
	row("decode", fmt.Sprintf("%.0f/s", p.Rates.Decode), "tokens", func(p *admin.Picture) float64 {
		return p.Rates.Decode
	})
	row("prefill", fmt.Sprintf("%.0f/s", p.Rates.Prefill), fmt.Sprintf("tokens; cache hit rate %.0f%%", 100*p.Hits),
		func(p *admin.Picture) float64 { return p.Rates.Prefill })
	row("rejected", fmt.Sprintf("%.1f/s", p.Rates.TurnedAway),
		fmt.Sprintf("failed %.1f, rate limited %.1f, invalid %.1f, cancelled %.1f", p.Rates.Failed, p.Rates.Limited,
			p.Rates.Refused, p.Rates.Cancelled),
		func(p *admin.Picture) float64 { return p.Rates.TurnedAway + p.Rates.Failed })
	for _, q := range p.Queues {
		if q.ModelBreaker != "closed" || q.WorkerBreaker != "closed" {
			fmt.Fprintf(out, "%s\n",
				w.in(penBad, fmt.Sprintf("%s in pool %s: breaker of the model %s, of the worker %s", q.Model, q.Pool,
					q.ModelBreaker, q.WorkerBreaker)))
		}
	}
	out.WriteString("\n")
}

func drawWorkers(out *strings.Builder, w pen, p *admin.Picture, width int) {
	bars := max(6, min(24, (width-58)/2))
	for _, x := range p.Workers {
		fmt.Fprintf(out, "%-20.20s %s  kv %s %3.0f%%  busy %s %3.0f%%  %d running\n", x.Name,
			w.tone(x.State != admin.Up, fmt.Sprintf("%-8s", x.State)),
			bar(x.KV, bars), 100*x.KV, bar(x.Busy, bars), 100*x.Busy, x.Running)
		if x.Device != nil {
			for _, line := range wrapWords(cli.DeviceText(x.Device), width-4) {
				fmt.Fprintf(out, "    %s\n", w.tone(len(x.Device.Throttled) > 0, line))
			}
		}
	}
}

// bar draws a share.
func bar(share float64, width int) string {
	full := min(int(share*float64(width)+0.5), width)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// sparks are eight heights of a bar, sparkWidth how many stand side by side.
var sparks = []rune("▁▂▃▄▅▆▇█")

const sparkWidth = 30

// spark draws the latest values of one number, beside its greatest.
func spark(lately []*admin.Picture, of func(*admin.Picture) float64) string {
	lately = lately[max(0, len(lately)-sparkWidth):]
	values := make([]float64, len(lately))
	for i, p := range lately {
		values[i] = of(p)
	}
	most := slices.Max(values)
	line := []rune(strings.Repeat(" ", sparkWidth-len(values)))
	for _, v := range values {
		height := 0
		if most > 0 {
			height = int(v / most * float64(len(sparks)-1))
		}
		line = append(line, sparks[height])
	}
	return string(line)
}

// wrapWords breaks a text into lines.
func wrapWords(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines = append(lines, line)
			line = ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	if line != "" {
		lines = append(lines, line)
	}
	return lines
}
