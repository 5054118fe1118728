package weights

import (
	"errors"
	"fmt"
	"slices"
)

// A class is the part of a model a tensor belongs to.
type class string

const (
	classEmbedding class = "embedding"
	classAttention class = "attention"
	classMLP       class = "mlp"
	classExperts   class = "experts"
	classNorms     class = "norms"
	classOutput    class = "output"
	classOther     class = "other"
)

// expectation is a tensor the architecture needs.
type expectation struct {
	name  string
	shape []int
	class class
	layer int
}

// expectations lists the tensors of a model in the order in which they are
// computed with, the experts of a layer as one tensor each.
func (c *Config) expectations() []expectation {
	list := []expectation{{"token_embd.weight", []int{c.Vocab, c.Hidden}, classEmbedding, -1}}
	for l := range c.Layers {
		list = c.appendAttention(list, l)
		list = c.appendFeedForward(list, l)
	}
	list = append(list, expectation{"output_norm.weight", []int{c.Hidden}, classNorms, -1})
	if !c.TieEmbeddings {
		list = append(list, expectation{"output.weight", []int{c.Vocab, c.Hidden}, classOutput, -1})
	}
	return list
}

func (c *Config) appendAttention(list []expectation, l int) []expectation {
	add := func(name string, cl class, shape ...int) {
		list = append(list, expectation{fmt.Sprintf("blk.%d.%s", l, name), shape, cl, l})
	}
	add("attn_norm.weight", classNorms, c.Hidden)
	add("attn_q.weight", classAttention, c.QueryDim(), c.Hidden)
	add("attn_k.weight", classAttention, c.KVDim(), c.Hidden)
	add("attn_v.weight", classAttention, c.KVDim(), c.Hidden)
	add("attn_output.weight", classAttention, c.Hidden, c.QueryDim())
	if c.AttnBias {
		add("attn_q.bias", classAttention, c.QueryDim())
		add("attn_k.bias", classAttention, c.KVDim())
		add("attn_v.bias", classAttention, c.KVDim())
	}
	if c.AttnOutBias {
		add("attn_output.bias", classAttention, c.Hidden)
	}
	if c.QKNorm {
		add("attn_q_norm.weight", classNorms, c.HeadDim)
		add("attn_k_norm.weight", classNorms, c.HeadDim)
	}
	if c.PostNorms {
		add("post_attention_norm.weight", classNorms, c.Hidden)
	}
	return list
}

func (c *Config) appendFeedForward(list []expectation, l int) []expectation {
	add := func(name string, cl class, shape ...int) {
		list = append(list, expectation{fmt.Sprintf("blk.%d.%s", l, name), shape, cl, l})
	}
	add("ffn_norm.weight", classNorms, c.Hidden)
	if c.IsSparse(l) {
		add("ffn_gate_inp.weight", classExperts, c.Experts, c.Hidden)
		add("ffn_gate_exps.weight", classExperts, c.Experts, c.ExpertFFN, c.Hidden)
		add("ffn_up_exps.weight", classExperts, c.Experts, c.ExpertFFN, c.Hidden)
		add("ffn_down_exps.weight", classExperts, c.Experts, c.Hidden, c.ExpertFFN)
	} else {
		add("ffn_gate.weight", classMLP, c.FFN, c.Hidden)
		add("ffn_up.weight", classMLP, c.FFN, c.Hidden)
		add("ffn_down.weight", classMLP, c.Hidden, c.FFN)
		if c.MLPBias {
			add("ffn_gate.bias", classMLP, c.FFN)
			add("ffn_up.bias", classMLP, c.FFN)
			add("ffn_down.bias", classMLP, c.Hidden)
		}
	}
	if c.PostNorms {
		add("post_ffw_norm.weight", classNorms, c.Hidden)
	}
	return list
}

// isExperts reports whether the expectation is all experts of a layer.
func (e *expectation) isExperts() bool { return len(e.shape) == 3 }

// which returns the projection of an expectation that is experts.
func (e *expectation) which() string {
	for _, w := range projections {
		if e.name == fusedName(e.layer, w) {
			return w
		}
	}
	return ""
}

// problemsMax is how many missing tensors an error lists.
const problemsMax = 5

// CheckTensors reports the tensors that the architecture needs and that are
// missing, have another shape, or have a type that cannot be computed with. A
// model must pass it before it is run.
func (c *Checkpoint) CheckTensors() error {
	var problems []error
	found := func(err error) {
		if err != nil {
			problems = append(problems, err)
		}
	}
	for _, e := range c.Config.expectations() {
		if !e.isExperts() {
			t, ok := c.Listed(e.name)
			found(e.check(t, ok, e.shape))
			continue
		}
		for i := range c.Config.Experts {
			t, err := c.ListedExpert(e.layer, i, e.which())
			if e := e.check(t, err == nil, e.shape[1:]); e != nil {
				found(fmt.Errorf("expert %d: %w", i, e))
				break
			}
		}
	}
	return problemList(problems)
}

func (e *expectation) check(t Tensor, ok bool, shape []int) error {
	switch {
	case !ok:
		return fmt.Errorf("tensor %s %v is missing", e.name, shape)
	case !slices.Equal(t.Shape, shape):
		return fmt.Errorf("tensor %s has shape %v: want %v", e.name, t.Shape, shape)
	case !t.Type.Computable():
		return fmt.Errorf("tensor %s has type %s, which is not supported: convert the model to one of %v", e.name,
			t.Type, computableNames())
	case t.source != nil:
		return nil
	}
	return t.CheckScales()
}

func problemList(problems []error) error {
	if n := len(problems); n > problemsMax {
		problems = append(problems[:problemsMax:problemsMax], fmt.Errorf("and %d more", n-problemsMax))
	}
	return errors.Join(problems...)
}
