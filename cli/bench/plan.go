package bench

import (
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"parley"
	"parley/cli"
	"parley/internal/load"
	"parley/sim/traffic"
)

// benchFlags are the flags of bench.
type benchFlags struct {
	url, model, send string
	ignoreEnd        bool
	allowRemote      bool
	timeout          time.Duration
	tokenIDs         string

	users    int
	think    time.Duration
	rate, cv float64
	arrival  string
	inFlight int

	requests int
	duration time.Duration
	warmUp   int

	workload                      string
	prompt, output, turns         traffic.Length
	sharedTokens, historyTokens   int
	groups, groupUsers, talksOpen int

	trace, traceFormat string
	scale, speed       float64
	spread             time.Duration

	slo  parley.SLO
	seed uint64
	json bool
	out  string

	changed func(flag string) bool
}

const (
	benchURL      = "http://127.0.0.1:8080/v1"
	benchRequests = 64
)

var arrivals = []string{"poisson", "gamma", "fixed"}

func (f *benchFlags) add(cmd *cobra.Command) {
	f.prompt, f.output, f.turns = traffic.Fixed(128), traffic.Fixed(128), traffic.Fixed(4)
	flags := cmd.Flags()
	flags.StringVar(&f.url, "url", benchURL, "measure the server whose API begins at this `URL`")
	flags.StringVar(&f.model, "model", "", "use this `MODEL` (default: the first that the server lists)")
	flags.StringVar(&f.send, "send", string(load.Chat),
		"send prompts as `FORM`: chat or text, of plain words, or ids, exact token ids")
	flags.StringVar(&f.tokenIDs, "token-ids", fmt.Sprintf("%d-%d", traffic.DefaultFirst,
		traffic.DefaultFirst+traffic.DefaultChoices-1), "with --send ids, use the ids in this `RANGE`")
	flags.BoolVar(&f.ignoreEnd, "ignore-eos", true,
		"request answers of exactly the given length; set it to false for servers without ignore_eos")
	flags.BoolVar(&f.allowRemote, "allow-remote", false, "allow a server that is not this machine")
	flags.DurationVar(&f.timeout, "timeout", 5*time.Minute, "give up on an answer after this `TIME`")

	flags.IntVar(&f.users, "users", 8, "closed loop: this `NUMBER` of users at once")
	flags.DurationVar(&f.think, "think", 0, "closed loop: each user thinks for this `TIME` on average (exponential)")
	flags.Float64Var(&f.rate, "rate", 0, "open loop: this `NUMBER` of requests a second")
	flags.StringVar(&f.arrival, "arrival", "poisson",
		"open loop: requests arrive as `PROCESS`: poisson, gamma or fixed")
	flags.Float64Var(&f.cv, "cv", 2,
		"with --arrival gamma, this coefficient of `VARIATION`: 1 is poisson, more comes in bursts")
	flags.IntVar(&f.inFlight, "in-flight", 4096,
		"open loop: drop requests, and count them, when this `NUMBER` is under way")

	flags.IntVar(&f.requests, "requests", 0,
		fmt.Sprintf(
			"send this `NUMBER` of requests (default %d; all within --duration if that is given; the whole of "+
				"a trace)", benchRequests))
	flags.DurationVar(&f.duration, "duration", 10*time.Minute, "start no request after this `TIME`")
	flags.IntVar(&f.warmUp, "warmup", 2, "send this `NUMBER` of requests first, which do not count")

	flags.StringVar(&f.workload, "workload", string(traffic.Independent),
		"send this `KIND` of requests: independent, shared-prefix or conversation")
	flags.Var(lengthFlag{&f.prompt}, "prompt-tokens", "`LENGTH` of each prompt, or of its part that is not shared")
	flags.Var(lengthFlag{&f.output}, "output-tokens", "`LENGTH` of each answer")
	flags.IntVar(&f.sharedTokens, "shared-tokens", 0,
		"give each group, or all conversations, a common system prompt of this many `TOKENS` (default 512 for "+
			"shared-prefix)")
	flags.IntVar(&f.historyTokens, "history-tokens", 0,
		"shared-prefix: give each user a history of this many `TOKENS`")
	flags.IntVar(&f.groups, "groups", 8, "shared-prefix: this `NUMBER` of groups")
	flags.IntVar(&f.groupUsers, "group-users", 4, "shared-prefix: this `NUMBER` of users in each group")
	flags.Var(lengthFlag{&f.turns}, "turns", "conversation: this `NUMBER` of turns, or a range")
	flags.IntVar(&f.talksOpen, "conversations", 8, "conversation, open loop: this `NUMBER` of conversations at once")

	flags.StringVar(&f.trace, "trace", "", "replay the requests recorded in this `FILE`, which may be gzipped")
	flags.StringVar(&f.traceFormat, "trace-format", "",
		"the trace's `FORMAT`: mooncake or azure (default: azure for .csv)")
	flags.Float64Var(&f.speed, "speed", 1, "replay this many `TIMES` as fast")
	flags.Float64Var(&f.scale, "scale", 1, "multiply the trace's lengths by this `FACTOR`; shared prefixes stay shared")
	flags.DurationVar(&f.spread, "spread", 0,
		"spread requests with the same timestamp over this `TIME` (Mooncake's traces have batches of 3s)")

	slo := parley.DefaultSLO()
	flags.DurationVar(&f.slo.TTFT, "slo-ttft", slo.TTFT, "objective: first token within this `TIME`; 0 for none")
	flags.DurationVar(&f.slo.CachedTTFT, "slo-ttft-cached", slo.CachedTTFT,
		"objective where at least half of the prompt was cached: first token within this `TIME`; 0 for the same")
	flags.DurationVar(&f.slo.TPOT, "slo-tpot", slo.TPOT, "objective: later tokens within this `TIME` each; 0 for none")
	flags.Uint64Var(&f.seed, "seed", 1, "seed all random choices with `NUMBER`")
	flags.BoolVar(&f.json, "json", false, "print the report as JSON, with one sample for each request")
	flags.StringVar(&f.out, "out", "", "also write the JSON report to this `FILE`, for parley bench compare")
	cli.Complete(cmd, "send", names(load.Forms()))
	cli.Complete(cmd, "arrival", arrivals)
	cli.Complete(cmd, "workload", names(traffic.Kinds()))
	cli.Complete(cmd, "trace-format", names(traffic.Formats()))
}

