// Package fairshare keeps account of what parties got of something that they share, so
// that the one that got least goes next.
//
// # The account
//
// An [Account] adds up what a party was charged, divided by its weight: the virtual time
// of fair queueing. Where the party with the least account goes first and is charged for
// what it takes, of two that always want more neither is ever ahead of the other by more
// than the largest charge of each, divided by their weights.
//
// # Absence
//
// A party that wants nothing for a while must not save up for later: when it returns, it
// is lifted to a level. Absence earns nothing, and what was taken before it is
// remembered. Which level is right depends on how the parties are served, so it is the
// caller's:
//
//   - A queue serves one party at a time, that with the least account. So the account of
//     the one served last is where all are, and a party is lifted to that: a floor that
//     only rises, whether or not any party is present.
//   - The scheduler of an engine serves many in one pass, and those that decode whether it
//     is their turn or not. The one charged last may be far ahead of the others, so a
//     party is lifted to the least account of those present ([Group.Least]).
//   - Slots come back. Their account is charged for a slot when it is taken and with less
//     than nothing when it is given back, so it is what a party has now: there is nothing
//     to lift, and nothing to remember of a party that has none.
//
// # Memory
//
// A [Group] remembers a bounded number of absent parties. It forgets the one that has
// been absent for longest, whose account the others have most likely passed.
package fairshare

import (
	"cmp"
	"iter"
	"maps"
	"slices"
)

// An Account is what one party got. The zero value is that of one that got nothing.
type Account struct {
	served float64
}

// Served returns what was charged, divided by weights, and lifted after absences.
func (a *Account) Served() float64 { return a.served }

// Charge adds an amount to the account of a party with a weight. The amount may be
// negative, to correct an estimate or to give something back.
func (a *Account) Charge(amount, weight float64) { a.served += amount / weight }

// Lift raises the account to a level, if it is below it.
func (a *Account) Lift(level float64) { a.served = max(a.served, level) }

// Compare orders accounts by whose turn it is.
func Compare(a, b *Account) int { return cmp.Compare(a.served, b.served) }

// Jain returns Jain's index of fairness: 1 if all have the same, 1/n if one of n has it
// all.
func Jain(shares ...float64) float64 { return jain(slices.Values(shares)) }

func jain(shares iter.Seq[float64]) float64 {
	var sum, squares, n float64
	for x := range shares {
		sum += x
		squares += float64(x * x)
		n++
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (n * squares)
}

// A Party is one party of a [Group]. It is embedded in what the caller keeps of one.
type Party struct {
	Account
	name    string
	present int
	// before and after are its neighbours among the present, or among the absent in the
	// order in which they became so.
	before, after *Party
}

func (m *Party) member() *Party { return m }

// Name returns the name of the party.
func (m *Party) Name() string { return m.name }

// Present returns how often the party is present.
func (m *Party) Present() int { return m.present }

// A pointer is one to a struct that embeds [Party].
type pointer[T any] interface {
	*T
	member() *Party
}

// A Group is the parties that share something, by name. T is what is kept of one, and
// must embed [Party].
type Group[T any, P pointer[T]] struct {
	keep            int
	parties         map[string]P
	present, absent list
	spare           P
}

// NewGroup returns a group that remembers at most keep absent parties.
func NewGroup[T any, P pointer[T]](keep int) *Group[T, P] {
	return &Group[T, P]{keep: keep, parties: map[string]P{}}
}

// Join makes the party of a name present once more, and reports whether it was absent.
// One that is not known has an empty account.
func (g *Group[T, P]) Join(name string) (p P, returns bool) {
	p = g.parties[name]
	if p == nil {
		p = g.fresh()
		p.member().name = name
		g.parties[name] = p
		g.present.add(p.member())
	} else if p.member().present == 0 {
		g.absent.remove(p.member())
		g.present.add(p.member())
	}
	m := p.member()
	m.present++
	return p, m.present == 1
}

// fresh returns memory for a party: that of one that was forgotten, if there is one.
func (g *Group[T, P]) fresh() P {
	if p := g.spare; p != nil {
		g.spare = nil
		var none T
		*p = none
		return p
	}
	return new(T)
}

// Leave undoes a [Group.Join] of a party. The memory of one that is forgotten is used
// for another by a later Join.
func (g *Group[T, P]) Leave(p P) {
	m := p.member()
	if m.present--; m.present > 0 {
		return
	}
	g.present.remove(m)
	g.absent.add(m)
	if g.absent.n > g.keep {
		oldest := g.absent.first
		g.absent.remove(oldest)
		g.spare = g.parties[oldest.name]
		delete(g.parties, oldest.name)
	}
}

// Find returns the party of a name, or nil if it is not known.
func (g *Group[T, P]) Find(name string) P { return g.parties[name] }

// All yields the parties that are known.
func (g *Group[T, P]) All() iter.Seq2[string, P] { return maps.All(g.parties) }

// Len returns how many parties are known.
func (g *Group[T, P]) Len() int { return len(g.parties) }

// Absent returns how many of the known parties are absent.
func (g *Group[T, P]) Absent() int { return g.absent.n }

// Least returns the least account of those present but for one, and whether there are
// others.
func (g *Group[T, P]) Least(but P) (least float64, others bool) {
	for m := g.present.first; m != nil; m = m.after {
		if m != but.member() && (!others || m.served < least) {
			least, others = m.served, true
		}
	}
	return least, others
}

// Fairness returns Jain's index over the accounts of those present.
func (g *Group[T, P]) Fairness() float64 {
	return jain(func(yield func(float64) bool) {
		for m := g.present.first; m != nil && yield(m.served); m = m.after {
		}
	})
}

// A list has members in the order in which they were added.
type list struct {
	first, last *Party
	n           int
}

func (l *list) add(m *Party) {
	m.before, m.after = l.last, nil
	if l.last != nil {
		l.last.after = m
	} else {
		l.first = m
	}
	l.last = m
	l.n++
}

func (l *list) remove(m *Party) {
	if m.before != nil {
		m.before.after = m.after
	} else {
		l.first = m.after
	}
	if m.after != nil {
		m.after.before = m.before
	} else {
		l.last = m.before
	}
	m.before, m.after = nil, nil
	l.n--
}
