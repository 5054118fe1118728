package infer

import (
	"container/list"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"hash"
	"maps"
	"math"
	"slices"
	"time"

	"parley"
)

// A shareKey names everything that decides an answer, and who may see it. It is
// cryptographic, because a tenant who could make two keys collide would read
// another's answer.
type shareKey [sha256.Size]byte

// keyOf returns the key of a request. The caller, its class and how long the
// prompt stays in memory do not matter; nor does the seed of a request that
// makes no choice.
func keyOf(w SharePolicy, r *parley.Request, loose *parley.Grammar) shareKey {
	k := keyHash{sha256.New()}
	k.text("parley answer 1", w.Scope, r.Model)
	k.number(uint64(w.Vocabulary), uint64(len(r.Prompt)))
	var word [4]byte
	for _, t := range r.Prompt {
		binary.LittleEndian.PutUint32(word[:], uint32(t))
		k.Write(word[:])
	}
	k.number(uint64(max(r.Choices, 1)), uint64(r.MaxTokens), bit(r.Logprobs), uint64(r.TopLogprobs),
		bit(r.PromptLogprobs), bit(r.Embed), bit(r.Progress), uint64(r.SinkTokens), bit(r.FinishGrammar))
	k.sampling(w, &r.Sampling)
	k.number(uint64(len(r.Stop.Strings)), uint64(len(r.Stop.Tokens)), bit(r.Stop.IgnoreEnd))
	k.text(r.Stop.Strings...)
	for _, t := range r.Stop.Tokens {
		k.number(uint64(t))
	}
	k.grammar(r.Grammar)
	k.grammar(loose)
	k.text(r.Thinking.Effort)
	k.number(bit(r.Thinking.Wanted), uint64(r.Thinking.BudgetTokens))
	var key shareKey
	k.Sum(key[:0])
	return key
}

// A keyHash writes values so that no two lists of them look alike.
type keyHash struct{ hash.Hash }

func (k keyHash) number(numbers ...uint64) {
	var b [8]byte
	for _, n := range numbers {
		binary.LittleEndian.PutUint64(b[:], n)
		k.Write(b[:])
	}
}

func (k keyHash) text(texts ...string) {
	for _, t := range texts {
		k.number(uint64(len(t)))
		k.Write([]byte(t))
	}
}

func (k keyHash) sampling(w SharePolicy, s *parley.Sampling) {
	k.number(bit(w.Repeatable))
	if s.Temperature > 0 {
		k.floats(s.Temperature, float32(s.TopK), s.TopP, s.MinP)
		if w.Repeatable {
			k.number(s.Seed)
		}
	}
	k.floats(s.RepetitionPenalty, s.PresencePenalty, s.FrequencyPenalty)
	k.number(uint64(len(s.LogitBias)))
	for _, token := range slices.Sorted(maps.Keys(s.LogitBias)) {
		k.number(uint64(token))
		k.floats(s.LogitBias[token])
	}
}

func (k keyHash) floats(values ...float32) {
	for _, v := range values {
		k.number(uint64(math.Float32bits(v)))
	}
}

func (k keyHash) grammar(g *parley.Grammar) {
	b, err := json.Marshal(g)
	if err != nil { // its schema is not JSON: the worker will say so
		b = []byte(err.Error())
	}
	k.text(string(b))
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// compact joins the deltas of a complete answer, one for each choice, in the
// order in which the choices ended. The last carries the usage.
func compact(deltas []parley.Delta) []parley.Delta {
	open := map[int]*parley.Delta{}
	var out []parley.Delta
	var promptLogprobs []parley.Logprob
	var usage *parley.Usage
	for _, d := range deltas {
		if d.HasText() { // its place among tokens would be lost
			return deltas
		}
		if d.PromptLogprobs != nil {
			promptLogprobs = d.PromptLogprobs
		}
		if d.Usage != nil {
			usage = d.Usage
		}
		whole := open[d.Choice]
		if whole == nil {
			whole = &parley.Delta{Choice: d.Choice}
			open[d.Choice] = whole
		}
		whole.Tokens = append(whole.Tokens, d.Tokens...)
		whole.Logprobs = append(whole.Logprobs, d.Logprobs...)
		if d.Embedding != nil {
			whole.Embedding = d.Embedding
		}
		if d.Finish != "" {
			whole.Finish, whole.StopString = d.Finish, d.StopString
			out = append(out, *whole)
		}
	}
	if len(out) == 0 {
		return deltas
	}
	out[0].PromptLogprobs = promptLogprobs
	out[len(out)-1].Usage = usage
	return out
}

// An answerCache keeps complete answers, those used last for longest.
type answerCache struct {
	bytesMax, bytes int64
	ttl             time.Duration
	entries         map[shareKey]*list.Element
	recent          list.List // of *keptAnswer, used last first
}

type keptAnswer struct {
	key     shareKey
	deltas  []parley.Delta
	bytes   int64
	expires time.Time
}

// largestShare is the part of the cache that one answer may take.
const largestShare = 8

func newAnswerCache(bytesMax int64, ttl time.Duration) *answerCache {
	return &answerCache{bytesMax: max(bytesMax, 0), ttl: ttl, entries: map[shareKey]*list.Element{}}
}

// get returns an answer that is kept, or nil.
func (c *answerCache) get(key shareKey, now time.Time) []parley.Delta {
	e := c.entries[key]
	if e == nil {
		return nil
	}
	kept := e.Value.(*keptAnswer)
	if !now.Before(kept.expires) {
		c.remove(e)
		return nil
	}
	c.recent.MoveToFront(e)
	return kept.deltas
}

// put keeps an answer, and drops others where there is no room.
func (c *answerCache) put(key shareKey, deltas []parley.Delta, now time.Time) {
	size := sizeOf(deltas)
	if size > c.bytesMax/largestShare {
		return
	}
	if old := c.entries[key]; old != nil {
		c.remove(old)
	}
	for c.bytes+size > c.bytesMax {
		c.remove(c.recent.Back())
	}
	c.entries[key] = c.recent.PushFront(&keptAnswer{key, deltas, size, now.Add(c.ttl)})
	c.bytes += size
}

func (c *answerCache) remove(e *list.Element) {
	kept := c.recent.Remove(e).(*keptAnswer)
	delete(c.entries, kept.key)
	c.bytes -= kept.bytes
}

// What things take in memory, in bytes. keptOverhead is what an answer takes
// beside its deltas: its key twice, the list's and the map's cells.
const (
	keptOverhead = 256
	deltaBytes   = 224
	callBytes    = 64
	tokenBytes   = 4
	logprobBytes = 32
	topBytes     = 8
)

// sizeOf returns about how many bytes deltas take.
func sizeOf(deltas []parley.Delta) (bytes int64) {
	bytes = keptOverhead
	for i := range deltas {
		d := &deltas[i]
		bytes += deltaBytes + int64(tokenBytes*cap(d.Tokens)+4*len(d.Embedding)+len(d.StopString)+len(d.Text)+
			len(d.Thoughts)+callBytes*len(d.Calls))
		for _, c := range d.Calls {
			bytes += int64(len(c.ID) + len(c.Name) + len(c.Arguments))
		}
		for _, list := range [][]parley.Logprob{d.Logprobs, d.PromptLogprobs} {
			bytes += int64(logprobBytes * cap(list))
			for _, l := range list {
				bytes += int64(topBytes * cap(l.Top))
			}
		}
	}
	return bytes
}
