package worker

import (
	"bufio"
	"fmt"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func dial(t *testing.T, cfg Config) *Remote {
	t.Helper()
	r, err := Dial(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func Example_promises() {
	fmt.Println(PromisesOf(VLLM).TokenIDs, PromisesOf(Ollama).TokenIDs)
	// Output: true false
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
