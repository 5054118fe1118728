package ablation

import (
	"slices"
	"strings"
	"testing"
)

func TestTableIsComplete(t *testing.T) {
	for i, m := range Table {
		if slices.Index(Names(), m.Name) != i {
			t.Errorf("two rows are called %s", m.Name)
		}
		if m.On == "" || m.Metric == "" || m.Unit == "" || m.Claim == "" || m.Source == "" || m.Floor <= 0 {
			t.Errorf("row %s is not complete: %+v", m.Name, m)
		}
		if (m.Off == "") != (m.Rule == Within) {
			t.Errorf("row %s has the rule %q and the other side %q", m.Name, m.Rule, m.Off)
		}
		e := experiments[m.Name]
		if e.run == nil || e.rounds < e.quick || e.quick < 1 {
			t.Errorf("row %s has no experiment, or one without rounds", m.Name)
		}
	}
	if len(experiments) != len(Table) {
		t.Errorf("%d experiments for %d rows", len(experiments), len(Table))
	}
}

func TestSelect(t *testing.T) {
	for _, c := range []struct{ names, want string }{
		{"", strings.Join(Names(), ",")},
		{"gap", "gap"},
		{"draft,batching", "batching,draft"},
		{"batching,batching", "batching"},
		{"batching,turbo", "error"},
	} {
		var names []string
		if c.names != "" {
			names = strings.Split(c.names, ",")
		}
		got := "error"
		if rows, err := Select(names); err == nil {
			var found []string
			for _, m := range rows {
				found = append(found, m.Name)
			}
			got = strings.Join(found, ",")
		}
		if got != c.want {
			t.Errorf("%q selects %s, want %s", c.names, got, c.want)
		}
	}
}
