package library

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"

	"parley/model/weights"
	"parley/worker/host"
)

// printSummary writes the output of model inspect for people.
func printSummary(out io.Writer, path string, s *weights.Summary, ck *weights.Checkpoint) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	c := &ck.Config
	row := func(key, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", key, fmt.Sprintf(format, args...)) }
	row("model", "%s (%s, %s)", path, s.Format, host.Size(s.FileBytes))
	row("architecture", "%s: %d layers, hidden %d, feed-forward %d, %d query and %d KV heads of %d, vocabulary %d",
		s.Architecture, c.Layers, c.Hidden, c.FFN, c.Heads, c.KVHeads, c.HeadDim, c.Vocab)
	if c.Experts > 0 {
		row("experts", "%d of %d per token, feed-forward %d each", c.ExpertsPerToken, c.Experts, c.ExpertFFN)
	}
	row("parameters", "%s%s", count(s.Parameters), activeText(s))
	row("context", "%d tokens", c.Context)
	row("rope", "%s", ropeText(&c.Rope))
	if c.SlidingWindow > 0 {
		row("sliding window", "%d tokens in %d of %d layers", c.SlidingWindow, SlidingLayers(c), c.Layers)
	}
	row("chat template", "%s", templateText(ck.ChatTemplate))
	w.Flush()
	printShares(out, "part", s.Classes)
	printShares(out, "type", s.Types)
	printKV(out, s, c.Context)
	for _, p := range s.Problems {
		fmt.Fprintln(out, "problem:", p)
	}
}

func activeText(s *weights.Summary) string {
	if s.ActiveParameters == s.Parameters {
		return ""
	}
	return ", " + count(s.ActiveParameters) + " active per token"
}

// count writes a large number the way people name models.
func count(n int64) string {
	switch f := float64(n); {
	case f >= 1e9:
		return strconv.FormatFloat(f/1e9, 'f', 2, 64) + "B"
	case f >= 1e6:
		return strconv.FormatFloat(f/1e6, 'f', 1, 64) + "M"
	}
	return strconv.FormatInt(n, 10)
}

func ropeText(r *weights.Rope) string {
	text := fmt.Sprintf("theta %g", r.Theta)
	if r.Type != weights.RopeDefault {
		text += fmt.Sprintf(", %s by %g", r.Type, r.Factor)
	}
	return text
}

// SlidingLayers returns how many layers attend to a window only.
func SlidingLayers(c *weights.Config) (n int) {
	for _, s := range c.Sliding {
		if s {
			n++
		}
	}
	return n
}

func templateText(template string) string {
	if template == "" {
		return "none"
	}
	if lines := strings.Count(template, "\n") + 1; lines > 1 {
		return fmt.Sprintf("%d bytes, %d lines", len(template), lines)
	}
	return fmt.Sprintf("%d bytes, 1 line", len(template))
}

func printShares(out io.Writer, title string, shares []weights.Share) {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\ttensors\tparameters\tbytes\t\n", title)
	for _, s := range shares {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t\n", s.Name, s.Tensors, count(s.Parameters), host.Size(s.Bytes))
	}
	w.Flush()
}

func printKV(out io.Writer, s *weights.Summary, context int) {
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "KV type\tper token\tfull context\t")
	for _, kv := range s.KVCache {
		fmt.Fprintf(w, "%s\t%s\t%s\t\n", kv.Type, host.Size(kv.BytesPerToken),
			host.Size(kv.BytesPerToken*int64(context)))
	}
	w.Flush()
}
