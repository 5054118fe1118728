package foreign

import (
	"bufio"
	"strings"
	"testing"
)

// TestLongLinesTakeNoRoom that is kept.
func TestLongLinesTakeNoRoom(t *testing.T) {
	lines := bufio.NewReader(strings.NewReader(strings.Repeat("x", 4*roomKept) + "\nshort\n"))
	var room []byte
	for _, want := range []int{4 * roomKept, len("short")} {
		if line, err := readLine(lines, eventMax, &room); err != nil || len(line) != want {
			t.Fatalf("a line of %d, want %d: %v", len(line), want, err)
		}
	}
	if cap(room) > roomKept {
		t.Errorf("%d bytes are kept", cap(room))
	}
}

func TestLongLinesAreRead(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	r, room := bufio.NewReader(strings.NewReader("short\n"+long+"\nrest")), []byte(nil)
	for _, want := range []string{"short", long} {
		line, err := readLine(r, 200_000, &room)
		if err != nil || string(line) != want {
			t.Fatalf("%d bytes, %v", len(line), err)
		}
	}
	if _, err := readLine(r, 200_000, &room); err == nil {
		t.Error("a line without an end was taken")
	}
	r.Reset(strings.NewReader(long + "\n"))
	if _, err := readLine(r, 50_000, &room); err != errLineTooLong {
		t.Errorf("%v for a line that is too long", err)
	}
}
