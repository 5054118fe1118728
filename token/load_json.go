package token

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"parley"
	"parley/token/jsonscan"
)

// Load reads tokenizer.json and, if it is there, tokenizer_config.json from a model's directory.
func Load(dir string) (*Tokenizer, error) {
	tokenizer, err := os.ReadFile(filepath.Join(dir, "tokenizer.json"))
	if err != nil {
		return nil, fmt.Errorf("reading the tokenizer: %w", err)
	}
	config, err := os.ReadFile(filepath.Join(dir, "tokenizer_config.json"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("reading the tokenizer's configuration: %w", err)
	}
	return Parse(tokenizer, config)
}

// Parse makes a tokenizer from the contents of tokenizer.json and tokenizer_config.json; the second may be empty. It
// refuses parts it does not know: a tokenizer that is almost right is wrong.
func Parse(tokenizerJSON, configJSON []byte) (*Tokenizer, error) {
	var f tokenizerFile
	if err := f.read(string(tokenizerJSON)); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	t, err := f.build()
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	var config tokenizerConfig
	if len(configJSON) > 0 {
		if err := json.Unmarshal(configJSON, &config); err != nil {
			return nil, fmt.Errorf("tokenizer_config.json: %w", err)
		}
	}
	t.configure(config)
	return t, nil
}

// tokenizerFile is a tokenizer.json taken apart.
type tokenizerFile struct {
	Added         []addedTokenJSON
	Normalizer    json.RawMessage
	PreTokenizer  json.RawMessage
	PostProcessor json.RawMessage
	Decoder       json.RawMessage
	Model         modelFile
}

type addedTokenJSON struct {
	Content    string `json:"content"`
	SingleWord bool   `json:"single_word"`
	LStrip     bool   `json:"lstrip"`
	RStrip     bool   `json:"rstrip"`
	Normalized bool   `json:"normalized"`
	Special    bool   `json:"special"`
}

func (f *tokenizerFile) read(data string) error {
	s := jsonscan.New(data)
	sections := map[string]*json.RawMessage{"normalizer": &f.Normalizer, "pre_tokenizer": &f.PreTokenizer,
		"post_processor": &f.PostProcessor, "decoder": &f.Decoder}
	found := false
	err := s.Object(func(key string) error {
		if key == "model" {
			found = true
			return f.Model.read(s)
		}
		raw, err := s.Raw()
		if err != nil {
			return err
		}
		if section, ok := sections[key]; ok {
			*section = raw
		} else if key == "added_tokens" {
			return json.Unmarshal(raw, &f.Added)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case !found:
		return errors.New("there is no model")
	}
	return s.End()
}

func (f *tokenizerFile) build() (*Tokenizer, error) {
	t := &Tokenizer{}
	var err error
	if t.normalizers, err = parseNormalizers(f.Normalizer); err != nil {
		return nil, fmt.Errorf("normalizer: %w", err)
	}
	// A vocabulary that marks the ends of words spells bytes as characters.
	byteLevel := !f.Model.hasAffixes()
	if t.splitter, byteLevel, err = parseSplitter(f.PreTokenizer, byteLevel); err != nil {
		return nil, fmt.Errorf("pre_tokenizer: %w", err)
	}
	if t.vocabulary, err = newVocabulary(f.Model.texts, f.Model.ids); err != nil {
		return nil, err
	}
	if t.model, t.rulesSum, err = f.Model.build(t.vocabulary, byteLevel); err != nil {
		return nil, err
	}
	if err := t.addTokens(f.Added, len(t.vocabulary.ids)); err != nil {
		return nil, fmt.Errorf("added_tokens: %w", err)
	}
	if t.ends.before, t.ends.after, err = parsePost(f.PostProcessor, t.vocabulary); err != nil {
		return nil, fmt.Errorf("post_processor: %w", err)
	}
	if t.decoder, err = parseDecoder(f.Decoder); err != nil {
		return nil, fmt.Errorf("decoder: %w", err)
	}
	t.roles.known.Unknown = f.Model.unknownID(t.vocabulary)
	t.fingerprint = sync.OnceValue(func() [sha256.Size]byte { return t.sum() })
	return t, nil
}

// addTokens puts the added tokens over the model's vocabulary. A token that is not in the vocabulary gets the next
// free id, whatever id the file mentions: this is the reference's rule.
func (t *Tokenizer) addTokens(tokens []addedTokenJSON, modelSize int) error {
	t.addedTokens = addedTokens{
		added:          newAddedMatcher(),
		normalized:     newAddedMatcher(),
		normalizedForm: map[parley.Token]string{},
	}
	nextID := parley.Token(modelSize)
	for _, j := range tokens {
		if j.Content == "" {
			continue
		}
		id, ok := t.ID(j.Content)
		if !ok {
			id = nextID
			nextID++
			if t.vocabulary.has(id) {
				t.vocabulary.present[id] = false // the added token wins
			}
			t.vocabulary.set(j.Content, id)
		}
		if err := t.addToken(addedToken{
			id:         id,
			content:    j.Content,
			singleWord: j.SingleWord,
			lstrip:     j.LStrip,
			rstrip:     j.RStrip,
			normalized: j.Normalized,
			special:    j.Special,
			control:    j.Special || isControl(j.Content),
		}); err != nil {
			return err
		}
	}
	return nil
}

func (t *Tokenizer) addToken(a addedToken) error {
	for len(t.special) <= int(a.id) {
		t.special = append(t.special, false)
	}
	t.special[a.id] = t.special[a.id] || a.special
	if !a.normalized {
		t.added.add(a.content, a)
		return nil
	}
	form := a.content
	var err error
	for _, normalize := range t.normalizers {
		if form, err = normalize(form, new(scratch)); err != nil {
			return err
		}
	}
	if form != a.content {
		t.normalizedForm[a.id] = form
	}
	t.normalized.add(form, a)
	return nil
}
