package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"github.com/spf13/cobra"

	"parley/bench/blocks"
)

func newBlocks() *cobra.Command {
	var o blocks.Options
	cmd := &cobra.Command{
		Use:   "blocks",
		Short: "Measure how fast keys and values move from worker to worker",
		Long: `Measure how fast keys and values move between two processes on this machine, as workers
fetch them from each other: named, checksummed and in frames. Beside it stands a plain
copy of the same bytes between the same processes over a TCP connection. Fetches are made
over TCP and, on Linux, through shared memory. All are measured in turn. The exit code is 1 if
fetching over TCP is slower than 80 % of the plain copy.

A block of 16 tokens has 2 MiB in a model with 8 billion parameters, 8 KV heads and
BF16, and 512 KiB in one with a billion.`,
		Example: "  parley-bench blocks\n  parley-bench blocks --block 524288 --blocks 512",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.BlockBytes < 64 || o.Blocks < 1 || o.Rounds < 1 {
				return fmt.Errorf("--block must be at least 64, --blocks and --rounds at least 1: %w", errUsage)
			}
			self, err := os.Executable()
			if err != nil {
				return err
			}
			r, err := blocks.Run(cmd.Context(), o, func(args ...string) *exec.Cmd {
				c := exec.CommandContext(cmd.Context(), self, append([]string{"serve-blocks"}, args...)...)
				c.Stderr = cmd.ErrOrStderr()
				return c
			})
			if err != nil {
				return err
			}
			if err = r.WriteText(cmd.OutOrStdout()); r.Missed() {
				err = errors.Join(err, fmt.Errorf("missed: fetching reaches %.2f of a plain copy, want %.2f", r.Ratio(),
					blocks.Bar))
			}
			return err
		},
	}
	cmd.Flags().IntVar(&o.BlockBytes, "block", 2<<20, "give each block `BYTES`")
	cmd.Flags().IntVar(&o.Blocks, "blocks", 128, "fetch `N` blocks at once")
	cmd.Flags().IntVar(&o.Rounds, "rounds", 15, "measure `N` times and take the median")
	return cmd
}

// newServeBlocks returns the command of the other process.
func newServeBlocks() *cobra.Command {
	return &cobra.Command{
		Use:    "serve-blocks BYTES BLOCKS",
		Short:  "Give blocks to parley-bench blocks",
		Hidden: true,
		Args:   cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			size, err := strconv.Atoi(args[0])
			if err != nil {
				return err
			}
			n, err := strconv.Atoi(args[1])
			if err != nil {
				return err
			}
			return blocks.Serve(cmd.InOrStdin(), cmd.OutOrStdout(), size, n)
		},
	}
}