// apartFlags exclude each other; the first of a pair of belongFlags means
// nothing without the second.
var (
	apartFlags = [][2]string{{"users", "rate"}, {"think", "rate"}, {"rate", "trace"}, {"arrival", "trace"},
		{"workload", "trace"}, {"prompt-tokens", "trace"}, {"output-tokens", "trace"}}
	belongFlags = [][2]string{{"arrival", "rate"}, {"cv", "rate"}, {"trace-format", "trace"}, {"speed", "trace"},
		{"scale", "trace"}, {"spread", "trace"}}
)

// check finds what is wrong with the flags before anything is sent.
func (f *benchFlags) check(changed func(string) bool) error {
	f.changed = changed
	var problems []error
	for _, pair := range apartFlags {
		if changed(pair[0]) && changed(pair[1]) {
			problems = append(problems, fmt.Errorf("--%s and --%s exclude each other", pair[0], pair[1]))
		}
	}
	for _, pair := range belongFlags {
		if changed(pair[0]) && !changed(pair[1]) {
			problems = append(problems, fmt.Errorf("--%s needs --%s", pair[0], pair[1]))
		}
	}
	problems = append(problems, oneOf("send", f.send, load.Forms()), oneOf("arrival", f.arrival, arrivals),
		oneOf("workload", f.workload, traffic.Kinds()))
	if f.traceFormat != "" {
		problems = append(problems, oneOf("trace-format", f.traceFormat, traffic.Formats()))
	}
	if f.users < 1 || f.users > load.UsersLimit {
		problems = append(problems, fmt.Errorf("--users %d: expected 1 to %d", f.users, load.UsersLimit))
	}
	if f.warmUp < 0 || f.warmUp > 1000 {
		problems = append(problems, fmt.Errorf("--warmup %d: expected 0 to 1000", f.warmUp))
	}
	if f.timeout <= 0 || min(f.slo.TTFT, f.slo.CachedTTFT, f.slo.TPOT) < 0 {
		problems = append(problems,
			errors.New("--timeout must be more than 0, and --slo-ttft, --slo-ttft-cached and --slo-tpot 0 or more"))
	}
	_, _, err := f.idRange()
	return errors.Join(append(problems, err)...)
}

func (f *benchFlags) idRange() (first parley.Token, choices int, err error) {
	low, high, _ := strings.Cut(f.tokenIDs, "-")
	a, err1 := strconv.ParseInt(low, 10, 32)
	b, err2 := strconv.ParseInt(high, 10, 32)
	if err1 != nil || err2 != nil || b <= a || a < 0 {
		return 0, 0, fmt.Errorf("--token-ids %s: expected a range such as 300-3999", f.tokenIDs)
	}
	return parley.Token(a), int(b - a + 1), nil
}

func (f *benchFlags) target() load.Target {
	first, choices, _ := f.idRange() // checked before
	return load.Target{
		URL:         f.url,
		Model:       f.model,
		Key:         os.Getenv("PARLEY_API_KEY"),
		Send:        load.Form(f.send),
		IgnoreEnd:   f.ignoreEnd,
		Content:     traffic.Content{Seed: f.seed, First: first, Choices: choices},
		Timeout:     f.timeout,
		AllowRemote: f.allowRemote,
	}
}

func (f *benchFlags) isOpen() bool {
	return f.changed("rate") || (f.trace != "" && !f.changed("users"))
}

// byTime reports whether the time ends the run, and not a count of requests.
func (f *benchFlags) byTime() bool {
	return f.requests == 0 && f.trace == "" && f.changed("duration")
}

