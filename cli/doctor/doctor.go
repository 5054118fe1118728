package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"parley/cli"
	"parley/cli/serve"
	"parley/cli/settings"
	"parley/gateway/convo"
	"parley/gateway/models"
	"parley/worker/host"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"
)

// A finding is what the doctor says of one thing.
type Diagnosis struct {
	// About is configuration, data, device, models, store, redis, worker, clock, tokens,
	// template, server or events; Name says which one, where there are several.
	About string `json:"about"`
	Name  string `json:"name,omitempty"`
	// State is ok, warning or problem.
	State string `json:"state"`
	Says  string `json:"says"`
	// Fix is what to do about it.
	Fix string `json:"fix,omitempty"`
}

// The states of a diagnosis.
const (
	OK      = "ok"
	Warning = "warning"
	Problem = "problem"
)

// doctorWait bounds each question to something elsewhere.
const doctorWait = 5 * time.Second

// A doctor looks at what a server would be started with, and at one that runs.
type doctor struct {
	settings *settings.Settings
	found    []Diagnosis
	served   []models.Config
}

// New returns the command `parley doctor`.
func New() *cobra.Command {
	var file, url string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check configuration, store, workers, clocks and fingerprints",
		Long: `Check the configuration of a server: pass the same flags, variables and --config file as
for parley serve. Opens the models and the store, contacts Redis and the workers, compares
clocks, and has every worker tokenize the same texts and render the same conversation as
this program, because a worker with another vocabulary or chat template would answer
nonsense. If a server runs at --url, also checks the state of its workers and of their
event streams.

The exit code is 1 if there is a problem; warnings do not count.`,
		Example: "  parley doctor\n  parley doctor --config parley.yaml\n  parley doctor --json | jq '.[] | " +
			"select(.state == \"problem\")'",
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "config", os.Getenv("PARLEY_CONFIG"), "read settings from the YAML `FILE`")
	cmd.Flags().StringVar(&url, "url", "",
		"also check the server at `ADDRESS` (default: PARLEY_URL, or the address it would listen on)")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	flags := settings.AddFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		d := &doctor{}
		s, err := settings.Gather(flags, os.LookupEnv, file)
		if err != nil {
			d.say("configuration", "", err, "correct it; parley serve --help lists all settings")
		} else {
			d.settings = s
			d.examine(cmd.Context(), url)
		}
		return d.report(cmd.OutOrStdout(), asJSON)
	}
	return cmd
}

// say notes what was found: that all is well if err is nil.
func (d *doctor) say(about, name string, err error, textOrFix string) {
	if err == nil {
		d.found = append(d.found, Diagnosis{About: about, Name: name, State: OK, Says: textOrFix})
		return
	}
	d.found = append(d.found, Diagnosis{
		About: about,
		Name:  name,
		State: Problem,
		Says:  err.Error(),
		Fix:   textOrFix,
	})
}

func (d *doctor) warn(about, name, says, fix string) {
	d.found = append(d.found, Diagnosis{about, name, Warning, says, fix})
}

func (d *doctor) examine(ctx context.Context, url string) {
	d.say("configuration", "", nil, "readable")
	d.examineData()
	d.examineDevice()
	d.examineModels()
	d.examineStore(ctx)
	d.examineRedis(ctx)
	d.examineWorkers(ctx)
	d.examineServer(ctx, url)
}

// examineData looks whether something can be kept.
func (d *doctor) examineData() {
	dir := d.settings.Data
	probe := filepath.Join(dir, ".doctor")
	err := errors.Join(os.MkdirAll(dir, 0o700), os.WriteFile(probe, []byte("x"), 0o600))
	_ = os.Remove(probe) // it may not be there
	if err != nil {
		d.say("data", dir, err, "make the directory writable, or choose another with --data")
		return
	}
	d.say("data", dir, nil, "the data directory is writable")
}

// examineDevice says what would compute.
func (d *doctor) examineDevice() {
	if !d.settings.Computes() {
		return
	}
	device, why, err := host.ChooseDevice(d.settings.Device)
	switch {
	case err != nil:
		d.say("device", d.settings.Device, err, "choose another with --device; auto uses the CPU if there is no GPU")
	case d.settings.RoundF8 && device.CheckF8() != nil:
		d.say("device", cmp.Or(device.Name, "CPU"), device.CheckF8(),
			"set --weights as-stored, or choose another device")
	case device.GPU:
		d.say("device", device.Name, nil, fmt.Sprintf("%s of memory free", host.Size(device.FreeBytes)))
		d.examineGPU(device)
	case why != nil:
		d.say("device", "", nil, fmt.Sprintf("using the CPU: %v", why))
	default:
		d.say("device", "", nil, "using the CPU, as set by --device")
	}
}

