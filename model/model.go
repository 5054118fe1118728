// Package model runs transformer networks on a [compute.Backend].
//
// There is one file for each family of architectures, over shared layers
// (layers.go), and each one's forward reads in the order of its paper. A
// forward pass is one pass whatever the number of sequences in it: the ragged
// batch is the backend's concern.
package model

import (
	"fmt"

	"parley/compute"
	"parley/model/weights"
)

// A Model is a network with its weights in device memory. Like its backend,
// it is used by one goroutine at a time.
type Model struct {
	net  *network
	arch architecture
}

// builders maps each architecture's name to the function that loads it.
var builders = map[string]func(*loader) (architecture, error){
	weights.ArchLlama:    loadLlama,
	weights.ArchMistral:  loadMistral,
	weights.ArchQwen2:    loadQwen2,
	weights.ArchQwen3:    loadQwen3,
	weights.ArchQwen3MoE: loadQwen3MoE,
	weights.ArchGemma3:   loadGemma3,
}

// Load puts the checkpoint's weights into the backend's memory and takes all
// the memory that steps within the limits need. The checkpoint must stay open
// as long as the backend is in use.
func Load(ck *weights.Checkpoint, be compute.Backend, limits Limits) (*Model, error) {
	if err := check(ck); err != nil {
		return nil, err
	}
	net := &network{be: be, cfg: &ck.Config, ropes: ropes(&ck.Config)}
	l := &loader{ck: ck, net: net, roundF8: limits.RoundF8, narrow: limits.Narrow}
	arch, err := builders[ck.Config.Architecture](l)
	if err != nil {
		return nil, err
	}
	if err := l.shared(); err != nil {
		return nil, err
	}
	ck.Forget() // what the backend has copied
	if err := net.reserve(limits); err != nil {
		return nil, err
	}
	return &Model{net: net, arch: arch}, nil
}

func check(ck *weights.Checkpoint) error {
	cfg := &ck.Config
	if _, ok := builders[cfg.Architecture]; !ok {
		return fmt.Errorf("model: architecture %q is not supported", cfg.Architecture)
	}
	if cfg.AttnSoftcap != 0 || cfg.FinalSoftcap != 0 {
		return fmt.Errorf("model: soft-capped scores (attention %g, logits %g) are not supported", cfg.AttnSoftcap,
			cfg.FinalSoftcap)
	}
	return ck.CheckTensors()
}

// Config returns the model's hyper-parameters.
func (m *Model) Config() *weights.Config { return m.net.cfg }

// Vocab returns the number of logits in a row.
func (m *Model) Vocab() int { return m.net.cfg.Vocab }

// Width returns the size of a hidden state.
func (m *Model) Width() int { return m.net.cfg.Hidden }

// Forward computes one step and writes the logits of its output rows to
// logits, [len(step.Outputs)][Vocab], and its hidden states, [rows][Width],
// where the step asks for them. It returns when the step is computed, so that
// the time it took can be measured.
func (m *Model) Forward(step *compute.Step, logits []float32) {
	n := m.net
	n.be.Begin(step, n.ropes)
	m.arch.forward(n)
	if step.Hidden != nil {
		n.be.ReadRows(step.Hidden, n.h)
	}
	switch w, asynchronous := n.be.(interface{ Wait() }); {
	case len(step.Outputs) > 0:
		n.be.Logits(logits, n.h, n.output)
	case asynchronous:
		w.Wait()
	}
}

// Chooses reports whether the model's device can choose tokens, as Launch and
// AwaitChosen need.
func (m *Model) Chooses() bool {
	_, can := m.net.be.(compute.Chooser)
	return can
}

// Launch starts a step whose tokens are chosen on the device, and returns before it
// is computed; see [compute.Chooser].
func (m *Model) Launch(step *compute.Step, draws []compute.Draw) {
	n := m.net
	n.be.Begin(step, n.ropes)
	m.arch.forward(n)
	n.be.(compute.Chooser).Choose(n.h, n.output, draws)
}

// AwaitChosen returns what the oldest step that was launched has chosen.
func (m *Model) AwaitChosen() []compute.DrawResult { return m.net.be.(compute.Chooser).AwaitChosen() }
