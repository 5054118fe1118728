package kvevents

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"slices"
	"time"

	"parley"
	"parley/route/kvindex"
)

// A BlockEvent says that a block came to or went from one tier of a worker.
type BlockEvent struct {
	Kind kvindex.Kind
	Tier kvindex.CacheTier
	// Hash names the block, Parent the one before it, zero for the first.
	Hash, Parent parley.BlockHash
	// Tokens are those of a stored block, none if they are not known.
	Tokens []parley.Token
}

// media are what vLLM calls the tiers, and others what some engines call them.
var (
	media  = [...]string{kvindex.Device: "GPU", kvindex.Host: "CPU", kvindex.Disk: "STORAGE"}
	others = map[string]kvindex.CacheTier{"CPU_PINNED": kvindex.Host, "DISK": kvindex.Disk, "EXTERNAL": kvindex.Disk}
)

// nowhere is a tier that an index takes for not understood.
const nowhere kvindex.CacheTier = math.MaxUint8

// appendBatch appends a batch in vLLM's form, with events as maps. Names of
// blocks are the 32 bytes of ours; vLLM may send 32 bytes, too.
func appendBatch(b []byte, now time.Time, model string, events []BlockEvent, blockTokens int) []byte {
	b = appendArray(b, 3)
	b = appendFloat(b, float64(now.UnixMicro())/1e6)
	b = appendEvents(b, model, events, blockTokens)
	return appendUint(b, 0)
}

// appendEvents appends events, those of a chain of stored blocks as one. They say
// whose blocks they are in a field that vLLM does not have, and its readers pass
// over.
func appendEvents(b []byte, model string, events []BlockEvent, blockTokens int) []byte {
	b = appendArray(b, chains(events))
	for len(events) > 0 {
		n := chain(events)
		b = appendEvent(b, model, events[:n], blockTokens)
		events = events[n:]
	}
	return b
}

func chains(events []BlockEvent) (n int) {
	for ; len(events) > 0; n++ {
		events = events[chain(events):]
	}
	return n
}

// chain returns how many of the first events can be told as one.
func chain(events []BlockEvent) int {
	first := &events[0]
	for n := 1; n < len(events); n++ {
		e := &events[n]
		if e.Kind != first.Kind || e.Tier != first.Tier || e.Kind == kvindex.Cleared ||
			e.Kind == kvindex.Stored && (e.Parent != events[n-1].Hash ||
				(len(e.Tokens) == 0) != (len(first.Tokens) == 0)) {
			return n
		}
	}
	return len(events)
}

func appendEvent(b []byte, model string, events []BlockEvent, blockTokens int) []byte {
	first := &events[0]
	switch first.Kind {
	case kvindex.Cleared:
		return appendString(appendString(appendMap(b, 1), "type"), "AllBlocksCleared")
	case kvindex.Removed:
		b = appendString(appendString(appendMap(b, 4), "type"), "BlockRemoved")
		b = appendString(appendString(b, "model"), model)
		b = appendHashes(b, events)
		return appendString(appendString(b, "medium"), media[first.Tier])
	}
	b = appendString(appendString(appendMap(b, 9), "type"), "BlockStored")
	b = appendString(appendString(b, "model"), model)
	b = appendHashes(b, events)
	b = appendString(b, "parent_block_hash")
	if first.Parent == (parley.BlockHash{}) {
		b = appendNil(b)
	} else {
		b = appendBytes(b, first.Parent[:])
	}
	b = appendArray(appendString(b, "token_ids"), len(events)*len(first.Tokens))
	for i := range events {
		for _, t := range events[i].Tokens {
			b = appendUint(b, uint64(t))
		}
	}
	b = appendUint(appendString(b, "block_size"), uint64(blockTokens))
	b = appendNil(appendString(b, "lora_id"))
	b = appendString(appendString(b, "medium"), media[first.Tier])
	return appendNil(appendString(b, "lora_name"))
}

func appendHashes(b []byte, events []BlockEvent) []byte {
	b = appendArray(appendString(b, "block_hashes"), len(events))
	for i := range events {
		b = appendBytes(b, events[i].Hash[:])
	}
	return b
}

// A BatchReader understands batches of one engine.
type BatchReader struct {
	// group is the one whose blocks count, of a model with several: the one with
	// full attention.
	group uint64
}

// Read returns the events of a batch. What is in a form that is not known is
// left out; what is known to be something else than plain text is nowhere.
func (r *BatchReader) Read(payload []byte) ([]kvindex.Event, error) {
	u := &unpacker{rest: payload}
	n, err := u.array()
	if err != nil {
		return nil, err
	}
	if n < 2 {
		return nil, errShape
	}
	if err := u.skip(); err != nil { // the time
		return nil, err
	}
	return r.events(u)
}

