package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/cli/remote"
	"parley/gateway/admin"
)

// A drill brings a failure about, on a fleet of its own, and says whether the
// protection held.
type drill struct {
	Name, short, long string
	// flags are what the gateway is started with, engine what its workers are; both
	// go to one process where there are no workers.
	flags, engine []string
	run           func(context.Context, *drillRig) error
}

var drills = []drill{
	{"oom", "Demand for key/value memory exceeds the pool",
		"Prompts and answers need many times the key/value memory. What can never fit must be\nrejected at once; " +
			"the rest must wait or be preempted, and complete.",
		[]string{"--share", "off"}, []string{"--kv-tokens", "512"}, drillMemory},
	{"cascade", "A worker is lost under overload, and clients retry",
		"Sixty clients send long prompts at once and retry when rejected; meanwhile a worker is\nkilled. The other " +
			"workers must resume its answers, admitted requests must be served, the\nqueue must stay short, and " +
			"recovery must be immediate.",
		[]string{"--queue-depth", "8", "--slo-tpot", "12ms", "--shed-start", "1s", "--shed-stop", "300ms", "--share",
			"off"}, []string{"--seqs", "4"}, drillCascade},
	{"viral", "All clients ask the same question at once",
		"Two hundred clients ask the same question at once. It must be computed once, and every\nclient must get " +
			"the answer.",
		nil, nil, drillViral},
}

// New returns the command `parley drill`.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use: "drill", Short: "Rehearse a failure on a separate fleet",
		Long: "Rehearse a failure: start a gateway and workers on this machine, cause the failure, and\nshow from " +
			"numbers before, during and after whether the protection held. No running server\nis touched. See " +
			"docs/runbook.md.",
	}
	for i := range drills {
		cmd.AddCommand(newOneDrill(&drills[i]))
	}
	return cmd
}

