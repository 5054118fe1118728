package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"

	"parley/worker/host"
)

// A progress draws a bar with rate and time left on a terminal. On anything
// else it stays quiet.
type progress struct {
	out      io.Writer
	name     string
	terminal bool
	mu       sync.Mutex
	started  time.Time
	drawn    time.Time
}

const (
	progressWidth = 28
	progressEvery = 100 * time.Millisecond
)

func newProgress(out io.Writer, name string) *progress {
	return &progress{out: out, name: name, terminal: isTerminal(out), started: time.Now()}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// update draws the state if it is time to.
func (p *progress) update(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.terminal || total <= 0 || (now.Sub(p.drawn) < progressEvery && done < total) {
		return
	}
	p.drawn = now
	fmt.Fprintf(p.out, "\r%s\x1b[K", progressLine(p.name, done, total, now.Sub(p.started)))
}

// progressLine is one state of the bar, as text.
func progressLine(name string, done, total int64, elapsed time.Duration) string {
	filled := int(progressWidth * done / total)
	bar := strings.Repeat("█", filled) + strings.Repeat("░", progressWidth-filled)
	line := fmt.Sprintf("%s %s %3d%% %s of %s", name, bar, 100*done/total, host.Size(done), host.Size(total))
	if done == 0 || elapsed <= 0 {
		return line
	}
	rate := float64(done) / elapsed.Seconds()
	left := time.Duration(float64(total-done) / rate * float64(time.Second))
	return fmt.Sprintf("%s, %s/s, %s left", line, host.Size(int64(rate)), left.Round(time.Second))
}

// finish leaves the bar on the screen and starts a new line.
func (p *progress) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		fmt.Fprintln(p.out)
	}
}
