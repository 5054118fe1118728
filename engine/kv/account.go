package kv

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
