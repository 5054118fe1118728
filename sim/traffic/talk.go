package traffic

// A Talk is what one user wants: requests one after the other, each sent when the
// answer before it was read. It is one request, unless the workload is of conversations.
type Talk struct {
	stream requestStream
	next   func() Request
	begun  bool
}

// talkBits is how many numbers a talk may give to what is new in it.
const talkBits = 11 // two for each of up to turnsMax turns

// Talk returns talk number n of the workload. Talks share system prompts and users,
// but no question is asked in two of them. The workload must be valid.
func (w *Workload) Talk(n uint64) *Talk {
	t := &Talk{stream: requestStream{
		Workload: w,
		rng:      newRand(w.Seed, streamTalk+n),
		fresh:    n << talkBits,
		stride:   1,
	}}
	switch w.Kind {
	case SharedPrefix:
		t.next = t.stream.sharedPrefix
	case Conversation:
		t.stream.talks = make([]talk, 1)
		t.next = t.stream.nextTurn
	default:
		t.next = t.stream.independent
	}
	return t
}

// More reports whether there is another request.
func (t *Talk) More() bool {
	if !t.begun {
		return true
	}
	return t.stream.Kind == Conversation && t.stream.talks[0].turn < t.stream.talks[0].turns
}

// Next returns the next request; there must be one.
func (t *Talk) Next() Request {
	t.begun = true
	return t.next()
}
