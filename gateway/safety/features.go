package safety

import "math/bits"

// BucketBits is how many bits of a feature's hash are kept.
const BucketBits = 17

// The kinds of features, hashed in so that equal letters of different kinds
// are told apart. The kind is also where the trainer learns how fast.
const (
	featWord uint32 = iota + 1
	featPair
	featSkip
	featGram
	featClass
	featClasses
	featClassWord
	featMark
	featFirst
	featContext
)

// bucket names the place of a feature's weights.
func bucket(kind, h uint32) uint32 {
	h = (h ^ kind*0x9E3779B1) * 0x85EBCA6B
	h ^= h >> 13
	h *= 0xC2B2AE35
	return h >> (32 - BucketBits)
}

// features appends the buckets of what word i adds to a text that it stands
// in: itself, its parts, its classes, and how it meets the words before it,
// back to the word lowest.
func (p *page) features(to []uint32, i, lowest int) []uint32 {
	return p.meeting(p.own(to, i), i, lowest)
}

// own appends the buckets of word i that depend on its letters alone.
func (p *page) own(to []uint32, i int) []uint32 {
	return grams(append(to, bucket(featWord, p.words[i].hash)), p.text(i))
}

// meeting appends the buckets of where word i stands, how it is written, what
// it means, and how it meets the words before it.
func (p *page) meeting(to []uint32, i, lowest int) []uint32 {
	w := &p.words[i]
	if i > lowest {
		before := &p.words[i-1]
		to = append(to, bucket(featPair, before.hash*31+w.hash))
		if i > lowest+1 {
			to = append(to, bucket(featSkip, p.words[i-2].hash*31+w.hash))
		}
	}
	if w.mark&first != 0 {
		to = append(to, bucket(featFirst, w.hash))
	}
	if w.mark&^first != 0 {
		to = p.markFeatures(to, w)
	}
	if w.classes != 0 {
		to = p.classFeatures(to, i, lowest)
	}
	return to
}

func (p *page) markFeatures(to []uint32, w *word) []uint32 {
	for m := w.mark &^ first; m != 0; m &= m - 1 {
		one := uint32(m & -m)
		to = append(to, bucket(featMark, one))
		for c := w.classes; c != 0; c &= c - 1 {
			to = append(to, bucket(featMark, one<<8|uint32(bits.TrailingZeros64(uint64(c)))))
		}
	}
	return to
}

// gramMin and gramMax bound the parts of words, gramWord the words that have parts.
const (
	gramMin  = 3
	gramMax  = 5
	gramWord = 18
)

// grams appends the buckets of a word's parts, its ends marked.
func grams(to []uint32, letters []byte) []uint32 {
	n := min(len(letters), gramWord)
	if n < gramMin {
		return to
	}
	for i := -1; i+gramMin <= n+1; i++ {
		h := hashSeed
		for k := 0; k < gramMax && i+k <= n; k++ {
			b := byte('_')
			if at := i + k; at >= 0 && at < n {
				b = letters[at]
			}
			h = (h ^ uint32(b)) * hashPrime
			if k+1 >= gramMin {
				to = append(to, bucket(featGram, h))
			}
		}
	}
	return to
}

// classReach is how many words apart two classes may be to count as met.
const classReach = 4

func (p *page) classFeatures(to []uint32, i, lowest int) []uint32 {
	w := &p.words[i]
	for c := w.classes; c != 0; c &= c - 1 {
		class := uint32(bits.TrailingZeros64(uint64(c)))
		to = append(to, bucket(featClass, class))
		if i > lowest {
			to = append(to, bucket(featClassWord, p.words[i-1].hash*64+class))
		}
		for j := i - 1; j >= max(lowest, i-classReach); j-- {
			for d := p.words[j].classes; d != 0; d &= d - 1 {
				to = append(to, bucket(featClasses, uint32(bits.TrailingZeros64(uint64(d)))<<6|class))
			}
		}
	}
	return to
}
