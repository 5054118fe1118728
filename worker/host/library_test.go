package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/internal/testkit"
	"parley/model/weights"
)

// A journal collects the events that a library logs.
type journal struct{ events chan string }

func (j journal) Enabled(context.Context, slog.Level) bool { return true }
func (j journal) WithAttrs([]slog.Attr) slog.Handler       { return j }
func (j journal) WithGroup(string) slog.Handler            { return j }
func (j journal) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "model" {
			text += " " + a.Value.String()
		}
		return true
	})
	j.events <- text
	return nil
}

// newLibrary has the golden models, and room for some of them.
func newLibrary(t *testing.T, cfg LibraryConfig, rooms int) (*Library, []*Title, journal) {
	t.Helper()
	j := journal{make(chan string, 100)}
	cfg.Log, cfg.Budget = slog.New(j), 1<<40
	if cfg.Registry == nil {
		cfg.Registry = prometheus.NewRegistry()
	}
	l := NewLibrary(cfg)
	var titles []*Title
	var largest int64
	for _, name := range []string{"tiny-llama", "tiny-qwen2", "tiny-qwen3"} {
		title, err := l.Add(Config{Name: name, StepTokens: 64, Seqs: 4, NoSpeculation: true}, openGolden(name))
		if err != nil {
			t.Fatal(err)
		}
		titles = append(titles, title)
		largest = max(largest, title.need)
	}
	l.cfg.Budget = largest * int64(rooms)
	t.Cleanup(func() {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	})
	return l, titles, j
}

func openGolden(name string) func() (*weights.Checkpoint, error) {
	return func() (*weights.Checkpoint, error) { return weights.Open(testkit.Golden(name)) }
}

// askTitle has a model write, and calls each after every token.
func askTitle(t *testing.T, title *Title, tokens int, each func()) (out []parley.Token) {
	t.Helper()
	r := &parley.Request{ID: "r", Model: title.Name, Prompt: []parley.Token{5, 6, 7}, MaxTokens: tokens, Progress: true}
	r.Stop.IgnoreEnd = true
	for d, err := range title.Generate(t.Context(), r) {
		if err != nil {
			t.Error(err)
			return out
		}
		if out = append(out, d.Tokens...); len(d.Tokens) > 0 && each != nil {
			each()
		}
	}
	return out
}

func loadedNames(l *Library) (names []string) {
	for _, s := range l.States() {
		if s.State == "loaded" {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestLibraryLoadsOnDemandAndUnloadsTheLeastRecentlyUsed(t *testing.T) {
	l, titles, _ := newLibrary(t, LibraryConfig{}, 2)
	if got := loadedNames(l); len(got) > 0 {
		t.Fatalf("loaded before anything was asked: %q", got)
	}
	if is := titles[0].Residency(); is != (parley.Residency{}) {
		t.Errorf("before it was asked for it is %+v", is)
	}
	first := askTitle(t, titles[0], 8, nil)
	if is := titles[0].Residency(); is.Loading || is.Waiting || is.Loaded.IsZero() {
		t.Errorf("after it was asked it is %+v", is)
	}
	askTitle(t, titles[1], 8, nil)
	askTitle(t, titles[0], 8, nil)
	askTitle(t, titles[2], 8, nil)
	if got := loadedNames(l); !slices.Equal(got, []string{"tiny-llama", "tiny-qwen3"}) {
		t.Errorf("loaded are %q", got)
	}
	askTitle(t, titles[1], 8, nil) // the llama leaves
	if got := loadedNames(l); !slices.Equal(got, []string{"tiny-qwen2", "tiny-qwen3"}) {
		t.Errorf("loaded are %q", got)
	}
	if again := askTitle(t, titles[0], 8, nil); len(first) != 8 || !slices.Equal(first, again) {
		t.Errorf("after it was loaded again it wrote %v, before %v", again, first)
	}
}

func TestUnloadWaitsForTheRunningAnswer(t *testing.T) {
	l, titles, _ := newLibrary(t, LibraryConfig{Patience: time.Millisecond}, 1)
	undisturbed := askTitle(t, titles[0], 60, nil)
	var others sync.WaitGroup
	begun := false
	got := askTitle(t, titles[0], 60, func() {
		if begun {
			return
		}
		begun = true
		others.Go(func() {
			if n := len(askTitle(t, titles[1], 4, nil)); n != 4 {
				t.Errorf("the model that waited wrote %d tokens", n)
			}
		})
		for !titles[0].isRetiring() { // until the other one asks for its room
			wait, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			<-wait.Done()
			cancel()
		}
		// A request that comes now must wait for the model to return.
		others.Go(func() { askTitle(t, titles[0], 4, nil) })
	})
	if !slices.Equal(got, undisturbed) {
		t.Errorf("the answer was disturbed: %d of %d tokens", len(got), len(undisturbed))
	}
	others.Wait()
	if n := len(loadedNames(l)); n != 1 {
		t.Errorf("%d models share the room of one", n)
	}
}

func (t *Title) isRetiring() bool {
	t.library.mu.Lock()
	defer t.library.mu.Unlock()
	return t.retiring
}

func TestRemovedModelEndsItsAnswers(t *testing.T) {
	l, titles, j := newLibrary(t, LibraryConfig{}, 3)
	removed := false
	got := askTitle(t, titles[0], 40, func() {
		if !removed {
			removed = true
			l.Remove(titles[0].Name)
		}
	})
	if len(got) != 40 {
		t.Errorf("%d of 40 tokens", len(got))
	}
	if a, b := <-j.events, <-j.events; a != "model loaded tiny-llama" || b != "model unloaded tiny-llama" {
		t.Errorf("%q, %q", a, b)
	}
	if err := l.Load(t.Context(), titles[0].Name); parley.CodeOf(err) != parley.NotFound {
		t.Errorf("%v", err)
	}
	if _, err := l.Add(Config{Name: titles[0].Name}, openGolden("tiny-llama")); err != nil {
		t.Errorf("its name is not free: %v", err)
	}
}

func TestIdleModelsLeave(t *testing.T) {
	l, titles, j := newLibrary(t, LibraryConfig{KeepAlive: 20 * time.Millisecond}, 3)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { l.Run(ctx) })
	askTitle(t, titles[0], 4, nil)
	if a, b := <-j.events, <-j.events; a != "model loaded tiny-llama" || b != "model unloaded tiny-llama" {
		t.Errorf("%q, %q", a, b)
	}
	cancel()
	running.Wait()
}

func TestModelThatDoesNotFitIsRefusedWithTheNumberThatWould(t *testing.T) {
	l, titles, _ := newLibrary(t, LibraryConfig{}, 3)
	need := titles[0].need
	small := NewLibrary(LibraryConfig{Budget: need * 2 / 3})
	fitted, err := small.Add(titles[0].config.asked(), openGolden("tiny-llama"))
	if err != nil {
		t.Fatal(err)
	}
	if fitted.refusal != nil || fitted.ContextTokens >= titles[0].ContextTokens || fitted.need > small.cfg.Budget {
		t.Errorf("context %d, needs %d of %d: %v", fitted.ContextTokens, fitted.need, small.cfg.Budget, fitted.refusal)
	}
	tiny := NewLibrary(LibraryConfig{Budget: 1000})
	title, err := tiny.Add(Config{Name: "m"}, openGolden("tiny-llama"))
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range title.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{5}}) {
		if parley.CodeOf(err) != parley.InvalidRequest || !strings.Contains(err.Error(), "does not fit") {
			t.Errorf("%v", err)
		}
	}
	if s := tiny.States()[0]; s.State != "too large" || s.Problem == "" {
		t.Errorf("%+v", s)
	}
	l.Remove("nothing")
}

