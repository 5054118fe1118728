package kv

// SetClassBudget says how many blocks a class of service may keep cached on the device
// before its blocks are evicted ahead of those within their budgets. It may keep
// more while there is room.
func (c *Cache) SetClassBudget(class string, blocks int) {
	c.setBudget(&c.accounts.classes, class, blocks)
}

// SetTenantShare says which part, 0 to 1, of the device's blocks each tenant of a class
// may keep cached before it is evicted ahead of others; 0 is what the config says. It
// counts at once, also for what is cached.
func (c *Cache) SetTenantShare(class string, share float64) {
	id := c.accounts.classes.open(class)
	c.accounts.classes.accounts[id].fixed = true // so that the class keeps its number
	delete(c.accounts.tenants.byClass, id)
	if share > 0 {
		c.accounts.tenants.byClass[id] = max(1, int(min(share, 1)*float64(c.slots.total[Device])))
	}
	for _, tenant := range c.accounts.tenants.byName {
		if a := &c.accounts.tenants.accounts[tenant]; a.class == id && !a.fixed {
			a.budget = c.accounts.tenants.budgetOf(id)
			c.weigh(&c.accounts.tenants, tenant)
		}
	}
}

// joinClass notes of which class a tenant is.
func (c *Cache) joinClass(tenant, class int32) {
	a := &c.accounts.tenants.accounts[tenant]
	if a.class == class {
		return
	}
	a.class = class
	if !a.fixed {
		a.budget = c.accounts.tenants.budgetOf(class)
		c.weigh(&c.accounts.tenants, tenant)
	}
}

func (c *Cache) setBudget(l *ledger, name string, blocks int) {
	id := l.open(name)
	l.accounts[id].budget, l.accounts[id].fixed = max(blocks, 0), true
	c.weigh(l, id)
}

// charge puts a new span on the accounts of its tenant and class.
func (c *Cache) charge(id int32, blocks int) {
	s := &c.cached.spans[id]
	for _, at := range [...]struct {
		l  *ledger
		id int32
	}{{&c.accounts.tenants, s.owner.tenant}, {&c.accounts.classes, s.owner.class}} {
		a := &at.l.accounts[at.id]
		a.cached += blocks
		c.pushBack(&a.spans, at.l.link, id)
		c.weigh(at.l, at.id)
	}
	s.over = c.isOver(s)
}

// discharge takes a block off the accounts of its span.
func (c *Cache) discharge(id int32, blocks int) {
	s := &c.cached.spans[id]
	for _, at := range [...]struct {
		l  *ledger
		id int32
	}{{&c.accounts.tenants, s.owner.tenant}, {&c.accounts.classes, s.owner.class}} {
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
	for id := a.spans.head; id != 0; id = c.cached.spans[id].links[l.link].next {
		s := &c.cached.spans[id]
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
	return c.accounts.tenants.accounts[s.owner.tenant].over || c.accounts.classes.accounts[s.owner.class].over
}
