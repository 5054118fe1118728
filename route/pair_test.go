package route

import (
	"strings"
	"testing"
	"time"

	"parley"
)

// pairRouter returns a router of workers with statuses, all of one model and pool.
func pairRouter(t *testing.T, statuses ...Status) *Router {
	t.Helper()
	r, err := New(Config{})
	if err != nil {
		t.Fatal(err)
	}
	for i, s := range statuses {
		id, err := r.Join(Member{
			Name:           string(rune('a' + i)),
			Model:          "m",
			Pool:           "p",
			BlockTokens:    16,
			CapacityTokens: 8192,
		})
		if err != nil {
			t.Fatal(err)
		}
		s.Ready = true
		r.Report(id, s)
	}
	return r
}

// TestPair decides for each pair of roles and kinds where prompts are computed.
func TestPair(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	prefill, decode := Status{Role: parley.RolePrefill, Divides: "v"}, Status{Role: parley.RoleDecode, Divides: "v"}
	only := func(s Status) Status { s.RoleOnly, s.Divides = true, "s"; return s }
	plain := Status{Divides: "v"}
	for name, c := range map[string]struct {
		workers        []Status
		tokens         int
		answers, first string // by name; empty for none
	}{
		"pair":                         {[]Status{prefill, decode}, 512, "b", "a"},
		"little is missing":            {[]Status{prefill, decode}, 255, "b", ""},
		"alone":                        {[]Status{decode}, 512, "a", ""},
		"only prompts":                 {[]Status{prefill}, 512, "a", ""},
		"one that does both":           {[]Status{plain, decode}, 1 << 12, "a", ""},
		"of another kind":              {[]Status{only(prefill), decode}, 512, "b", ""},
		"strict pair":                  {[]Status{only(prefill), only(decode)}, 16, "b", "a"},
		"strict, no prompts":           {[]Status{only(decode)}, 512, "", ""},
		"strict, prompts of others":    {[]Status{prefill, only(decode)}, 512, "a", ""},
		"strict, only prompts":         {[]Status{only(prefill)}, 512, "", ""},
		"strict beside one with both":  {[]Status{only(decode), plain}, 512, "b", ""},
		"strict, two that decode":      {[]Status{only(decode), only(decode)}, 512, "", ""},
		"ours beside theirs, no match": {[]Status{{Role: parley.RolePrefill}, decode}, 512, "b", ""},
	} {
		r := pairRouter(t, c.workers...)
		if name == "one that does both" { // the one that decodes is busy
			r.workers[1].work, r.workers[1].share = 1<<20, 1<<20
		}
		q := &Request{Model: "m", Pool: "p", PromptTokens: c.tokens, OutputTokens: 1}
		d, err := r.Pick(q, now)
		if (err == nil) != (c.answers != "") || err == nil && d.Name != c.answers {
			t.Errorf("%s: %s answers, want %q: %v", name, d.Name, c.answers, err)
			continue
		}
		if err != nil {
			continue
		}
		first, ok := r.Pair(q, &d, now)
		if ok != (c.first != "") || first.Name != c.first || d.Prompt != c.first {
			t.Errorf("%s: the prompt is computed by %q, want %q", name, first.Name, c.first)
		}
		if ok && (d.Uncached != 0 || d.Elsewhere != c.tokens || !strings.Contains(d.String(), "prompt computed by a")) {
			t.Errorf("%s: %s", name, d)
		}
		if r.Unpaired(&first, &d, now); !ok {
			continue
		}
		d, _ = r.Pick(q, now)
		if _, again := r.Pair(q, &d, now.Add(time.Second)); again != r.Divided(&d) {
			t.Errorf("%s: after a failure it is paired again: %v", name, again)
		}
		if _, again := r.Pair(q, &d, now.Add(linkRest)); !again {
			t.Errorf("%s: it is never paired again", name)
		}
	}
}
