// Command parley-bench compares Parley with other programs and with itself: with
// llama.cpp on a processor, with nginx in front of a worker, with the floor of the
// memory for the router's index, with its own engine without a mechanism, and models
// of random weights on a GPU against their bars; and blocks that move between workers
// with a plain copy. One command lets a fleet follow the load of a day.
//
// It is for people who work on Parley. `parley bench` measures a server under load.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "parley-bench:", err)
	}
	os.Exit(exitCode(err))
}

var (
	// errUsage marks a command line that cannot be understood.
	errUsage = errors.New("see --help")
	// errInterrupted marks work that the user ended before it was complete.
	errInterrupted = errors.New("interrupted")
)

// exitCode returns 0 if all bars were met, 1 if one was missed or the work failed, 2
// for wrong usage and 130 for an interrupt, as parley does.
func exitCode(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errInterrupted):
		return 130
	case errors.Is(err, errUsage):
		return 2
	}
	return 1
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "parley-bench",
		Short:         "Compare Parley with other programs and with itself, against bars",
		Args:          cobra.NoArgs,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return fmt.Errorf("%w: %w", err, errUsage) })
	root.AddCommand(newCPU(), newFirst(), newGPU(), newGateway(), newIndex(), newMechanisms(), newSchemas(),
		newBlocks(), newServeBlocks(), newScaleDay())
	return root
}
