package safety

import (
	_ "embed"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

//go:embed lexicon.txt
var lexiconText string

// classes is a set of word classes.
type classes uint64

// A lexicon knows the classes of words.
type lexicon struct {
	// words holds whole words, stems what words begin with, by hash.
	words, stems map[uint32]classes
	// known[h>>shift] is false if no stem and no word has a hash like h.
	known [1 << 16]bool
	// spelled are the words by length and first letter, to find masked ones.
	spelled map[[2]byte][]string
	names   []string
	// blunt are the classes of the keyword list.
	blunt classes
}

// knownShift makes an index into known from a hash.
const knownShift = 16

var theLexicon = mustReadLexicon(lexiconText)

func mustReadLexicon(text string) *lexicon {
	l, err := readLexicon(text)
	if err != nil {
		panic(err)
	}
	return l
}

func readLexicon(text string) (*lexicon, error) {
	l := &lexicon{words: map[uint32]classes{}, stems: map[uint32]classes{}, spelled: map[[2]byte][]string{}}
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(l.names) == 64 {
			return nil, fmt.Errorf("the lexicon has more than 64 classes")
		}
		class := classes(1) << len(l.names)
		name, blunt := strings.CutPrefix(fields[0], "!")
		if blunt {
			l.blunt |= class
		}
		l.names = append(l.names, name)
		for _, entry := range fields[1:] {
			l.enter(entry, class, blunt)
		}
	}
	return l, nil
}

func (l *lexicon) enter(entry string, class classes, blunt bool) {
	table := l.words
	spelled, stem := strings.CutSuffix(entry, "*")
	if stem {
		table = l.stems
	}
	h := hashOf(plainLetters(spelled))
	table[h] |= class
	l.known[h>>knownShift] = true
	if blunt {
		at := [2]byte{byte(len(spelled)), spelled[0]}
		l.spelled[at] = append(l.spelled[at], spelled)
	}
}

// plainLetters are the letters of a word as a page has them: without accents.
func plainLetters(word string) (letters []byte) {
	for _, r := range norm.NFKD.String(word) {
		if !unicode.Is(unicode.Mn, r) {
			letters = utf8.AppendRune(letters, r)
		}
	}
	return letters
}

// The hash of a word is that of Fowler, Noll and Vo, so that every beginning
// of a word is hashed on the way.
const (
	hashSeed  uint32 = 2166136261
	hashPrime uint32 = 16777619
)

func hashOf(letters []byte) uint32 {
	h := hashSeed
	for _, b := range letters {
		h = (h ^ uint32(b)) * hashPrime
	}
	return h
}

// stemMin is the length of the shortest stem.
const stemMin = 3

// find returns the classes of a word and its hash.
func (l *lexicon) find(letters []byte) (found classes, hash uint32) {
	h := hashSeed
	for i, b := range letters {
		h = (h ^ uint32(b)) * hashPrime
		if i+1 >= stemMin && l.known[h>>knownShift] {
			found |= l.stems[h]
		}
	}
	if l.known[h>>knownShift] {
		found |= l.words[h]
	}
	return found, h
}

// classify fills in hash and classes of word i. A masked word whose meaning
// shows through is replaced by what it stands for.
func (p *page) classify(i int) {
	w := &p.words[i]
	w.classes, w.hash = theLexicon.find(p.text(i))
	if w.classes != 0 || w.to-w.from > 16 {
		return
	}
	if plain, ok := theLexicon.unmask(p.text(i)); ok {
		p.letters = append(p.letters[:w.from], plain...)
		w.to = w.from + int32(len(plain))
		w.classes, w.hash = theLexicon.find(p.text(i))
		w.mark |= masked
	}
}

// unmask returns the word of the lexicon that is written in letters with
// digits and symbols in the place of letters, or with stars. Hardly a word is,
// so that nothing is made before one is met.
func (l *lexicon) unmask(letters []byte) ([]byte, bool) {
	symbols, stars := 0, 0
	for _, b := range letters {
		if b == '*' {
			stars++
		} else if b < 0x80 && symbolFor[b] != 0 {
			symbols++
		}
	}
	switch n := len(letters); {
	case stars > 0 && stars < n:
		return l.starred(letters)
	case symbols == 0 || symbols == n:
		return nil, false
	}
	plain := slices.Clone(letters)
	for i, b := range plain {
		if b < 0x80 && symbolFor[b] != 0 {
			plain[i] = symbolFor[b]
		}
	}
	found, _ := l.find(plain)
	return plain, found != 0
}

// symbolFor are the letters that digits and symbols are written for.
var symbolFor = [128]byte{'0': 'o', '1': 'i', '3': 'e', '4': 'a', '5': 's', '7': 't', '8': 'b', '@': 'a', '$': 's',
	'!': 'i'}

func (l *lexicon) starred(letters []byte) ([]byte, bool) {
	for _, candidate := range l.spelled[[2]byte{byte(len(letters)), letters[0]}] {
		if fits(letters, candidate) {
			return []byte(candidate), true
		}
	}
	return nil, false
}

func fits(letters []byte, candidate string) bool {
	for i, b := range letters {
		if b != '*' && b != candidate[i] {
			return false
		}
	}
	return true
}

// Blunt reports whether a text has a word of the keyword list. It is the floor
// that the classifier is compared with.
func Blunt(text string) bool {
	var p page
	p.read(text, 0, 0)
	for i := range p.words {
		if p.words[i].classes&theLexicon.blunt != 0 {
			return true
		}
	}
	return false
}

func wordSet(words ...string) map[string]bool {
	set := make(map[string]bool, len(words))
	for _, w := range words {
		set[w] = true
	}
	return set
}
