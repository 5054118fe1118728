package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"parley/cli/remote"
	"parley/internal/builtin"
	"parley/model/store"
)

func newRun() *cobra.Command {
	f := &chatFlags{}
	d := &folderCommand{}
	cmd := &cobra.Command{
		Use:   "run MODEL [PROMPT...]",
		Short: "Talk with a model; pull it first if it is not there",
		Long: `Talk with a model of the model folder, as parley chat does. A model that is not there is
pulled first: MODEL may be anything that parley pull takes.

It uses the server at --url, and if none runs at the default address it loads the
model itself.

` + sourceHelp,
		Example: `  parley run qwen3:0.6b
  parley run qwen3:0.6b "Write a haiku about the sea"
  parley run hf:Qwen/Qwen3-1.7B-GGUF:Q8_0`,
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: completeCatalogue,
	}
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", "", "use the server at `ADDRESS` (default "+remote.DefaultURL+", or PARLEY_URL)")
	flags.StringVar(&f.system, "system", "", "set the system prompt to `TEXT`")
	flags.StringArrayVar(&f.set, "set", nil, "set `NAME=VALUE`, as in parley chat; repeatable")
	flags.StringVar(&f.think, "think", "", "let the model think before it answers: `on|off` (default: as it does)")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "report on standard error how long the answer took")
	flags.BoolVar(&f.json, "json", false, "print the answer, usage and timings as one JSON document")
	d.addFlags(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		name, err := d.ensure(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		f.model, f.pulled, f.folderCommand = name, true, *d
		return runChat(cmd.Context(), f, args[1:])
	}
	return cmd
}

// ensure returns the name of a model that is built in or in the folder; it pulls a
// source that is neither.
func (d *folderCommand) ensure(ctx context.Context, text string) (string, error) {
	if _, ok := builtin.Find(text); ok {
		return text, nil
	}
	folder, err := d.open()
	if err != nil {
		return "", err
	}
	if m, err := folder.Get(text); err == nil {
		return m.Name, nil
	} else if !errors.Is(err, store.ErrUnknown) {
		return "", err
	}
	m, err := pullModel(ctx, folder, text, "", os.Stderr)
	return m.Name, err
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
