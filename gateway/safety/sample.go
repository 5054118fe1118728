package safety

// A Sample is a text as the classifier sees it, for training.
type Sample struct {
	// Words holds the buckets of each word, Context those of how the text meets
	// the system prompt before it.
	Words   [][]uint32
	Context []uint32
	// Said are the phrases in it.
	Said []Utterance
	// Sentences are where sentences begin, counted in words.
	Sentences []int
}

// Extract returns the features of text after a system prompt.
func Extract(text, system string) *Sample {
	var p page
	p.readAll(text)
	s := &Sample{Context: p.oddities(newGuard(system).context(nil, &p)), Said: p.said(nil)}
	for i := range p.words {
		s.Words = append(s.Words, p.features(nil, i, 0))
		if i == 0 || p.words[i].mark&first != 0 {
			s.Sentences = append(s.Sentences, i)
		}
	}
	return s
}

// Around appends the buckets of what surrounds the words of a span: the context of
// the text and the phrases of the span.
func (s *Sample) Around(to []uint32, span [2]int) []uint32 {
	return saidIn(append(to, s.Context...), s.Said, span)
}

// A TagSample is a text as the tagger sees it, for training.
type TagSample struct {
	// Features holds the buckets of each token, Starts and Ends its bytes.
	Features     [][]uint32
	Starts, Ends []int
	// Ruled tokens were found by a rule; the tagger leaves them alone.
	Ruled []bool
}

// ExtractTags returns the features of text for the tagger.
func ExtractTags(text string) *TagSample {
	found := forms(nil, text)
	tokens := tokensOf(nil, text)
	ruled(tokens, found)
	s := &TagSample{}
	for i := range tokens {
		s.Features = append(s.Features, tagFeatures(nil, tokens, i))
		s.Starts, s.Ends = append(s.Starts, int(tokens[i].start)), append(s.Ends, int(tokens[i].end))
		s.Ruled = append(s.Ruled, tokens[i].rule != 0)
	}
	return s
}

// TagKinds lists what the tagger finds: tag 1+2k begins kind k.
func TagKinds() []string { return tagKinds }

// JoinTags returns the spans that rules find in text and that tags add.
func JoinTags(text string, tags []uint8) []Finding {
	found := forms(nil, text)
	tokens := tokensOf(nil, text)
	ruled(tokens, found)
	return joined(text, found, tokens, tags)
}

// Scores returns the highest score of every head over spans of a sample from an
// origin; 0 is where texts begin to be flagged.
func (s *Screen) Scores(sample *Sample, spans [][2]int, o Origin) [Heads]float32 {
	w := &workspace{sums: []sum{{}}, said: sample.Said}
	total := sum{}
	for _, buckets := range sample.Words {
		s.model.add(&total, buckets)
		w.sums = append(w.sums, total)
	}
	var context sum
	s.model.add(&context, sample.Context)
	z, _ := s.worst(w, spans, &context)
	inner, _ := s.worst(w, InnerSpans(sample.Sentences, len(sample.Words)), &context)
	crowd := Crowd(len(sample.Words), o)
	z[HeadInjection] = max(z[HeadInjection], inner[HeadInjection]) - crowd
	z[HeadOrder] -= crowd
	return z
}

// Names finds what personal data and which secrets are in a text.
func (s *Screen) Names(text string) []Finding { return s.spans(nil, Text{Body: text, Names: true}) }

// Forms finds what rules alone find in a text.
func Forms(text string) []Finding { return forms(nil, text) }
