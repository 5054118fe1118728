package sched

import (
	"cmp"
	"slices"

	"parley"
	"parley/internal/fairshare"
)

// A ledger remembers how much each class and each tenant has been served, in
// tokens, so that the least served goes next.
//
// Service is shared between classes in proportion to their weights, and evenly
// between the tenants of a class, whatever the number of their requests: a
// tenant with fifty requests gets as much as one with a single request.
// A class or tenant that returns after an absence starts level with the least served of
// those present; see [fairshare].
type ledger struct {
	weights [parley.Classes]float64
	classes [parley.Classes]classAccount
}

// A classAccount is the account of a class, and those of its tenants.
type classAccount struct {
	fairshare.Account
	present int     // requests waiting or running
	total   float64 // tokens, ever
	tenants *fairshare.Group[fairshare.Party, *fairshare.Party]
}

// tenantsKept bounds how many absent tenants a class remembers.
const tenantsKept = 4096

func newLedger(weights [parley.Classes]float64) ledger {
	l := ledger{weights: weights}
	for c := range l.classes {
		l.classes[c].tenants = fairshare.NewGroup[fairshare.Party](tenantsKept)
	}
	return l
}

// join makes a request of the tenant count as present.
func (l *ledger) join(class parley.Class, tenant string) {
	c := &l.classes[class]
	if c.present == 0 {
		if least, others := l.leastClass(); others {
			c.Lift(least)
		}
	}
	c.present++
	t, returns := c.tenants.Join(tenant)
	if least, others := c.tenants.Least(t); returns && others {
		t.Lift(least)
	}
}

// leastClass returns the least account of the classes present.
func (l *ledger) leastClass() (least float64, present bool) {
	for i := range l.classes {
		if c := &l.classes[i]; c.present > 0 && (!present || c.Served() < least) {
			least, present = c.Served(), true
		}
	}
	return least, present
}

// leave ends the presence of one request.
func (l *ledger) leave(class parley.Class, tenant string) {
	c := &l.classes[class]
	c.present--
	c.tenants.Leave(c.tenants.Find(tenant))
}

// charge records that tokens were computed for a tenant.
func (l *ledger) charge(class parley.Class, tenant string, tokens int) {
	c := &l.classes[class]
	c.Charge(float64(tokens), l.weights[class])
	c.total += float64(tokens)
	if t := c.tenants.Find(tenant); t != nil {
		t.Charge(float64(tokens), 1)
	}
}

// compare orders two requests by whose turn it is: the class served least in
// proportion to its weight, in it the tenant served least, of a tenant the
// request that is due first. Of those in the background no account is kept.
func (l *ledger) compare(a, b *Seq) int {
	if a.Background || b.Background {
		return cmp.Compare(a.order, b.order)
	}
	if a.Class != b.Class {
		ca, cb := &l.classes[a.Class], &l.classes[b.Class]
		return cmp.Or(fairshare.Compare(&ca.Account, &cb.Account), cmp.Compare(b.Class, a.Class))
	}
	if a.Tenant != b.Tenant {
		t := l.classes[a.Class].tenants
		return cmp.Or(fairshare.Compare(&t.Find(a.Tenant).Account, &t.Find(b.Tenant).Account),
			cmp.Compare(a.order, b.order))
	}
	return cmp.Or(a.due().Compare(b.due()), cmp.Compare(a.order, b.order))
}

// sorted returns the requests in the order of their turns.
func (l *ledger) sorted(seqs []*Seq) { slices.SortFunc(seqs, l.compare) }
