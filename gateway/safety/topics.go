package safety

import (
	_ "embed"
)

//go:embed topics.txt
var topicsText string

// theTopics knows what words are about: its classes are topics.
var theTopics = mustReadLexicon(topicsText)

// tongueWords are words that only texts in languages other than English have
// all the time.
var tongueWords = wordSet("el", "los", "las", "una", "que", "por", "con", "para", "como", "cual", "es", "esta", "der",
	"das", "und", "ist", "nicht", "ein", "eine",
	"wie", "wer", "mir", "ich", "sie", "auf", "mit", "von", "le", "les", "une", "est", "pas", "vous", "quel", "quelle",
	"dans", "pour", "sur", "il", "che", "di",
	"sono", "per", "della", "qual", "uma", "voce", "nao", "os", "qui", "ce", "wat", "het", "een", "van", "ik", "jest",
	"jak", "czy", "nie", "ve", "bir", "bu", "nedir",
	"apa", "yang", "dan", "ini", "saya", "och", "att", "det", "vad", "som", "je", "mi", "tu", "du", "dime", "dame",
	"cuando", "donde", "porque", "wenn", "hat", "haben")

// elsewhere reports whether p is written in another language than English.
func (p *page) elsewhere() bool {
	foreign, short := 0, 0
	for i := range p.words {
		letters := p.text(i)
		switch {
		case letters[0] >= 0x80:
			foreign++
		case len(letters) <= 6 && tongueWords[string(letters)]:
			short++
		}
	}
	return foreign*3 > len(p.words) || short >= 2 && short*6 >= len(p.words)
}