// events reads a list of events.
func (r *BatchReader) events(u *unpacker) (out []kvindex.Event, err error) {
	n, err := u.array()
	if err != nil {
		return nil, err
	}
	for range n {
		f, err := readFields(u)
		if err != nil {
			return nil, err
		}
		if e, ok := r.event(f); ok {
			out = appendJoined(out, e)
		}
	}
	return out, nil
}

// appendJoined appends an event. Some engines evict each block by an event of its
// own; an index takes many at once with less effort.
func appendJoined(out []kvindex.Event, e kvindex.Event) []kvindex.Event {
	if n := len(out); n > 0 && e.Kind == kvindex.Removed && out[n-1].Kind == e.Kind && out[n-1].Tier == e.Tier &&
		out[n-1].Model == e.Model {
		last := &out[n-1]
		last.Keys, last.Engine = append(last.Keys, e.Keys...), append(last.Engine, e.Engine...)
		return out
	}
	return append(out, e)
}

// fields are those of an event in either form.
type fields struct {
	kind   string
	hashes []value
	parent value
	tokens []parley.Token
	size   uint64
	medium string
	model  string   // ours says it; vLLM says which adapter
	keys   bool     // blocks depend on something else than model, tokens and salt
	texts  []string // that vLLM mixes into names: an adapter's and a salt
	salt   string
	group  value
	spec   string
	remote bool
}

// storedPlaces and removedPlaces are the names of an array's elements after its
// tag.
var (
	storedPlaces = []string{"block_hashes", "parent_block_hash", "token_ids", "block_size", "lora_id", "medium",
		"lora_name", "extra_keys", "group_idx", "kv_cache_spec_kind", "kv_cache_spec_sliding_window", "locality"}
	removedPlaces = []string{"block_hashes", "medium", "group_idx", "locality"}
)

// readFields reads an event, as a map or as an array.
func readFields(u *unpacker) (*fields, error) {
	f := &fields{}
	v, err := u.next()
	if err != nil {
		return nil, err
	}
	switch v.sort {
	case sortMap:
		for range v.n {
			name, err := u.next()
			if err == nil && name.sort != sortText {
				err = errShape
			}
			if err == nil {
				err = f.read(u, string(name.data))
			}
			if err != nil {
				return nil, err
			}
		}
		return f, nil
	case sortArray:
		return f, f.readArray(u, v.n)
	}
	return f, u.skipRest(v, 0)
}

func (f *fields) readArray(u *unpacker, n int) error {
	if n == 0 {
		return nil
	}
	if err := f.read(u, "type"); err != nil {
		return err
	}
	places := storedPlaces
	if f.kind == "BlockRemoved" {
		places = removedPlaces
	}
	for i := range n - 1 {
		name := ""
		if i < len(places) {
			name = places[i]
		}
		if err := f.read(u, name); err != nil {
			return err
		}
	}
	return nil
}

// read reads the field of a name, and passes over those it does not know.
func (f *fields) read(u *unpacker, name string) error {
	v, err := u.next()
	if err != nil {
		return err
	}
	switch name {
	case "type":
		f.kind = string(v.data)
	case "block_hashes":
		return f.readHashes(u, v)
	case "parent_block_hash":
		f.parent = v
	case "token_ids":
		return f.readTokens(u, v)
	case "block_size":
		f.size = v.number
	case "medium":
		f.medium = string(v.data)
	case "lora_name":
		if v.sort == sortMap { // SGLang has a map of other things here
			return f.readMetadata(u, v)
		}
		if v.sort == sortText && len(v.data) > 0 {
			f.model = string(v.data)
		}
	case "model":
		if v.sort == sortText {
			f.model = string(v.data)
		}
	case "extra_keys":
		return f.readKeys(u, v)
	case "group_idx":
		f.group = v
	case "kv_cache_spec_kind":
		f.spec = string(v.data)
	case "locality":
		f.remote = string(v.data) == "REMOTE"
	}
	return u.skipRest(v, 0)
}

func (f *fields) readHashes(u *unpacker, v value) error {
	if v.sort != sortArray {
		return u.skipRest(v, 0)
	}
	for range v.n {
		h, err := u.next()
		if err != nil {
			return err
		}
		if h.sort != sortInt && h.sort != sortBytes || h.sort == sortBytes && len(h.data) < 8 {
			return errShape
		}
		f.hashes = append(f.hashes, h)
	}
	return nil
}

