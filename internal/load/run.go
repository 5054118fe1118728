package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"parley/sim/traffic"
)

// A Plan says which requests are sent when. Either Users or Schedule is set.
type Plan struct {
	// Users makes a closed loop: each user sends the requests of one sequence,
	// one after the other, and pauses for Think after each answer.
	Users []iter.Seq[traffic.Request]
	Think traffic.Gaps
	// Schedule makes an open loop: each request is sent at its time.
	Schedule iter.Seq[traffic.Request]
	// WarmUp is sent first, one request after the other, and not recorded. If
	// one of them fails, so does the run: the server cannot be measured.
	WarmUp iter.Seq[traffic.Request]
	// RequestsMax and DurationMax end the run: no request starts after either,
	// and those under way are waited for. Both must be given.
	RequestsMax int
	DurationMax time.Duration
	// InFlightMax bounds the requests under way in an open loop; 0 means 4096.
	// Requests beyond it are dropped, and counted: an open loop does not wait.
	InFlightMax int
	// Seed decides the users' thinking.
	Seed uint64
	// Progress is called after each request, by one goroutine at a time.
	Progress func(done int, elapsed time.Duration)
}

// The bounds of a [Plan]: a slip of the keyboard should not keep a server busy
// for days.
const (
	RequestsLimit   = 1_000_000
	DurationLimit   = 24 * time.Hour
	UsersLimit      = 10_000
	inFlightDefault = 4096
)

// Validate reports everything that is wrong with the plan.
func (p *Plan) Validate() error {
	var problems []error
	if (len(p.Users) > 0) == (p.Schedule != nil) {
		problems = append(problems, errors.New("a plan has either users or a schedule"))
	}
	if len(p.Users) > UsersLimit {
		problems = append(problems, fmt.Errorf("%d users: expected at most %d", len(p.Users), UsersLimit))
	}
	if p.RequestsMax < 1 || p.RequestsMax > RequestsLimit {
		problems = append(problems, fmt.Errorf("%d requests: expected 1 to %d", p.RequestsMax, RequestsLimit))
	}
	if p.DurationMax <= 0 || p.DurationMax > DurationLimit {
		problems = append(problems,
			fmt.Errorf("a duration of %v: expected more than 0 and at most %v", p.DurationMax, DurationLimit))
	}
	if p.InFlightMax < 0 {
		problems = append(problems, fmt.Errorf("%d requests under way: expected 0 or more", p.InFlightMax))
	}
	return errors.Join(append(problems, p.Think.Validate())...)
}

// A Result is what a run recorded.
type Result struct {
	Started time.Time
	// Elapsed is the time from the start to the last end.
	Elapsed time.Duration
	// Interrupted is true if the context ended the run: records of requests that
	// were under way are Unfinished.
	Interrupted bool
	// Records are in the order of their intended starts.
	Records []Record
}

// Run sends what the plan says. If ctx ends, requests under way are given up
// and the result holds what was recorded by then.
func Run(ctx context.Context, c *Client, p Plan) (*Result, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	if err := warmUp(ctx, c, p.WarmUp); err != nil {
		return nil, err
	}
	r := &running{client: c, plan: &p, started: time.Now()}
	if p.Schedule != nil {
		r.open(ctx)
	} else {
		r.closed(ctx)
	}
	slices.SortStableFunc(r.records, func(a, b Record) int { return cmp.Compare(a.Intended, b.Intended) })
	return &Result{Started: r.started, Elapsed: time.Since(r.started), Interrupted: ctx.Err() != nil,
		Records: r.records}, nil
}

// warmUp lets the server load, compile and allocate what only the first
// requests make it do.
func warmUp(ctx context.Context, c *Client, requests iter.Seq[traffic.Request]) error {
	if requests == nil {
		return nil
	}
	for request := range requests {
		record := c.Send(ctx, &request, time.Now())
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if record.Outcome != Completed {
			return fmt.Errorf("the server did not answer a warm-up request: %w",
				&failure{record.Outcome, record.Kind, record.Message})
		}
	}
	return nil
}

// running is the state of a run.
type running struct {
	client  *Client
	plan    *Plan
	started time.Time

	mu      sync.Mutex
	claimed int
	records []Record
}

// closed lets all users ask at the same time.
func (r *running) closed(ctx context.Context) {
	var users sync.WaitGroup
	for i, requests := range r.plan.Users {
		users.Go(func() { r.user(ctx, requests, r.plan.Think.From(r.plan.Seed+uint64(i))) })
	}
	users.Wait()
}

// user asks, waits for the answer, and thinks.
func (r *running) user(ctx context.Context, requests iter.Seq[traffic.Request], think func() time.Duration) {
	for request := range requests {
		if !r.claim(ctx) {
			return
		}
		r.send(ctx, &request, time.Now())
		until := time.Now().Add(think())
		if end := r.started.Add(r.plan.DurationMax); until.After(end) {
			return
		}
		if !sleepUntil(ctx, until) {
			return
		}
	}
}

// open sends each request at its time. It never waits for an answer.
func (r *running) open(ctx context.Context) {
	underWay := make(chan struct{}, cmp.Or(r.plan.InFlightMax, inFlightDefault))
	var requests sync.WaitGroup
	defer requests.Wait()
	for request := range r.plan.Schedule {
		intended := r.started.Add(request.At)
		if request.At >= r.plan.DurationMax || !sleepUntil(ctx, intended) || !r.claim(ctx) {
			return
		}
		select {
		case underWay <- struct{}{}:
			requests.Go(func() {
				r.send(ctx, &request, intended)
				<-underWay
			})
		default:
			r.keep(Record{WantedTokens: request.OutputTokens, Outcome: Dropped, Kind: "too many under way"}, intended)
		}
	}
}

// claim takes one of the requests that the plan allows, if there is one left.
func (r *running) claim(ctx context.Context) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil || r.claimed == r.plan.RequestsMax || time.Since(r.started) >= r.plan.DurationMax {
		return false
	}
	r.claimed++
	return true
}

func (r *running) send(ctx context.Context, request *traffic.Request, intended time.Time) {
	r.keep(r.client.Send(ctx, request, intended), intended)
}

func (r *running) keep(record Record, intended time.Time) {
	record.Intended = Millis(intended.Sub(r.started))
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, record)
	if r.plan.Progress != nil {
		r.plan.Progress(len(r.records), time.Since(r.started))
	}
}

// sleepUntil reports whether the time came before the end of ctx.
func sleepUntil(ctx context.Context, at time.Time) bool {
	wait := time.Until(at)
	if wait <= 0 {
		return ctx.Err() == nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
