package sched

import (
	"cmp"
	"slices"

	"parley"
)

// A ledger remembers how much each class and each tenant has been served, in
// tokens, so that the least served goes next.
//
// Service is shared between classes in proportion to their weights, and evenly
// between the tenants of a class, whatever the number of their requests: a
// tenant with fifty requests gets as much as one with a single request.
// A tenant that returns after an absence starts level with the least served of those
// present: absence earns no credit, and earlier service still counts.
type ledger struct {
	weights [parley.Classes]float64
	classes [parley.Classes]classAccount
}

type classAccount struct {
	account
	tenants map[string]*account
}

// An account counts the service of a class or a tenant.
type account struct {
	served  float64 // tokens, for a class divided by its weight
	present int     // requests waiting or running
	total   float64 // tokens, ever
}

// tenantsKept bounds how many absent tenants a class remembers.
const tenantsKept = 4096

func newLedger(weights [parley.Classes]float64) ledger {
	l := ledger{weights: weights}
	for c := range l.classes {
		l.classes[c].tenants = map[string]*account{}
	}
	return l
}

// join makes a request of the tenant count as present.
func (l *ledger) join(class parley.Class, tenant string) {
	c := &l.classes[class]
	if c.present == 0 {
		c.lift(l.leastClass())
	}
	c.present++
	t := c.tenants[tenant]
	if t == nil {
		c.forget()
		t = &account{}
		c.tenants[tenant] = t
	}
	if t.present == 0 {
		t.lift(c.leastTenant())
	}
	t.present++
}

// lift brings a returning account level with the least served one present.
func (a *account) lift(least float64, present bool) {
	if present {
		a.served = max(a.served, least)
	}
}

func (l *ledger) leastClass() (least float64, present bool) {
	for i := range l.classes {
		if c := &l.classes[i]; c.present > 0 && (!present || c.served < least) {
			least, present = c.served, true
		}
	}
	return least, present
}

func (c *classAccount) leastTenant() (least float64, present bool) {
	for _, t := range c.tenants {
		if t.present > 0 && (!present || t.served < least) {
			least, present = t.served, true
		}
	}
	return least, present
}

// forget drops an absent tenant when there are too many to remember: the one
// that was served least, whose memory matters least.
func (c *classAccount) forget() {
	if len(c.tenants) < tenantsKept {
		return
	}
	var name string
	var found *account
	for n, t := range c.tenants {
		if t.present == 0 && (found == nil || t.served < found.served || (t.served == found.served && n < name)) {
			name, found = n, t
		}
	}
	if found != nil {
		delete(c.tenants, name)
	}
}

// leave ends the presence of one request.
func (l *ledger) leave(class parley.Class, tenant string) {
	c := &l.classes[class]
	c.present--
	c.tenants[tenant].present--
}

// charge records that tokens were computed for a tenant.
func (l *ledger) charge(class parley.Class, tenant string, tokens int) {
	c := &l.classes[class]
	c.served += float64(tokens) / l.weights[class]
	c.total += float64(tokens)
	if t := c.tenants[tenant]; t != nil {
		t.served += float64(tokens)
		t.total += float64(tokens)
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
		return cmp.Or(cmp.Compare(ca.served, cb.served), cmp.Compare(b.Class, a.Class))
	}
	if a.Tenant != b.Tenant {
		t := l.classes[a.Class].tenants
		return cmp.Or(cmp.Compare(t[a.Tenant].served, t[b.Tenant].served), cmp.Compare(a.order, b.order))
	}
	return cmp.Or(a.due().Compare(b.due()), cmp.Compare(a.order, b.order))
}

// jain returns Jain's index of fairness over the service that the present
// tenants of a class have had: 1 if all had the same, 1/n if one had it all.
func (l *ledger) jain(class parley.Class) float64 {
	var sum, squares float64
	n := 0
	for _, t := range l.classes[class].tenants {
		if t.present > 0 {
			sum += t.served
			squares += t.served * t.served
			n++
		}
	}
	if squares == 0 {
		return 1
	}
	return sum * sum / (float64(n) * squares)
}

// sorted returns the requests in the order of their turns.
func (l *ledger) sorted(seqs []*Seq) { slices.SortFunc(seqs, l.compare) }
