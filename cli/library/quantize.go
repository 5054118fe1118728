package library

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/model/weights"
	"parley/worker/host"
)

// writableTypes are the types in which models can be written, the most common
// first.
var writableTypes = []string{"q8_0", "q4_k", "q4_0", "q6_k", "q5_k", "q5_1", "q5_0", "q4_1", "f16", "bf16", "f32"}

// quantizeFlags are the flags of model quantize.
type quantizeFlags struct {
	kind, name  string
	force, json bool
}

func newModelQuantize() *cobra.Command {
	f := &quantizeFlags{}
	cmd := &cobra.Command{
		Use:   "quantize IN OUT",
		Short: "Quantize a model into one GGUF file",
		Long: `Quantize a model into one GGUF file for Parley and llama.cpp. Smaller weights take less
memory and make answers faster, because decoding is limited by memory bandwidth; the
price is a small error in each weight.

IN is a GGUF file, a directory of safetensors with config.json and tokenizer.json, or
the name of a built-in model. Use the original weights if you can: quantizing a
quantized model adds a second error.

  type   bits per weight  what to expect
  q8_0   8.5              practically lossless; the safe choice
  q6_k   6.6              almost no loss
  q5_k   5.7              q5_k with some q6_k, which llama.cpp calls Q5_K_M
  q4_k   4.8              q4_k with some q6_k, Q4_K_M; the usual choice for little memory
  q4_0   4.5              a little worse than q4_k, and fast on every processor
  f16    16               nothing quantized; bf16 and f32 likewise

Norms and biases stay f32. With q4_k and q5_k the embedding and output matrices, and in
half of the layers the attention values and the last feed-forward matrix, are stored as
q6_k, because answers depend most on them. A matrix whose row length is not a multiple of
32 (256 for the _k types) is stored as the next larger type that fits, and reported.

The result is checked row by row: the error of each type is the root mean square (RMS)
difference, absolute and relative to the weights. It uses a few megabytes of memory,
whatever the size of the model, and all processors.`,
		Example: `  parley model quantize llama.gguf llama-q4.gguf --type q4_k
  parley model quantize /models/llama-1b llama-1b.gguf --type q8_0
  parley model quantize polly polly-q4.gguf --type q4_0 --json`,
		Args: cli.Exactly(2, "the model to read and the file to write"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return quantize(cmd.Context(), f, args[0], args[1], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return cli.BuiltinNames(), cobra.ShellCompDirectiveDefault
		},
	}
	cmd.Flags().StringVar(&f.kind, "type", "q8_0", "store the weights as `TYPE`: "+strings.Join(writableTypes, ", "))
	cmd.Flags().StringVar(&f.name, "name", "", "store `NAME` in the file (default: the model's own)")
	cmd.Flags().BoolVar(&f.force, "force", false, "replace OUT if it exists")
	cmd.Flags().BoolVar(&f.json, "json", false, "print the summary as JSON")
	cli.Complete(cmd, "type", writableTypes)
	return cmd
}

// A quantizeReport is the summary of what model quantize did.
type quantizeReport struct {
	In          string               `json:"in"`
	Out         string               `json:"out"`
	Type        weights.DType        `json:"type"`
	BytesBefore int64                `json:"bytes_before"`
	BytesAfter  int64                `json:"bytes_after"`
	Seconds     float64              `json:"seconds"`
	SourceTypes []string             `json:"source_types"`
	Stored      []weights.StoredType `json:"stored"`
	Fallbacks   []weights.Fallback   `json:"fallbacks"`
}

func quantize(ctx context.Context, f *quantizeFlags, in, out string, result, messages io.Writer) error {
	kind, err := weights.ParseDType(f.kind)
	if err != nil {
		return fmt.Errorf("--type: %w", err)
	}
	ck, err := Open(in)
	if err != nil {
		return err
	}
	defer ck.Close()
	if err := mayWrite(out, f.force, weightFiles(ck)...); err != nil {
		return err
	}
	bar := cli.NewProgress(messages, filepath.Base(out), cli.ByteAmount)
	plan, err := weights.PlanConversion(ck,
		weights.ConvertOptions{Type: kind, Name: nameFor(ck, f.name), Progress: bar.Update})
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	if err := checkRoom(out, plan.FileBytes); err != nil {
		return err
	}
	begun := time.Now()
	var stored []weights.StoredType
	err = cli.WriteWhole(ctx, out, func(w io.Writer) (err error) {
		return weights.CatchFault(func() (err error) {
			stored, err = plan.Write(w)
			return err
		})
	})
	bar.Finish()
	if err != nil {
		return fmt.Errorf("%s: %w", in, err)
	}
	summary := &quantizeReport{
		In:          in,
		Out:         out,
		Type:        kind,
		BytesBefore: sourceBytes(ck),
		BytesAfter:  plan.FileBytes,
		Seconds:     time.Since(begun).Seconds(),
		SourceTypes: typesOf(ck),
		Stored:      stored,
		Fallbacks:   append([]weights.Fallback{}, plan.Fallbacks...),
	}
	if f.json {
		return cli.PrintJSON(result, summary)
	}
	summary.print(result)
	return nil
}

// nameFor returns the name to store: the one asked for, none if the file has
// its own, or the name of the directory.
func nameFor(ck *weights.Checkpoint, asked string) string {
	if _, has := ck.Meta("general.name"); asked != "" || has || ck.Path == "" {
		return asked
	}
	base := filepath.Base(filepath.Clean(ck.Path))
	return strings.TrimSuffix(base, ".gguf")
}

// mayWrite refuses to write over what the user may want to keep: what is there,
// unless it is a file and force is set, and what is read meanwhile.
func mayWrite(out string, force bool, read ...string) error {
	there, err := os.Stat(out)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case there.IsDir():
		return fmt.Errorf("%s is a directory: choose a file to write", out)
	case !there.Mode().IsRegular():
		return fmt.Errorf("%s is not a regular file: choose another file to write", out)
	}
	for _, path := range read {
		if source, err := os.Stat(path); err == nil && os.SameFile(source, there) {
			return fmt.Errorf("%s is the input model, or a part of it: choose another file to write", out)
		}
	}
	if !force {
		return fmt.Errorf("%s exists: choose another file, or replace it with --force", out)
	}
	return nil
}

