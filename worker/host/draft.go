package host

import (
	"bytes"
	"errors"
	"fmt"

	"parley"
	"parley/compute"
	"parley/engine"
	"parley/model"
	"parley/model/weights"
	"parley/token"
)

// A draft is the model that guesses ahead for a host's own, on the same
// threads: the two never compute at the same time.
type draft struct {
	backend compute.Backend
	network *model.Model
	ck      *weights.Checkpoint
}

// loadDraft loads the planned draft model, if there is one, onto the threads
// of a backend.
func (p *Plan) loadDraft(on compute.Backend, tokenizer *token.Tokenizer) (*draft, error) {
	if p.Draft == nil {
		return nil, nil
	}
	ck := p.Draft.ck
	if err := sameVocabulary(p.ck, ck, tokenizer); err != nil {
		return nil, fmt.Errorf("the draft model %s does not match: %w", p.Draft.Name, err)
	}
	backend, err := p.Draft.newBackend(on)
	if err != nil {
		return nil, err
	}
	network, err := model.Load(ck, backend, p.Draft.limits())
	if err != nil {
		return nil, errors.Join(fmt.Errorf("draft model: %w", err), backend.Close())
	}
	return &draft{backend, network, ck}, nil
}

// engine returns what the engine needs of the draft model.
func (d *draft) engine() *engine.Draft {
	if d == nil {
		return nil
	}
	return &engine.Draft{Forward: d.network.Forward}
}

// window returns how far a token looks back at most in every layer of a model and of its draft model, which has its
// keys and values in blocks of the same numbers; 0 if that has no bound.
func (d *draft) window(of *weights.Config) int {
	w := model.Window(of)
	if d == nil || w == 0 {
		return w
	}
	if own := model.Window(&d.ck.Config); own > 0 {
		return max(w, own)
	}
	return 0
}

func (d *draft) close() error {
	if d == nil {
		return nil
	}
	return errors.Join(d.backend.Close(), d.ck.Close())
}

// sameVocabulary reports how the vocabulary of a draft model differs from that
// of the model it should guess for: a token must mean the same to both.
func sameVocabulary(ck, draft *weights.Checkpoint, tokenizer *token.Tokenizer) error {
	if a, b := ck.Config.Vocab, draft.Config.Vocab; a != b {
		return fmt.Errorf("it scores %d tokens, the model %d", b, a)
	}
	other, _, err := readTokenizer(draft)
	if err != nil {
		return err
	}
	if a, b := tokenizer.Size(), other.Size(); a != b {
		return fmt.Errorf("its vocabulary has %d tokens, the model's %d", b, a)
	}
	for id := range parley.Token(tokenizer.Size()) {
		if a, b := tokenizer.Bytes(id), other.Bytes(id); !bytes.Equal(a, b) ||
			tokenizer.IsSpecial(id) != other.IsSpecial(id) {
			return fmt.Errorf("token %d is %q to it, %q to the model", id, b, a)
		}
	}
	return nil
}
