package gateway

import (
	"context"
	"errors"
	"flag"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/infer"
	"parley/gateway/models"
	"parley/internal/chart"
	"parley/internal/testkit"
)

var stormPlot = flag.String("storm", "", "draw the storm into this file, relative to the root")

// The worker of the storm is an engine that batches: up to stormBest answers are
// written at once at full speed, and more share what that many get. It takes in
// stormSeqs, as ours does; who comes then waits there, first come first served,
// for as long as the client does.
const (
	stormBest   = 16
	stormSeqs   = 128
	stormTokens = 41                    // of an answer on average, 21 to 61
	stormPass   = 50 * time.Millisecond // for each token at full speed
	stormPrompt = 4                     // passes before the first
	// stormEach is how long an answer takes at full speed: 2.2 s.
	stormEach = (stormPrompt + stormTokens - 1) * stormPass
)

// A batching worker is that engine.
type batching struct {
	places chan struct{}
	inside atomic.Int64
	came   atomic.Int64
}

func (b *batching) Models() []parley.Model { return []parley.Model{{ID: modelID, ContextTokens: 100}} }

// Generate writes an answer. Answers differ in length.
func (b *batching) Generate(ctx context.Context, r *parley.Request) iter.Seq2[parley.Delta, error] {
	return func(yield func(parley.Delta, error) bool) {
		select {
		case b.places <- struct{}{}:
		case <-ctx.Done():
			yield(parley.Delta{}, ctx.Err())
			return
		}
		b.inside.Add(1)
		defer func() {
			b.inside.Add(-1)
			<-b.places
		}()
		tokens := stormTokens/2 + 1 + int(b.came.Add(17)%stormTokens)
		for i := range tokens + stormPrompt - 1 {
			select {
			case <-time.After(stormPass * time.Duration(max(b.inside.Load(), stormBest)) / stormBest):
			case <-ctx.Done():
				yield(parley.Delta{}, ctx.Err())
				return
			}
			d := parley.Delta{Tokens: []parley.Token{9}}
			if i < stormPrompt-1 {
				continue
			}
			if i == tokens+stormPrompt-2 {
				d.Finish, d.Usage = parley.FinishLength, &parley.Usage{PromptTokens: len(r.Prompt),
					OutputTokens: tokens}
			}
			if !yield(d, nil) {
				return
			}
		}
	}
}

// The clients: they leave an answer that is not complete in time, and whatever
// they are told they try again at once.
const (
	stormPatience = 10 * time.Second
	stormTrip     = 100 * time.Millisecond // there and back
	stormCalm     = 10 * time.Second
	stormLasts    = 30 * time.Second
	stormComes    = 4 * time.Second // until all are there
	stormAfter    = 15 * time.Second
)

// A storm counts the answers that clients got whole, by the second.
type storm struct {
	gateway *Gateway
	began   time.Time
	mu      sync.Mutex
	whole   []int
	asked   int
	refused int
}

// client asks again and again until ctx ends.
func (s *storm) client(ctx context.Context) {
	for ctx.Err() == nil {
		time.Sleep(stormTrip)
		status := s.ask(ctx)
		s.mu.Lock()
		s.asked++
		if status == http.StatusOK {
			s.whole[int(time.Since(s.began).Seconds())]++
		} else if status != 0 {
			s.refused++
		}
		s.mu.Unlock()
	}
}

// ask returns the status of a whole answer, and 0 if it did not come in time.
func (s *storm) ask(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, stormPatience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody("")))
	if err != nil {
		panic(err)
	}
	r.Header.Set("Content-Type", "application/json")
	w := &memoryResponse{header: http.Header{}}
	c := s.gateway.newCall(w, r)
	s.gateway.answer(c)
	if ctx.Err() != nil {
		return 0
	}
	return c.Status
}

// runStorm returns how much of its capacity the server made whole answers of,
// second by second: before, during and after a storm of ten times as many clients
// as it can serve.
func runStorm(t *testing.T, layers bool) (goodput []float64, s *storm) {
	synctest.Test(t, func(t *testing.T) {
		w := &batching{places: make(chan struct{}, stormSeqs)}
		g, err := New(Config{
			Models:    []models.Config{{ID: modelID, Worker: w, Tokenizer: tinyTokenizer(), Template: tinyTemplate(t)}},
			Log:       slog.New(slog.DiscardHandler),
			Admission: infer.Admission{Off: !layers},
		})
		if err != nil {
			t.Fatal(err)
		}
		all := stormCalm + stormLasts + stormAfter
		s = &storm{gateway: g, began: time.Now(), whole: make([]int, int(all.Seconds())+1)}
		ctx, cancel := context.WithTimeout(t.Context(), all)
		defer cancel()
		var group sync.WaitGroup
		usual := stormBest * 8 / 10
		for range usual {
			group.Go(func() { s.client(ctx) })
		}
		time.Sleep(stormCalm)
		within, end := context.WithTimeout(ctx, stormLasts)
		defer end()
		for range 10*stormBest - usual {
			group.Go(func() { s.client(within) })
			time.Sleep(stormComes / (10 * stormBest))
		}
		group.Wait()
		g.Close(t.Context())
	})
	capacity := stormBest / stormEach.Seconds()
	for _, n := range s.whole[:len(s.whole)-1] {
		goodput = append(goodput, float64(n)/capacity)
	}
	return goodput, s
}

func mean(x []float64) (m float64) {
	for _, v := range x {
		m += v / float64(len(x))
	}
	return m
}

// TestStorm: with the layers goodput stays above 90 % of the capacity and is back
// to normal within three seconds; without them it falls below half.
func TestStorm(t *testing.T) {
	on, s := runStorm(t, true)
	off, _ := runStorm(t, false)
	from, to := int(stormCalm.Seconds()), int((stormCalm + stormLasts).Seconds())
	with, without, after := mean(on[from:to]), mean(off[from:to]), mean(on[to+3:])
	t.Logf(
		"%d requests, %d turned away; goodput in the storm %.3f of capacity with the layers, %.3f without; from "+
			"three seconds after it %.3f", s.asked, s.refused, with, without, after)
	if with < 0.9 {
		t.Errorf("with the layers goodput is %.3f of capacity: %.2f", with, on)
	}
	if without > 0.5 {
		t.Errorf("without the layers goodput is %.3f of capacity: the test shows nothing", without)
	}
	usual := float64(stormBest*8/10) / stormBest * stormEach.Seconds() / (stormEach + stormTrip).Seconds()
	if after < 0.9*usual {
		t.Errorf("goodput is %.3f after the storm, and should be %.3f: %.2f", after, usual, on)
	}
	if *stormPlot != "" {
		drawStorm(t, on, off)
	}
}

func drawStorm(t *testing.T, on, off []float64) {
	plot := chart.TimeSeries{
		Title: "Ten times as many clients as can be served, who try again at once",
		X:     "seconds", Y: "whole answers, as a share of capacity", Step: 1, Level: 1, LevelLabel: "capacity",
		From: stormCalm.Seconds(), To: (stormCalm + stormLasts).Seconds(), SpanLabel: "storm",
		Lines: []chart.Line{{Label: "with the five layers", Values: smooth(on), Good: true},
			{Label: "without them", Values: smooth(off)}},
	}
	f, err := os.Create(filepath.Join(testkit.Root(), *stormPlot))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(plot.WriteSVG(f), f.Close()); err != nil {
		t.Error(err)
	}
}

// smooth returns means over five seconds.
func smooth(x []float64) (out []float64) {
	for i := range x {
		out = append(out, mean(x[max(0, i-2):min(len(x), i+3)]))
	}
	return out
}
