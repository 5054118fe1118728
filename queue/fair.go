package queue

// tenantsKept bounds how many tenants without work a tier remembers.
const tenantsKept = 4096

// A tier holds the tenants of a class.
type tier struct {
	Tier
	served  float64 // work ever dispatched, divided by the weight
	floor   float64 // the virtual time at which its last tenant was served
	tenants map[string]*tenant
	// present are the tenants that wait, by whose turn it is; longest are the
	// same by how many of their entries wait, most first.
	present, longest heap[*tenant]
	// first and last are the tenants without work, in the order they became so.
	first, last *tenant
	idle        int
	waiting     int
	work        int
}

// A tenant is an account within a tier, and its entries in the order they came.
type tenant struct {
	name       string
	served     float64 // work dispatched, lifted after an absence
	head, tail *Entry
	waiting    int
	running    int
	work       int // of the entries that wait
	left       int // work that ever left from the head
	output     mean
	cached     mean
	turn, long int // places in the heaps
	// before and after are its neighbours among the tenants without work.
	before, after *tenant
	resting       bool
}

func newTier(cfg Tier) tier {
	return tier{
		Tier:    cfg,
		tenants: map[string]*tenant{},
		present: heap[*tenant]{less: func(a, b *tenant) bool {
			if a.served != b.served {
				return a.served < b.served
			}
			return a.head.order < b.head.order
		}, place: func(t *tenant) *int { return &t.turn }},
		longest: heap[*tenant]{less: func(a, b *tenant) bool {
			if a.waiting != b.waiting {
				return a.waiting > b.waiting
			}
			return a.tail.order > b.tail.order
		}, place: func(t *tenant) *int { return &t.long }},
	}
}

// tenant returns the account of a name, and takes it from those without work.
func (t *tier) tenant(name string) *tenant {
	x := t.tenants[name]
	if x == nil {
		x = t.recycle()
		x.name, x.served, x.turn, x.long = name, t.floor, absent, absent
		t.tenants[name] = x
	}
	if x.resting {
		t.unrest(x)
	}
	return x
}

// recycle returns memory for an account: that of the tenant that has been
// without work for longest, if too many are remembered.
func (t *tier) recycle() *tenant {
	if t.idle < tenantsKept {
		return new(tenant)
	}
	x := t.first
	t.unrest(x)
	delete(t.tenants, x.name)
	*x = tenant{}
	return x
}

// idle puts a tenant that has no work to those without.
func (x *tenant) idle(t *tier) {
	if x.waiting > 0 || x.running > 0 || x.resting {
		return
	}
	x.resting, x.before = true, t.last
	if t.last != nil {
		t.last.after = x
	} else {
		t.first = x
	}
	t.last = x
	t.idle++
}

func (t *tier) unrest(x *tenant) {
	if x.before != nil {
		x.before.after = x.after
	} else {
		t.first = x.after
	}
	if x.after != nil {
		x.after.before = x.before
	} else {
		t.last = x.before
	}
	x.before, x.after, x.resting = nil, nil, false
	t.idle--
}

// put lets an entry wait behind those of its tenant whose first token is due before
// its own.
func (t *tier) put(e *Entry) {
	x := e.tenant
	e.ahead = x.left + x.work
	e.previous, e.next = x.tail, nil
	for e.previous != nil && e.due.Before(e.previous.due) {
		e.next = e.previous
		e.previous = e.previous.previous
		e.ahead = e.next.ahead
		e.next.ahead += e.work
	}
	if e.previous != nil {
		e.previous.next = e
	} else {
		x.head = e
	}
	if e.next != nil {
		e.next.previous = e
	} else {
		x.tail = e
	}
	x.waiting++
	x.work += e.work
	t.waiting++
	t.work += e.work
	if x.waiting > 1 {
		t.longest.fix(x)
		t.present.fix(x) // its head may be another
		return
	}
	x.served = max(x.served, t.floor)
	t.present.push(x)
	t.longest.push(x)
}

// take removes an entry from its tenant's, from wherever it stands.
func (t *tier) take(e *Entry) {
	x := e.tenant
	if e == x.head {
		x.left += e.work
	} else {
		for behind := e.next; behind != nil; behind = behind.next {
			behind.ahead -= e.work
		}
	}
	if e.previous != nil {
		e.previous.next = e.next
	} else {
		x.head = e.next
	}
	if e.next != nil {
		e.next.previous = e.previous
	} else {
		x.tail = e.previous
	}
	e.previous, e.next = nil, nil
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
	x.served += work
	if x.waiting > 0 {
		t.present.fix(x)
	}
}
