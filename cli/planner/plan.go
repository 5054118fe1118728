package planner

import (
	"fmt"
	"io"
	"maps"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/sim/plan"
)

// planFlags are the flags of plan.
type planFlags struct {
	settings         plan.Settings
	set, whatIf      []string
	file, trace, why string
	html             string
	json             bool
	named            map[string]*planValue
	planner          *plan.Planner
}

// planNames are the settings that have a flag of their own. The sheet says what
// each is; any other cell is set by --set.
var planNames = []string{
	"tp", "pp", "dau", "turns", "rate", "tokens_day", "swing", "prompt", "output", "hit", "new",
	"ttft", "tpot", "percentile", "price", "budget", "sessions_max", "gpus_have",
}

// A planValue is the text of a flag. Its type is an example of it, so that help
// shows how a value is written.
type planValue struct{ text, example string }

// String returns the text.
func (v *planValue) String() string { return v.text }

// Set takes the text; the planner judges it together with the others.
func (v *planValue) Set(text string) error {
	v.text = text
	return nil
}

// Type returns an example.
func (v *planValue) Type() string { return v.example }

// New returns the command `parley plan`.
func New() *cobra.Command {
	f := &planFlags{planner: plan.New(), named: map[string]*planValue{}}
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "Work out how many GPUs a load needs, what they cost, and what the bottleneck is",
		Long: `Work out how many GPUs a load needs, what they cost, and what the bottleneck is, from
formulas alone: nothing is loaded and nothing runs.

Say what is served (--model, --weights, --kv), on what (--device, --tp, --pp), for
which load (--dau and --turns, or --rate; --prompt, --output, --hit) and with which
objectives (--ttft, --tpot, --percentile). Without a load, the plan is for one full
replica.

Numbers can have units: 80GB, 3.35TB/s, 700ms, 10M, 80%. Each line of the result begins
with a name. --why NAME shows its formula with the numbers filled in, and --set NAME=VALUE
replaces the formula by your own number.

A model is a GGUF file, a directory, a built-in model, a Hugging Face config.json, or one
of these names:

  ` + wrapped(f.planner.Catalog.Models) + `.

A device is one of ` + list(f.planner.Catalog.Devices) + `, or "this" to measure this
machine. --file adds models and devices of yours; docs/plan.md shows one.`,
		Example: `  parley plan --model llama-3-70b --tp 8 --dau 10M --hit 80%
  parley plan --model llama-3-70b --tp 8 --rate 5000 --what-if kv=fp8
  parley plan --model 7b --prompt 6000 --output 25 --ttft 200ms --tpot 10ms --percentile 95%
  parley plan --why month_follow                how a number is computed
  parley plan --model polly --device this       a model file on this machine
  parley plan --html plan.html                  the same as a page with sliders`,
		Args: cli.Exactly(0, "flags alone"),
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	f.add(cmd)
	return cmd
}

func (f *planFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.SortFlags = false
	text := func(name, example, usage string) {
		value := &planValue{example: example}
		f.named[name] = value
		flags.Var(value, strings.ReplaceAll(name, "_", "-"), usage)
	}
	text(plan.ModelName, "NAME", "the model, by name or path (default llama-3-8b)")
	types := list(f.planner.Catalog.Weights)
	text(plan.WeightsName, "TYPE", "weights: "+types+" (default fp16, or as the file has them)")
	text(plan.KVName, "TYPE", "keys and values: "+list(f.planner.Catalog.KV)+" (default fp16)")
	text(plan.DeviceName, "NAME", "the device, by name; this measures this machine (default h100)")
	for _, name := range planNames {
		cell := f.planner.Sheet.Cell(name)
		usage := cell.Title
		if cell.Formula != "" && cell.Formula != "0" {
			usage += " (default " + cell.Formula + ")"
		}
		text(name, placeholder(cell.Unit), usage)
	}
	flags.StringArrayVar(&f.set, "set", nil, "set any other number, as `NAME=VALUE`; --why all lists them")
	flags.StringVar(&f.file, "file", "", "read settings, models and devices from a YAML `FILE`")
	flags.StringVar(&f.trace, "trace", "", "take rate, lengths and hit rate from a trace `FILE` (Mooncake or Azure)")
	flags.StringArrayVar(&f.whatIf, "what-if", nil, "print before and after a change, such as `kv=fp8`")
	flags.StringVar(&f.why, "why", "", "show how the number `NAME` is computed; all shows every number")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	flags.StringVar(&f.html, "html", "", "write the plan as one self-contained page to this `FILE`")
	_ = cmd.RegisterFlagCompletionFunc(plan.ModelName, completeNames(f.planner.Catalog.Models))
	_ = cmd.RegisterFlagCompletionFunc(plan.DeviceName, completeNames(f.planner.Catalog.Devices))
}

// placeholder stands for a value in help: an example, or N for a plain number.
func placeholder(unit plan.Unit) string {
	if unit == plan.Seconds || unit == plan.Fraction {
		return plan.Example(unit)
	}
	return "N"
}

