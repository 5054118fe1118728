package bench

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/internal/load"
)

// errBarMissed says that a measurement did not meet its bar.
var errBarMissed = errors.New("a bar was missed")

func newBenchTyping() *cobra.Command {
	target := load.Target{Key: os.Getenv("PARLEY_API_KEY"), Send: load.Text}
	typing := load.Typing{}
	var cachedBar float64
	var firstBar time.Duration
	cmd := &cobra.Command{
		Use:   "typing",
		Short: "Measure completions at every keystroke in a long file, against bars",
		Long: `Measure code completion: a user types into the middle of a long file, and the
editor asks for a completion at every keystroke (POST /v1/fim/completions). Start the
server first, with a model that has fill-in-the-middle tokens.

It measures how much of the file is prefilled again for each keystroke, and the time to the
first text. The text after the cursor is prefilled first, so that typing only extends the
cached prompt; --suffix-first=false shows the difference. The exit code is 1 if the share
of cached tokens or the 95th percentile of the wait misses its bar.`,
		Example: `  parley model random --shape llama-135m llama-135m.gguf && parley serve --model llama-135m.gguf
  parley bench typing
  parley bench typing --keystrokes 300 --first-bar 50ms`,
		Args: cli.Exactly(0, "flags alone"),
	}
	flags := cmd.Flags()
	flags.StringVar(&target.URL, "url", benchURL, "measure the server whose API begins at this `URL`")
	flags.StringVar(&target.Model, "model", "", "use this `MODEL` (default: the first that the server lists)")
	flags.BoolVar(&target.AllowRemote, "allow-remote", false, "allow a server that is not this machine")
	flags.IntVar(&typing.Tokens, "tokens", 6000, "the file has about this `NUMBER` of tokens")
	flags.IntVar(&typing.Keystrokes, "keystrokes", 100, "type this `NUMBER` of characters")
	flags.IntVar(&typing.OutputTokens, "output-tokens", 16, "request completions of this `NUMBER` of tokens")
	flags.BoolVar(&typing.AfterFirst, "suffix-first", true, "prefill the text after the cursor first")
	flags.Float64Var(&cachedBar, "cached-bar", 0.97, "miss if less than this `SHARE` of the prompts' tokens was cached")
	flags.DurationVar(&firstBar, "first-bar", 200*time.Millisecond,
		"miss if the 95th percentile of the wait for the first text is longer than this `TIME`")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if _, err := findModel(cmd.Context(), &target); err != nil {
			return err
		}
		client, err := load.NewClient(target)
		if err != nil {
			return err
		}
		defer client.Close()
		typed, err := client.Type(cmd.Context(), typing)
		if err != nil {
			return err
		}
		fmt.Fprintf(cmd.OutOrStdout(),
			"%d keystrokes in %d tokens: %.2f%% cached; first text p50 %s, p95 %s, max %s\n", len(typed.FirstText),
			typed.PromptTokens/len(typed.FirstText), 100*typed.CachedShare(), rounded(typed.Percentile(0.5)),
			rounded(typed.Percentile(0.95)), rounded(typed.Percentile(1)))
		if typed.CachedShare() < cachedBar || typed.Percentile(0.95) > firstBar {
			return fmt.Errorf("%w: wanted %.2f%% cached and a 95th percentile of %s", errBarMissed, 100*cachedBar,
				firstBar)
		}
		return nil
	}
	return cmd
}

func rounded(d time.Duration) time.Duration { return d.Round(100 * time.Microsecond) }
