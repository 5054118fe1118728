package route

import (
	"container/list"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"parley"
)

// A WatchConfig bounds what a [Watch] remembers. The zero value works.
type WatchConfig struct {
	// Families is how many families of prompts are watched, the ones seen last;
	// 0 means 1,024. A tenant has at most an eighth of them, or eight: its clients
	// name their applications as they like.
	Families int
	// PrefixTokens is how much of each is remembered, at 4 bytes a token; 0
	// means 2,048. What changes behind that is not found.
	PrefixTokens int
	// BlockTokens is the number of tokens in a block; 0 means 16.
	BlockTokens int
}

// A Watch detects when prompts that used to hit the cache no longer do,
// because something near their beginning changes from one to the next: a time,
// a session, a list in random order. Everything behind it is then computed
// again each time, and one line of a client's code can double the bill.
//
// It follows the hit rate of each family of prompts, and the tokens that its
// prompts begin with. When the rate collapses and stays down, it looks for the
// first block in which the latest prompts leave the common beginning.
type Watch struct {
	cfg WatchConfig
	// families are those of each key, told apart by the wording of their system prompts, the latest last.
	families map[familyKey][]*list.Element // of *family
	recent   *list.List                    // latest first
}

type familyKey struct{ tenant, family string }

// NewWatch returns a watch that has seen nothing.
func NewWatch(cfg WatchConfig) *Watch {
	orDefault(&cfg.Families, 1024)
	orDefault(&cfg.PrefixTokens, 2048)
	orDefault(&cfg.BlockTokens, 16)
	return &Watch{cfg: cfg, families: map[familyKey][]*list.Element{}, recent: list.New()}
}

// A ServedPrompt is one prompt that was served.
type ServedPrompt struct {
	// Tenant and Family say whose prompts should begin alike: those of one
	// application, or with one cache key, or just all of a tenant's.
	Tenant, Family string
	// System is the text of its system prompt, by whose wording the applications of a family are told apart;
	// may be empty.
	System string
	Tokens []parley.Token
	// CachedTokens of them were found.
	CachedTokens int
}

// A Finding says what broke the beginning of a family's prompts.
type Finding struct {
	Tenant, Family string
	// System is how the first system prompt of the application begins, at most 64 bytes; empty without.
	System string
	// HitsBefore and HitsNow are parts of the prompts that were found.
	HitsBefore, HitsNow float64
	// Block is the first that changes, counted from 0. The change lies between
	// tokens From and To of the prompt; To is 0 if prompts do not agree again
	// behind it, at least not at the same place.
	Block, From, To int
	// Was and Now are examples of what stands there, at most 16 tokens.
	Was, Now []parley.Token
	// StableTokens is how far prompts agreed before.
	StableTokens int
}

// String returns the finding in one line.
func (f *Finding) String() string {
	where := fmt.Sprintf("from token %d on", f.From)
	if f.To > 0 {
		where = fmt.Sprintf("between tokens %d and %d", f.From, f.To)
	}
	of := f.Tenant + "/" + f.Family
	if f.System != "" {
		of += fmt.Sprintf(" that begin with %q", f.System)
	}
	return fmt.Sprintf(
		"prompts of %s: hits fell from %.0f%% to %.0f%%, because block %d changes from one to the next, %s; "+
			"they agreed for %d tokens before",
		of, 100*f.HitsBefore, 100*f.HitsNow, f.Block, where, f.StableTokens)
}

// A family is what is known of prompts that should begin alike.
type family struct {
	key    familyKey
	words  wordSketch // of the first system prompt
	system string     // how that begins
	// usual is how they begin, and agree[n] how many lately agreed with it for
	// just n blocks, as a part of all.
	usual []parley.Token
	agree []float64
	// stable is how many blocks most of them agreed for while hits were good.
	stable int
	seen   int // since usual was chosen
	// normal and lately are the hit rate over many and over few prompts.
	normal, lately float64
	breaks         [breaksKept]divergence // of the latest prompts
	told           bool                   // the present collapse
	since          int                    // prompts since it was told
}

// A divergence is where a prompt leaves the usual beginning.
type divergence struct {
	from, to int // tokens; to is 0 if it does not come back
	now      [16]parley.Token
	n        int
}

const (
	breaksKept  = 8
	seenMin     = 32  // prompts before anything is said
	normalMin   = 0.2 // hit rates below it cannot collapse
	collapse    = 0.5 // of the normal rate
	recovery    = 0.8 // of the normal rate
	relearn     = 256 // prompts after a collapse until the new ways are usual
	rethink     = 64  // prompts until the usual one may be replaced
	resyncMin   = 8   // equal tokens that show that prompts agree again
	latelyShare = 1. / 8
	agreeShare  = 1. / 16
	normalShare = 1. / 64
)

