package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/internal/load"
	"parley/sim/traffic"
)

// New returns the command `parley bench`.
func New() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure a server under load: latency, throughput, goodput",
		Long: `Measure a server with OpenAI's API under load, Parley or another, over HTTP, as clients
experience it. Start the server first, in another terminal:

  parley serve

In a closed loop (--users) each user waits for an answer before asking again. In
an open loop (--rate, --trace) requests go out on schedule whatever the server
does, and latency counts from the intended start, so a server that stalls cannot
hide it. Rejected and failed requests are always reported with the latency.

  TTFT         time to first token
  TPOT         time per output token, after the first
  longest gap  the longest pause within an answer
  goodput      requests per second that met --slo-ttft and --slo-tpot

Lengths are tokens (128), a range (64-512) or lognormal:MEAN:CV[:MAX]. Prompts go
out as chat messages of plain words, so their length in tokens is approximate and
the report says what the server counted; --send ids sends token ids, which are
exact, to servers that take them. A key for the server is read from the variable
PARLEY_API_KEY.`,
		Example: `  parley bench                                           8 users, 64 requests to the default server
  parley bench --users 32 --requests 500 --prompt-tokens 64-512 --output-tokens 128
  parley bench --rate 5 --arrival poisson --duration 2m   an open loop of 5 requests a second
  parley bench --rate 5 --arrival gamma --cv 3            the same in bursts
  parley bench --workload shared-prefix --groups 15 --group-users 5 --shared-tokens 600
  parley bench --workload conversation --turns 2-6 --users 8
  parley bench --trace conversation_trace.jsonl.gz --speed 10 --scale 0.05 --send ids
  parley bench --out a.json && parley bench --out b.json && parley bench compare a.json b.json`,
		Args: cli.Exactly(0, "flags alone"),
	}
	f.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := f.check(cmd.Flags().Changed); err != nil {
			return fmt.Errorf("%w: %w", err, cli.ErrUsage)
		}
		return bench(cmd.Context(), f, cmd.OutOrStdout(), cmd.ErrOrStderr())
	}
	cmd.AddCommand(newBenchCompare(), newBenchTyping(), newBenchCalibrate())
	return cmd
}

// bench measures, and writes the report as the flags say. A run that the user
// ends early reports what it has.
func bench(ctx context.Context, f *benchFlags, out, messages io.Writer) error {
	target := f.target()
	model, err := findModel(ctx, &target)
	if err != nil {
		return err
	}
	client, err := load.NewClient(target)
	if err != nil {
		return err
	}
	defer client.Close()
	fitting := &load.Fitting{Form: target.Send, ContextTokens: model.ContextTokens}
	plan, about, err := f.plan(fitting)
	if err != nil {
		return err
	}
	before := stagesNow(ctx, client.URL())
	result, err := measure(ctx, client, plan, f, messages)
	if err != nil {
		return err
	}
	about.LeftOutRequests = fitting.LeftOut()
	if len(result.Records) == 0 && !result.Interrupted {
		return nothingSent(&about, model)
	}
	report := load.Summarize(result, f.slo)
	report.Program = "parley " + cli.Version + cli.ThisBuild().CommitText()
	report.Target = load.ReportTarget{URL: client.URL(), Model: target.Model, Send: target.Send}
	report.Load = about
	report.Stages = stagesSince(before, stagesNow(context.WithoutCancel(ctx), client.URL()))
	if err := f.write(out, report); err != nil {
		return err
	}
	if result.Interrupted {
		return fmt.Errorf("the report is of a part of the run: %w", cli.ErrInterrupted)
	}
	return nil
}

// findModel asks the server for its models and settles which one is measured.
func findModel(ctx context.Context, target *load.Target) (load.Model, error) {
	client, err := load.NewClient(*target)
	if err != nil {
		return load.Model{}, err
	}
	defer client.Close()
	models, err := client.Models(ctx)
	switch {
	case ctx.Err() != nil:
		return load.Model{}, fmt.Errorf("nothing was measured: %w", cli.ErrInterrupted)
	case errors.Is(err, load.ErrNoServer):
		return load.Model{},
			fmt.Errorf("%w: start one with `parley serve` in another terminal, or name another with --url", err)
	case err != nil && target.Model == "":
		return load.Model{}, fmt.Errorf("%w: name the model with --model", err)
	case target.Model == "" && len(models) == 0:
		return load.Model{}, errors.New("the server lists no models: name one with --model")
	case target.Model == "":
		target.Model = models[0].ID
	}
	for _, m := range models {
		if m.ID == target.Model {
			return m, nil
		}
	}
	return load.Model{ID: target.Model}, nil // servers may know names that they do not list
}

// measure runs the plan and shows how far it is.
func measure(ctx context.Context, client *load.Client, plan load.Plan, f *benchFlags,
	messages io.Writer) (*load.Result, error) {
	bar := cli.NewProgress(messages, "bench", cli.CountAmount)
	total := int64(plan.RequestsMax)
	plan.Progress = func(done int, elapsed time.Duration) {
		if f.byTime() {
			bar.Update(int64(elapsed.Seconds()), int64(plan.DurationMax.Seconds()))
			return
		}
		bar.Update(int64(done), total)
	}
	result, err := load.Run(ctx, client, plan)
	bar.Finish()
	if errors.Is(err, context.Canceled) {
		return nil, fmt.Errorf("nothing was measured: %w", cli.ErrInterrupted)
	}
	return result, err
}

func nothingSent(about *load.Description, model load.Model) error {
	if about.LeftOutRequests == 0 {
		return errors.New("nothing was sent: no request was due within --duration")
	}
	return fmt.Errorf(
		"nothing was sent: no request fits the context of %d tokens of %s: lower --prompt-tokens and "+
			"--output-tokens, or --scale of a trace",
		model.ContextTokens, model.ID)
}

// write keeps the report in a file if one was named, and prints it. A report
// is kept also of a run that was interrupted.
func (f *benchFlags) write(out io.Writer, report *load.Report) error {
	if f.out != "" {
		err := cli.WriteWhole(context.Background(), f.out, func(w io.Writer) error { return cli.PrintJSON(w, report) })
		if err != nil {
			return err
		}
	}
	if f.json {
		return cli.PrintJSON(out, report)
	}
	return printReport(out, report)
}

func names[T ~string](values []T) (out []string) {
	for _, v := range values {
		out = append(out, string(v))
	}
	return out
}

func oneOf[T ~string](flag, value string, values []T) error {
	for _, v := range values {
		if string(v) == value {
			return nil
		}
	}
	return fmt.Errorf("--%s %s: expected one of %s", flag, value, strings.Join(names(values), ", "))
}

// A lengthFlag reads a length from the command line.
type lengthFlag struct{ *traffic.Length }

// Set reads the text.
func (l lengthFlag) Set(text string) (err error) {
	*l.Length, err = traffic.ParseLength(text)
	return err
}

// Type names the kind of value in the help.
func (l lengthFlag) Type() string { return "length" }

// String returns the default, which pflag prints in the help.
func (l lengthFlag) String() string {
	if l.Length == nil {
		return ""
	}
	return l.Length.String()
}
