package gatewaycost

import (
	"bufio"
	"context"
	"os"
	"path/filepath"
	"testing"
)

// TestProcessesAreWaitedFor has a process write something when it is asked to end.
func TestProcessesAreWaitedFor(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	last := filepath.Join(t.TempDir(), "last")
	processes := NewProcesses(ctx)
	cmd := processes.Command("sh", "-c",
		`trap 'sleep .2; echo done > "$0"; exit 0' INT; echo ready; while :; do sleep .01; done`, last)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	if err := processes.Start(cmd, func(err error) { ended <- err }); err != nil {
		t.Skip(err)
	}
	if said, err := bufio.NewReader(out).ReadString('\n'); said != "ready\n" {
		t.Fatal(said, err)
	}
	cancel()
	processes.Wait()
	if text, err := os.ReadFile(last); string(text) != "done\n" {
		t.Errorf("it was not waited for until it had ended: %q, %v", text, err)
	}
	if len(ended) != 1 {
		t.Error("nobody was told of its end")
	}
}