// See takes one prompt, and returns a finding when it makes clear that
// something broke. It is returned once for each collapse.
func (w *Watch) See(s ServedPrompt) *Finding {
	if len(s.Tokens) < w.cfg.BlockTokens {
		return nil
	}
	f := w.family(&s)
	now := f.compare(s.Tokens, w.cfg.BlockTokens)
	f.breaks[f.seen%breaksKept] = now
	f.seen++
	f.count(float64(min(s.CachedTokens, len(s.Tokens)))/float64(len(s.Tokens)), now.from/w.cfg.BlockTokens)
	switch {
	case f.told && f.lately >= recovery*f.normal:
		f.told, f.since = false, 0
	case f.told:
		if f.since++; f.since >= relearn {
			f.begin(w.beginning(s.Tokens), w.cfg.BlockTokens)
		}
	case f.seen%8 == 0 && f.seen <= seenMin && f.depth() == 0:
		f.begin(w.beginning(s.Tokens), w.cfg.BlockTokens) // the one chosen was odd
	case f.seen%rethink == 0 && f.stale(s.CachedTokens, w.cfg.BlockTokens):
		f.choose(w.beginning(s.Tokens), w.cfg.BlockTokens)
	case f.seen > seenMin && f.normal >= normalMin && f.lately < collapse*f.normal:
		return f.explain(w.cfg.BlockTokens)
	}
	return nil
}

// family returns what is known of the prompts of an application, making room if it is new.
func (w *Watch) family(s *ServedPrompt) *family {
	key, words := familyKey{s.Tenant, s.Family}, sketchOf(s.System)
	alike, most := (*list.Element)(nil), -1.0
	for _, e := range w.families[key] {
		if share := words.alike(&e.Value.(*family).words); share > most {
			alike, most = e, share
		}
	}
	if most >= sameWording {
		w.recent.MoveToFront(alike)
		w.families[key] = append(without(w.families[key], alike), alike)
		return alike.Value.(*family)
	}
	w.makeRoom(key)
	f := &family{key: key, words: words, system: beginningOf(s.System)}
	f.begin(w.beginning(s.Tokens), w.cfg.BlockTokens)
	w.families[key] = append(w.families[key], w.recent.PushFront(f))
	return f
}

// makeRoom forgets the family seen longest ago: of those with the key or of the tenant, if there are as many of them as
// there may be; of all, if the watch is full.
func (w *Watch) makeRoom(key familyKey) {
	if alike := w.families[key]; len(alike) == wordingsMax {
		w.forget(alike[0])
		return
	}
	own, oldest := 0, (*list.Element)(nil)
	for e := w.recent.Front(); e != nil; e = e.Next() {
		if e.Value.(*family).key.tenant == key.tenant {
			own, oldest = own+1, e
		}
	}
	switch {
	case own >= max(wordingsMax, w.cfg.Families/8):
		w.forget(oldest)
	case w.recent.Len() >= w.cfg.Families:
		w.forget(w.recent.Back())
	}
}

func (w *Watch) forget(e *list.Element) {
	key := e.Value.(*family).key
	if left := without(w.families[key], e); len(left) > 0 {
		w.families[key] = left
	} else {
		delete(w.families, key)
	}
	w.recent.Remove(e)
}

func without(all []*list.Element, e *list.Element) []*list.Element {
	return slices.DeleteFunc(all, func(other *list.Element) bool { return other == e })
}

// beginning returns a copy of the tokens to remember.
func (w *Watch) beginning(tokens []parley.Token) []parley.Token {
	n := min(len(tokens), w.cfg.PrefixTokens)
	return append([]parley.Token(nil), tokens[:n-n%w.cfg.BlockTokens]...)
}

// begin forgets everything and makes a prompt the usual one.
func (f *family) begin(tokens []parley.Token, blockTokens int) {
	*f = family{key: f.key, words: f.words, system: f.system}
	f.choose(tokens, blockTokens)
}

// choose makes a prompt the usual one.
func (f *family) choose(tokens []parley.Token, blockTokens int) {
	f.usual, f.agree = tokens, make([]float64, len(tokens)/blockTokens+1)
}

// stale reports whether prompts are found although they do not agree with the
// usual one: they have come to agree on another.
func (f *family) stale(cachedTokens, blockTokens int) bool {
	return f.lately >= recovery*f.normal && f.depth()*blockTokens < min(cachedTokens, len(f.usual))/2
}

