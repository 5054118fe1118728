package weights

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// The kinds of tokens, as numbered in GGUF files.
const (
	tokenNormal      int32 = 1
	tokenControl     int32 = 3
	tokenUserDefined int32 = 4
	tokenUnused      int32 = 5
)

// tokenizerMeta returns the metadata that describe the vocabulary and the chat
// template.
func tokenizerMeta(ck *Checkpoint) ([]metaEntry, error) {
	if ck.Format == FormatGGUF {
		return copiedTokenizer(ck), nil
	}
	text, err := readText(ck.Tokenizer.Dir, "tokenizer.json")
	if err != nil {
		return nil, err
	}
	if text == nil {
		return nil, errors.New("the directory has no tokenizer.json")
	}
	var tok hfTokenizer
	if err := json.Unmarshal(text, &tok); err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	special, err := readTokenizerConfig(ck.Tokenizer.Dir)
	if err != nil {
		return nil, err
	}
	v, err := tok.vocabulary(ck.Config.Vocab)
	if err != nil {
		return nil, fmt.Errorf("tokenizer.json: %w", err)
	}
	v.bos, v.eos = ck.Config.BOS, ck.Config.EOS
	v.pad = v.id(string(special.Pad), -1)
	v.addBOS = tok.addsBOS(special, v)
	list := v.meta()
	list = append(list, metaEntry{"tokenizer.huggingface.json", string(text)})
	if ck.ChatTemplate != "" {
		list = append(list, metaEntry{"tokenizer.chat_template", ck.ChatTemplate})
	}
	return list, nil
}

func copiedTokenizer(ck *Checkpoint) []metaEntry {
	var list []metaEntry
	for _, key := range ck.MetaKeys() {
		if strings.HasPrefix(key, "tokenizer.") {
			list = append(list, metaEntry{key, ck.meta[key]})
		}
	}
	return list
}

// hfTokenizer is the part of tokenizer.json that a GGUF vocabulary needs.
type hfTokenizer struct {
	AddedTokens []struct {
		ID      int    `json:"id"`
		Content string `json:"content"`
		Special bool   `json:"special"`
	} `json:"added_tokens"`
	PreTokenizer  *hfPreTokenizer `json:"pre_tokenizer"`
	PostProcessor json.RawMessage `json:"post_processor"`
	Model         struct {
		Type         string         `json:"type"`
		ByteFallback bool           `json:"byte_fallback"`
		Vocab        map[string]int `json:"vocab"`
		Merges       []bpeMerge     `json:"merges"`
	} `json:"model"`
}

type hfPreTokenizer struct {
	Type          string           `json:"type"`
	PreTokenizers []hfPreTokenizer `json:"pretokenizers"`
	Pattern       struct {
		Regex string `json:"Regex"`
	} `json:"pattern"`
	IndividualDigits bool `json:"individual_digits"`
}

// bpeMerge is "a b" (old files) or ["a", "b"] (new ones), kept as "a b".
type bpeMerge string

// UnmarshalJSON reads either form.
func (m *bpeMerge) UnmarshalJSON(text []byte) error {
	var pair []string
	if json.Unmarshal(text, &pair) == nil && len(pair) == 2 {
		*m = bpeMerge(pair[0] + " " + pair[1])
		return nil
	}
	var joined string
	if err := json.Unmarshal(text, &joined); err != nil {
		return fmt.Errorf("a merge is neither a text nor a pair: %w", err)
	}
	*m = bpeMerge(joined)
	return nil
}

// vocabulary is what a GGUF file says about a tokenizer.
type vocabulary struct {
	pre      string
	tokens   []string
	kinds    []int32
	merges   []string
	bos, pad int
	eos      []int
	addBOS   bool
}

// vocabulary lays the tokens out by id, with fillers up to size where the
// embedding has more rows than there are tokens.
func (t *hfTokenizer) vocabulary(size int) (*vocabulary, error) {
	if t.Model.Type != "BPE" || t.Model.ByteFallback || !t.PreTokenizer.has("ByteLevel") {
		return nil, fmt.Errorf(
			"the tokenizer is not a byte-level BPE (model type %q): it cannot be stored in a GGUF file", t.Model.Type)
	}
	v := &vocabulary{pre: t.PreTokenizer.name(), tokens: make([]string, size), kinds: make([]int32, size)}
	put := func(text string, id int, kind int32) error {
		if id < 0 || id >= size {
			return fmt.Errorf("token %q has id %d: the model has %d", text, id, size)
		}
		v.tokens[id], v.kinds[id] = text, kind
		return nil
	}
	for text, id := range t.Model.Vocab {
		if err := put(text, id, tokenNormal); err != nil {
			return nil, err
		}
	}
	for _, a := range t.AddedTokens {
		kind := tokenUserDefined
		if a.Special {
			kind = tokenControl
		}
		if err := put(a.Content, a.ID, kind); err != nil {
			return nil, err
		}
	}
	for id, kind := range v.kinds {
		if kind == 0 {
			v.tokens[id], v.kinds[id] = fmt.Sprintf("[PAD%d]", id), tokenUnused
		}
	}
	for _, m := range t.Model.Merges {
		v.merges = append(v.merges, string(m))
	}
	return v, nil
}

