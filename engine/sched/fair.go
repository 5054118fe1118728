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

// join makes a request count as present, and gives it the account of its tenant.
func (l *ledger) join(q *Seq) {
	c := &l.classes[q.Class]
	if c.present == 0 {
		if least, others := l.leastClass(); others {
			c.Lift(least)
		}
	}
	c.present++
	t, returns := c.tenants.Join(q.Tenant)
	q.join(t)
	if !returns {
		return
	}
	if least, others := c.tenants.Least(t); others {
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
func (l *ledger) leave(q *Seq) {
	c := &l.classes[q.Class]
	c.present--
	c.tenants.Leave(q.account)
	q.leave()
}

// charge records that tokens were computed for a request. One that has left meanwhile
// has no account at hand.
func (l *ledger) charge(q *Seq, tokens int) {
	c := &l.classes[q.Class]
	c.Charge(float64(tokens), l.weights[q.Class])
	c.total += float64(tokens)
	t := q.account
	if t == nil {
		t = c.tenants.Find(q.Tenant)
	}
	if t != nil {
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
		return cmp.Or(fairshare.Compare(&a.account.Account, &b.account.Account), cmp.Compare(a.order, b.order))
	}
	return cmp.Or(a.due().Compare(b.due()), cmp.Compare(a.order, b.order))
}

// sorted returns the requests in the order of their turns.
func (l *ledger) sorted(seqs []*Seq) { slices.SortFunc(seqs, l.compare) }
