package chat

import (
	"context"
	"fmt"
	"time"

	"parley/cli/library"
	"parley/cli/remote"

	"github.com/spf13/cobra"
)

// NewRun returns the command `parley run`.
func NewRun() *cobra.Command {
	f := &chatFlags{}
	d := &library.Folder{}
	cmd := &cobra.Command{
		Use:   "run MODEL [PROMPT...]",
		Short: "Talk with a model; pull it first if it is not there",
		Long: `Talk with a model of the model folder, as parley chat does. A model that is not there is
pulled first: MODEL may be anything that parley pull takes.

It uses the server at --url, and if none runs at the default address it loads the
model itself.

` + library.SourceHelp,
		Example: `  parley run qwen3:0.6b
  parley run qwen3:0.6b "Write a haiku about the sea"
  parley run hf:Qwen/Qwen3-1.7B-GGUF:Q8_0`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: library.CompleteCatalogue,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "", "use the server at `ADDRESS` (default "+remote.DefaultURL+", or PARLEY_URL)")
	flags.StringVar(&f.system, "system", "", "set the system prompt to `TEXT`")
	flags.StringArrayVar(&f.set, "set", nil, "set `NAME=VALUE`, as in parley chat; repeatable")
	flags.StringVar(&f.think, "think", "", "let the model think before it answers: `on|off` (default: the model's own)")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "report on standard error how long the answer took")
	flags.BoolVar(&f.json, "json", false, "print the answer, usage and timings as one JSON document")
	d.AddFlags(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := library.Ensure(cmd.Context(), d, args[0])
		if err != nil {
			return err
		}
		f.model, f.pulled, f.Folder = name, true, *d
		return runChat(cmd.Context(), f, args[1:])
	}
	return cmd
}

const (
	// noticeWait is how long a server may take to notice a model that was just pulled.
	noticeWait  = 3 * time.Second
	noticeEvery = 200 * time.Millisecond
)

// awaitModel settles the model. A server is asked until it lists one that was pulled, or
// has had the time to.
func (c *chat) awaitModel(ctx context.Context, model string, pulled bool) error {
	if !pulled {
		return c.choose(model)
	}
	bounded, cancel := context.WithTimeout(ctx, noticeWait)
	defer cancel()
	tick := time.NewTicker(noticeEvery)
	defer tick.Stop()
	for {
		err := c.choose(model)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-bounded.Done():
			return fmt.Errorf("%w. The server serves another folder of models, or was started with --model: "+
				"give --url another server, or stop it", err)
		}
		if c.models, err = c.client.Models(bounded); err != nil && bounded.Err() == nil {
			return err
		}
	}
}
