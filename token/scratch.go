package token

// scratch is the working memory of one encoding call.
type scratch struct {
	symbols []int32
	pending []merge
	long    longMerge
	pieces  [2][]piece
	spans   []textRange
	events  []event
	text    []byte
	runes   []rune
	offsets []int32
	nodes   []unigramNode
	misses  uint32 // words not found in the cache
}

// A piece is a part of the text on its way to becoming words.
type piece struct {
	text string
	// first: the piece begins where the whole input begins.
	first bool
}

// A textRange is one match of a pattern.
type textRange struct{ start, end int }

// An event is a stretch of text between two cuts.
type event struct {
	textRange
	match bool
}

// A unigramNode is the best way to reach one byte position.
type unigramNode struct {
	score float64
	id    int32
	start int32 // where the last token begins, or missing when not reached
}