// list writes the names of entries in one line.
func list(entries map[string]plan.Cells) string { return strings.Join(sortedKeys(entries), ", ") }

// wrapped writes the names of entries in lines of some seventy columns.
func wrapped(entries map[string]plan.Cells) string {
	var text strings.Builder
	column := 0
	for i, name := range sortedKeys(entries) {
		switch {
		case i > 0 && column+len(name) > 70:
			text.WriteString(",\n  ")
			column = 0
		case i > 0:
			text.WriteString(", ")
		}
		text.WriteString(name)
		column += len(name) + 2
	}
	return text.String()
}

func completeNames(names map[string]plan.Cells) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return sortedKeys(names), cobra.ShellCompDirectiveDefault
	}
}

func (f *planFlags) run(cmd *cobra.Command) error {
	if err := f.gather(cmd); err != nil {
		return err
	}
	before, err := f.planner.Plan(f.settings)
	if err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	switch {
	case f.html != "":
		return f.writePage(cmd)
	case f.why != "":
		return explainPlan(out, f.planner.Sheet, before, f.why)
	}
	changes, err := f.changes(before)
	if err != nil {
		return err
	}
	if f.json {
		return cli.PrintJSON(out, planJSON(before, changes))
	}
	printPlan(out, f.planner.Sheet, before)
	for _, c := range changes {
		printChange(out, f.planner.Sheet, before, c)
	}
	return nil
}

// gather puts the settings together: the file first, then the trace, then flags.
func (f *planFlags) gather(cmd *cobra.Command) (err error) {
	f.settings = plan.Settings{}
	if f.file != "" {
		text, err := os.ReadFile(f.file)
		if err != nil {
			return err
		}
		if f.planner, f.settings, err = f.planner.Read(text); err != nil {
			return fmt.Errorf("%s: %w", f.file, err)
		}
	}
	if f.trace != "" {
		load, err := traceLoad(f.trace)
		if err != nil {
			return err
		}
		maps.Copy(f.settings, load)
	}
	for name, value := range f.named {
		if cmd.Flags().Changed(strings.ReplaceAll(name, "_", "-")) {
			f.settings[name] = value.text
		}
	}
	for _, line := range f.set {
		more, err := plan.ParseSettings(line)
		if err != nil {
			return fmt.Errorf("--set: %w", err)
		}
		maps.Copy(f.settings, more)
	}
	return f.findNames(cmd, f.settings)
}

// findNames adds a model and a device that the catalog does not name: a file, or
// this machine.
func (f *planFlags) findNames(cmd *cobra.Command, settings plan.Settings) error {
	catalog := f.planner.Catalog
	if name := settings[plan.ModelName]; name != "" && catalog.Models[strings.ToLower(name)] == nil {
		shape, err := shapeOf(catalog, name)
		if err != nil {
			return err
		}
		catalog.Models[strings.ToLower(name)] = shape
	}
	if settings[plan.DeviceName] == thisMachine && catalog.Devices[thisMachine] == nil {
		profile, err := measureMachine(cmd.ErrOrStderr(), catalog)
		if err != nil {
			return err
		}
		catalog.Devices[thisMachine] = profile
	}
	return nil
}

// A planChange is a plan with some settings replaced.
type planChange struct {
	set   string
	after *plan.Result
}

func (f *planFlags) changes(before *plan.Result) (changes []planChange, err error) {
	for _, line := range f.whatIf {
		more, err := plan.ParseSettings(line)
		if err == nil {
			err = f.findNames(nil, more)
		}
		if err != nil {
			return nil, fmt.Errorf("--what-if: %w", err)
		}
		after, err := f.planner.Plan(before.Settings.With(more))
		if err != nil {
			return nil, fmt.Errorf("--what-if: %w", err)
		}
		changes = append(changes, planChange{line, after})
	}
	return changes, nil
}

// explainPlan writes how a cell, or each of them, comes about.
func explainPlan(out io.Writer, sheet *plan.Sheet, r *plan.Result, name string) error {
	if name != "all" {
		return explainCell(out, r, name)
	}
	group := ""
	for _, c := range sheet.Cells {
		if c.Group != group {
			group = c.Group
			fmt.Fprintf(out, "\n%s\n", group)
		}
		if err := explainCell(out, r, c.Name); err != nil {
			return err
		}
	}
	return nil
}

func explainCell(out io.Writer, r *plan.Result, name string) error {
	why, err := r.Why(name)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: %s\n  = %s\n", name, why.Cell.Title, why.Value)
	if why.Filled != "" && len(why.Inputs) > 0 {
		fmt.Fprintf(out, "  = %s\n  = %s\n", why.Cell.Formula, why.Filled)
	} else if why.Filled == "" {
		fmt.Fprintln(out, "  as set, or by the model or the device")
	}
	return nil
}
