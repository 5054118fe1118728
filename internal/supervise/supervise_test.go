package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestMain lets this program play the parts.
func TestMain(m *testing.M) {
	switch os.Getenv("SUPERVISE_PART") {
	case "":
		os.Exit(m.Run())
	case "fails":
		fmt.Println("no room for", os.Args[1])
		os.Exit(3)
	case "killed":
		fmt.Println("started")
		self, err := os.FindProcess(os.Getpid())
		if err == nil {
			err = self.Kill()
		}
		fmt.Println("not killed:", err)
		time.Sleep(time.Minute)
	case "waits":
		fmt.Println("started")
		time.Sleep(10 * time.Minute)
	}
}

func part(t *testing.T, how string) *Program {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return &Program{
		Path:   path,
		Name:   "test",
		LogDir: t.TempDir(),
		Env:    WithSecret("SUPERVISE_PART", how),
		Pause:  time.Millisecond,
	}
}

// starts counts how often a part was started.
func starts(t *testing.T, p *Program) int {
	t.Helper()
	log, err := os.ReadFile(filepath.Join(p.LogDir, "a.log"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	return strings.Count(string(log), "started\n")
}

func TestAPartThatGivesUpIsNotStartedAgain(t *testing.T) {
	p := part(t, "fails")
	err := p.Keep(t.Context(), "a", []string{"weights"})
	if !errors.Is(err, ErrEnded) || !strings.Contains(err.Error(), "no room for weights") {
		t.Errorf("it ended with %v", err)
	}
}

func TestAKilledPartIsStartedAgain(t *testing.T) {
	p := part(t, "killed")
	ctx, stop := context.WithCancel(t.Context())
	kept := make(chan error)
	go func() { kept <- p.Keep(ctx, "a", nil) }()
	for deadline := time.Now().Add(time.Minute); starts(t, p) < 3; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it was started %d times in a minute", starts(t, p))
		}
	}
	stop()
	if err := <-kept; err != nil {
		t.Errorf("stopped: %v", err)
	}
}

func TestAPartEndsWithItsContext(t *testing.T) {
	p := part(t, "waits")
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- p.Run(ctx, "a", nil) }()
	for deadline := time.Now().Add(time.Minute); starts(t, p) < 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it did not start in a minute")
		}
	}
	stop()
	if err := <-ended; !errors.Is(err, ErrEnded) {
		t.Error(err)
	}
}

func TestLogsThatCannotBeWritten(t *testing.T) {
	p := part(t, "fails")
	p.LogDir = filepath.Join(p.LogDir, "missing")
	if err := p.Keep(t.Context(), "a", nil); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

func TestFreeAddresses(t *testing.T) {
	address, err := FreeAddress()
	if err != nil || !strings.HasPrefix(address, "127.0.0.1:") {
		t.Errorf("%q, %v", address, err)
	}
}
