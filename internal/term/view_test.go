package term

import (
	"math/rand/v2"
	"strings"
	"testing"

	"parley/internal/testkit"
)

func rowTexts(v view) string {
	var rows []string
	for i, r := range v.rows {
		text := r.text
		if i == v.cursorRow {
			text += "  <" + strings.Repeat("-", v.cursorCell)
		}
		rows = append(rows, text)
	}
	return strings.Join(rows, "\n")
}

func TestLayout(t *testing.T) {
	for _, c := range []struct {
		text    string
		at      int
		columns int
		want    string
	}{
		{"", 0, 10, ">   <--"},
		{"hello", 5, 10, "> hello  <-------"},
		{"hello", 1, 10, "> hello  <---"},
		{"12345678", 8, 10, "> 12345678\n  <"},
		{"12345678", 7, 10, "> 12345678  <---------"},
		{"123456789", 9, 10, "> 12345678\n9  <-"},
		{"one\ntwo", 7, 10, "> one\n- two  <-----"},
		{"one\ntwo", 3, 10, "> one  <-----\n- two"},
		{"one\n", 4, 10, "> one\n-   <--"},
		{"世界世界", 4, 8, "> 世界世\n界  <--"},
		{"世界世界", 3, 7, "> 世界\n世界  <--"},
		{"a\tb", 3, 20, "> a    b  <--------"},
	} {
		v := layout("> ", "- ", []rune(c.text), c.at, c.columns)
		if got := rowTexts(v); got != c.want {
			t.Errorf("%q at %d in %d columns:\n%s\nwant\n%s", c.text, c.at, c.columns, got, c.want)
		}
	}
}

// typed are keys to type at random.
var typed = []string{"a", "b ", "e\u0301", "\n", "\x7f", "\x1b[D", "\x1b[C", "\x1b[A", "\x1b[B", "\x01", "\x05",
	"\x0b", "\x17", "\x19", "\x1b[200~paste of\rtwo lines\x1b[201~"}

// TestPaintedIsLaidOut types at random on a small screen: it always shows what
// was laid out below what was there before, and the cursor is where it was
// placed.
func TestPaintedIsLaidOut(t *testing.T) {
	keys := append([]string{"世", "👩\u200d💻"}, typed...)
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		columns, rows := 5+rng.IntN(20), 3+rng.IntN(6)
		screen := testkit.NewScreen(columns, rows)
		_, _ = screen.Write([]byte("here\r\n"))
		e := NewEditor(nil)
		var p painter
		for range 60 {
			press(e, keys[rng.IntN(len(keys))])
			v := layout("> ", "- ", e.text, e.at, columns).clip(rows)
			_, _ = screen.Write([]byte(p.paint(v)))
			checkScreen(t, screen, "here", v)
		}
	}
}

// TestResizedIsLaidOut does the same on a screen that changes its width, and
// breaks the lines on it anew before the program hears of it.
func TestResizedIsLaidOut(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 3))
		columns := 10
		screen := testkit.NewScreen(columns, 1000)
		_, _ = screen.Write([]byte("here\r\n"))
		e := NewEditor(nil)
		var p painter
		for range 60 {
			press(e, typed[rng.IntN(len(typed))])
			_, _ = screen.Write([]byte(p.paint(layout("> ", "- ", e.text, e.at, columns))))
			columns = 5 + rng.IntN(20)
			screen.Resize(columns, 1000)
			v := layout("> ", "- ", e.text, e.at, columns)
			_, _ = screen.Write([]byte(p.repaint(v, columns)))
			checkScreen(t, screen, "here", v)
		}
	}
}

func checkScreen(t *testing.T, screen *testkit.Screen, above string, v view) {
	t.Helper()
	want := strings.TrimRight(above+"\n"+plainRows(v), "\n ")
	if got := screen.Text(); got != want {
		t.Fatalf("the screen shows\n%s\nwant\n%s", got, want)
	}
	if _, column := screen.Cursor(); column != v.cursorCell {
		t.Fatalf("%s\nthe cursor is in column %d, want %d", want, column, v.cursorCell)
	}
}

func plainRows(v view) string {
	var rows []string
	for _, r := range v.rows {
		rows = append(rows, strings.TrimRight(r.text, " "))
	}
	return strings.Join(rows, "\n")
}
