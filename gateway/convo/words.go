package convo

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"

	"parley"
)

// Search compares words, not bytes. A word is a run of letters and digits, in
// lower case and without accents. Scripts that put no spaces between words are
// cut into overlapping pairs of characters, and the last character alone, so
// that any part of a run is found. Both databases index these words and add
// none of their own rules; so they find the same.

const (
	// indexBytesMax bounds how much of a text is indexed.
	indexBytesMax = 256 << 10
	// wordBytesMax bounds a word; what is longer is cut.
	wordBytesMax = 64
	// queryWordsMax bounds the words of a query.
	queryWordsMax = 16
	// snippetBefore and snippetAfter are how much is shown around a hit, in bytes.
	snippetBefore, snippetAfter = 60, 140
)

// spaceless are the scripts written without spaces between words.
var spaceless = []*unicode.RangeTable{unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Thai, unicode.Lao,
	unicode.Khmer, unicode.Myanmar}

// A token is a word of a text and where it stands.
type token struct {
	word       string
	start, end int
}

// wordsOf returns the different words of text, sorted, with spaces between.
func wordsOf(text string) string {
	var words []string
	for t := range tokens(text) {
		words = append(words, t.word)
	}
	slices.Sort(words)
	return strings.Join(slices.Compact(words), " ")
}

// queryWords returns what a text must hold for query to find it. A word finds
// those it begins; so the single last character of a spaceless run is left
// out where the pair before it says as much.
func queryWords(query string) ([]string, error) {
	if len(query) > QueryMax {
		return nil, parley.Invalid("query", "A query may have at most %d bytes, not %d.", QueryMax, len(query))
	}
	var words []string
	end := 0
	for t := range tokens(query) {
		if t.end > end {
			words = append(words, t.word)
		}
		end = t.end
	}
	slices.Sort(words)
	words = slices.Compact(words)
	if len(words) == 0 || len(words) > queryWordsMax {
		return nil, parley.Invalid("query", "A query needs 1 to %d words, not %d.", queryWordsMax, len(words))
	}
	return words, nil
}

// tokens yields the words of the part of text that is indexed.
func tokens(text string) func(yield func(token) bool) {
	return func(yield func(token) bool) {
		text = prefix(text, indexBytesMax)
		for start := 0; start < len(text); {
			r, size := utf8.DecodeRuneInString(text[start:])
			if !wordy(r) {
				start += size
				continue
			}
			end, split := start+size, unicode.In(r, spaceless...)
			for end < len(text) {
				r, size := utf8.DecodeRuneInString(text[end:])
				if !wordy(r) || unicode.In(r, spaceless...) != split {
					break
				}
				end += size
			}
			if !yieldRun(text, start, end, split, yield) {
				return
			}
			start = end
		}
	}
}

// yieldRun yields the words of one run of letters.
func yieldRun(text string, start, end int, split bool, yield func(token) bool) bool {
	if !split {
		word := fold(text[start:end])
		return word == "" || yield(token{word, start, end})
	}
	for start < end {
		_, first := utf8.DecodeRuneInString(text[start:])
		_, second := utf8.DecodeRuneInString(text[start+first : end])
		if word := fold(text[start : start+first+second]); word != "" &&
			!yield(token{word, start, start + first + second}) {
			return false
		}
		start += first
	}
	return true
}

// wordy reports whether r can be part of a word.
func wordy(r rune) bool {
	return r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsNumber(r) || unicode.IsMark(r))
}

// fold returns a word as it is compared: decomposed, without accents, in
// lower case, letters and digits only, and cut to wordBytesMax.
func fold(word string) string {
	folded := strings.Map(func(r rune) rune {
		if r >= 0x300 && r <= 0x36F || !wordy(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, norm.NFKD.String(word))
	return prefix(folded, wordBytesMax)
}

// prefix returns at most n bytes of text, whole characters.
func prefix(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// A SnippetPart is a piece of a snippet.
type SnippetPart struct {
	Text string
	// Hit says that the query found this piece.
	Hit bool
}

// snippetOf returns the part of text around the first word that the query
// finds, on one line, with everything it finds there marked.
func snippetOf(text string, query []string) []SnippetPart {
	var hits []token
	var from, to int
	for t := range tokens(text) {
		if len(hits) > 0 && t.end > to {
			break
		}
		if !slices.ContainsFunc(query, func(q string) bool { return strings.HasPrefix(t.word, q) }) {
			continue
		}
		if len(hits) == 0 {
			from, to = window(text, t)
		}
		if len(hits) > 0 && t.start < hits[len(hits)-1].end {
			hits[len(hits)-1].end = t.end
			continue
		}
		hits = append(hits, t)
	}
	if len(hits) == 0 {
		return []SnippetPart{{Text: oneLine(prefix(text, snippetBefore+snippetAfter))}}
	}
	return mark(text, from, to, hits)
}

// window returns the bounds of what is shown around a hit.
func window(text string, hit token) (from, to int) {
	from = max(0, hit.start-snippetBefore)
	for !utf8.RuneStart(text[from]) {
		from++
	}
	to = max(hit.end, len(prefix(text, min(len(text), hit.start+snippetAfter))))
	return from, to
}

func mark(text string, from, to int, hits []token) []SnippetPart {
	var spans []SnippetPart
	add := func(start, end int, hit bool) {
		if start < end {
			spans = append(spans, SnippetPart{oneLine(text[start:end]), hit})
		}
	}
	at := from
	for _, h := range hits {
		add(at, h.start, false)
		add(h.start, min(h.end, to), true)
		at = h.end
	}
	add(at, to, false)
	return spans
}

// marks are what Markdown writes around texts, and no text itself.
var marks = strings.NewReplacer("**", "", "__", "", "`", "", "~~", "", "|", " ", "\n# ", "\n", "\n## ", "\n", "\n### ",
	"\n", "\n> ", "\n", "\n- ", "\n", "\n* ", "\n", "---", " ")

// oneLine puts a space for every run of white space, and leaves the marks of Markdown out.
func oneLine(text string) string {
	var b strings.Builder
	space := false
	for _, r := range marks.Replace(text) {
		if unicode.IsSpace(r) || unicode.IsControl(r) {
			if !space {
				b.WriteByte(' ')
			}
			space = true
			continue
		}
		space = false
		b.WriteRune(r)
	}
	return b.String()
}
