package llamacpp

import (
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"parley/internal/load"
	"parley/model/weights"
)

// who returns a side that notes its turns.
func who(name string, turns *[]string, fault string, err error) side {
	return func(_ context.Context, round int) ([]float64, string, error) {
		*turns = append(*turns, name)
		return []float64{float64(round), 10}, fault, err
	}
}

func TestRoundsAlternate(t *testing.T) {
	var turns []string
	trial := &trial{ours: who("ours", &turns, "", nil), theirs: who("theirs", &turns, "their fault", nil),
		after: func(int) error { return nil }}
	samples := make([]Sample, 2)
	for round := range 3 {
		if err := trial.round(t.Context(), round, samples); err != nil {
			t.Fatal(err)
		}
	}
	if want := "ours theirs theirs ours ours theirs"; strings.Join(turns, " ") != want {
		t.Errorf("%v, want %s", turns, want)
	}
	if want := []float64{0, 1, 2}; !slices.Equal(samples[0].Ours, want) || !slices.Equal(samples[0].Theirs, want) ||
		samples[1].Fault != "" {
		t.Errorf("%+v", samples)
	}
}

// TestWritingAModelCanBeInterrupted wants no file of a model that nobody waited for.
func TestWritingAModelCanBeInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l := &Lab{Models: t.TempDir()}
	if _, err := l.model(ctx, Model{large, weights.BF16}); !errors.Is(err, context.Canceled) {
		t.Errorf("interrupted: %v", err)
	}
	if left, err := os.ReadDir(l.Models); err != nil || len(left) > 0 {
		t.Errorf("left %v (%v)", left, err)
	}
}

func TestRoundsTellWhatWentWrong(t *testing.T) {
	var turns []string
	trial := &trial{ours: who("ours", &turns, "a request failed", nil), theirs: who("theirs", &turns, "", nil),
		after: func(int) error { return nil }}
	samples := make([]Sample, 1)
	if err := trial.round(t.Context(), 0, samples); err != nil || samples[0].Fault != "a request failed" {
		t.Errorf("%+v %v", samples, err)
	}
	broken := errors.New("out of memory")
	trial.theirs = who("theirs", &turns, "", broken)
	if err := trial.round(t.Context(), 1, samples); !errors.Is(err, broken) ||
		!strings.HasPrefix(err.Error(), "llama.cpp: ") {
		t.Errorf("%v", err)
	}
}

func TestRunChecksBeforeItBegins(t *testing.T) {
	for want, lab := range map[string]*Lab{
		"0 rounds": {Threads: 1}, "101 rounds": {Rounds: 101, Threads: 1}, "0 threads": {Rounds: 1},
		`"decoding"`: {Rounds: 1, Threads: 1, Only: []string{"decoding"}},
	} {
		if _, err := lab.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestFailuresCountShortAnswersToo(t *testing.T) {
	whole := load.Record{Outcome: load.Completed, OutputTokens: 8, WantedTokens: 8}
	short := load.Record{Outcome: load.Completed, OutputTokens: 7, WantedTokens: 8}
	refused := load.Record{Outcome: load.Rejected, Kind: "http 503", WantedTokens: 8}
	if text := failures([]load.Record{whole, whole}); text != "" {
		t.Error(text)
	}
	if text := failures([]load.Record{whole, short, refused}); !strings.HasPrefix(text,
		"2 of 3 requests failed, such as: completed") {
		t.Error(text)
	}
}

// Requests of different rounds and experiments have nothing in common.
func TestNumbersAreNeverUsedTwice(t *testing.T) {
	seen := map[uint64]bool{}
	for round := range theirTries * RoundsMax {
		for of, n := range map[int]int{streamsNumbers: streamUsers, cachedNumbers: 3,
			crowdNumbers: crowdUsers + longUsers*longRequests} {
			for i := range n {
				number := numberOf(round, of, i)
				if seen[number] || number == 0 {
					t.Fatalf("number %d of round %d is used twice", number, round)
				}
				seen[number] = true
			}
		}
	}
}

func TestRetriedUsesOtherPrompts(t *testing.T) {
	broken := errors.New("not valid text")
	var rounds []int
	flaky := func(_ context.Context, round int) (float64, error) {
		if rounds = append(rounds, round); len(rounds) < 3 {
			return 0, broken
		}
		return 7, nil
	}
	number, failed, err := retried(t.Context(), 2, 5, flaky)
	if number != 7 || err != nil || len(failed) != 2 ||
		!slices.Equal(rounds, []int{2, 2 + RoundsMax, 2 + 2*RoundsMax}) {
		t.Errorf("%g %q %v after rounds %v", number, failed, err, rounds)
	}
	rounds = nil
	if _, _, err := retried(t.Context(), 0, 1, flaky); !errors.Is(err, broken) || len(rounds) != 1 {
		t.Errorf("one try of one: %v after rounds %v", err, rounds)
	}
}
