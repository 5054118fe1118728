package cli

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

// A ProgressBar draws a bar with rate and time left on a terminal. On anything
// else it stays quiet.
type ProgressBar struct {
	out      io.Writer
	Name     string
	amount   AmountText
	Terminal bool
	mu       sync.Mutex
	started  time.Time
	drawn    time.Time
}

const (
	progressWidth = 28
	progressEvery = 100 * time.Millisecond
)

// An AmountText writes an amount of what a progress counts.
type AmountText func(amount float64) string

// ByteAmount writes a number of bytes.
func ByteAmount(bytes float64) string { return host.Size(int64(bytes)) }

// CountAmount writes a number with at most one decimal.
func CountAmount(n float64) string { return strconv.FormatFloat(math.Round(10*n)/10, 'f', -1, 64) }

// NewProgress returns a bar on out under a name.
func NewProgress(out io.Writer, name string, amount AmountText) *ProgressBar {
	return &ProgressBar{
		out:      out,
		Name:     name,
		amount:   amount,
		Terminal: IsTerminal(out),
		started:  time.Now(),
	}
}

// IsTerminal reports whether a person reads what is written to w.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(f)
}

// Update draws the state if it is time to.
func (p *ProgressBar) Update(done, total int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !p.Terminal || total <= 0 || (now.Sub(p.drawn) < progressEvery && done < total) {
		return
	}
	p.drawn = now
	fmt.Fprintf(p.out, "\r%s\x1b[K", p.line(done, total, now.Sub(p.started)))
}

// line is one state of the bar, as text.
func (p *ProgressBar) line(done, total int64, elapsed time.Duration) string {
	filled := int(progressWidth * done / total)
	bar := strings.Repeat("█", filled) + strings.Repeat("░", progressWidth-filled)
	line := fmt.Sprintf("%s %s %3d%% %s of %s", p.Name, bar, 100*done/total, p.amount(float64(done)),
		p.amount(float64(total)))
	if done == 0 || elapsed <= 0 {
		return line
	}
	rate := float64(done) / elapsed.Seconds()
	left := time.Duration(float64(total-done) / rate * float64(time.Second))
	return fmt.Sprintf("%s, %s/s, %s left", line, p.amount(rate), left.Round(time.Second))
}

// Finish leaves the bar on the screen and starts a new line.
func (p *ProgressBar) Finish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.Terminal {
		fmt.Fprintln(p.out)
	}
}
