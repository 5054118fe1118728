package kv

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley"
)

var rewrite = flag.Bool("rewrite", false, "write the traces that the scripts give now; review the difference")

// TestScripts runs the scripts in testdata; the law is checked after every
// line. Each letter of a text is a token. The commands are
//
//	config blocks=N size=N [host=N] [disk=N] [watermark=N] [events=N] [lru]
//	budget tenant=NAME|class=NAME blocks=N
//	at SECONDS
//	admit NAME TEXT [room=N] [tenant=NAME] [class=NAME] [salt=NAME] [retain=SECONDS]
//	compute NAME [TEXT]     append the text, grow, and seal every full block
//	grow NAME N | shrink NAME N | fork NAME CHILD | release NAME
//	clear | snapshot | since N
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		got := (&script{t: t, seqs: map[string]*scriptSeq{}}).run(string(text))
		if *rewrite {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		} else if got != string(text) {
			t.Errorf("%s: the trace is now\n%s\nwant\n%s", path, got, text)
		}
	}
}

type script struct {
	t    *testing.T
	out  strings.Builder
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

// run repeats the script's commands, each followed by its trace.
func (s *script) run(text string) string {
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "|") {
			continue
		}
		fmt.Fprintln(&s.out, line)
		words := strings.Fields(line)
		if len(words) == 0 || words[0] == "#" {
			continue
		}
		s.command(words)
		s.after()
	}
	return s.out.String()
}

func (s *script) say(format string, args ...any) { fmt.Fprintf(&s.out, "| "+format+"\n", args...) }

func (s *script) command(words []string) {
	switch words[0] {
	case "config":
		s.configure(words)
	case "budget":
		if tenant := word(words, "tenant"); tenant != "" {
			s.c.SetTenantBudget(tenant, number(words, "blocks"))
		} else {
			s.c.SetClassBudget(word(words, "class"), number(words, "blocks"))
		}
	case "at":
		var seconds float64
		fmt.Sscan(words[1], &seconds)
		s.now = time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
	case "admit":
		s.admit(words)
	case "clear":
		s.c.Clear()
	case "snapshot":
		seq, blocks := s.c.Snapshot()
		s.say("as of %d", seq)
		for e := range blocks {
			s.event(e)
		}
	case "since":
		var seq uint64
		fmt.Sscan(words[1], &seq)
		events, ok := s.c.EventsSince(seq)
		if !ok {
			s.say("no longer kept")
			return
		}
		for e := range events {
			s.event(e)
		}
	default:
		s.onSeq(words)
	}
}

func (s *script) configure(words []string) {
	cfg := Config{
		Blocks: number(words, "blocks"), BlockTokens: number(words, "size"), HostBlocks: number(words, "host"),
		DiskBlocks: number(words, "disk"), WatermarkBlocks: number(words, "watermark"), Events: number(words, "events"),
	}
	if slices.Contains(words, "lru") {
		cfg.Policy = LRU
	}
	var err error
	if s.c, err = NewCache(cfg); err != nil {
		s.t.Fatal(err)
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

func (s *script) admit(words []string) {
	q := &scriptSeq{text: words[2]}
	copy(q.salt[:], word(words, "salt"))
	claim := &Claim{
		Prompt: tokensOf(q.text), Hashes: q.hashes(s.c.cfg.BlockTokens), Tenant: word(words, "tenant"),
		Class:  word(words, "class"),
		Retain: time.Duration(number(words, "retain")) * time.Second,
	}
	room := max(number(words, "room"), len(claim.Prompt))
	a, ok := s.c.Admit(&q.table, claim, room, s.now)
	if !ok {
		s.say("no room: %d blocks could be had", s.c.Available())
		return
	}
	s.seqs[words[1]] = q
	s.say("%d of %d tokens known, block %d missed: %s; blocks %v", a.HitTokens, len(claim.Prompt), a.MissBlock, a.Miss,
		q.table.Blocks)
}

func (s *script) onSeq(words []string) {
	q := s.seqs[words[1]]
	if q == nil {
		s.t.Fatalf("%q: no sequence of that name", words)
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
		s.say("%t; blocks %v", s.c.Grow(&q.table, n, s.now), q.table.Blocks)
	case "shrink":
		s.c.Shrink(&q.table, n)
		s.say("blocks %v", q.table.Blocks)
	case "fork":
		child := &scriptSeq{text: q.text, salt: q.salt}
		if !s.c.Fork(&q.table, &child.table, len(q.text), s.now) {
			s.say("no room")
			return
		}
		s.seqs[words[2]] = child
		s.say("blocks %v", child.table.Blocks)
	case "release":
		s.c.Release(&q.table, s.now)
		delete(s.seqs, words[1])
	default:
		s.t.Fatalf("unknown command %q", words)
	}
}

func (s *script) compute(q *scriptSeq) {
	if !s.c.Grow(&q.table, len(q.text), s.now) {
		s.say("no room: %d blocks could be had", s.c.Available())
		return
	}
	size := s.c.cfg.BlockTokens
	tokens, hashes := tokensOf(q.text), q.hashes(size)
	for i := q.table.Sealed(); i < len(hashes); i++ {
		if err := s.c.Seal(&q.table, hashes[i], tokens[i*size:][:size]); err != nil {
			s.t.Error(err)
		}
		if q.table.Sealed() == i {
			break
		}
	}
	s.say("blocks %v, %d sealed", q.table.Blocks, q.table.Sealed())
}

// after tells what follows from a command, and checks the law.
func (s *script) after() {
	for _, m := range s.c.Moves() {
		s.say("copy %s %d to %s %d", m.From, m.FromSlot, m.To, m.ToSlot)
	}
	events, ok := s.c.EventsSince(s.seen)
	for s.seen = s.c.Seq(); ok && events != nil; events = nil {
		for e := range events {
			s.event(e)
		}
	}
	u := s.c.Use(Device)
	fmt.Fprintf(&s.out, "| free %d, cached %d, in use %d", u.Free, u.Cached, u.InUse)
	if u.Retained > 0 {
		fmt.Fprintf(&s.out, ", retained %d", u.Retained)
	}
	for t := Host; t < tiers; t++ {
		if u := s.c.Use(t); u.Total > 0 {
			fmt.Fprintf(&s.out, "; %s free %d, cached %d", t, u.Free, u.Cached)
		}
	}
	fmt.Fprintln(&s.out)
	if err := s.c.Check(); err != nil {
		s.t.Error(err)
	}
}

func (s *script) event(e Event) {
	text := make([]rune, len(e.Tokens))
	for i, t := range e.Tokens {
		text[i] = rune(t)
	}
	kind := [...]string{"stored", "removed", "cleared"}[e.Kind]
	s.say("%d %s %s %.6s after %.6s %s", e.Seq, kind, e.Tier, e.Hash, e.Parent, string(text))
}

func word(words []string, key string) string {
	for _, w := range words {
		if v, ok := strings.CutPrefix(w, key+"="); ok {
			return v
		}
	}
	return ""
}

func number(words []string, key string) (n int) {
	fmt.Sscan(word(words, key), &n)
	return n
}
