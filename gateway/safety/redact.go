package safety

import (
	"fmt"
	"maps"
	"strings"
)

// A Vault remembers what placeholders stand for, for one request. The same
// value has the same placeholder, so that a model can still tell people apart. It has no maps while
// there is nothing to remember.
type Vault struct {
	placeholders map[string]string // by value
	values       map[string]string // by placeholder
	counts       map[string]int
}

// NewVault returns an empty vault.
func NewVault() *Vault { return &Vault{} }

// after returns the vault of an answer to a prompt of which v has the values; v may be nil. A value
// of the prompt has the same placeholder in it, and no other value has one of the prompt's: the
// [Restorer] would put the prompt's value there.
func (v *Vault) after() *Vault {
	next := NewVault()
	if !v.Empty() {
		next.placeholders, next.counts = maps.Clone(v.placeholders), maps.Clone(v.counts)
		next.values = map[string]string{}
	}
	return next
}

// Redact puts placeholders in the place of what decisions say, which must be
// in order and not overlap.
func (v *Vault) Redact(text string, decisions []Decision) string {
	var b strings.Builder
	at := 0
	for _, d := range decisions {
		if d.Action != Redact || d.Start < at {
			continue
		}
		b.WriteString(text[at:d.Start])
		b.WriteString(v.placeholder(d.Kind, text[d.Start:d.End]))
		at = d.End
	}
	b.WriteString(text[at:])
	return b.String()
}

func (v *Vault) placeholder(kind, value string) string {
	if p, ok := v.placeholders[value]; ok {
		return p
	}
	if v.counts == nil {
		v.placeholders, v.values, v.counts = map[string]string{}, map[string]string{}, map[string]int{}
	}
	v.counts[kind]++
	p := fmt.Sprintf("[%s_%d]", strings.ToUpper(kind), v.counts[kind])
	v.placeholders[value], v.values[p] = p, value
	return p
}

// Empty reports whether nothing was redacted.
func (v *Vault) Empty() bool { return v == nil || len(v.values) == 0 }

// Restore returns a text with values in the place of their placeholders.
func (v *Vault) Restore(text string) string {
	r := NewRestorer(v)
	return r.Push(text) + r.Flush()
}

// placeholderMax is longer than any placeholder.
const placeholderMax = 32

// A Restorer puts values back in the place of placeholders in a stream. What
// could still become a placeholder waits.
type Restorer struct {
	vault *Vault
	held  string
}

// NewRestorer returns a restorer of what is in v.
func NewRestorer(v *Vault) *Restorer { return &Restorer{vault: v} }

// Push takes a piece and returns what can be shown.
func (r *Restorer) Push(piece string) string {
	text := r.held + piece
	r.held = ""
	var b strings.Builder
	for {
		open := strings.IndexByte(text, '[')
		if open < 0 {
			b.WriteString(text)
			return b.String()
		}
		b.WriteString(text[:open])
		text = text[open:]
		end := strings.IndexByte(text, ']')
		again := strings.IndexByte(text[1:], '[') + 1
		switch {
		case end < 0 && again == 0 && len(text) < placeholderMax:
			r.held = text
			return b.String()
		case end > 0 && (again == 0 || end < again):
			if value, ok := r.vault.values[text[:end+1]]; ok {
				b.WriteString(value)
				text = text[end+1:]
				continue
			}
		}
		b.WriteByte('[')
		text = text[1:]
	}
}

// Flush ends the stream and returns what still waited.
func (r *Restorer) Flush() string {
	held := r.held
	r.held = ""
	return held
}
