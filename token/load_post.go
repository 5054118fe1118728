package token

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"parley"
)

type postJSON struct {
	Type       string            `json:"type"`
	Processors []json.RawMessage `json:"processors"`
	Single     []struct {
		SpecialToken *struct {
			ID string `json:"id"`
		}
		Sequence *struct {
			ID string `json:"id"`
		}
	} `json:"single"`
	SpecialTokens map[string]struct {
		IDs []parley.Token `json:"ids"`
	} `json:"special_tokens"`
	Cls pairJSON `json:"cls"`
	Sep pairJSON `json:"sep"`
}

// pairJSON is ["text", id].
type pairJSON struct{ id parley.Token }

func (p *pairJSON) UnmarshalJSON(raw []byte) error {
	var text string
	return json.Unmarshal(raw, &[]any{&text, &p.id})
}

// parsePost reads which tokens begin and end a sequence.
func parsePost(raw json.RawMessage, v *vocabulary) (before, after []parley.Token, err error) {
	if isNull(raw) {
		return nil, nil, nil
	}
	var j postJSON
	if err := json.Unmarshal(raw, &j); err != nil {
		return nil, nil, err
	}
	switch j.Type {
	case "ByteLevel":
	case "RobertaProcessing", "BertProcessing":
		before, after = []parley.Token{j.Cls.id}, []parley.Token{j.Sep.id}
	case "TemplateProcessing":
		before, after, err = j.template()
	case "Sequence":
		for _, part := range j.Processors {
			b, a, err := parsePost(part, v)
			if err != nil {
				return nil, nil, err
			}
			before, after = append(b, before...), append(after, a...)
		}
	default:
		err = notSupported(j.Type)
	}
	for _, id := range slices.Concat(before, after) {
		if err == nil && !v.has(id) {
			err = fmt.Errorf("token %d is not in the vocabulary", id)
		}
	}
	return before, after, err
}

func (j postJSON) template() (before, after []parley.Token, err error) {
	seen := false
	for _, part := range j.Single {
		switch {
		case part.Sequence != nil && seen:
			return nil, nil, errors.New("the template repeats the sequence")
		case part.Sequence != nil:
			seen = true
		case part.SpecialToken != nil:
			special, ok := j.SpecialTokens[part.SpecialToken.ID]
			if !ok {
				return nil, nil, fmt.Errorf("the template uses %q, which it does not define",
					clip(part.SpecialToken.ID))
			}
			if seen {
				after = append(after, special.IDs...)
			} else {
				before = append(before, special.IDs...)
			}
		}
	}
	return before, after, nil
}

// tokenizerConfig is what matters of a tokenizer_config.json.
type tokenizerConfig struct {
	Class  string    `json:"tokenizer_class"`
	AddBOS *bool     `json:"add_bos_token"`
	AddEOS *bool     `json:"add_eos_token"`
	BOS    tokenName `json:"bos_token"`
	EOS    tokenName `json:"eos_token"`
	PAD    tokenName `json:"pad_token"`
	UNK    tokenName `json:"unk_token"`
}

// A tokenName is "text" or {"content": "text"}.
type tokenName string

func (n *tokenName) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		*n = tokenName(text)
		return nil
	}
	var wrapped struct {
		Content string `json:"content"`
	}
	err := json.Unmarshal(raw, &wrapped)
	*n = tokenName(wrapped.Content)
	return err
}

// configure finds the tokens with a role and applies the configuration's wishes about the tokens that begin and end a
// sequence.
func (t *Tokenizer) configure(c tokenizerConfig) {
	unknown := t.roles.known.Unknown
	if id := t.idOf(string(c.UNK)); id != None {
		unknown = id
	}
	t.findKnown(t.idOf(string(c.BOS)), t.idOf(string(c.EOS)), t.idOf(string(c.PAD)), unknown)
	// Only the classes below build their template from these wishes.
	obeys := slices.Contains([]string{"LlamaTokenizer", "LlamaTokenizerFast", "CodeLlamaTokenizer",
		"CodeLlamaTokenizerFast",
		"GemmaTokenizer", "GemmaTokenizerFast", "CohereTokenizer", "CohereTokenizerFast"}, c.Class)
	if !obeys {
		return
	}
	t.ends.before = setMember(t.ends.before, c.AddBOS, t.roles.known.BOS)
	if len(t.roles.known.EOS) > 0 {
		t.ends.after = setMember(t.ends.after, c.AddEOS, t.idOf(string(c.EOS)))
	}
}

// setMember adds id to list or removes it; nil leaves the list alone.
func setMember(list []parley.Token, wanted *bool, id parley.Token) []parley.Token {
	has := slices.Contains(list, id)
	switch {
	case wanted == nil || id == None || has == *wanted:
		return list
	case *wanted:
		return append(list, id)
	}
	return slices.DeleteFunc(list, func(other parley.Token) bool { return other == id })
}
