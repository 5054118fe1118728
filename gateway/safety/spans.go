package safety

import "slices"

// Spans returns the windows of n words, as pairs of a first word and the one
// after the last.
func Spans(n int) [][2]int { return appendSpans(nil, n) }

func appendSpans(to [][2]int, n int) [][2]int {
	to = append(to, [2]int{0, n})
	if n <= Window {
		return to
	}
	for from := 0; ; from += Stride {
		if from+Window >= n {
			return append(to, [2]int{n - Window, n})
		}
		to = append(to, [2]int{from, from + Window})
	}
}

// SentenceSpans returns every sentence and every two in a row, in words, as
// [Spans] does; long ones are cut off.
func SentenceSpans(begins []int, n int) [][2]int { return appendSentenceSpans(nil, begins, n) }

func appendSentenceSpans(to [][2]int, begins []int, n int) [][2]int {
	for i, from := range begins {
		for reach := 1; reach <= 2; reach++ {
			end := n
			if i+reach < len(begins) {
				end = begins[i+reach]
			}
			to = append(to, [2]int{from, min(end, from+Window)})
			if end == n {
				break
			}
		}
	}
	if len(to) == 0 {
		return append(to, [2]int{0, n})
	}
	return to
}

// innerMin and innerMax bound the sentences that are judged alone for an
// attack that is hidden in a longer text.
const (
	innerMin = 6
	innerMax = 40
)

// InnerSpans returns the sentences of a text of several, as [Spans] does.
func InnerSpans(begins []int, n int) [][2]int { return innerOf(SentenceSpans(begins, n), n) }

// innerOf drops the spans of sentences that are not judged alone.
func innerOf(sentences [][2]int, n int) [][2]int {
	return slices.DeleteFunc(sentences, func(s [2]int) bool {
		words := s[1] - s[0]
		return words < innerMin || words > innerMax || words == n
	})
}
