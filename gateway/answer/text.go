package answer

import (
	"strings"
	"unicode/utf8"

	"parley"
	"parley/gateway/dialect"
	"parley/token"
)

// A text turns the tokens of one choice into the text its client may see.
// Two things make that more than decoding: a character may take several
// tokens, and a stop string, which is not shown, may begin in one token and
// end in another. So text that could still become part of a stop string is
// held back until it cannot.
//
// However the tokens are grouped, the shown texts put together are the same.
// The stop string that counts is the one that is complete first.
type text struct {
	decoder *token.Decoder
	stops   []dialect.Match
	// held is the decoded text that is not shown yet.
	held []byte
	// decodedBytes and decodedRunes measure all decoded text, held or not;
	// shownBytes what was shown.
	decodedBytes, decodedRunes, shownBytes int
	// stopped is true once a stop string was found, stop; nothing follows it.
	stopped bool
	stop    string
}

// newText starts a choice. No stop string may be empty.
func newText(decoder *token.Decoder, stops []string) text {
	t := text{decoder: decoder}
	for _, s := range stops {
		t.stops = append(t.stops, dialect.NewMatch(s))
	}
	return t
}

// StoppedBy returns the stop string that ended the text: the longest of those that
// were complete first. It is empty if none did.
func (t *text) StoppedBy() string { return t.stop }

// push takes a token and returns the text that may be shown now.
func (t *text) push(id parley.Token) string {
	if t.stopped {
		return ""
	}
	return t.take(t.decoder.Push(id))
}

// pushText takes text from a worker that does not tell ids.
func (t *text) pushText(s string) string {
	if t.stopped || s == "" {
		return ""
	}
	return t.take(s)
}

// flush ends the choice and returns the rest of its text. A character of
// which only the first bytes came, as when the answer was cut by its length,
// is left out: a client can do nothing with half of it.
func (t *text) flush() string {
	if t.stopped {
		return ""
	}
	shown := t.take(strings.TrimRight(t.decoder.Flush(), "\uFFFD"))
	if t.stopped {
		return shown
	}
	return shown + t.show(len(t.held))
}

// take adds decoded text. It is searched byte by byte, so that the result does
// not depend on how it was cut into pieces.
func (t *text) take(decoded string) string {
	t.decodedBytes += len(decoded)
	t.decodedRunes += utf8.RuneCountInString(decoded)
	if len(t.stops) == 0 { // then nothing is ever held
		t.shownBytes += len(decoded)
		return decoded
	}
	for i := range len(decoded) {
		t.held = append(t.held, decoded[i])
		if t.stop = t.advance(decoded[i]); t.stop != "" {
			shown := t.show(len(t.held) - len(t.stop))
			t.stopped, t.held = true, nil
			return shown
		}
	}
	return t.show(len(t.held) - t.undecided())
}

// advance feeds one byte to every stop string and returns the longest that is now
// complete, if one is.
func (t *text) advance(b byte) (complete string) {
	for i := range t.stops {
		if stop := &t.stops[i]; stop.Advance(b) && len(stop.Pattern()) > len(complete) {
			complete = stop.Pattern()
		}
	}
	return complete
}

// undecided is how many of the last bytes could begin a stop string.
func (t *text) undecided() int {
	longest := 0
	for i := range t.stops {
		longest = max(longest, t.stops[i].Matched())
	}
	return longest
}

// show releases the first n held bytes.
func (t *text) show(n int) string {
	shown := string(t.held[:n])
	t.held = append(t.held[:0], t.held[n:]...)
	t.shownBytes += n
	return shown
}
