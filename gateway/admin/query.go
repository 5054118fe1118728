package admin

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"
)

// A Filter selects requests. Empty fields select all.
type Filter struct {
	Model, Outcome, Tenant, Key string
	// Status is that of the HTTP answer.
	Status int
	// SlowerThan selects those that took longer in total.
	SlowerThan time.Duration
	// From and Until bound the time at which they started; Until is not included.
	From, Until time.Time
}

// selects reports whether f selects a request.
func (f *Filter) selects(l *RequestRecord) bool {
	return matches(f.Model, l.Model) && matches(f.Outcome, l.Outcome) && matches(f.Tenant, l.Tenant) &&
		matches(f.Key, l.Key) && (f.Status == 0 || f.Status == l.Status) &&
		(f.SlowerThan == 0 || l.TotalMs > millis(f.SlowerThan)) &&
		!l.Started.Before(f.From) && (f.Until.IsZero() || l.Started.Before(f.Until))
}

func matches(wanted, has string) bool { return wanted == "" || wanted == has }

// A RequestPage is a part of the requests that a filter selects, in the order in which
// they started, the latest first.
type RequestPage struct {
	Requests []*RequestRecord
	// Total counts those that the filter selects, and Before those on earlier pages.
	Total, Before int
	// Oldest is when the oldest request that is kept has started.
	Oldest time.Time
	Values Values
}

// Values are what requests can be selected by: each that a request which is kept has.
type Values struct {
	Models        []string `json:"models"`
	Organizations []string `json:"organizations"`
	Keys          []string `json:"keys"`
	Statuses      []string `json:"statuses"`
}

// Page returns at most limit requests that f selects, from the one that follows the
// request with the id after; from the first if that is empty. A request that was
// evicted is older than all, so the page is empty.
func (r *Recent) Page(f *Filter, after string, limit int) *RequestPage {
	p := &RequestPage{Requests: []*RequestRecord{}, Values: r.values()}
	var selected []*RequestRecord
	for _, l := range r.ring {
		if p.Oldest.IsZero() || l.Started.Before(p.Oldest) {
			p.Oldest = l.Started
		}
		if f.selects(l) {
			selected = append(selected, l)
		}
	}
	slices.SortFunc(selected, newestFirst)
	p.Total = len(selected)
	if after != "" {
		p.Before = p.Total
		if last := r.byID[after]; last != nil {
			p.Before, _ = slices.BinarySearchFunc(selected, last, newestFirst)
			if p.Before < p.Total && selected[p.Before] == last {
				p.Before++
			}
		}
	}
	for _, l := range selected[p.Before:min(p.Total, p.Before+limit)] {
		p.Requests = append(p.Requests, l.Tell())
	}
	return p
}

// newestFirst orders requests by when they started, so that one that ends later moves no
// other.
func newestFirst(a, b *RequestRecord) int {
	return cmp.Or(b.Started.Compare(a.Started), cmp.Compare(b.ID, a.ID))
}

func (r *Recent) values() Values {
	models, organizations := map[string]bool{}, map[string]bool{}
	keys, statuses := map[string]bool{}, map[string]bool{}
	for _, l := range r.ring {
		models[l.Model], organizations[l.Tenant], keys[l.Key] = true, true, true
		statuses[strconv.Itoa(l.Status)] = true
	}
	return Values{sorted(models), sorted(organizations), sorted(keys), sorted(statuses)}
}

// sorted returns the texts that are not empty.
func sorted(set map[string]bool) []string {
	delete(set, "")
	return append([]string{}, slices.Sorted(maps.Keys(set))...)
}
