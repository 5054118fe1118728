package kv

// An account is what one tenant, or one class of service, keeps cached on the
// device. A block is charged to the tenant and class that
// used it last.
type account struct {
	name   string
	cached int // blocks
	tables int // running sequences
	budget int // blocks
	fixed  bool
	// class is that of the latest sequence of a tenant.
	class int32
	over  bool
	spans list
}

// A ledger holds the accounts of all tenants, or of all classes.
type ledger struct {
	accounts []account // 0 is unused
	byName   map[string]int32
	free     []int32
	budget   int // default for accounts without their own
	// byClass are budgets of tenants that have none of their own, by their class.
	byClass map[int32]int
	link    int
}

func newLedger(link, budget int) ledger {
	return ledger{
		accounts: make([]account, 1),
		byName:   map[string]int32{},
		byClass:  map[int32]int{},
		budget:   max(budget, 1),
		link:     link,
	}
}

// reset clears what is cached and who runs, keeping accounts and budgets.
func (l *ledger) reset() {
	for i := range l.accounts {
		a := &l.accounts[i]
		a.cached, a.tables, a.over, a.spans = 0, 0, false, list{}
	}
}

// open returns the account of that name.
func (l *ledger) open(name string) int32 {
	if id, ok := l.byName[name]; ok {
		return id
	}
	id := int32(len(l.accounts))
	if n := len(l.free); n > 0 {
		id = l.free[n-1]
		l.free = l.free[:n-1]
	} else {
		l.accounts = append(l.accounts, account{})
	}
	l.accounts[id] = account{name: name, budget: l.budget}
	l.byName[name] = id
	return id
}

// budgetOf returns the budget of an account of a class that has none of its own.
func (l *ledger) budgetOf(class int32) int {
	if blocks, ok := l.byClass[class]; ok {
		return blocks
	}
	return l.budget
}

// closeIfIdle forgets an account that holds nothing and was not configured.
func (l *ledger) closeIfIdle(id int32) {
	if a := &l.accounts[id]; a.cached == 0 && a.tables == 0 && !a.fixed {
		delete(l.byName, a.name)
		*a = account{}
		l.free = append(l.free, id)
	}
}

// closeIdle forgets all accounts that hold nothing.
func (l *ledger) closeIdle() {
	for _, id := range l.byName {
		l.closeIfIdle(id)
	}
}

// SetTenantBudget says how many blocks a tenant may keep cached on the device
// before its blocks are evicted ahead of those within their budgets. It may keep
// more while there is room.
func (c *Cache) SetTenantBudget(tenant string, blocks int) { c.setBudget(&c.tenants, tenant, blocks) }

// SetClassBudget is SetTenantBudget for a class of service.
func (c *Cache) SetClassBudget(class string, blocks int) { c.setBudget(&c.classes, class, blocks) }

// SetTenantShare says which part, 0 to 1, of the device's blocks each tenant of a class
// may keep cached before it is evicted ahead of others, unless SetTenantBudget says
// otherwise; 0 is what the config says. It counts at once, also for what is cached.
func (c *Cache) SetTenantShare(class string, share float64) {
	id := c.classes.open(class)
	c.classes.accounts[id].fixed = true // so that the class keeps its number
	delete(c.tenants.byClass, id)
	if share > 0 {
		c.tenants.byClass[id] = max(1, int(min(share, 1)*float64(c.total[Device])))
	}
	for _, tenant := range c.tenants.byName {
		if a := &c.tenants.accounts[tenant]; a.class == id && !a.fixed {
			a.budget = c.tenants.budgetOf(id)
			c.weigh(&c.tenants, tenant)
		}
	}
}

// joinClass notes of which class a tenant is.
func (c *Cache) joinClass(tenant, class int32) {
	a := &c.tenants.accounts[tenant]
	if a.class == class {
		return
	}
	a.class = class
	if !a.fixed {
		a.budget = c.tenants.budgetOf(class)
		c.weigh(&c.tenants, tenant)
	}
}

func (c *Cache) setBudget(l *ledger, name string, blocks int) {
	id := l.open(name)
	l.accounts[id].budget, l.accounts[id].fixed = max(blocks, 0), true
	c.weigh(l, id)
}

// TenantCached returns how many blocks are charged to a tenant, ClassCached to a class.
func (c *Cache) TenantCached(tenant string) int {
	return c.tenants.accounts[c.tenants.byName[tenant]].cached
}

// ClassCached returns how many cached blocks are charged to a class.
func (c *Cache) ClassCached(class string) int {
	return c.classes.accounts[c.classes.byName[class]].cached
}

// charge puts a new span on the accounts of its tenant and class.
func (c *Cache) charge(id int32, blocks int) {
	s := &c.spans[id]
	for _, at := range [...]struct {
		l  *ledger
		id int32
	}{{&c.tenants, s.tenant}, {&c.classes, s.class}} {
		a := &at.l.accounts[at.id]
		a.cached += blocks
		c.pushBack(&a.spans, at.l.link, id)
		c.weigh(at.l, at.id)
	}
	s.over = c.isOver(s)
}

// discharge takes a block off the accounts of its span.
func (c *Cache) discharge(id int32, blocks int) {
	s := &c.spans[id]
	for _, at := range [...]struct {
		l  *ledger
		id int32
	}{{&c.tenants, s.tenant}, {&c.classes, s.class}} {
		a := &at.l.accounts[at.id]
		a.cached -= blocks
		if s.count[Device] == 0 {
			c.unlink(&a.spans, at.l.link, id)
		}
		c.weigh(at.l, at.id)
		at.l.closeIfIdle(at.id)
	}
}

// weigh notes that an account went over its budget or came back. It counts as
// back only an eighth below, so that the spans are not moved to and fro.
func (c *Cache) weigh(l *ledger, id int32) {
	a := &l.accounts[id]
	over := a.cached > a.budget || a.over && a.cached > a.budget-a.budget/8
	if over == a.over {
		return
	}
	a.over = over
	for id := a.spans.head; id != 0; id = c.spans[id].links[l.link].next {
		s := &c.spans[id]
		if now := c.isOver(s); now != s.over {
			in := s.inCell[Device]
			c.leaveCell(id, Device)
			s.over = now
			if in {
				c.enterCell(id, Device)
			}
		}
	}
}

func (c *Cache) isOver(s *span) bool {
	return c.tenants.accounts[s.tenant].over || c.classes.accounts[s.class].over
}
