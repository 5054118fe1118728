package llamacpp

import (
	"os"
	"testing"
)

// TestMetricsOfAServer reads what the engine of a server that was started says of its passes.
func TestMetricsOfAServer(t *testing.T) {
	program := os.Getenv("PARLEY_BIN")
	if program == "" {
		t.Skip("PARLEY_BIN names no parley: make modules does")
	}
	server, err := StartParley(t.Context(), program, "../../internal/builtin/polly-mini.gguf", "--data", t.TempDir(),
		"--device", "cpu", "--log-level", "error")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Stop()
	sums, err := server.Metrics(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"parley_engine_step_seconds_count", "parley_engine_step_tokens_sum"} {
		if sums[name] < 1 {
			t.Errorf("%s is %g after an answer", name, sums[name])
		}
	}
}
