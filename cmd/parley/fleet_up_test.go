package main

import (
	"bufio"
	"errors"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"parley/cli/remote"
	"parley/internal/supervise"
)

// fleetUp is the command that starts a fleet whose gateway listens on an address.
func fleetUp(t *testing.T, addr string, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := exec.LookPath("parley")
	if err != nil {
		t.Fatal(err)
	}
	return exec.CommandContext(t.Context(), exe, append([]string{"fleet", "up", "--addr", addr}, args...)...)
}

func unused(t *testing.T) string {
	t.Helper()
	addr, err := supervise.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	return addr
}

// TestFleetUp starts a fleet as people do, sees its workers come up, and ends it.
// Nothing is left behind.
func TestFleetUp(t *testing.T) {
	cmd := fleetUp(t, unused(t), "--workers", "2")
	temporary := t.TempDir()
	cmd.Env = append(os.Environ(), "TMPDIR="+temporary)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer hangs.Stop()
	lines := bufio.NewScanner(out)
	for up := 0; up < 2 && lines.Scan(); {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "WORKER"):
			up = 0
		case strings.Contains(line, " up ") && strings.Contains(line, " exact "):
			up++
			if ready := strings.Fields(line)[5]; !strings.HasSuffix(ready, "s") {
				t.Errorf("a worker that is up was ready in %q: %s", ready, line)
			}
		}
	}
	_ = cmd.Process.Signal(os.Interrupt)
	rest := 0
	for lines.Scan() {
		rest++
	}
	if err := cmd.Wait(); err != nil || rest > 100 {
		t.Errorf("it ended with %v, after %d more lines", err, rest)
	}
	if left, err := os.ReadDir(temporary); err != nil || len(left) > 0 {
		t.Errorf("it left %v behind; %v", left, err)
	}
}

// TestFleetUpScales starts a fleet whose size follows the load: its workers register by
// themselves, and it says how many are wanted and why.
func TestFleetUpScales(t *testing.T) {
	cmd := fleetUp(t, unused(t), "--min", "2", "--max", "3")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(3*time.Minute, func() { _ = cmd.Process.Kill() })
	defer hangs.Stop()
	lines := bufio.NewScanner(out)
	up, wanted := 0, false
	for !(up == 2 && wanted) && lines.Scan() {
		switch line := lines.Text(); {
		case strings.HasPrefix(line, "WORKER"):
			up = 0
		case strings.Contains(line, " up ") && strings.Contains(line, " local "):
			up++
		case strings.HasPrefix(line, "Workers wanted: 2, because 2 is the minimum"):
			wanted = true
		}
	}
	_ = cmd.Process.Signal(os.Interrupt)
	for lines.Scan() {
	}
	if err := cmd.Wait(); err != nil || up != 2 || !wanted {
		t.Errorf("it ended with %v; %d workers were up, and two were wanted: %v", err, up, wanted)
	}
}

// TestFleetUpWithoutItsModel tells why no worker starts.
func TestFleetUpWithoutItsModel(t *testing.T) {
	text, err := fleetUp(t, unused(t), "--workers", "2", "--model", "nobody.gguf", "--dir",
		t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(text), "nobody.gguf") || !strings.Contains(string(text), ".log") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestFleetUpWhereSomebodyIs tells at once that the address is taken.
func TestFleetUpWhereSomebodyIs(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	text, err := fleetUp(t, l.Addr().String(), "--workers", "1", "--dir", t.TempDir()).CombinedOutput()
	if err == nil || !strings.Contains(string(text), "is in use") || !strings.Contains(string(text), "gateway.log") {
		t.Errorf("%v: %s", err, text)
	}
}

// TestFleetStatusSaysWhatIsMissing asks servers that have no fleet, no worker yet, or
// want the fleet's token.
func TestFleetStatusSaysWhatIsMissing(t *testing.T) {
	alone := startServerIn(t, t.TempDir(), "--model", "polly-mini")
	if _, err := invoke(t, "fleet", "status", "--url", alone.url); !errors.Is(err, remote.ErrNoFleet) {
		t.Errorf("of a server without a fleet: %v", err)
	}
	data := t.TempDir()
	key, err := invoke(t, "keys", "create", "me", "--admin", "--data", data)
	if err != nil {
		t.Fatal(err)
	}
	empty := startServerIn(t, data, "--model", "polly-mini", "--worker", "http://127.0.0.1:9", "--fleet-operate-token",
		"0123456789abcdef")
	if _, err := invoke(t, "fleet", "status", "--url", empty.url); err == nil ||
		!strings.Contains(err.Error(), "PARLEY_FLEET_OPERATE_TOKEN") {
		t.Errorf("without the token: %v", err)
	}
	t.Setenv("PARLEY_API_KEY", key)
	until(t, "with an admin key the command says why the worker is absent", func() bool {
		out, err := invoke(t, "fleet", "status", "--url", empty.url)
		return err == nil && strings.Contains(out, "127.0.0.1:9 cannot join: ")
	})
	t.Setenv("PARLEY_FLEET_OPERATE_TOKEN", "0123456789abcdef")
	if out, err := invoke(t, "fleet", "status", "--url", empty.url); err != nil ||
		!strings.Contains(out, "127.0.0.1:9 cannot join: ") {
		t.Errorf("with the token: %q, %v", out, err)
	}
	until(t, "the server says that nobody can be answered", func() bool {
		out, err := invoke(t, "top", "--once", "--url", empty.url)
		return err == nil && strings.Contains(out, "No worker has joined")
	})
}
