package safety

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// An Event is something that was found and what followed. It says where, and
// not what, unless the policy asks for the text.
type Event struct {
	ID      int64     `json:"id"`
	Time    time.Time `json:"time"`
	Request string    `json:"request_id"`
	Tenant  string    `json:"tenant"`
	Model   string    `json:"model"`
	// Direction is "input" or "output", Origin whose text it was, Part which of
	// the messages or choices, from 0 on.
	Direction string `json:"direction"`
	Origin    Origin `json:"origin"`
	Part      int    `json:"part"`
	Decision
	// By is the moderator that found it; empty if we did.
	By   string `json:"by,omitempty"`
	Text string `json:"text,omitempty"`
}

// eventsKept is how many events are remembered.
const eventsKept = 1000

// Policies holds the screen, the policies that hold now, and what was found
// lately. It may be used by many goroutines at once.
type Policies struct {
	Screen *Screen
	book   atomic.Pointer[Book]
	// rulings are what was worked out from the book.
	rulings atomic.Pointer[rulebook]
	// breakers keep moderators that do not answer from being asked.
	outside *outside

	mu     sync.Mutex
	events []Event
	last   int64
}

// NewPolicies returns the policies of b; nil means [DefaultBook].
func NewPolicies(b *Book) *Policies {
	if b == nil {
		b = DefaultBook()
	}
	k := &Policies{Screen: New(), outside: newOutside()}
	k.book.Store(b)
	return k
}

// Book returns the policies that hold now.
func (k *Policies) Book() *Book { return k.book.Load() }

// Replace installs other policies. Running requests keep the ones they began with.
func (k *Policies) Replace(b *Book) {
	k.book.Store(b)
	k.rulings.Store(nil)
}

// A rulebook is a book and what was worked out from it: a ruling for each tenant
// and each model that it names, and one for all others.
type rulebook struct {
	book  *Book
	known sync.Map
}

// For returns the policy of a tenant for a model. It must not be changed.
func (k *Policies) For(tenant, model string) *Ruling {
	book, rules := k.book.Load(), k.rulings.Load()
	if rules == nil || rules.book != book {
		rules = &rulebook{book: book}
		k.rulings.Store(rules)
	}
	if _, named := book.Tenants[tenant]; !named {
		tenant = ""
	}
	if _, named := book.Models[model]; !named {
		model = ""
	}
	key := [2]string{tenant, model}
	if known, ok := rules.known.Load(key); ok {
		return known.(*Ruling)
	}
	r, _ := rules.known.LoadOrStore(key, book.For(tenant, model))
	return r.(*Ruling)
}

// Note remembers an event and returns it with its number.
func (k *Policies) Note(e Event) Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last++
	e.ID = k.last
	if len(k.events) == eventsKept {
		k.events = append(k.events[:0], k.events[1:]...)
	}
	k.events = append(k.events, e)
	return e
}

// Recent returns the events after a number, newest first, at most limit.
func (k *Policies) Recent(after int64, limit int) []Event {
	k.mu.Lock()
	defer k.mu.Unlock()
	list := []Event{}
	for i := len(k.events) - 1; i >= 0 && len(list) < limit && k.events[i].ID > after; i-- {
		list = append(list, k.events[i])
	}
	return list
}

// ReadBook reads policies from a file.
func ReadBook(path string) (*Book, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the safety policy cannot be read: %w", err)
	}
	b, err := ParseBook(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// Watch reads the policies of a file again whenever it changes, until ctx
// ends. A file that is still being written is left alone until it has been the
// same for a whole period: half a policy may look like one. An invalid
// file is reported, and the previous policies stay in effect.
func (k *Policies) Watch(ctx context.Context, path string, every time.Duration, log *slog.Logger) {
	var used, last stamp // none yet: it may have changed since it was read
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		now := stampOf(path)
		settled := now == last
		last = now
		if now == used || !settled {
			continue
		}
		used = now
		b, err := ReadBook(path)
		if err != nil {
			log.Error("safety policy reload failed; keeping the previous one", "file", path, "error", err)
			continue
		}
		k.Replace(b)
		log.Info("safety policy reloaded", "file", path)
	}
}

// A stamp detects changes of a file.
type stamp struct {
	modified time.Time
	size     int64
}

func stampOf(path string) stamp {
	stat, err := os.Stat(path)
	if err != nil {
		return stamp{}
	}
	return stamp{stat.ModTime(), stat.Size()}
}

// Moderate asks the moderators of a ruling about a text. It returns what they
// found and, for those that did not answer, an error for each.
func (k *Policies) Moderate(ctx context.Context, r *Ruling, text string, output bool,
	guard Guard) (found map[string]*Verdict, down map[string]error) {
	found, down = map[string]*Verdict{}, map[string]error{}
	for _, name := range r.Moderators {
		m := r.known[name]
		if output && !m.Output {
			continue
		}
		v, err := k.outside.ask(ctx, name, &m, text, guard)
		if err != nil {
			down[name] = err
			continue
		}
		v.keepOnly(m.covers)
		found[name] = v
	}
	return found, down
}
