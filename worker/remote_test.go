package worker

import (
	"fmt"
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
