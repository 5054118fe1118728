package host

import (
	"fmt"
	"os"
	"path/filepath"

	"parley/model/weights"
	"parley/token"
)

// embeddedTokenizer is the metadata key under which a GGUF file may carry the
// tokenizer.json it was converted from. It says more than GGUF's own keys, so
// it is read first.
const embeddedTokenizer = "tokenizer.huggingface.json"

// readTokenizer finds the checkpoint's vocabulary and chat template.
func readTokenizer(ck *weights.Checkpoint) (*token.Tokenizer, *token.ChatTemplate, error) {
	t, err := openTokenizer(ck)
	if err != nil {
		return nil, nil, fmt.Errorf("tokenizer: %w", err)
	}
	if ck.ChatTemplate == "" {
		return t, nil, nil
	}
	template, err := token.NewChatTemplate(ck.ChatTemplate, specialTexts(t))
	if err != nil {
		return nil, nil, fmt.Errorf("chat template: %w", err)
	}
	return t, template, nil
}

// A Front is what a gateway needs of a model that others compute: its name, how
// text becomes tokens and how much it takes.
type Front struct {
	Name          string
	Tokenizer     *token.Tokenizer
	Template      *token.ChatTemplate // nil if the model has none
	ContextTokens int
	Summary       weights.Summary
}

// OpenFront reads it, and closes the checkpoint.
func OpenFront(c Candidate) (*Front, error) {
	defer c.Checkpoint.Close()
	cfg := c.Config.withDefaults(c.Checkpoint)
	t, template, err := readTokenizer(c.Checkpoint)
	if err != nil {
		return nil, fmt.Errorf("model %s: %w", cfg.Name, err)
	}
	context := c.Checkpoint.Config.Context
	if cfg.ContextTokens > 0 {
		context = min(context, cfg.ContextTokens)
	}
	return &Front{
		Name:          cfg.Name,
		Tokenizer:     t,
		Template:      template,
		ContextTokens: context,
		Summary:       weights.Describe(c.Checkpoint),
	}, nil
}

func openTokenizer(ck *weights.Checkpoint) (*token.Tokenizer, error) {
	if dir := ck.Tokenizer.Dir; dir != "" {
		if _, err := os.Stat(filepath.Join(dir, "tokenizer.json")); err != nil {
			return nil, fmt.Errorf("%w: Parley needs the tokenizer.json that belongs to the model", err)
		}
		return token.Load(dir)
	}
	if text, ok := ck.Tokenizer.Meta(embeddedTokenizer); ok {
		if text, ok := text.(string); ok {
			return token.Parse([]byte(text), nil)
		}
	}
	return token.FromGGUF(ck.Tokenizer.Meta)
}

// specialTexts names the special tokens that templates write.
func specialTexts(t *token.Tokenizer) map[string]string {
	texts := map[string]string{}
	s := t.Special()
	if text, ok := t.Text(s.BOS); ok {
		texts["bos_token"] = text
	}
	if len(s.EOS) > 0 {
		texts["eos_token"], _ = t.Text(s.EOS[0])
	}
	if text, ok := t.Text(s.PAD); ok {
		texts["pad_token"] = text
	}
	return texts
}
