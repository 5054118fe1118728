package planner

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"parley/cli/library"
	"parley/internal/builtin"
	"parley/internal/load"
	"parley/model/weights"
	"parley/sim/plan"
	"parley/sim/traffic"
	"parley/worker/host"
)

// thisMachine is the device that is measured.
const thisMachine = "this"

// shapeOf reads the shape of a model that the catalog does not name.
func shapeOf(catalog *plan.Catalog, path string) (plan.Cells, error) {
	if filepath.Base(path) == "config.json" {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		return plan.ReadConfig(text)
	}
	if _, isBuiltin := builtin.Find(path); !isBuiltin {
		if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
			const hint = "use one of %s, or the path of a GGUF file, a directory or a config.json"
			return nil, fmt.Errorf("no model %q: "+hint, path, list(catalog.Models))
		}
	}
	ck, err := library.Open(path)
	if err != nil {
		return nil, err
	}
	defer ck.Close()
	return checkpointShape(ck), nil
}

// checkpointShape is what a plan needs of a model file, weights as they are stored.
func checkpointShape(ck *weights.Checkpoint) plan.Cells {
	c, summary := &ck.Config, weights.Describe(ck)
	return plan.Cells{
		"params":        float64(summary.Parameters),
		"active_params": float64(summary.ActiveParameters),
		"layers":        float64(c.Layers),
		"kv_heads":      float64(c.KVHeads),
		"head_dim":      float64(c.HeadDim),
		"window_layers": float64(library.SlidingLayers(c)),
		"window":        float64(c.SlidingWindow),
		"weight_bytes":  float64(summary.Bytes) / float64(summary.Parameters),
	}
}

// traceLoad is the load of a trace.
func traceLoad(path string) (plan.Settings, error) {
	rows, err := load.OpenTrace(path, "", 0)
	if err != nil {
		return nil, err
	}
	s := traffic.Summarize(rows)
	text := func(x float64) string { return strconv.FormatFloat(x, 'g', 6, 64) }
	settings := plan.Settings{"prompt": text(s.PromptTokens), "output": text(s.OutputTokens), "rate": text(s.PeakRate)}
	if s.HitRate > 0 {
		settings["hit"], settings["new"] = text(s.HitRate), text(s.NewTokens)
	}
	return settings, nil
}

// measureMachine returns the profile of the GPU of this machine by its name, or
// else of the processor by a measurement of a few seconds.
func measureMachine(notes io.Writer, catalog *plan.Catalog) (plan.Cells, error) {
	device, _, err := host.ChooseDevice(host.DeviceAuto)
	if err != nil {
		return nil, err
	}
	if device.GPU {
		return gpuProfile(catalog, device)
	}
	fmt.Fprintln(notes, "measuring this machine's memory and arithmetic ...")
	memory, err := host.AvailableBytes()
	if err != nil {
		return nil, err
	}
	bandwidth, err := measureBandwidth()
	if err != nil {
		return nil, err
	}
	flops, err := measureFlops()
	if err != nil {
		return nil, err
	}
	// What was measured is what is reached, so nothing is taken off for efficiency.
	return plan.Cells{
		"memory":    float64(memory),
		"bandwidth": bandwidth,
		"flops":     flops,
		"price":     0,
		"mfu":       1,
		"mbu":       1,
		"storage":   1e9,
		"start":     1,
	}, nil
}

// gpuProfile finds the profile whose name is part of the GPU's.
func gpuProfile(catalog *plan.Catalog, device host.Device) (plan.Cells, error) {
	for _, name := range sortedKeys(catalog.Devices) {
		if strings.Contains(strings.ToLower(device.Name), name) {
			profile := plan.Cells{}
			maps.Copy(profile, catalog.Devices[name])
			profile["memory"] = float64(device.FreeBytes)
			return profile, nil
		}
	}
	return nil, fmt.Errorf("no profile of %s: describe it in a file (--file), as docs/plan.md shows", device.Name)
}
