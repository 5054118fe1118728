package kvindex

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"testing"
	"time"

	"parley"
	"parley/internal/scripttest"
)

// TestScripts runs the scripts in testdata; the index is checked after every
// line. Each letter of a text is a token, and two letters are a block. The
// commands are
//
//	join NAME [events] [replay] [snapshot] [engine] [capacity=N]
//	leave NAME | restarted NAME | reconnected NAME | replayed NAME
//	at SECONDS
//	batch NAME SEQ EVENT...
//	restore NAME SEQ EVENT...
//	expect NAME TEXT [salt=NAME]
//	look TEXT [salt=NAME]
//
// An event is +TEXT (stored; before/after a slash: the blocks before it are
// only the parents), -TEXT (its last block removed), each maybe followed by
// @host or @disk or ~SALT, or clear. A worker with "engine" has its own names.
func TestScripts(t *testing.T) {
	scripttest.Run(t, func(run *scripttest.Script) func(scripttest.Words) {
		x, err := New(Config{BlockTokens: 2, PendingBlocks: 8})
		if err != nil {
			run.Fatal(err)
		}
		s := &script{Script: run, x: x, now: time.Unix(0, 0), workers: map[string]Worker{}, engine: map[string]bool{}}
		return func(words scripttest.Words) {
			s.command(words)
			if err := check(s.x); err != nil {
				s.Error(words, err)
			}
		}
	})
}

type script struct {
	*scripttest.Script
	x       *Index
	now     time.Time
	workers map[string]Worker
	engine  map[string]bool
	names   []string // of workers, in order
}

func (s *script) command(words scripttest.Words) {
	salt := saltOf(words.Value("salt"))
	switch words[0] {
	case "at":
		var seconds float64
		fmt.Sscan(words[1], &seconds)
		s.now = time.Unix(0, 0).Add(time.Duration(seconds * float64(time.Second)))
		s.x.Expire(s.now)
	case "join":
		s.join(words)
	case "look":
		s.look(words[1], salt)
	default:
		name := words[1]
		w, ok := s.workers[name]
		if !ok {
			s.Fatalf("%q: no such worker", words)
		}
		s.onWorker(words, name, w, salt)
	}
}

func (s *script) join(words scripttest.Words) {
	source := Source{
		Events: words.Has("events"), Replay: words.Has("replay"),
		Snapshot: words.Has("snapshot"), CapacityBlocks: words.Number("capacity"),
	}
	w, err := s.x.Join(source)
	if err != nil {
		s.Fatal(err)
	}
	s.workers[words[1]], s.engine[words[1]] = w, words.Has("engine")
	s.names = append(s.names, words[1])
}

func (s *script) look(text string, salt parley.Salt) {
	var m Matches
	names := blocksOf(text, salt)
	s.x.Lookup(names, &m)
	for _, name := range s.names {
		match := m.Of(s.workers[name])
		s.Say("%s holds %d of %d (%s): %d host, %d disk, %d expected", name, match.Blocks, len(names),
			s.x.State(s.workers[name]),
			match.Host, match.Disk, match.Expected)
	}
}

func (s *script) onWorker(words scripttest.Words, name string, w Worker, salt parley.Salt) {
	var seq uint64
	if len(words) > 2 {
		fmt.Sscan(words[2], &seq)
	}
	var ask Ask
	switch words[0] {
	case "batch":
		ask = s.x.Apply(w, Batch{Seq: seq, Events: s.events(name, words[3:])})
	case "restore":
		ask = s.x.Restore(w, seq, slices.Values(s.events(name, words[3:])))
	case "replayed":
		ask = s.x.ReplayEnded(w)
	case "restarted":
		s.x.Restarted(w)
	case "reconnected":
		s.x.Reconnected(w)
	case "expect":
		s.x.Expect(w, blocksOf(words[2], salt), s.now)
	case "leave":
		s.x.Leave(w)
		s.names = slices.DeleteFunc(s.names, func(n string) bool { return n == name })
		s.Say("%d blocks", s.x.Blocks())
		return
	default:
		s.Fatalf("unknown command %q", words)
	}
	stats := s.x.Stats(w)
	s.Say("%s; ask for %s; %d held, %d expected, %d not placed", stats.State, ask, stats.Held, stats.Expected,
		stats.Unplaced)
}

func (s *script) events(worker string, words []string) (events []Event) {
	for _, word := range words {
		var e Event
		text, salt, salted := strings.Cut(word, "~")
		if e.Salted = salted; salted {
			e.Salt = saltOf(salt)
		}
		text, tier, _ := strings.Cut(text, "@")
		e.Tier = map[string]CacheTier{"host": Host, "disk": Disk}[tier]
		switch text[0] {
		case 'c':
			e.Kind = Cleared
		case '-':
			e.Kind = Removed
			s.nameBlocks(&e, worker, text[1:len(text)-2], text[len(text)-2:])
		default:
			before, stored, ok := strings.Cut(text[1:], "/")
			if !ok {
				before, stored = "", text[1:]
			}
			s.nameBlocks(&e, worker, before, stored)
		}
		events = append(events, e)
	}
	return events
}

// nameBlocks gives an event the names of the blocks of text after before.
func (s *script) nameBlocks(e *Event, worker, before, text string) {
	all := before + text
	if !s.engine[worker] {
		e.Keys = blocksOf(all, e.Salt)[len(before)/2:]
		return
	}
	for end := len(before) + 2; end <= len(all); end += 2 {
		e.Engine = append(e.Engine, engineName(all[:end]))
	}
	if e.Kind == Stored {
		e.First, e.Parent, e.BlockTokens, e.Tokens = before == "", engineName(before), 2, tokensOf(text)
	}
}

func engineName(text string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(text))
	return h.Sum64()
}

func saltOf(name string) (salt parley.Salt) {
	copy(salt[:], name)
	return salt
}

func tokensOf(text string) (tokens []parley.Token) {
	for _, r := range text {
		tokens = append(tokens, parley.Token(r))
	}
	return tokens
}

func blocksOf(text string, salt parley.Salt) []parley.BlockKey {
	return parley.AppendBlockKeys(nil, 0, salt, tokensOf(text), 2)
}
