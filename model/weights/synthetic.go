package weights

import "fmt"

// The first tokens of a synthetic vocabulary.
const (
	syntheticBOS     = 0
	syntheticEOS     = 2
	syntheticControl = 6
	syntheticMin     = syntheticControl + 256 + len(syntheticMerges)
)

var syntheticControls = [syntheticControl]string{"<|endoftext|>", "<|im_start|>", "<|im_end|>", "<|fim_prefix|>",
	"<|fim_suffix|>", "<|fim_middle|>"}

// syntheticMerges are pairs of byte tokens; Ġ is a space in the alphabet of
// byte-level vocabularies.
var syntheticMerges = [...][2]string{{"Ġ", "t"}, {"h", "e"}, {"Ġ", "a"}, {"i", "n"}, {"Ġt", "he"}, {"e", "r"},
	{"o", "n"}, {"Ġ", "s"}}

const chatML = `{% for message in messages %}{{ '<|im_start|>' + message['role'] + '
' + message['content'] + '<|im_end|>' + '
' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant
' }}{% endif %}`

// byteAlphabet returns the printable characters that stand for the 256 bytes
// in byte-level vocabularies: printable Latin-1 stands for itself, the rest
// follows from U+0100 on.
func byteAlphabet() [256]rune {
	var alphabet [256]rune
	next := rune(256)
	for b := range 256 {
		if b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae {
			alphabet[b] = rune(b)
			continue
		}
		alphabet[b] = next
		next++
	}
	return alphabet
}

// syntheticTokenizer returns the metadata of a vocabulary that can encode any
// text: control tokens, all bytes, a few merged pairs, and fillers up to size.
func syntheticTokenizer(size int) ([]metaEntry, error) {
	if size < syntheticMin {
		return nil, fmt.Errorf("a vocabulary of %d entries is too small: it needs %d", size, syntheticMin)
	}
	v := &vocabulary{pre: "qwen2", bos: syntheticBOS, eos: []int{syntheticEOS}, pad: syntheticBOS}
	add := func(text string, kind int32) {
		v.tokens = append(v.tokens, text)
		v.kinds = append(v.kinds, kind)
	}
	for _, text := range syntheticControls {
		add(text, tokenControl)
	}
	for _, r := range byteAlphabet() {
		add(string(r), tokenNormal)
	}
	for _, m := range syntheticMerges {
		add(m[0]+m[1], tokenNormal)
		v.merges = append(v.merges, m[0]+" "+m[1])
	}
	for i := len(v.tokens); i < size; i++ {
		add(fmt.Sprintf("Ġw%d", i), tokenNormal)
	}
	return append(v.meta(), metaEntry{"tokenizer.chat_template", chatML}), nil
}