// compare finds where a prompt leaves the usual beginning and comes back.
func (f *family) compare(tokens []parley.Token, blockTokens int) (c divergence) {
	n := min(len(f.usual), len(tokens)/blockTokens*blockTokens)
	for c.from < n && tokens[c.from] == f.usual[c.from] {
		c.from++
	}
	if c.from == n {
		return c
	}
	c.n = copy(c.now[:], tokens[c.from:])
	equal := 0
	for at := c.from; at < n && equal < resyncMin; at++ {
		if equal++; tokens[at] != f.usual[at] {
			equal, c.to = 0, at+1
		}
	}
	if equal < resyncMin {
		c.to = 0
	}
	return c
}

// count takes the hit rate of a prompt, and for how many blocks it agrees.
func (f *family) count(hits float64, blocks int) {
	if f.seen == 1 {
		f.normal, f.lately = hits, hits
	}
	f.lately += float64(latelyShare * (hits - f.lately))
	if rate := max(normalShare, 1/float64(f.seen)); f.lately >= recovery*f.normal {
		f.normal += float64(rate * (hits - f.normal))
	} else if !f.told {
		f.normal += float64(rate / 8 * (hits - f.normal))
	}
	for i := range f.agree {
		f.agree[i] *= 1 - agreeShare
	}
	f.agree[min(blocks, len(f.agree)-1)] += agreeShare
	if f.lately >= recovery*f.normal {
		f.stable = f.depth()
	}
}

// depth returns for how many blocks at least half of the latest prompts agree.
func (f *family) depth() int {
	all, sum := 0.0, 0.0
	for _, part := range f.agree {
		all += part
	}
	for n := len(f.agree) - 1; n > 0; n-- {
		if sum += f.agree[n]; sum >= all/2 {
			return n
		}
	}
	return 0
}

// explain looks for the block where most of the latest prompts leave the usual
// beginning, within what used to be stable.
func (f *family) explain(blockTokens int) *Finding {
	best, most := 0, 0
	for _, c := range f.breaks {
		n := 0
		for _, other := range f.breaks {
			if other.from/blockTokens == c.from/blockTokens {
				n++
			}
		}
		if block := c.from / blockTokens; n > most && block < f.stable {
			best, most = block, n
		}
	}
	if 2*most <= breaksKept {
		return nil
	}
	f.told = true
	out := &Finding{
		Tenant:       f.key.tenant,
		Family:       f.key.family,
		System:       f.system,
		HitsBefore:   f.normal,
		HitsNow:      f.lately,
		Block:        best,
		StableTokens: f.stable * blockTokens,
	}
	comesBack := true
	for i := range f.breaks {
		c := &f.breaks[i]
		if c.from/blockTokens != best {
			continue
		}
		if out.Now == nil || c.from < out.From {
			out.From = c.from
			out.Now = append([]parley.Token(nil), c.now[:c.n]...)
		}
		comesBack = comesBack && c.to > 0
		out.To = max(out.To, c.to)
	}
	if !comesBack {
		out.To = 0
	}
	end := min(len(f.usual), out.From+16)
	if out.To > 0 {
		end = min(end, out.To)
		out.Now = out.Now[:min(len(out.Now), out.To-out.From)]
	}
	out.Was = append([]parley.Token(nil), f.usual[out.From:end]...)
	return out
}

const (
	// sameWording is the share of words that two system prompts of one application have in common at least: a time or a
	// name in them changes few.
	sameWording = 0.4
	// wordingsMax bounds the applications with one key: those seen last are watched.
	wordingsMax = 8
	// wordingBytes of a system prompt are looked at.
	wordingBytes = 1024
	shownBytes   = 64
)

// A wordSketch has the least hash of the words in each of sixteen classes, 0 if there is none: the share of classes
// in which two sketches agree estimates which share of their words two texts have in common (MinHash with one
// permutation).
type wordSketch [16]uint64

func sketchOf(text string) (s wordSketch) {
	for word := range strings.FieldsSeq(text[:min(len(text), wordingBytes)]) {
		h := hashOf(word) | 1<<63
		if at := &s[h%16]; *at == 0 || h < *at {
			*at = h
		}
	}
	return s
}

// hashOf is the hash FNV-1a with its bits mixed, the same on every machine.
func hashOf(word string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(word) {
		h = (h ^ uint64(word[i])) * 1099511628211
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	return h ^ h>>33
}

// alike estimates which share of their words two texts have in common: 1 for two without words.
func (s *wordSketch) alike(other *wordSketch) float64 {
	same, all := 0, 0
	for i := range s {
		if s[i]|other[i] != 0 {
			all++
		}
		if s[i] == other[i] && s[i] != 0 {
			same++
		}
	}
	if all == 0 {
		return 1
	}
	return float64(same) / float64(all)
}

// beginningOf returns the first characters of a text.
func beginningOf(text string) string {
	n := min(len(text), shownBytes)
	for n > 0 && n < len(text) && !utf8.RuneStart(text[n]) {
		n--
	}
	return strings.Clone(text[:n])
}
