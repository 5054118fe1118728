package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A program is one that runs, and the lines that it prints.
type program struct {
	*exec.Cmd
	t     *testing.T
	lines *bufio.Scanner
}

// startProgram starts a program, which is killed if the test takes too long.
func startProgram(t *testing.T, cmd *exec.Cmd) *program {
	t.Helper()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hangs := time.AfterFunc(5*time.Minute, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { hangs.Stop() })
	return &program{cmd, t, bufio.NewScanner(out)}
}

// until waits for a line that contains a text.
func (p *program) until(text string) {
	p.t.Helper()
	var seen []string
	for p.lines.Scan() {
		if seen = append(seen, p.lines.Text()); strings.Contains(p.lines.Text(), text) {
			return
		}
	}
	p.t.Fatalf("no line has %q:\n%s", text, strings.Join(seen, "\n"))
}

// end interrupts the program and waits until it has ended.
func (p *program) end() {
	p.t.Helper()
	_ = p.Process.Signal(os.Interrupt)
	for p.lines.Scan() {
	}
	if err := p.Wait(); err != nil {
		p.t.Errorf("%s ended with %v", strings.Join(p.Args[1:3], " "), err)
	}
}

// TestOneScalerActs: of two scalers over one fleet the second stands by, and acts once the first has ended or was
// killed. Of two fleets in one directory the second is refused.
func TestOneScalerActs(t *testing.T) {
	addr, dir := unused(t), t.TempDir()
	whole := startProgram(t, fleetUp(t, addr, "--workers", "1", "--dir", dir))
	whole.until(" up ")
	second := fleetUp(t, unused(t), "--workers", "1", "--dir", dir)
	out, err := second.CombinedOutput()
	if want := fmt.Sprintf("another process uses the directory: process %d:", whole.Process.Pid); err == nil ||
		!strings.Contains(string(out), want) {
		t.Errorf("a second fleet in the same directory: %v, %s; want %q", err, out, want)
	}
	acted := filepath.Join(t.TempDir(), "acted")
	scaler := func(name string) *program {
		return startProgram(t, exec.CommandContext(t.Context(), second.Path, "fleet", "scale", "--url", "http://"+addr,
			"--min", "2", "--max", "2", "--command", "echo "+name+" >> "+acted))
	}
	first := scaler("first")
	first.until("Workers wanted: 2")
	other := scaler("other")
	other.until(fmt.Sprintf("Standing by: process %d on ", first.Process.Pid))
	if text, err := os.ReadFile(acted); err != nil || strings.Contains(string(text), "other") {
		t.Errorf("with two scalers: %q, %v", text, err)
	}
	first.end()
	other.until("Workers wanted: 2")
	if text, err := os.ReadFile(acted); err != nil || !strings.HasSuffix(string(text), "other\n") {
		t.Errorf("after the first has ended: %q, %v", text, err)
	}
	third := scaler("third")
	third.until(fmt.Sprintf("Standing by: process %d on ", other.Process.Pid))
	if err := other.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	third.until("Workers wanted: 2")
	if text, err := os.ReadFile(acted); err != nil || !strings.HasSuffix(string(text), "third\n") {
		t.Errorf("after the second was killed: %q, %v", text, err)
	}
	_ = other.Wait()
	third.end()
	whole.end()
}
