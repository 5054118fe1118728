package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/internal/term"
	"parley/worker/host"
)

// A progressBar draws a bar with rate and time left on a terminal. On anything
// else it stays quiet.
type progressBar struct {
	out      io.Writer
	name     string
	amount   amountText
	terminal bool
	mu       sync.Mutex
	started  time.Time
	drawn    time.Time
}

const (
	progressWidth = 28
	progressEvery = 100 * time.Millisecond
)

// An amountText writes an amount of what a progress counts.
type amountText func(amount float64) string

func byteAmount(bytes float64) string { return host.Size(int64(bytes)) }
func countAmount(n float64) string    { return strconv.FormatFloat(math.Round(10*n)/10, 'f', -1, 64) }

func newProgress(out io.Writer, name string, amount amountText) *progressBar {
	return &progressBar{
		out:      out,
		name:     name,
		amount:   amount,
		terminal: isTerminal(out),
		started:  time.Now(),
	}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(f)
}

// update draws the state if it is time to.
func (p *progressBar) update(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.terminal || total <= 0 || (now.Sub(p.drawn) < progressEvery && done < total) {
		return
	}
	p.drawn = now
	fmt.Fprintf(p.out, "\r%s\x1b[K", p.line(done, total, now.Sub(p.started)))
}

// line is one state of the bar, as text.
func (p *progressBar) line(done, total int64, elapsed time.Duration) string {
	filled := int(progressWidth * done / total)
	bar := strings.Repeat("█", filled) + strings.Repeat("░", progressWidth-filled)
	line := fmt.Sprintf("%s %s %3d%% %s of %s", p.name, bar, 100*done/total, p.amount(float64(done)),
		p.amount(float64(total)))
	if done == 0 || elapsed <= 0 {
		return line
	}
	rate := float64(done) / elapsed.Seconds()
	left := time.Duration(float64(total-done) / rate * float64(time.Second))
	return fmt.Sprintf("%s, %s/s, %s left", line, p.amount(rate), left.Round(time.Second))
}

// finish leaves the bar on the screen and starts a new line.
func (p *progressBar) finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.terminal {
		fmt.Fprintln(p.out)
	}
}
