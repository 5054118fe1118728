package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"parley/internal/supervise"
)

// TestWorkersRegister has two workers register themselves, one of them with a wrong
// token: only the other one joins, computes, and leaves when it ends.
func TestWorkersRegister(t *testing.T) {
	exe, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(path,
		[]byte(
			"model: polly-mini\nfleet_join_token: 0123456789abcdef\nfleet_operate_token: fedcba9876543210\npools: "+
				"[{name: own, purpose: any, workers: [{register: true}]}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	front := startServer(t, "--config", path, "--log-level", "warn")
	go func() {
		for range front.lines {
		}
	}()
	t.Setenv("PARLEY_FLEET_OPERATE_TOKEN", "fedcba9876543210")
	c := &crew{t: t, exe: exe, front: front}
	for _, token := range []string{"fedcba9876543210", "0123456789abcdef"} {
		addr, err := supervise.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		h := &hand{addr: addr, data: t.TempDir()}
		if h.log, err = os.Create(filepath.Join(h.data, "log")); err != nil {
			t.Fatal(err)
		}
		c.workers = append(c.workers, h)
		c.start(h, "--register", front.url, "--fleet-join-token", token, "--pool", "own")
		c.await(h)
	}
	c.ready(1)
	if _, err := hearAll(t.Context(), front.url, wishes()[0]); err != nil {
		t.Error(err)
	}
	if n := c.count("up"); n != 1 {
		t.Errorf("%d workers are up, want the one with the right token", n)
	}
	_ = c.workers[1].cmd.Process.Signal(os.Interrupt)
	_ = c.workers[1].cmd.Wait()
	if n := c.count("up"); n != 0 {
		t.Errorf("%d workers are up after it ended", n)
	}
}