// readTokens reads ids. Where they are not plain numbers, as with pairs, the
// blocks cannot be placed.
func (f *fields) readTokens(u *unpacker, v value) error {
	if v.sort != sortArray {
		return u.skipRest(v, 0)
	}
	f.tokens = make([]parley.Token, 0, v.n)
	for range v.n {
		if id, ok := u.id(); ok {
			f.tokens = append(f.tokens, parley.Token(id))
			continue
		}
		t, err := u.next()
		if err != nil {
			return err
		}
		if t.sort != sortInt || t.number > math.MaxInt32 {
			f.keys = true
			if err := u.skipRest(t, 0); err != nil {
				return err
			}
			continue
		}
		f.tokens = append(f.tokens, parley.Token(t.number))
	}
	return nil
}

// readKeys reads what vLLM mixes into each block's name beside tokens: nil, or a
// list in which an adapter's name and our salt may be. Anything else makes it
// another block.
func (f *fields) readKeys(u *unpacker, v value) error {
	if v.sort != sortArray {
		return u.skipRest(v, 0)
	}
	for range v.n {
		list, err := u.next()
		if err != nil {
			return err
		}
		if list.sort != sortArray {
			if err := u.skipRest(list, 0); err != nil {
				return err
			}
			continue
		}
		for range list.n {
			key, err := u.next()
			if err != nil {
				return err
			}
			if key.sort == sortText {
				f.addText(string(key.data))
			} else {
				f.keys = true
			}
			if err := u.skipRest(key, 0); err != nil {
				return err
			}
		}
	}
	return nil
}

// addText notes a text among the keys of a block: all blocks of an event have the
// same.
func (f *fields) addText(text string) {
	if !slices.Contains(f.texts, text) {
		f.texts = append(f.texts, text)
	}
}

// settle separates the salt from the adapter's name, which may be told after it.
func (f *fields) settle() {
	for _, text := range f.texts {
		switch {
		case text == f.model:
		case f.salt == "":
			f.salt = text
		default:
			f.keys = true
		}
	}
}

func (f *fields) readMetadata(u *unpacker, v value) error {
	for range v.n {
		name, err := u.next()
		if err != nil {
			return err
		}
		if err := u.skipRest(name, 0); err != nil {
			return err
		}
		of, err := u.next()
		if err != nil {
			return err
		}
		if string(name.data) == "cache_salt" && of.sort == sortText {
			f.salt = string(of.data)
		}
		if err := u.skipRest(of, 0); err != nil {
			return err
		}
	}
	return nil
}

// event makes of the fields what an index takes.
func (r *BatchReader) event(f *fields) (e kvindex.Event, ok bool) {
	switch f.kind {
	case "BlockStored":
		e.Kind = kvindex.Stored
	case "BlockRemoved":
		e.Kind = kvindex.Removed
	case "AllBlocksCleared":
		return kvindex.Event{Kind: kvindex.Cleared}, true
	default:
		return e, false
	}
	if f.spec == "full_attention" && f.group.sort == sortInt {
		r.group = f.group.number
	}
	if f.spec != "" && f.spec != "full_attention" || f.group.sort == sortInt && f.group.number != r.group {
		return e, false
	}
	f.settle()
	e.Tier, e.Model = r.tier(f), f.model
	for _, h := range f.hashes {
		e.Engine = append(e.Engine, engineName(h))
	}
	if e.Kind == kvindex.Stored && len(e.Engine) > 0 {
		e.Tokens, e.BlockTokens = f.tokens, int(min(f.size, math.MaxInt32))
		e.First = f.parent.sort == sortNil || f.parent.sort == sortInt && f.parent.number == 0
		e.Parent = engineName(f.parent)
		if f.salt != "" {
			salt, err := hex.DecodeString(f.salt)
			if err != nil || len(salt) != len(parley.Salt{}) {
				e.Tier = nowhere
			} else {
				e.Salt, e.Salted = parley.Salt(salt), true
			}
		}
	}
	return e, true
}

// tier says where the blocks are; nowhere if they are not what their tokens say.
func (r *BatchReader) tier(f *fields) kvindex.CacheTier {
	if f.keys || f.remote {
		return nowhere
	}
	if f.medium == "" {
		return kvindex.Device
	}
	for t, name := range media {
		if name == f.medium {
			return kvindex.CacheTier(t)
		}
	}
	if t, ok := others[f.medium]; ok {
		return t
	}
	return nowhere
}

// engineName returns an engine's name of a block in 64 bits: a number as it is,
// of bytes the last eight.
func engineName(v value) uint64 {
	if n := len(v.data); n >= 8 {
		return binary.BigEndian.Uint64(v.data[n-8:])
	}
	return v.number
}