// examineGPU says how a GPU is, by its driver.
func (d *doctor) examineGPU(device host.Device) {
	state, err := device.State()
	if err != nil {
		d.warn("device", device.Name, err.Error(), "models are served all the same, without these numbers")
		return
	}
	if state.Driver != "" {
		d.say("device", device.Name, nil, "driver "+state.Driver)
	}
	for _, c := range []struct {
		ceiling *float64
		format  string
	}{
		{state.BandwidthCeiling, "reads at most %.2f TB/s"},
		{state.ComputeCeiling, "does at most %.0f TFLOP/s (16 bits)"},
	} {
		if c.ceiling != nil {
			d.say("device", device.Name, nil, fmt.Sprintf(c.format, *c.ceiling/1e12))
		}
	}
	name := state.Name
	state.Name = "now"
	d.say("device", name, nil, cli.DeviceText(&state))
	if len(state.Throttled) > 0 {
		d.warn("device", name, "it is slowed down",
			"look at its cooling, its power limit and its clocks with nvidia-smi -q")
	}
}

// examineModels opens what text becomes tokens by.
func (d *doctor) examineModels() {
	served, err := serve.Fronts(d.settings, d.settings.Logger())
	if err != nil {
		d.say("models", "", err, "correct --model")
	}
	d.served = served
	for i := range served {
		m := &served[i]
		sum := m.Tokenizer.Fingerprint()
		d.say("models", m.ID, nil,
			fmt.Sprintf("vocabulary fingerprint %x, context %d tokens", sum[:4], m.ContextTokens))
		if m.Template == nil {
			d.warn("models", m.ID, "has no chat template, so it only serves plain completions",
				"use a checkpoint that has one")
		}
	}
}

func (d *doctor) examineStore(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, doctorWait)
	defer cancel()
	name := settings.ShownStore(d.settings.StoreName())
	store, err := convo.Open(ctx, d.settings.StoreName())
	if err != nil {
		d.say("store", name, err, "start the database, or choose another store with --store")
		return
	}
	d.say("store", name, store.Close(), "opens")
}

func (d *doctor) examineRedis(ctx context.Context) {
	address := d.settings.Economy.Redis
	if address == "" {
		return
	}
	options, err := redis.ParseURL(address)
	if err != nil {
		d.say("redis", "", err, "write --redis redis://user:password@host:6379/0")
		return
	}
	ctx, cancel := context.WithTimeout(ctx, doctorWait)
	defer cancel()
	c := redis.NewClient(options)
	defer c.Close()
	now, err := c.Time(ctx).Result()
	if err != nil {
		d.say("redis", options.Addr, err, "start it, or omit --redis; meanwhile --redis-down applies")
		return
	}
	d.say("redis", options.Addr, nil, "it answers")
	d.compareClock("redis "+options.Addr, now)
}

// clockSkewMax is by how much clocks may differ: limits and expiry go by them.
const clockSkewMax = 2 * time.Second

func (d *doctor) compareClock(of string, there time.Time) {
	if skew := time.Since(there).Abs(); skew > clockSkewMax {
		d.warn("clock", of, fmt.Sprintf("differs from this machine's by %v", skew.Round(100*time.Millisecond)),
			"synchronise both with NTP")
		return
	}
	d.say("clock", of, nil, "agrees with this machine's")
}

func (d *doctor) report(out io.Writer, asJSON bool) error {
	problems := 0
	for _, f := range d.found {
		if f.State == Problem {
			problems++
		}
	}
	if asJSON {
		if err := cli.PrintJSON(out, d.found); err != nil {
			return err
		}
	} else {
		for _, f := range d.found {
			fmt.Fprintf(out, "%-8s %s: %s\n", f.State, strings.TrimSpace(f.About+" "+f.Name), f.Says)
			if f.Fix != "" {
				fmt.Fprintf(out, "         %s\n", f.Fix)
			}
		}
	}
	switch {
	case problems == 1:
		return errors.New("1 problem was found")
	case problems > 1:
		return fmt.Errorf("%d problems were found", problems)
	}
	return nil
}
