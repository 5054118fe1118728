package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"parley/bench/llamacpp"
	"parley/model/weights"
)

// firstFlags are what first-token can be told.
type firstFlags struct {
	parley          string
	model, models   string
	prompts         []int
	threads, rounds int
	bar             float64
	gpu             bool
}

func newFirst() *cobra.Command {
	f := &firstFlags{}
	cmd := &cobra.Command{
		Use:   "first-token",
		Short: "Compare the first token of a lone prompt with the bare network, against a bar",
		Long: `Measure how long the first token of a lone prompt takes on an idle server over HTTP,
beside the time of the bare network on the same prompt: of the first request ever, of the
first one after a restart, and of the second. Servers are started and stopped for that;
the model is random weights of a published shape. Each time is the best of the rounds.

The exit code is 1 if a served time is more than --bar times the bare one.`,
		Example: `  parley-bench first-token
  parley-bench first-token --model llama-1b:Q8_0 --prompts 512,2048 --rounds 5
  parley-bench first-token --gpu --model llama-8b:BF16`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	flags := cmd.Flags()
	addParley(flags, &f.parley)
	flags.StringVar(&f.model, "model", "llama-135m:Q8_0", "`SHAPE` and type of weights")
	flags.StringVar(&f.models, "models", modelsDir(), "keep random models in this `DIRECTORY`")
	flags.IntSliceVar(&f.prompts, "prompts", []int{512, 2048, 8000}, "`LENGTHS` of the prompts, in tokens")
	flags.IntVar(&f.threads, "threads", 2, "compute with this `NUMBER` of threads")
	flags.BoolVar(&f.gpu, "gpu", false, "compute on the first NVIDIA GPU")
	flags.IntVar(&f.rounds, "rounds", 3, "measure everything this `NUMBER` of times")
	flags.Float64Var(&f.bar, "bar", 1.1, "`TIMES` the bare network's time that a served prompt may take")
	return cmd
}

func (f *firstFlags) run(cmd *cobra.Command) error {
	name, typ, _ := strings.Cut(f.model, ":")
	quant, err := weights.ParseDType(typ)
	if err != nil {
		return fmt.Errorf("--model %s: %w: %w", f.model, err, errUsage)
	}
	lab := &llamacpp.Lab{Models: f.models, Threads: f.threads, Rounds: f.rounds, GPU: f.gpu}
	if lab.Parley, err = findParley(f.parley); err != nil {
		return err
	}
	lab.Log = func(format string, args ...any) {
		fmt.Fprintf(cmd.ErrOrStderr(), "%s  %s\n", time.Now().Format("15:04:05"), fmt.Sprintf(format, args...))
	}
	model := llamacpp.Model{Shape: name, Quant: quant}
	results, err := lab.FirstTokens(cmd.Context(), model, f.prompts)
	if err != nil {
		return interruptedOr(cmd.Context(), err)
	}
	return f.print(cmd, results)
}

// print writes a table and reports which prompts missed the bar.
func (f *firstFlags) print(cmd *cobra.Command, results []llamacpp.FirstToken) error {
	out, missed := cmd.OutOrStdout(), []string(nil)
	on := fmt.Sprintf("%d threads", f.threads)
	if f.gpu {
		on = "a GPU"
	}
	fmt.Fprintf(out, "first token of a lone prompt, %s, %s, best of %d rounds\n", f.model, on, f.rounds)
	fmt.Fprintf(out, "%8s %10s %10s %10s %10s %7s\n", "tokens", "bare", "new", "restarted", "second", "ratio")
	for _, r := range results {
		seconds := func(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }
		fmt.Fprintf(out, "%8d %10s %10s %10s %10s %7.2f\n", r.Prompt,
			seconds(r.Bare), seconds(r.New), seconds(r.Again), seconds(r.Later), r.Ratio())
		if r.Ratio() > f.bar {
			missed = append(missed, fmt.Sprintf("%d tokens (%.2f)", r.Prompt, r.Ratio()))
		}
	}
	if len(missed) > 0 {
		return fmt.Errorf("more than %g times the bare network: %s", f.bar, strings.Join(missed, ", "))
	}
	return nil
}