// asked is a configuration before sizes were chosen.
func (c Config) asked() Config {
	c.ContextTokens, c.KVTokens = 0, 0
	return c
}

func TestLoadThatFailsIsReported(t *testing.T) {
	l, _, _ := newLibrary(t, LibraryConfig{}, 3)
	opened := 0
	title, err := l.Add(Config{Name: "gone"}, func() (*weights.Checkpoint, error) {
		if opened++; opened > 1 {
			return nil, errors.New("the file is gone")
		}
		return weights.Open(testkit.Golden("tiny-llama"))
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		for _, err := range title.Generate(t.Context(), &parley.Request{Prompt: []parley.Token{5}}) {
			if parley.CodeOf(err) != parley.Unavailable || !strings.Contains(err.Error(), "the file is gone") {
				t.Errorf("%v", err)
			}
		}
	}
	if opened != 3 {
		t.Errorf("opened %d times: a later request must try again", opened)
	}
}

func TestMakeRoom(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	a, b, c := &Title{}, &Title{}, &Title{}
	for name, test := range map[string]struct {
		loaded         []resident
		need           int64
		patient, ok    bool
		unload, retire []*Title
	}{
		"free":          {[]resident{{a, 40, 0, at(1)}}, 60, true, true, nil, nil},
		"oldest leaves": {[]resident{{a, 40, 0, at(2)}, {b, 40, 0, at(1)}}, 60, true, true, []*Title{b}, nil},
		"idle first":    {[]resident{{a, 40, 1, at(1)}, {b, 40, 0, at(2)}}, 60, true, true, []*Title{b}, nil},
		"busy waits":    {[]resident{{a, 100, 1, at(1)}}, 60, true, false, nil, nil},
		"busy retires":  {[]resident{{a, 50, 1, at(2)}, {b, 50, 1, at(1)}}, 40, false, false, nil, []*Title{b}},
		"idle waits with busy": {
			[]resident{{a, 40, 0, at(1)}, {b, 30, 1, at(1)}, {c, 30, 1, at(2)}}, 60, false, false, nil, []*Title{b}},
		"both leave": {[]resident{{a, 50, 0, at(1)}, {b, 50, 0, at(2)}}, 100, true, true, []*Title{a, b}, nil},
	} {
		plan, ok := makeRoom(test.loaded, 100, test.need, test.patient)
		if ok != test.ok || !slices.Equal(plan.unload, test.unload) || !slices.Equal(plan.retire, test.retire) {
			t.Errorf("%s: %+v, %v", name, plan, ok)
		}
	}
}
