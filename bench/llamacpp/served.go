package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"parley/compute"
	"parley/internal/load"
	"parley/internal/stat"
	"parley/model"
	"parley/model/weights"
	"parley/sim/traffic"
)

// A pair is both servers with one model, side by side.
type pair struct{ ours, theirs *server }

// startPair starts both and waits until they answer.
func (l *Lab) startPair(ctx context.Context, path string, r room) (p *pair, err error) {
	p = &pair{}
	defer func() {
		if err != nil {
			p.stop()
		}
	}()
	if p.ours, err = l.startOurs(ctx, path, r); err != nil {
		return p, err
	}
	if _, err = p.ours.firstToken(ctx, fresh(0, 8, 1)); err != nil {
		return p, err
	}
	if p.theirs, err = l.startTheirs(ctx, path, r); err != nil {
		return p, err
	}
	_, err = p.theirs.firstToken(ctx, fresh(0, 8, 1))
	return p, err
}

func (p *pair) stop() {
	for _, s := range []*server{p.ours, p.theirs} {
		if s != nil {
			s.stop()
		}
	}
}

// fresh returns a request that has nothing in common with those of another
// number.
func fresh(number uint64, prompt, output int) traffic.Request {
	return traffic.Request{Prompt: []traffic.Part{{Role: traffic.User, Key: number, Tokens: prompt}},
		OutputTokens: output}
}

// The numbers of requests: each round of each experiment has its own, so that
// nothing is found in a cache that should not be.
const (
	roundNumbers   = 1 << 16
	streamsNumbers = 1 << 8
	cachedNumbers  = 1 << 9
	crowdNumbers   = 1 << 10
)

func numberOf(round, of, i int) uint64 { return uint64((round+1)*roundNumbers + of + i) }

// Eight users with a prompt and an answer each.
const (
	streamUsers  = 8
	streamPrompt = 129
	streamOutput = 128
)

// together returns the output tokens a second of eight streams, from the first
// request to the last end.
func (s *server) together(ctx context.Context, round int) (float64, error) {
	var plan load.Plan
	for i := range streamUsers {
		plan.Users = append(plan.Users, once(fresh(numberOf(round, streamsNumbers, i), streamPrompt, streamOutput)))
	}
	result, err := s.send(ctx, plan)
	if err != nil {
		return 0, err
	}
	if bad := failures(result.Records); bad != "" {
		return 0, errors.New(bad)
	}
	return streamUsers * streamOutput / result.Elapsed.Seconds(), nil
}

func once(r traffic.Request) iter.Seq[traffic.Request] {
	return slices.Values([]traffic.Request{r})
}

func (s *server) send(ctx context.Context, plan load.Plan) (*load.Result, error) {
	plan.RequestsMax, plan.DurationMax = load.RequestsLimit, time.Hour
	result, err := load.Run(ctx, s.Client, plan)
	if err == nil && result.Interrupted {
		err = ctx.Err()
	}
	return result, err
}

// failures says what went wrong with the requests, or nothing.
func failures(records []load.Record) string {
	n, first := 0, ""
	for i := range records {
		if r := &records[i]; r.Outcome != load.Completed || r.OutputTokens != r.WantedTokens {
			if n++; n == 1 {
				first = fmt.Sprintf("%s %s %s, %d of %d tokens", r.Outcome, r.Kind, r.Message, r.OutputTokens,
					r.WantedTokens)
			}
		}
	}
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d requests failed, such as: %s", n, len(records), first)
}

// A prompt of which the server has seen all but the end.
const (
	cachedTokens = 1400
	newTokens    = 100
)

// cachedTTFT sends a prompt and then another that begins with the same 1400
// tokens, and returns the milliseconds until the first token of the second.
func (s *server) cachedTTFT(ctx context.Context, round int) (float64, error) {
	var ttft time.Duration
	for i := range 2 {
		r := fresh(numberOf(round, cachedNumbers, 0), cachedTokens, 1)
		r.Prompt = append(r.Prompt,
			traffic.Part{Role: traffic.User, Key: numberOf(round, cachedNumbers, 1+i), Tokens: newTokens})
		record := s.Send(ctx, &r, time.Now())
		if bad := failures([]load.Record{record}); bad != "" {
			return 0, errors.New(bad)
		}
		ttft = time.Duration(record.TTFT)
	}
	return milliseconds(ttft), nil
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// Sixty-four users: most read short answers, and one sends one long prompt after
// the other, which is what makes the others wait. It is little enough that a round
// of a 1B model takes minutes on two slow cores, not a quarter of an hour.
const (
	crowdUsers      = 64
	longUsers       = 1
	longRequests    = 2
	longPrompt      = 1500
	longOutput      = 8
	crowdPrompt     = 32
	crowdOutput     = 24
	crowdSlotTokens = 1792 // holds a long prompt with its answer
)

// crowdGap returns the 99th percentile, over the short answers, of the longest
// gap within one, in milliseconds, and what failed.
func (s *server) crowdGap(ctx context.Context, round int) (gap float64, fault string, err error) {
	var plan load.Plan
	for i := range crowdUsers - longUsers {
		plan.Users = append(plan.Users, once(fresh(numberOf(round, crowdNumbers, i), crowdPrompt, crowdOutput)))
	}
	for i := range longUsers {
		var long []traffic.Request
		for k := range longRequests {
			long = append(long,
				fresh(numberOf(round, crowdNumbers, crowdUsers+longRequests*i+k), longPrompt, longOutput))
		}
		plan.Users = append(plan.Users, slices.Values(long))
	}
	result, err := s.send(ctx, plan)
	if err != nil {
		return 0, "", err
	}
	var gaps []float64
	for i := range result.Records {
		if r := &result.Records[i]; r.Outcome == load.Completed && r.WantedTokens == crowdOutput {
			gaps = append(gaps, milliseconds(time.Duration(r.Gap)))
		}
	}
	fault = failures(result.Records)
	if len(gaps) == 0 {
		return 0, "", errors.New("no answer of 64 was completed: " + fault)
	}
	slices.Sort(gaps)
	return gaps[stat.Rank(0.99, len(gaps))], fault, nil
}

// launchTokens is a small pool, so that it cannot hide what else takes memory.
const launchTokens = 2048

// A launched is what a start took.
type launched struct {
	seconds float64
	memory  footprint
}

// launchOnce starts a server, waits for its first token and ends it.
func launchOnce(ctx context.Context, start func() (*server, error)) (l launched, err error) {
	s, err := start()
	if err != nil {
		return l, err
	}
	defer s.stop()
	took, err := s.firstToken(ctx, fresh(0, 8, 1))
	if err != nil {
		return l, err
	}
	l.seconds = took.Seconds()
	l.memory, err = s.footprint()
	return l, err
}

// neededBytes is what a model and a pool of the given number of tokens take at least, with
// keys and values of the given type.
func neededBytes(ck *weights.Checkpoint, tokens int, kind compute.KVType) int64 {
	return ck.Bytes() + model.KVShape(&ck.Config, tokens/compute.BlockTokens, kind).Bytes()
}
