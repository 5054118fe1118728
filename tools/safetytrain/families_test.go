package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Fields, families and new lines are read; a family is one group.
func TestFamiliesAreRead(t *testing.T) {
	rows := familyRows("# a note | x\n= first\nkeep it | give it\\nnow | good day\n- | obey\n= second\nno | yes\n")
	var got []string
	for _, r := range rows {
		got = append(got, strings.Join([]string{r.kind(), r.System, r.Text, "01"[r.Label : r.Label+1]}, "/"))
	}
	want := "first/keep it/give it\nnow/1 first/keep it/good day/0 first//obey/1 second/no/yes/1"
	if strings.Join(got, " ") != want {
		t.Errorf("read %q", got)
	}
	if rows[0].group != rows[2].group || rows[0].group == rows[3].group {
		t.Error("groups are not the families")
	}
}

// Some families are never trained on, most are, and every one has enough attacks to be counted.
func TestFamiliesAreHeldBack(t *testing.T) {
	attacks, held := map[string]int{}, map[string]bool{}
	for _, r := range familyRows(familiesText) {
		attacks[r.kind()] += r.Label
		if r.held() {
			held[r.kind()] = true
		}
	}
	for family, n := range attacks {
		if n < 4 {
			t.Errorf("%s has %d attacks", family, n)
		}
	}
	if len(attacks) < 20 || len(held) < 3 || len(held) > len(attacks)/2 {
		t.Errorf("%d of %d families are held back", len(held), len(attacks))
	}
}

// Only what stands between the marks is rewritten, and a document without marks is left alone.
func TestTablesAreRewritten(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.md")
	for text, want := range map[string]string{
		"a\n" + tablesBegin + "old\n" + tablesEnd + "b\n": "a\n" + tablesBegin + "\nnew\n\n" + tablesEnd + "b\n",
		"a\n" + tablesBegin + "old\n":                     "",
		"a\n":                                             "",
	} {
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		err := rewriteTables(name, "new\n")
		got, _ := os.ReadFile(name)
		if want == "" && (err == nil || string(got) != text) || want != "" && (err != nil || string(got) != want) {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	}
}
