package route

import (
	"slices"
	"testing"
	"time"

	"parley"
)

// leaving has the worker named fresh take requests, so that old can leave what it holds to it and to other.
func leaving(t *testing.T, capacity int) *warmth {
	t.Helper()
	w := newWarmth(t, capacity)
	ready := w.workers[w.other].status
	w.Report(w.fresh, ready)
	gone := ready
	gone.Ready = false // it is draining
	w.Report(w.old, gone)
	w.Prefilled(w.fresh, 0, 4096, 8*time.Second)
	w.Prefilled(w.other, 0, 4096, 8*time.Second)
	return w
}

func anyone(ID) bool { return true }

func TestWhatOneHoldsAloneIsHandedOver(t *testing.T) {
	w := leaving(t, 1<<20)
	a, b, c, d := w.keys(20, 10, 1), w.keys(20, 30, 2), w.keys(20, 40, 3), w.keys(0, 50, 4)
	for _, keys := range [][]parley.BlockKey{a, b, c, d} {
		w.hold(w.old, keys)
	}
	w.hold(w.other, b)
	uses := []Use{{a, w.now.Add(-time.Hour)}, {b, w.now}, {c, w.now.Add(-time.Second)}, {d, w.now.Add(-time.Minute)}}
	plan := w.HandOver(w.old, anyone, uses, time.Minute, w.now)
	var order []int
	to := map[int]ID{}
	for _, h := range plan {
		order, to[h.Use] = append(order, h.Use), h.To
		if h.From != w.old {
			t.Errorf("%+v", h)
		}
	}
	if !slices.Equal(order, []int{2, 3, 0}) {
		t.Fatalf("uses %v, want the latest first, and not what another one holds", order)
	}
	if to[2] != w.other || to[0] != w.other || to[3] != w.fresh {
		t.Errorf("%v, want what continues a prefix where that is, and the rest where least goes", to)
	}
	if plan[0].Tokens != 16*60 || plan[0].More != 16*40 || plan[2].More != 16*10 {
		t.Errorf("%+v %+v", plan[0].Transfer, plan[2].Transfer)
	}
}

func TestHandingOverIsBounded(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *warmth)
		within time.Duration
		want   int
	}{
		"both":             {within: time.Minute, want: 2},
		"time for nothing": {within: time.Nanosecond},
		"no holder gives": {
			change: func(w *warmth) { w.workers[w.old].status.Exchange.Gives = false },
			within: time.Minute,
		},
		"another pool": {change: func(w *warmth) { w.workers[w.old].Pool = "elsewhere" }, within: time.Minute},
		"restarted":    {change: func(w *warmth) { w.Restarted(w.old) }, within: time.Minute},
		"others are draining": {change: func(w *warmth) {
			w.workers[w.other].status.Ready, w.workers[w.fresh].status.Ready = false, false
		}, within: time.Minute},
		"memory for one": {change: func(w *warmth) {
			w.workers[w.other].CapacityTokens, w.workers[w.fresh].status.Ready = 2*16*60, false
		}, within: time.Minute, want: 1},
		"memory for one on each": {change: func(w *warmth) {
			w.workers[w.other].CapacityTokens, w.workers[w.fresh].CapacityTokens = 2*16*60, 2*16*60
		}, within: time.Minute, want: 2},
		"memory for none": {change: func(w *warmth) {
			w.workers[w.other].CapacityTokens, w.workers[w.fresh].CapacityTokens = 16*60, 16*60
		}, within: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := leaving(t, 1<<20)
			a, b := w.keys(0, 50, 1), w.keys(0, 50, 2)
			w.hold(w.old, a)
			w.hold(w.old, b)
			if test.change != nil {
				test.change(w)
			}
			uses := []Use{{a, w.now}, {b, w.now.Add(-time.Minute)}}
			if plan := w.HandOver(w.old, anyone, uses, test.within, w.now); len(plan) != test.want {
				t.Errorf("%+v, want %d", plan, test.want)
			}
		})
	}
}

// TestConversationsAreHandedOverByRole has workers of all roles leave, beside others of all roles of which some hold
// the prompt already: what was held goes where the next request of its kind goes.
func TestConversationsAreHandedOverByRole(t *testing.T) {
	const both, prefill, decode = parley.WorkerRole(""), parley.RolePrefill, parley.RoleDecode
	for name, test := range map[string]struct {
		old, other, fresh parley.WorkerRole
		only              bool // other and fresh do nothing else
		want              []string
	}{
		"decode to decode":           {old: decode, other: prefill, fresh: decode, want: []string{"fresh"}},
		"decode to both":             {old: decode, other: prefill, fresh: both, want: []string{"fresh"}},
		"both to decode":             {old: both, other: prefill, fresh: decode, want: []string{"fresh"}},
		"prefill to prefill":         {old: prefill, other: decode, fresh: prefill, want: []string{"fresh"}},
		"prefill to both":            {old: prefill, other: decode, fresh: both, want: []string{"fresh"}},
		"decode to what takes over":  {old: decode, other: prefill, fresh: prefill, want: []string{"other"}},
		"decode to prefill alone":    {old: decode, other: prefill, fresh: prefill, only: true},
		"prefill to what takes over": {old: prefill, other: decode, fresh: decode, want: []string{"other"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := leaving(t, 1<<20)
			keys := w.keys(0, 50, 1)
			w.hold(w.old, keys)
			w.hold(w.other, keys[:30])
			for id, role := range map[ID]parley.WorkerRole{w.old: test.old, w.other: test.other, w.fresh: test.fresh} {
				status := &w.workers[id].status
				status.Role, status.RoleOnly = role, test.only && id != w.old
			}
			var got []string
			for _, h := range w.HandOver(w.old, anyone, []Use{{keys, w.now}}, time.Minute, w.now) {
				got = append(got, w.workers[h.To].Name)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("it goes to %v, want %v", got, test.want)
			}
		})
	}
}
