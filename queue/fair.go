package queue

import "parley/internal/fairshare"

// tenantsKept bounds how many tenants without work a tier remembers.
const tenantsKept = 4096

// A tier holds the tenants of a class.
type tier struct {
	Tier
	fairshare.Account         // of the work ever dispatched
	floor             float64 // the account of the tenant that was served last, before that
	tenants           *fairshare.Group[tenant, *tenant]
	// present are the tenants that wait, the next one first; longest are the
	// same by how many of their entries wait, most first, with people behind.
	present, longest heap[*tenant]
	waiting          int
	work             int
}

// A tenant is an account within a tier, and its entries in the order they came. It is
// present once for each entry that waits or was dispatched and has not ended.
type tenant struct {
	fairshare.Party
	head, tail *Entry
	people     bool // whether people wait here, and no program
	waiting    int
	work       int // of the entries that wait
	left       int // work that ever left from the head
	output     mean
	cached     mean
	next, long int // indexes in the heaps
}

func newTier(cfg Tier) tier {
	return tier{
		Tier:    cfg,
		tenants: fairshare.NewGroup[tenant](tenantsKept),
		present: heap[*tenant]{less: func(a, b *tenant) bool {
			if by := fairshare.Compare(&a.Account, &b.Account); by != 0 {
				return by < 0
			}
			return a.head.order < b.head.order
		}, index: func(t *tenant) *int { return &t.next }},
		longest: heap[*tenant]{less: func(a, b *tenant) bool {
			if a.people != b.people {
				return b.people
			}
			if a.waiting != b.waiting {
				return a.waiting > b.waiting
			}
			return a.tail.order > b.tail.order
		}, index: func(t *tenant) *int { return &t.long }},
	}
}

// programs returns the tenant with the most waiting whose entries come from programs; nil
// if there is none.
func (t *tier) programs() *tenant {
	if longest := t.longest.top(); longest != nil && !longest.people {
		return longest
	}
	return nil
}

// neighbours are where an entry stands among those of its tenant.
type neighbours struct {
	previous, next *Entry
	// ahead is the work of the same tenant that came before, less what left from the
	// tenant's head.
	ahead int
}

// insert puts an entry behind those of the tenant whose first token is due before its
// own.
func (x *tenant) insert(e *Entry) {
	at := neighbours{previous: x.tail, ahead: x.left + x.work}
	for at.previous != nil && e.due.Before(at.previous.due) {
		at.next = at.previous
		behind := &at.next.link
		at.previous, at.ahead = behind.previous, behind.ahead
		behind.ahead += e.work
	}
	at.join(x, e, e)
	l := &e.link
	*l = at
}

// remove takes an entry out, from wherever it stands.
func (x *tenant) remove(e *Entry) {
	l := &e.link
	if e == x.head {
		x.left += e.work
	} else {
		for behind := l.next; behind != nil; {
			b := &behind.link
			b.ahead -= e.work
			behind = b.next
		}
	}
	l.join(x, l.next, l.previous)
	l.previous, l.next = nil, nil
}

// join makes after follow what is before the place, and before precede what is behind it.
func (l *neighbours) join(x *tenant, after, before *Entry) {
	if l.previous != nil {
		p := &l.previous.link
		p.next = after
	} else {
		x.head = after
	}
	if l.next != nil {
		n := &l.next.link
		n.previous = before
	} else {
		x.tail = before
	}
}

// put lets an entry wait.
func (t *tier) put(e *Entry) {
	x := e.tenant
	x.insert(e)
	x.waiting++
	x.work += e.work
	t.waiting++
	t.work += e.work
	if x.waiting > 1 {
		t.longest.fix(x)
		t.present.fix(x) // its head may be another
		return
	}
	x.Lift(t.floor)
	t.present.push(x)
	t.longest.push(x)
}

// take removes an entry from its tenant's.
func (t *tier) take(e *Entry) {
	x := e.tenant
	x.remove(e)
	x.waiting--
	x.work -= e.work
	t.waiting--
	t.work -= e.work
	if x.waiting == 0 {
		t.present.remove(x)
		t.longest.remove(x)
		return
	}
	t.present.fix(x)
	t.longest.fix(x)
}

// serve counts work as done for a tenant.
func (t *tier) serve(x *tenant, work float64) {
	x.Charge(work, 1)
	if x.waiting > 0 {
		t.present.fix(x)
	}
}
