package fleetctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"parley/fleet"
	"parley/fleet/scale"
)

// Sleepers are workers that are put to sleep and woken, Parley's and vLLM's.
type sleepers struct {
	order func(ctx context.Context, worker, verb string) error
	// woken is since when a worker wakes.
	woken map[string]time.Time
	ready time.Duration // that a worker took to wake, lately
}

// observe notes which workers are awake by now, and which will not be: a worker that is lost or
// drained while it wakes gets no work.
func (s *sleepers) observe(_ context.Context, workers []fleet.Standing, now time.Time) (int, time.Duration) {
	for name := range s.woken {
		if !slices.ContainsFunc(workers, func(w fleet.Standing) bool { return w.Name == name && comes(w.State) }) {
			delete(s.woken, name)
		}
	}
	for _, w := range workers {
		if since, wakes := s.woken[w.Name]; wakes && w.State == fleet.Up {
			took := now.Sub(since)
			if s.ready == 0 {
				s.ready = took
			}
			s.ready += (took - s.ready) / 4
			delete(s.woken, w.Name)
		}
	}
	return len(s.woken), s.ready
}

// comes reports whether a worker that was woken gets work, now or soon.
func comes(s fleet.State) bool {
	return s == fleet.Up || s == fleet.Asleep || s == fleet.Waking || s == fleet.Warming
}

// set wakes workers, or has those with the fewest answers sleep. A worker that cannot
// sleep always counts.
func (s *sleepers) set(ctx context.Context, want scale.Sizing, workers []fleet.Standing, now time.Time) error {
	var awake, asleep []fleet.Standing
	for _, w := range workers {
		_, wakes := s.woken[w.Name]
		switch {
		case w.State == fleet.Up || w.State == fleet.Waking || w.State == fleet.Warming || wakes:
			awake = append(awake, w)
		case w.State == fleet.Asleep:
			asleep = append(asleep, w)
		}
	}
	for i := 0; i < len(asleep) && len(awake)+i < want.Workers; i++ {
		if err := s.order(ctx, asleep[i].Name, "wake"); err != nil {
			return err
		}
		s.woken[asleep[i].Name] = now
	}
	slices.SortStableFunc(awake, func(a, b fleet.Standing) int { return a.Answering - b.Answering })
	for over := len(awake) - want.Workers; over > 0 && len(awake) > 0; awake = awake[1:] {
		if _, wakes := s.woken[awake[0].Name]; wakes || !awake[0].Sleeps {
			continue
		}
		if err := s.order(ctx, awake[0].Name, "sleep?within="+drainWithin.String()); err != nil {
			return err
		}
		over--
	}
	return nil
}

// An advisor changes nothing: another autoscaler acts on the metrics.
type advisor struct{}

func (advisor) observe(context.Context, []fleet.Standing, time.Time) (int, time.Duration) {
	return 0, 0
}

func (advisor) set(context.Context, scale.Sizing, []fleet.Standing, time.Time) error { return nil }

// An externalActuator has a program or a service change the number of workers: a cloud's
// command line, or a webhook. It is called when the number changes, and again if it failed.
type externalActuator struct {
	command, webhook string
	asked            int // how many workers were asked for last; -1 before the first time
	since            time.Time
	ready            time.Duration
}

// observe measures how long it takes until as many workers are up as were asked for.
func (o *externalActuator) observe(_ context.Context, workers []fleet.Standing, now time.Time) (int, time.Duration) {
	up := 0
	for _, w := range workers {
		if w.State == fleet.Up {
			up++
		}
	}
	if !o.since.IsZero() && up >= o.asked {
		o.ready, o.since = now.Sub(o.since), time.Time{}
	}
	return max(0, o.asked-up), o.ready
}

// set reports the number, if it is another one.
func (o *externalActuator) set(ctx context.Context, want scale.Sizing, _ []fleet.Standing, now time.Time) error {
	if want.Workers == o.asked {
		return nil
	}
	tell := o.run
	if o.webhook != "" {
		tell = o.post
	}
	if err := tell(ctx, want); err != nil {
		return err
	}
	if want.Workers > o.asked && o.asked >= 0 {
		o.since = now
	}
	o.asked = want.Workers
	return nil
}

// run runs the command, which finds the number in PARLEY_WORKERS and why in PARLEY_REASON.
func (o *externalActuator) run(ctx context.Context, want scale.Sizing) error {
	c := exec.CommandContext(ctx, "sh", "-c", o.command)
	c.Env = append(os.Environ(), "PARLEY_WORKERS="+strconv.Itoa(want.Workers), "PARLEY_REASON="+want.Why)
	if said, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("the command for %d workers: %w: %s", want.Workers, err, said[:min(len(said), errorShown)])
	}
	return nil
}

// errorShown is how much of what a command said an error has.
const errorShown = 500

// post sends the number to the webhook.
func (o *externalActuator) post(ctx context.Context, want scale.Sizing) error {
	body, err := json.Marshal(struct {
		Workers  int     `json:"workers"`
		Why      string  `json:"why"`
		Expected float64 `json:"expected_requests_per_second"`
	}{want.Workers, want.Why, want.Expected})
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, o.webhook, bytes.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<20))
	if err = errors.Join(err, resp.Body.Close()); err == nil && resp.StatusCode/100 != 2 {
		err = fmt.Errorf("the webhook for %d workers answered %s", want.Workers, resp.Status)
	}
	return err
}
