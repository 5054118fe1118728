package token

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// A charsmap is the normalization table of a SentencePiece model: a double array of character sequences and, after
// it, what they become.
type charsmap struct {
	units        []uint32
	replacements string
}

func parseCharsmap(data []byte) (normalizer, error) {
	if len(data) == 0 {
		return nil, errors.New("there is no precompiled_charsmap")
	}
	if len(data) < 4 {
		return nil, errors.New("precompiled_charsmap is too short")
	}
	size := int(binary.LittleEndian.Uint32(data))
	data = data[4:]
	if size > len(data) || size%4 != 0 || size == 0 {
		return nil, fmt.Errorf("precompiled_charsmap says its table has %d bytes but has %d", size, len(data))
	}
	m := &charsmap{units: make([]uint32, size/4), replacements: string(data[size:])}
	for i := range m.units {
		m.units[i] = binary.LittleEndian.Uint32(data[4*i:])
	}
	return m.normalize, nil
}

// find returns what text becomes. Like the reference, it takes the shortest beginning of text that the table knows
// for the whole.
func (m *charsmap) find(text string) (string, bool) {
	at := unitOffset(m.units[0])
	for i := range len(text) {
		if text[i] == 0 {
			break
		}
		at ^= uint32(text[i])
		if int(at) >= len(m.units) || m.units[at]&(1<<31|0xFF) != uint32(text[i]) {
			return "", false
		}
		unit := m.units[at]
		at ^= unitOffset(unit)
		if unit>>8&1 == 1 && int(at) < len(m.units) {
			return m.replacement(m.units[at] & (1<<31 - 1))
		}
	}
	return "", false
}

func unitOffset(unit uint32) uint32 { return unit >> 10 << (unit & (1 << 9) >> 6) }

func (m *charsmap) replacement(at uint32) (string, bool) {
	if int(at) >= len(m.replacements) {
		return "", false
	}
	text, _, _ := strings.Cut(m.replacements[at:], "\x00")
	return text, true
}

// normalize replaces characters that the table knows. A base character with its marks is looked up as one first, when
// it is short.
func (m *charsmap) normalize(text string, _ *scratch) (string, error) {
	var out strings.Builder
	for text != "" {
		n := clusterLength(text)
		cluster := text[:n]
		text = text[n:]
		if n < 6 {
			if to, ok := m.find(cluster); ok {
				out.WriteString(to)
				continue
			}
		}
		for cluster != "" {
			_, width := utf8.DecodeRuneInString(cluster)
			to, ok := m.find(cluster[:width])
			if !ok {
				to = cluster[:width]
			}
			out.WriteString(to)
			cluster = cluster[width:]
		}
	}
	return out.String(), nil
}

// clusterLength returns the length of the character at the start of text with the marks and joiners after it.
func clusterLength(text string) int {
	first, n := utf8.DecodeRuneInString(text)
	if first == '\r' && strings.HasPrefix(text[n:], "\n") {
		return n + 1
	}
	if first < ' ' {
		return n
	}
	for n < len(text) {
		r, width := utf8.DecodeRuneInString(text[n:])
		if classes.of(r)&mark == 0 && r != 0x200D {
			break
		}
		n += width
	}
	return n
}