func newOneDrill(d *drill) *cobra.Command {
	var asJSON bool
	var plan drillPlan
	cmd := &cobra.Command{
		Use:   d.Name,
		Short: d.short,
		Long:  d.long,
		Example: "  parley drill " + d.Name + "\n  parley drill " + d.Name + " --workers 3 --json\n  parley drill " +
			d.Name +
			" --addr 127.0.0.1:8081 --pause 20s   # and open the link that `parley link --admin --url " +
			"http://127.0.0.1:8081` prints",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			report, err := d.practise(cmd.Context(), plan)
			if err != nil {
				return err
			}
			if asJSON {
				err = cli.PrintJSON(cmd.OutOrStdout(), report)
			} else {
				err = report.print(cmd.OutOrStdout(), d)
			}
			if err == nil && !report.Held {
				err = errors.New("the protection did not hold")
			}
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	cmd.Flags().IntVar(&plan.workers, "workers", 2, "start `N` workers; 0 uses an engine in the gateway")
	cmd.Flags().StringVar(&plan.addr, "addr", "",
		"have the gateway listen on `ADDRESS` (default: a free port of this machine)")
	cmd.Flags().DurationVar(&plan.pause, "pause", 0,
		"pause for `DURATION` before and after the failure, so you can watch")
	return cmd
}

// A DrillReport is what came of a drill.
type DrillReport struct {
	Drill string `json:"drill"`
	// Workers is how many there were; 0 if the gateway computed itself.
	Workers int  `json:"workers"`
	Held    bool `json:"held"`
	// Checks are what had to hold.
	Checks []drillCheck `json:"checks"`
	Phases []drillPhase `json:"phases"`
}

// A drillCheck is one thing that had to hold.
type drillCheck struct {
	What string `json:"what"`
	Held bool   `json:"held"`
}

// A drillPhase is what was measured before, during or after the failure.
type drillPhase struct {
	Phase string `json:"phase"`
	// Answered, Refused, TurnedAway and Failed count requests, as their clients saw
	// it; SlowestSeconds is the longest wait for a whole answer.
	Answered       int64   `json:"answered"`
	Refused        int64   `json:"refused"`
	TurnedAway     int64   `json:"turned_away"`
	Failed         int64   `json:"failed"`
	SlowestSeconds float64 `json:"slowest_seconds"`
	// Failure is what the last client whose request failed was told.
	Failure string `json:"failure,omitempty"`
	// KV is the most memory in use, Waiting the longest queue, Preemptions how many.
	KV          float64 `json:"kv"`
	Waiting     int     `json:"waiting"`
	Preemptions float64 `json:"preemptions"`
	// Sentence is what the server said bound it.
	Sentence string `json:"sentence"`
}

// check notes whether something held.
func (r *drillRig) check(held bool, what string) {
	r.report.Checks = append(r.report.Checks, drillCheck{what, held})
	r.report.Held = r.report.Held && held
}

// A drillAsk is one request of a drill.
type drillAsk struct {
	prompt string
	tokens int
	// tries is how often it is sent again when it is rejected.
	tries int
}

// phase sends requests, each by a client of its own, and measures meanwhile.
func (r *drillRig) phase(ctx context.Context, name string, asks []drillAsk) *drillPhase {
	p := drillPhase{Phase: name}
	var slowest atomic.Int64
	var failure atomic.Pointer[string]
	var clients sync.WaitGroup
	for _, a := range asks {
		clients.Go(func() {
			began := time.Now()
			if told := r.insist(ctx, a, &p); told != "" {
				failure.Store(&told)
			}
			for took := int64(time.Since(began)); took > slowest.Load(); {
				slowest.CompareAndSwap(slowest.Load(), took)
			}
		})
	}
	done := make(chan struct{})
	go func() { clients.Wait(); close(done) }()
	for over := false; !over; {
		select {
		case <-done:
			over = true
		case <-time.After(250 * time.Millisecond):
		}
		r.observe(ctx, &p)
	}
	p.SlowestSeconds = time.Duration(slowest.Load()).Seconds()
	if told := failure.Load(); told != nil {
		p.Failure = *told
	}
	r.report.Phases = append(r.report.Phases, p)
	return &p
}

// observe keeps the worst of what the server says of itself.
func (r *drillRig) observe(ctx context.Context, p *drillPhase) {
	now, err := remote.Picture(ctx, r.Client)
	if err != nil {
		return // it is busy, or gone: the requests show that
	}
	waiting := 0
	for _, n := range now.Waiting {
		waiting += n
	}
	if p.Sentence == "" || now.Verdict.Bottleneck != admin.NoBottleneck {
		p.Sentence = now.Verdict.Sentence
	}
	p.KV, p.Waiting, p.Preemptions = max(p.KV, now.KV), max(p.Waiting, waiting), max(p.Preemptions,
		now.Rates.Preemptions)
}

// insist sends a request, again if it is rejected, and counts what came. It returns what
// the client of a request that failed was told.
func (r *drillRig) insist(ctx context.Context, a drillAsk, p *drillPhase) (failure string) {
	// strings and numbers
	body, _ := json.Marshal(map[string]any{"messages": []remote.Message{{Role: "user", Content: a.prompt}},
		"max_tokens": a.tokens, "ignore_eos": true, "temperature": 0})
	for try := 0; ; try++ {
		status, told := r.once(ctx, body, try)
		switch {
		case status == http.StatusOK:
			atomic.AddInt64(&p.Answered, 1)
		case status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests:
			atomic.AddInt64(&p.TurnedAway, 1)
			if try < a.tries {
				time.Sleep(time.Duration(try+1) * 200 * time.Millisecond)
				continue
			}
		case status >= 400 && status < 500:
			atomic.AddInt64(&p.Refused, 1)
		default:
			atomic.AddInt64(&p.Failed, 1)
			failure = told
		}
		return failure
	}
}

// once returns the status of one try, 0 if none came, and what the client was told with it.
func (r *drillRig) once(ctx context.Context, body []byte, try int) (status int, told string) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, r.Root+"/v1/chat/completions", bytes.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	q.Header.Set("Content-Type", "application/json")
	q.Header.Set("X-Stainless-Retry-Count", fmt.Sprint(try))
	response, err := r.HTTP.Do(q)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, fmt.Sprintf("%s: %.300s", response.Status, answer)
}

func (d *DrillReport) print(out io.Writer, of *drill) error {
	fmt.Fprintf(out, "%s\n\n%s\n\n", of.short, of.long)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PHASE\tANSWERED\tSHED\tREJECTED\tFAILED\tSLOWEST\tKV USED\tQUEUED")
	for _, p := range d.Phases {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%s\t%.0f%%\t%d\n", p.Phase, p.Answered, p.TurnedAway, p.Refused, p.Failed,
			cli.ClockText(p.SlowestSeconds), 100*p.KV, p.Waiting)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(out)
	for _, p := range d.Phases {
		fmt.Fprintf(out, "%s, reported by the server: %s\n", p.Phase, p.Sentence)
		if p.Failure != "" {
			fmt.Fprintf(out, "%s, the error of a failed request: %s\n", p.Phase, p.Failure)
		}
	}
	fmt.Fprintln(out)
	for _, c := range d.Checks {
		fmt.Fprintf(out, "%s  %s\n", map[bool]string{true: "held  ", false: "FAILED"}[c.Held], c.What)
	}
	return nil
}
