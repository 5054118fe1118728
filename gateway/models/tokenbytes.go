package models

import (
	"strings"

	"parley"
	"parley/token"
)

// bytesPerToken is how many bytes of text one token stands for at most: as many as
// the longest token has or, where a normalizer shortens or drops text, as many as
// were measured for the texts that normalizers shorten most. It is 0 if some text
// has no tokens at all, so that nothing can be said.
func bytesPerToken(t *token.Tokenizer) int {
	longest := 1
	for id := range parley.Token(t.Size()) {
		text, _ := t.Text(id)
		longest = max(longest, len(text))
	}
	probes := shortenedTexts
	for _, id := range t.Special().EOS { // it may take the space around it
		if text, ok := t.Text(id); ok {
			probes = append(probes[:len(probes):len(probes)], strings.Repeat(" ", 64*longest)+text)
		}
	}
	most := longest
	for _, p := range probes {
		text := strings.Repeat(p, 64*longest/len(p)+1)
		ids, err := t.Encode(text, token.Options{ParseSpecial: true})
		if err != nil {
			continue // text that is refused takes no tokens
		}
		if len(ids) == 0 {
			return 0
		}
		most = max(most, len(text)/len(ids)+1)
	}
	return most
}

// shortenedTexts are repeated to find how much shorter a tokenizer makes a text:
// space that is trimmed or collapsed, characters that are composed, replaced by
// compatible ones, removed, or unknown and joined.
var shortenedTexts = []string{
	" ", "\n", "\t", "\u00a0", "\u3000", "\u200b", "\ufe0f", "a", "A", "\uff21", "\U0001d400", "e\u0301",
	"\u1112\u1161\u11ab",
	"\u03b1\u0313\u0300\u0345", "\U00013000", "\U000e0001", "\U0010fffd", "\x01", "\ufffd", "\u4e00", "\u0e01", "-",
	"=",
}