func (p *hfPreTokenizer) has(kind string) bool {
	return p != nil && (p.Type == kind || slices.ContainsFunc(p.PreTokenizers, func(q hfPreTokenizer) bool {
		return q.has(kind)
	}))
}

// splitNames are llama.cpp's names for the ways published tokenizers cut text
// into words.
var splitNames = map[string]string{
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                         "llama-bpe",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                              "qwen2",
	`(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,1}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`:                         "qwen2",
	`(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+`: "qwen2",
	`'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`:                                                                  "gpt-2",
}

// name returns llama.cpp's name for the pre-tokenizer, or "default".
func (p *hfPreTokenizer) name() string {
	if name, ok := splitNames[p.Pattern.Regex]; ok {
		return name
	}
	if p.Type == "ByteLevel" {
		return "gpt-2"
	}
	for _, q := range p.PreTokenizers {
		if q.Type == "Digits" && q.IndividualDigits {
			return "smollm"
		}
		if q.Type == "Split" || q.Type == "ByteLevel" {
			return q.name()
		}
	}
	return "default"
}

// addsBOS reports whether the tokenizer puts BOS before every text.
func (t *hfTokenizer) addsBOS(special *tokenizerConfig, v *vocabulary) bool {
	if special.AddBOS != nil {
		return *special.AddBOS
	}
	return v.bos >= 0 && beginsWith(t.PostProcessor, v.tokens[v.bos])
}

// beginsWith reports whether a post-processor's template, or one of a sequence
// of them, begins with the special token.
func beginsWith(processor json.RawMessage, token string) bool {
	var p struct {
		Processors []json.RawMessage `json:"processors"`
		Single     []struct {
			SpecialToken *struct {
				ID string `json:"id"`
			} `json:"SpecialToken"`
		} `json:"single"`
	}
	if json.Unmarshal(processor, &p) != nil {
		return false
	}
	if len(p.Single) > 0 && p.Single[0].SpecialToken != nil {
		return p.Single[0].SpecialToken.ID == token
	}
	return slices.ContainsFunc(p.Processors, func(q json.RawMessage) bool { return beginsWith(q, token) })
}

// tokenizerConfig is the part of tokenizer_config.json that matters here.
type tokenizerConfig struct {
	Pad    tokenText `json:"pad_token"`
	AddBOS *bool     `json:"add_bos_token"`
}

// tokenText is a text, or an object that holds it.
type tokenText string

// UnmarshalJSON reads either form.
func (t *tokenText) UnmarshalJSON(text []byte) error {
	var plain string
	if json.Unmarshal(text, &plain) == nil {
		*t = tokenText(plain)
		return nil
	}
	var object struct {
		Content string `json:"content"`
	}
	if err := json.Unmarshal(text, &object); err != nil {
		return err
	}
	*t = tokenText(object.Content)
	return nil
}

func readTokenizerConfig(dir string) (*tokenizerConfig, error) {
	var c tokenizerConfig
	text, err := readText(dir, "tokenizer_config.json")
	if err != nil || text == nil {
		return &c, err
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, fmt.Errorf("tokenizer_config.json: %w", err)
	}
	return &c, nil
}

// id returns the number of a token, or fallback.
func (v *vocabulary) id(text string, fallback int) int {
	if i := slices.Index(v.tokens, text); i >= 0 {
		return i
	}
	return fallback
}

// fimTokens are the texts by which known models mark the parts of a document
// in which something is to be filled in.
var fimTokens = []struct {
	key   string
	texts []string
}{
	{"fim_pre_token_id", []string{"<|fim_prefix|>", "<fim_prefix>", "<fim-prefix>"}},
	{"fim_suf_token_id", []string{"<|fim_suffix|>", "<fim_suffix>", "<fim-suffix>"}},
	{"fim_mid_token_id", []string{"<|fim_middle|>", "<fim_middle>", "<fim-middle>"}},
	{"fim_pad_token_id", []string{"<|fim_pad|>", "<fim_pad>", "<fim-pad>"}},
	{"fim_rep_token_id", []string{"<|repo_name|>", "<reponame>"}},
	{"fim_sep_token_id", []string{"<|file_sep|>", "<file_sep>"}},
}

// meta returns the vocabulary as metadata.
func (v *vocabulary) meta() []metaEntry {
	list := []metaEntry{
		{"tokenizer.ggml.model", "gpt2"},
		{"tokenizer.ggml.pre", v.pre},
		{"tokenizer.ggml.tokens", v.tokens},
		{"tokenizer.ggml.token_type", v.kinds},
		{"tokenizer.ggml.merges", v.merges},
		{"tokenizer.ggml.add_bos_token", v.addBOS},
	}
	add := func(key string, id int) {
		if id >= 0 {
			list = append(list, metaEntry{"tokenizer.ggml." + key, uint32(id)})
		}
	}
	add("bos_token_id", v.bos)
	for i, key := range []string{"eos_token_id", "eot_token_id", "eom_token_id"} {
		if i < len(v.eos) {
			add(key, v.eos[i])
		}
	}
	add("padding_token_id", v.pad)
	for _, fim := range fimTokens {
		for _, text := range fim.texts {
			if id := v.id(text, -1); id >= 0 {
				add(fim.key, id)
				break
			}
		}
	}
	return list
}
