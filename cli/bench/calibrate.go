package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"parley"
	"parley/cli"
	"parley/compute"
	"parley/compute/cpu"
	"parley/internal/builtin"
	"parley/model"
	"parley/model/weights"
	"parley/sim/cost"
)

// The passes that are measured: prompts in chunks, sequences that decode, and both.
const (
	calibrateRows    = 512
	calibrateContext = 2048
	calibrateSeqs    = 32
	// calibrateEach is how often each kind of pass is measured.
	calibrateEach = 3
)

func newBenchCalibrate() *cobra.Command {
	var modelName, out string
	var logs, reports []string
	cmd := &cobra.Command{
		Use:   "calibrate",
		Short: "Measure forward passes on this machine, for parley sim",
		Long: `Measure how long forward passes of a model take on this machine's processors: prompts of many
lengths, decode batches with contexts of many lengths, and mixtures. The command fits a cost
model to these times and writes it as JSON, for the field calibration of a scenario (parley
sim). It reports the error on passes that were left out of the fit.

Stop other programs first: they distort the measurement.

With --log it uses the passes of real workers instead, on any device, including the time
between passes and the effect of other load on the machine. Start the workers with
--log-level debug --log-format json, put them under load (parley bench), and give their logs.
The result then also records how much the times of equal passes vary, and the simulator varies
them likewise. With --report, the report that parley bench --out wrote during the same run, it
also includes the time that requests spend outside of workers.`,
		Example: `  parley bench calibrate --out polly.json
  parley bench calibrate --model model.gguf --out model.json
  parley bench calibrate --log worker-1.log,worker-2.log --out served.json
  parley bench calibrate --log worker-1.log --report real.json --out served.json`,
		Args: cli.Exactly(0, "flags alone"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			samples, err := servedPasses(logs)
			fit := cost.FitServed
			if len(logs) == 0 {
				samples, err = measurePasses(modelName)
				fit = cost.Fit
			}
			if err != nil {
				return err
			}
			m, err := fit(samples)
			if err != nil {
				return err
			}
			if m.Request, err = outside(reports); err != nil {
				return err
			}
			printCalibration(cmd.ErrOrStderr(), m, len(samples))
			if out == "" {
				return cli.PrintJSON(cmd.OutOrStdout(), m)
			}
			return cli.WriteWhole(cmd.Context(), out, func(w io.Writer) error {
				encoder := json.NewEncoder(w)
				encoder.SetIndent("", "  ")
				return encoder.Encode(m)
			})
		},
	}
	cmd.Flags().StringVar(&modelName, "model", builtin.Models()[0].Name, "measure the built-in model or file `NAME`")
	cmd.Flags().StringSliceVar(&logs, "log", nil, "fit to the passes in the logs `FILES` of workers")
	cmd.Flags().StringSliceVar(&reports, "report", nil,
		"add what requests take outside of passes, by the reports `FILES`")
	cmd.MarkFlagsMutuallyExclusive("model", "log")
	cmd.MarkFlagsMutuallyExclusive("model", "report")
	cmd.Flags().StringVar(&out, "out", "", "write the result to `FILE`")
	return cmd
}

func printCalibration(w io.Writer, m *cost.Model, passes int) {
	e := m.Error
	fmt.Fprintf(w, "%d passes. Of %d that were not fitted to, half are off by less than %.1f %%, "+
		"95 %% by less than %.1f %%; together by %+.1f %%.\n", passes, e.Passes, 100*e.Median, 100*e.P95, 100*e.Total)
}

// openCalibrated opens a built-in model, or the file of one.
func openCalibrated(name string) (*weights.Checkpoint, error) {
	for _, m := range builtin.Models() {
		if m.Name == name {
			return m.Open()
		}
	}
	if _, err := os.Stat(name); err != nil {
		return nil, fmt.Errorf("--model %s is neither built in nor a file: use one of %q, or a path", name,
			cli.BuiltinNames())
	}
	return weights.Open(name)
}

// measurePasses computes passes of a model and returns how long each took.
func measurePasses(name string) (samples []cost.Sample, err error) {
	ck, err := openCalibrated(name)
	if err != nil {
		return nil, err
	}
	defer ck.Close()
	backend, err := cpu.New(cpu.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, backend.Close()) }()
	context := min(calibrateContext, ck.Config.Context)
	blocks := calibrateSeqs * context / compute.BlockTokens
	network, err := model.Load(ck, backend, model.Limits{
		Rows:    calibrateRows + calibrateSeqs,
		Outputs: calibrateSeqs + 1,
		Blocks:  blocks,
		KV:      compute.KVBF16,
	})
	if err != nil {
		return nil, err
	}
	logits := make([]float32, (calibrateSeqs+1)*network.Vocab())
	shapes := calibrationShapes(context)
	for range calibrateEach {
		for _, shape := range shapes {
			step := stepOf(shape, context)
			begun := time.Now()
			network.Forward(step, logits)
			samples = append(samples, cost.Sample{Pass: passOf(step), Took: time.Since(begun)})
		}
	}
	return samples[len(shapes):], nil // the first round warms up
}

// A passShape is a chunk of a prompt beside sequences that decode.
type passShape struct{ rows, past, writers, depth int }

// calibrationShapes returns the passes to be measured, in an order in which what
// disturbs the machine for a while disturbs all kinds.
func calibrationShapes(context int) (shapes []passShape) {
	for _, depth := range []int{16, 128, 512, context - 1} {
		for _, writers := range []int{1, 2, 4, 8, 16, calibrateSeqs} {
			shapes = append(shapes, passShape{writers: writers, depth: min(depth, context-1)})
			for _, rows := range []int{16, 128} {
				shapes = append(shapes, passShape{rows: rows, writers: writers, depth: min(depth, context-1)})
			}
		}
	}
	for _, rows := range []int{1, 4, 16, 48, 64, 128, 200, 256, 384, calibrateRows} {
		for _, past := range []int{0, 256, context - calibrateRows} {
			if past >= 0 && past+rows <= context {
				shapes = append(shapes, passShape{rows: rows, past: past})
			}
		}
	}
	rng := rand.New(rand.NewPCG(1, 1))
	rng.Shuffle(len(shapes), func(i, j int) { shapes[i], shapes[j] = shapes[j], shapes[i] })
	return shapes
}

// stepOf writes a pass for the device. Every sequence has blocks of its own.
func stepOf(shape passShape, context int) *compute.Step {
	step := &compute.Step{}
	each := context / compute.BlockTokens
	add := func(number, rows, past int) {
		places := make([]int32, each)
		for i := range places {
			places[i] = int32(number*each + i)
		}
		step.Seqs = append(step.Seqs, compute.Seq{Row: len(step.Tokens), Rows: rows, Past: past, Blocks: places})
		step.Tokens = append(step.Tokens, slices.Repeat([]parley.Token{1}, rows)...)
		step.Outputs = append(step.Outputs, int32(len(step.Tokens)-1))
	}
	for i := range shape.writers {
		if shape.rows > 0 && i == 0 {
			continue // its blocks are the prompt's
		}
		add(i, 1, shape.depth)
	}
	if shape.rows > 0 {
		add(0, shape.rows, shape.past)
	}
	return step
}

// passOf returns what a step is made of.
func passOf(step *compute.Step) (p cost.Pass) {
	for i := range step.Seqs {
		p = p.Add(step.Seqs[i].Rows, step.Seqs[i].Past)
	}
	return p
}
