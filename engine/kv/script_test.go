package kv

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/internal/scripttest"
)

// TestScripts runs the scripts in testdata; the law is checked after every
// line. Each letter of a text is a token. The commands are
//
//	config blocks=N size=N [host=N] [disk=N] [watermark=N] [events=N] [lru]
//	budget tenant=NAME|class=NAME blocks=N
//	at SECONDS
//	admit NAME TEXT [room=N] [tenant=NAME] [class=NAME] [salt=NAME] [retain=SECONDS]
//	compute NAME [TEXT]     append the text, grow, and seal every full block
//	grow NAME N | trim NAME BLOCKS | fork NAME CHILD | release NAME
//	snapshot | since N
func TestScripts(t *testing.T) {
	scripttest.Run(t, func(run *scripttest.Script) func(scripttest.Words) { return newScript(run).execute })
}

func newScript(run *scripttest.Script) *script {
	return &script{Script: run, seqs: map[string]*scriptSeq{}}
}

func (s *script) execute(words scripttest.Words) {
	s.command(words)
	s.after()
}

type script struct {
	*scripttest.Script
	c    *Cache
	now  time.Time
	seqs map[string]*scriptSeq
	seen uint64 // events
}

type scriptSeq struct {
	text  string
	salt  parley.Salt
	table Table
}

func (s *script) command(words scripttest.Words) {
	switch words[0] {
	case "config":
		s.configure(words)
	case "budget":
		if tenant := words.Value("tenant"); tenant != "" {
			s.c.setBudget(&s.c.accounts.tenants, tenant, words.Number("blocks"))
		} else {
			s.c.SetClassBudget(words.Value("class"), words.Number("blocks"))
		}
	case "at":
		var seconds float64
		fmt.Sscan(words[1], &seconds)
		s.now = time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
	case "admit":
		s.admit(words)
	case "snapshot":
		seq, blocks := s.c.Snapshot()
		s.Say("as of %d", seq)
		for e := range blocks {
			s.event(e)
		}
	case "since":
		var seq uint64
		fmt.Sscan(words[1], &seq)
		events, ok := s.c.EventsSince(seq)
		if !ok {
			s.Say("no longer kept")
			return
		}
		for e := range events {
			s.event(e)
		}
	default:
		s.onSeq(words)
	}
}

func (s *script) configure(words scripttest.Words) {
	cfg := Config{
		Blocks: words.Number("blocks"), BlockTokens: words.Number("size"), HostBlocks: words.Number("host"),
		DiskBlocks: words.Number("disk"), WatermarkBlocks: words.Number("watermark"), Events: words.Number("events"),
	}
	if words.Has("lru") {
		cfg.Policy = LRU
	}
	var err error
	if s.c, err = NewCache(cfg); err != nil {
		s.Fatal(err)
	}
}

// hashes names the full blocks of a sequence.
func (q *scriptSeq) hashes(size int) (out []parley.BlockHash) {
	var parent parley.BlockHash
	for tokens := tokensOf(q.text); len(tokens) >= size; tokens = tokens[size:] {
		parent = parley.HashBlock(parent, q.salt, tokens[:size])
		out = append(out, parent)
	}
	return out
}

func tokensOf(text string) (tokens []parley.Token) {
	for _, r := range text {
		tokens = append(tokens, parley.Token(r))
	}
	return tokens
}

func (s *script) admit(words scripttest.Words) {
	q := &scriptSeq{text: words[2]}
	copy(q.salt[:], words.Value("salt"))
	claim := &Claim{
		Prompt: tokensOf(q.text), Hashes: q.hashes(s.c.cfg.BlockTokens), Tenant: words.Value("tenant"),
		Class:  words.Value("class"),
		Retain: time.Duration(words.Number("retain")) * time.Second,
	}
	room := max(words.Number("room"), len(claim.Prompt))
	a, ok := s.c.Admit(&q.table, claim, room, s.now)
	if !ok {
		s.Say("no room: %d blocks could be had", s.c.Available())
		return
	}
	s.seqs[words[1]] = q
	s.Say("%d of %d tokens known, block %d missed: %s; blocks %v", a.HitTokens, len(claim.Prompt), a.MissBlock, a.Miss,
		q.table.Blocks)
}

func (s *script) onSeq(words scripttest.Words) {
	q := s.seqs[words[1]]
	if q == nil {
		s.Fatalf("%q: no sequence of that name", words)
	}
	var n int
	if len(words) > 2 {
		fmt.Sscan(words[2], &n)
	}
	switch words[0] {
	case "compute":
		if len(words) > 2 {
			q.text += words[2]
		}
		s.compute(q)
	case "grow":
		s.Say("%t; blocks %v", s.c.Grow(&q.table, n, s.now), q.table.Blocks)
	case "trim":
		s.Say("%d freed; blocks %v, %d sealed", s.c.Trim(&q.table, n), q.table.Blocks, q.table.Sealed())
	case "fork":
		child := &scriptSeq{text: q.text, salt: q.salt}
		if !s.c.Fork(&q.table, &child.table, len(q.text), s.now) {
			s.Say("no room")
			return
		}
		s.seqs[words[2]] = child
		s.Say("blocks %v", child.table.Blocks)
	case "release":
		s.c.Release(&q.table, s.now)
		delete(s.seqs, words[1])
	default:
		s.Fatalf("unknown command %q", words)
	}
}

func (s *script) compute(q *scriptSeq) {
	if !s.c.Grow(&q.table, len(q.text), s.now) {
		s.Say("no room: %d blocks could be had", s.c.Available())
		return
	}
	size := s.c.cfg.BlockTokens
	tokens, hashes := tokensOf(q.text), q.hashes(size)
	for i := q.table.Sealed(); i < len(hashes); i++ {
		if err := s.c.Seal(&q.table, hashes[i], tokens[i*size:][:size]); err != nil {
			s.Error(err)
		}
		if q.table.Sealed() == i {
			break
		}
	}
	s.Say("blocks %v, %d sealed", q.table.Blocks, q.table.Sealed())
}

// after tells what follows from a command, and checks the law.
func (s *script) after() {
	for _, m := range s.c.Moves() {
		s.Say("copy %s %d to %s %d", m.From, m.FromSlot, m.To, m.ToSlot)
	}
	events, ok := s.c.EventsSince(s.seen)
	for s.seen = s.c.Seq(); ok && events != nil; events = nil {
		for e := range events {
			s.event(e)
		}
	}
	u := s.c.Use(Device)
	var use strings.Builder
	use.WriteString(fmt.Sprintf("free %d, cached %d, in use %d", u.Free, u.Cached, u.InUse))
	if u.Retained > 0 {
		use.WriteString(fmt.Sprintf(", retained %d", u.Retained))
	}
	for t := Host; t < tiers; t++ {
		if u := s.c.Use(t); u.Total > 0 {
			use.WriteString(fmt.Sprintf("; %s free %d, cached %d", t, u.Free, u.Cached))
		}
	}
	s.Say("%s", use.String())
	if err := s.c.Check(); err != nil {
		s.Error(err)
	}
}

func (s *script) event(e Event) {
	text := make([]rune, len(e.Tokens))
	for i, t := range e.Tokens {
		text[i] = rune(t)
	}
	kind := [...]string{"stored", "removed", "cleared"}[e.Kind]
	s.Say("%d %s %s %.6s after %.6s %s", e.Seq, kind, e.Tier, e.Hash, e.Parent, string(text))
}