// plan says what to send, and describes it for the report.
func (f *benchFlags) plan(fitting *load.Fitting) (load.Plan, load.Description, error) {
	p := load.Plan{RequestsMax: f.requests, DurationMax: f.duration, InFlightMax: f.inFlight, Seed: f.seed}
	about := load.Description{Loop: "closed", Workload: f.workload, WarmUpRequests: f.warmUp, Seed: f.seed}
	stream, warm, err := f.streams(&p, &about)
	if err != nil {
		return p, about, err
	}
	uncounted := &load.Fitting{Form: fitting.Form, ContextTokens: fitting.ContextTokens}
	p.WarmUp = uncounted.Only(traffic.Take(warm, f.warmUp))
	if !f.isOpen() {
		about.Users, about.ThinkMillis = f.users, load.Millis(f.think)
		p.Think = traffic.Gaps{Mean: f.think, CV: 1}
		for i := range f.users {
			p.Users = append(p.Users, fitting.Only(stream(i, f.users)))
		}
		return p, about, p.Validate()
	}
	about.Loop = "open"
	p.Schedule = stream(0, 1)
	if f.trace == "" {
		gaps, err := f.gaps(&about)
		if err != nil {
			return p, about, fmt.Errorf("--rate: %w", err)
		}
		p.Schedule = traffic.Stamp(p.Schedule, gaps.From(f.seed))
	}
	p.Schedule = fitting.Only(p.Schedule)
	return p, about, p.Validate()
}

func (f *benchFlags) gaps(about *load.Description) (traffic.Gaps, error) {
	cv := map[string]float64{"poisson": 1, "gamma": f.cv, "fixed": 0}[f.arrival]
	about.RatePerSecond, about.Arrival, about.CV = f.rate, f.arrival, cv
	return traffic.PerSecond(f.rate, cv)
}

// A streamOf returns the requests of stream i of n.
type streamOf func(i, n int) iter.Seq[traffic.Request]

// streams returns the requests to measure and those to warm up with, which
// have nothing in common with them.
func (f *benchFlags) streams(p *load.Plan, about *load.Description) (streamOf, iter.Seq[traffic.Request], error) {
	const warmStream = 1 << 40 // beyond the number of any request that is measured
	w, err := f.generator(about)
	if err != nil {
		return nil, nil, err
	}
	warm := *w
	warm.Kind = traffic.Independent
	if f.trace != "" {
		stream, err := f.replay(p, about)
		return stream, warm.Stream(warmStream, 1), err
	}
	if p.RequestsMax == 0 {
		p.RequestsMax = benchRequests
		if f.byTime() {
			p.RequestsMax = load.RequestsLimit
		}
	}
	return w.Stream, warm.Stream(warmStream, 1), nil
}

// generator returns the workload that the flags describe.
func (f *benchFlags) generator(about *load.Description) (*traffic.Workload, error) {
	w := &traffic.Workload{
		Kind:          traffic.Kind(f.workload),
		Seed:          f.seed,
		Prompt:        f.prompt,
		Output:        f.output,
		SharedTokens:  f.sharedTokens,
		HistoryTokens: f.historyTokens,
		Groups:        f.groups,
		GroupUsers:    f.groupUsers,
		Turns:         f.turns,
		Open:          1,
	}
	if w.Kind == traffic.SharedPrefix && !f.changed("shared-tokens") {
		w.SharedTokens = 512
	}
	if f.isOpen() {
		w.Open = f.talksOpen
	}
	if f.trace != "" {
		return w, w.Validate()
	}
	about.PromptTokens, about.OutputTokens, about.SharedTokens = w.Prompt.String(), w.Output.String(), w.SharedTokens
	switch w.Kind {
	case traffic.SharedPrefix:
		about.HistoryTokens, about.Groups, about.GroupUsers = w.HistoryTokens, w.Groups, w.GroupUsers
	case traffic.Conversation:
		about.Turns = w.Turns.String()
		about.Conversations = w.Open
	}
	return w, w.Validate()
}

// replay returns the requests of the trace, dealt to the users of a closed
// loop.
func (f *benchFlags) replay(p *load.Plan, about *load.Description) (streamOf, error) {
	replay := traffic.Replay{Scale: f.scale, Speed: f.speed, Spread: f.spread}
	if f.scale == 0 || f.speed == 0 {
		return nil, errors.New("--scale and --speed: expected more than 0")
	}
	if err := replay.Validate(); err != nil {
		return nil, err
	}
	rows, err := load.OpenTrace(f.trace, traffic.Format(f.traceFormat), 0)
	if err != nil {
		return nil, err
	}
	if p.RequestsMax == 0 {
		p.RequestsMax = min(len(rows), load.RequestsLimit)
	}
	about.Workload, about.Trace, about.TraceFormat = "trace", filepath.Base(f.trace), f.traceFormat
	about.Scale, about.Speed, about.SpreadMillis = f.scale, f.speed, load.Millis(f.spread)
	if !f.isOpen() {
		about.Speed, about.SpreadMillis = 0, 0
	}
	requests := replay.Requests(rows)
	return func(i, n int) iter.Seq[traffic.Request] { return traffic.Deal(requests, i, n) }, nil
}
