package token

import (
	"sort"
	"strings"
	"unicode"
	"unicode/utf8"

	"parley/token/jinja"
)

// A Prompt is a conversation as a chat template wrote it. It records which bytes are the template's own; all others
// came with the request.
type Prompt struct {
	text string
	own  []jinja.Span
}

// String returns the prompt as text.
func (p Prompt) String() string { return p.text }

// EndsWith reports whether the template's own text ends with suffix, white space aside.
func (p Prompt) EndsWith(suffix string) bool {
	trimmed := strings.TrimSpace(p.text)
	if !strings.HasSuffix(trimmed, suffix) {
		return false
	}
	end := len(strings.TrimRightFunc(p.text, unicode.IsSpace))
	own, _ := authorship{own: p.own}.covers(end-len(suffix), end)
	return own
}

// An authorship says in which parts of a text control tokens are read: in all of it, or in the spans that the author
// of a template wrote.
type authorship struct {
	all bool
	own []jinja.Span
}

// covers reports whether the bytes from start to end are all the author's, and whether none is.
func (a authorship) covers(start, end int) (own, data bool) {
	if a.all {
		return true, false
	}
	next := a.spanAfter(start)
	if next == len(a.own) || a.own[next].Start >= end {
		return false, true
	}
	return a.own[next].Start <= start && end <= a.own[next].End, false
}

// spanAfter returns the index of the first span that ends after at.
func (a authorship) spanAfter(at int) int {
	return sort.Search(len(a.own), func(i int) bool { return a.own[i].End > at })
}

// section returns the authorship of the n bytes from at on.
func (a authorship) section(at, n int) (part authorship) {
	for _, s := range a.own[a.spanAfter(at):] {
		if s.Start >= at+n {
			break
		}
		part.own = append(part.own, jinja.Span{Start: max(s.Start-at, 0), End: min(s.End-at, n)})
	}
	return part
}

// partsAuthorship takes every second part for the author's. What normalizers put before the text or after it belongs
// to the author if the text there does.
func partsAuthorship(parts []string, first, last bool) (found authorship) {
	end := 0
	for i, part := range parts {
		span := jinja.Span{Start: end, End: end + len(part)}
		end = span.End
		isOwn := i%2 == 1 || i == 0 && first || i == len(parts)-1 && last
		n := len(found.own)
		switch {
		case !isOwn || part == "":
		case n > 0 && found.own[n-1].End == span.Start:
			found.own[n-1].End = span.End
		default:
			found.own = append(found.own, span)
		}
	}
	return found
}

// unusedRune returns a character that does not occur in text. Unicode reserves the candidates for such internal use.
func unusedRune(text string) (rune, bool) {
	for r := rune(0xFDD0); r <= 0xFDEF; r++ {
		if !strings.ContainsRune(text, r) {
			return r, true
		}
	}
	return 0, false
}

// markBorders puts mark at both ends of every span. A span ends before a character that the text after it combines
// with.
func markBorders(text string, spans []jinja.Span, mark rune) string {
	var b strings.Builder
	at := 0
	for _, s := range spans {
		end := s.End
		for next, _ := utf8.DecodeRuneInString(text[end:]); end > s.Start && unicode.Is(unicode.M, next); {
			var size int
			next, size = utf8.DecodeLastRuneInString(text[:end])
			end -= size
		}
		b.WriteString(text[at:s.Start])
		b.WriteRune(mark)
		b.WriteString(text[s.Start:end])
		b.WriteRune(mark)
		at = end
	}
	b.WriteString(text[at:])
	return b.String()
}