// weightFiles returns the paths of the files that hold a model's weights.
func weightFiles(ck *weights.Checkpoint) (paths []string) {
	dir := ck.Path
	if ck.Format == weights.FormatGGUF {
		dir = filepath.Dir(dir)
	}
	for _, f := range ck.Files {
		paths = append(paths, filepath.Join(dir, f.Name))
	}
	return paths
}

// checkRoom refuses a file that would not fit.
func checkRoom(path string, bytes int64) error {
	room, err := roomFor(filepath.Dir(path))
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Dir(path), err)
	}
	if bytes > room {
		return fmt.Errorf("%s needs %s, and only %s can be written there: free some space, or choose a smaller --type",
			path, host.Size(bytes), host.Size(room))
	}
	return nil
}

// sourceBytes is the size of the files, or of the weights where they lie in
// the program itself.
func sourceBytes(ck *weights.Checkpoint) int64 {
	if n := ck.Bytes(); n > 0 {
		return n
	}
	return weights.Describe(ck).Bytes
}

// typesOf lists the types of a model's matrices.
func typesOf(ck *weights.Checkpoint) (names []string) {
	for _, t := range ck.Tensors() {
		if name := t.Type.String(); len(t.Shape) > 1 && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (q *quantizeReport) print(out io.Writer) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "type\ttensors\tparameters\tbytes\tRMS error\trelative\t")
	for _, s := range q.Stored {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%.3g\t%.3f%%\t\n", s.Type, s.Tensors, count(s.Parameters), host.Size(s.Bytes),
			s.RMSError, 100*s.RelativeError)
	}
	w.Flush()
	printFallbacks(out, q.Fallbacks)
	if lossy := q.lossySources(); len(lossy) > 0 {
		fmt.Fprintf(out,
			"note: the model was already quantized (%s), and that error is not in the table: use the original "+
				"weights if you have them\n", strings.Join(lossy, ", "))
	}
	fmt.Fprintf(out, "%s: %s, was %s (%.0f%%), in %.1fs\n", q.Out, host.Size(q.BytesAfter), host.Size(q.BytesBefore),
		100*float64(q.BytesAfter)/float64(q.BytesBefore), q.Seconds)
}

// lossySources are the types of the source that lost something already and
// are not simply copied.
func (q *quantizeReport) lossySources() []string {
	return slices.DeleteFunc(slices.Clone(q.SourceTypes), func(name string) bool {
		return name == q.Type.String() || slices.Contains([]string{"F32", "F16", "BF16"}, name)
	})
}
