package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"parley/compute"
	"parley/internal/stat"
	"parley/model/weights"
)

// A side measures one number for each check of an experiment, and says what
// went wrong that should not have.
type side func(ctx context.Context, round int) (numbers []float64, fault string, err error)

// A bareMeasure runs a network alone, in a process of its own.
type bareMeasure func(ctx context.Context, path string, n Length) (Speed, error)

// A trial is an experiment under way.
type trial struct {
	ours, theirs side
	after        func(round int) error // after each round
	notes        func() []string
	end          func()
}

// round measures both sides; who goes first changes from round to round.
func (t *trial) round(ctx context.Context, round int, samples []Sample) error {
	for turn := range 2 {
		measure, name := t.ours, "parley"
		if (turn+round)%2 == 1 {
			measure, name = t.theirs, "llama.cpp"
		}
		numbers, fault, err := measure(ctx, round)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		for i := range samples {
			if name == "parley" {
				samples[i].Ours = append(samples[i].Ours, numbers[i])
				samples[i].Fault = firstText(samples[i].Fault, fault)
			} else {
				samples[i].Theirs = append(samples[i].Theirs, numbers[i])
			}
		}
	}
	return t.after(round)
}

func firstText(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

// begin prepares an experiment.
func (l *Lab) begin(ctx context.Context, e experiment, path string) (*trial, error) {
	t := &trial{after: func(int) error { return nil }, notes: func() []string { return nil }, end: func() {}}
	switch e.kind {
	case bare:
		return t, l.bare(t, e, path)
	case neighbour:
		l.neighbour(t, path)
		return t, nil
	case streams:
		return t, l.streams(ctx, t, e, path)
	case crowd:
		return t, l.crowd(ctx, t, path)
	}
	return t, l.launch(t, e, path)
}

// bare compares the network alone, and notes how near decoding comes to what
// the memory gives.
func (l *Lab) bare(t *trial, e experiment, path string) error {
	var length Length
	pick := make([]func(Speed) float64, len(e.checks))
	for i, c := range e.checks {
		if c.Metric == decodeMetric {
			length.Generate, pick[i] = 128, func(s Speed) float64 { return s.Decode }
		} else {
			length.Prompt, pick[i] = 512, func(s Speed) float64 { return s.Prefill }
		}
	}
	var seen, ours, theirs []float64 // decode speeds, and what the memory would allow
	take := func(measure bareMeasure, decoded *[]float64) side {
		return func(ctx context.Context, _ int) (numbers []float64, _ string, err error) {
			s, err := measure(ctx, path, length)
			for _, p := range pick {
				numbers = append(numbers, p(s))
			}
			*decoded = append(*decoded, s.Decode)
			return numbers, "", err
		}
	}
	t.ours, t.theirs = take(l.measureOurs, &ours), take(l.llamaBench, &theirs)
	ck, err := weights.Open(path)
	if err != nil {
		return err
	}
	perToken := float64(bytesPerToken(ck))
	t.after = func(int) error {
		perSecond, err := l.meter.measure(l.Threads)
		seen, l.bandwidth = append(seen, perSecond/perToken), append(l.bandwidth, perSecond/1e9)
		return err
	}
	if length.Generate > 0 {
		t.notes = func() []string {
			most := stat.Median(seen)
			return []string{fmt.Sprintf(
				"a token reads %.4g GB of weights, for which the measured bandwidth allows %.4g tokens/s: decode "+
					"reaches %.0f%% of it here, %.0f%% there",
				perToken/1e9, most, 100*stat.Median(ours)/most, 100*stat.Median(theirs)/most)}
		}
	}
	return ck.Close()
}

// neighbour compares decoding beside a program that keeps one core busy with
// decoding alone.
func (l *Lab) neighbour(t *trial, path string) {
	var quiet [2][]float64
	take := func(i int, measure bareMeasure, tokens int) side {
		return func(ctx context.Context, _ int) ([]float64, string, error) {
			alone, err := measure(ctx, path, Length{Generate: 64})
			if err != nil {
				return nil, "", err
			}
			quiet[i] = append(quiet[i], alone.Decode)
			stop, err := l.busyCore(ctx)
			if err != nil {
				return nil, "", err
			}
			defer stop()
			beside, err := measure(ctx, path, Length{Generate: tokens})
			return []float64{beside.Decode / alone.Decode}, "", err
		}
	}
	t.ours = take(0, l.measureOurs, 64)
	t.theirs = take(1, l.llamaBench, 8) // enough: each can take it seconds
	t.notes = func() []string {
		return []string{fmt.Sprintf("quiet: parley %s, llama.cpp %s tokens/s", rounds(quiet[0]), rounds(quiet[1]))}
	}
}

// streams compares eight users at once, and a prompt that is mostly cached.
func (l *Lab) streams(ctx context.Context, t *trial, e experiment, path string) error {
	pair, err := l.startPair(ctx, path, room{streamUsers, 16384})
	if err != nil {
		return err
	}
	t.end = pair.stop
	var lost []string
	take := func(s *server, tries int) side {
		return func(ctx context.Context, round int) (numbers []float64, _ string, err error) {
			for _, c := range e.checks {
				measure := s.together
				if c.LessIsBetter {
					measure = s.cachedTTFT
				}
				number, failed, err := retried(ctx, round, tries, measure)
				if err != nil {
					return nil, "", err
				}
				numbers, lost = append(numbers, number), append(lost, failed...)
			}
			return numbers, "", nil
		}
	}
	t.ours, t.theirs = take(pair.ours, 1), take(pair.theirs, theirTries)
	t.notes = func() []string { return lost }
	return nil
}

// theirTries is how often llama.cpp may try a measurement: its server turns some
// answers of random models into errors when they are complete, because they are
// not valid text. We may try once.
const theirTries = 5

// retried measures with other prompts until nothing fails, and says what did.
func retried(ctx context.Context, round, tries int,
	measure func(context.Context, int) (float64, error)) (number float64, failed []string, err error) {
	for try := range tries {
		number, err = measure(ctx, round+try*RoundsMax)
		if err == nil || ctx.Err() != nil {
			return number, failed, err
		}
		failed = append(failed, fmt.Sprintf("llama.cpp, round %d, measured again: %v", round+1, err))
	}
	return 0, nil, err
}

// crowd compares sixty-four users at once while long prompts come.
func (l *Lab) crowd(ctx context.Context, t *trial, path string) error {
	pair, err := l.startPair(ctx, path, room{crowdUsers, crowdUsers * crowdSlotTokens})
	if err != nil {
		return err
	}
	t.end = pair.stop
	var theirFaults string
	t.ours = func(ctx context.Context, round int) ([]float64, string, error) {
		gap, fault, err := pair.ours.crowdGap(ctx, round)
		return []float64{gap}, fault, err
	}
	t.theirs = func(ctx context.Context, round int) ([]float64, string, error) {
		gap, fault, err := pair.theirs.crowdGap(ctx, round)
		theirFaults = firstText(theirFaults, fault)
		return []float64{gap}, "", err
	}
	t.notes = func() []string {
		if theirFaults == "" {
			return nil
		}
		return []string{"llama.cpp: " + theirFaults}
	}
	return nil
}

// launch compares how long a server takes to its first token, and what memory
// it has then.
func (l *Lab) launch(t *trial, e experiment, path string) error {
	ck, err := weights.Open(path)
	if err != nil {
		return err
	}
	r := room{1, launchTokens}
	// Both keep keys and values in 16 bits unless told otherwise.
	ourBytes := neededBytes(ck, r.tokens, compute.KVBF16)
	theirBytes := ourBytes
	var notes []string
	take := func(name string, start func(context.Context, string, room) (*server, error), needed int64) side {
		return func(ctx context.Context, round int) (numbers []float64, _ string, err error) {
			got, err := launchOnce(ctx, func() (*server, error) { return start(ctx, path, r) })
			if round == 0 {
				notes = append(notes, fmt.Sprintf(
					"%s: %.4g GB of its own and %.4g GB of files; weights and a pool of %d tokens are %.4g GB",
					name, float64(got.memory.own)/1e9, float64(got.memory.files)/1e9, r.tokens, float64(needed)/1e9))
			}
			for _, c := range e.checks {
				number := got.seconds
				if c.Unit == "share" {
					number = float64(got.memory.all()) / float64(needed)
				}
				numbers = append(numbers, number)
			}
			return numbers, "", err
		}
	}
	t.ours, t.theirs = take("parley", l.startOurs, ourBytes), take("llama.cpp", l.startTheirs, theirBytes)
	t.notes = func() []string { return notes }
	return errors.Join(ck.Close(), readThrough(path))
}

// readThrough brings a file into memory.
func readThrough(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.Copy(io.Discard, f)
	return err
}
