package library

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"parley/cli"
	"parley/internal/builtin"
	"parley/model/weights"

	"github.com/spf13/cobra"
)

// NewModel returns the command `parley model`.
func NewModel() *cobra.Command {
	cmd := &cobra.Command{Use: "model", Short: "Inspect, quantize and generate model files"}
	cmd.AddCommand(newModelList(), newModelInspect(), newModelQuantize(), newModelRandom())
	return cmd
}

// A modelRow is one row of model list.
type modelRow struct {
	Name    string `json:"name"`
	Summary string `json:"summary"`
	Default bool   `json:"default"`
}

func newModelList() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the built-in models", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var rows []modelRow
			for i, m := range builtin.Models() {
				rows = append(rows, modelRow{m.Name, m.Summary, i == 0})
			}
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), rows)
			}
			for _, r := range rows {
				fmt.Fprintf(cmd.OutOrStdout(), "%-12s %s\n", r.Name, r.Summary)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func newModelInspect() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "inspect PATH",
		Short: "Show the contents and memory needs of a model file",
		Long: `Show the contents and memory needs of a model file: architecture, parameters, bytes by
part and by quantization, context, bytes of key/value cache per token.

PATH is a GGUF file, a directory of safetensors, or the name of a built-in model.`,
		Example: "  parley model inspect polly\n  parley model inspect llama.gguf --json",
		Args:    cli.Exactly(1, "the path of a model"),
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return cli.BuiltinNames(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			ck, err := Open(args[0])
			if err != nil {
				return err
			}
			defer ck.Close()
			summary := weights.Describe(ck)
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), summary)
			}
			printSummary(cmd.OutOrStdout(), args[0], &summary, ck)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func newModelRandom() *cobra.Command {
	var shape, quant string
	var seed uint64
	var force bool
	cmd := &cobra.Command{
		Use:   "random FILE",
		Short: "Generate a model with random weights, for benchmarks",
		Long: `Generate a GGUF model of a real shape with random weights. Its answers are nonsense, but
it loads, serves and is as fast as a trained model of its size.

Shapes:
  ` + strings.Join(shapeNames(), "\n  "),
		Example: "  parley model random --shape llama-1b --quant q8_0 llama-1b.gguf",
		Args:    cli.Exactly(1, "the file to write"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := mayWrite(args[0], force); err != nil {
				return err
			}
			return writeRandom(cmd.Context(), cmd.ErrOrStderr(), args[0], shape, quant, seed)
		},
	}
	cmd.Flags().StringVar(&shape, "shape", "llama-1b", "use the model shape `SHAPE`")
	cmd.Flags().StringVar(&quant, "quant", "q8_0", "store the weights as `TYPE`: "+strings.Join(writableTypes, ", "))
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed the random weights with `NUMBER`")
	cmd.Flags().BoolVar(&force, "force", false, "replace FILE if it exists")
	cli.Complete(cmd, "shape", shapeNames())
	cli.Complete(cmd, "quant", writableTypes)
	return cmd
}

func shapeNames() (names []string) {
	for _, s := range weights.Shapes() {
		names = append(names, s.Name)
	}
	return names
}

// writeRandom writes a random model of the shape that the flags name.
func writeRandom(ctx context.Context, out io.Writer, path, shapeName, quantName string, seed uint64) error {
	shape, err := weights.ShapeNamed(shapeName)
	if err != nil {
		return err
	}
	quant, err := weights.ParseDType(quantName)
	if err != nil {
		return err
	}
	bar := cli.NewProgress(out, filepath.Base(path), cli.ByteAmount)
	var fallbacks []weights.Fallback
	err = cli.WriteWhole(ctx, path, func(w io.Writer) (err error) {
		fallbacks, err = weights.WriteRandom(w, shape, quant, seed, bar.Update)
		return err
	})
	bar.Finish()
	if err != nil {
		return err
	}
	printFallbacks(out, fallbacks)
	return nil
}

// printFallbacks says which types took the place of which, and how often.
func printFallbacks(out io.Writer, fallbacks []weights.Fallback) {
	type swap struct{ want, got weights.DType }
	var order []swap
	tensors := map[swap]int{}
	for _, fb := range fallbacks {
		s := swap{fb.Wanted, fb.Used}
		if tensors[s] == 0 {
			order = append(order, s)
		}
		tensors[s]++
	}
	for _, s := range order {
		fmt.Fprintf(out, "%d tensors are stored as %s: their row length is not a multiple of %d, as %s needs\n",
			tensors[s], s.got, s.want.BlockLen(), s.want)
	}
}
