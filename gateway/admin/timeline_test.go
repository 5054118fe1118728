package admin

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"parley"
)

var came = time.Unix(1000, 0)

// at is so many milliseconds after the call came.
func at(ms int) time.Time { return came.Add(time.Duration(ms) * time.Millisecond) }

const ms = time.Millisecond

// written writes stages as lines: where, name, when, how long, whose, notes.
func written(stages []Stage) string {
	var b strings.Builder
	for _, s := range stages {
		fmt.Fprintf(&b, "%s: %s %v+%v", s.Where, s.Name, s.StartMs, s.Ms)
		for _, more := range []string{s.Worker, s.Note, s.Fault} {
			if more != "" {
				b.WriteString(" | " + more)
			}
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestCourses(t *testing.T) {
	usage := &parley.Usage{Queued: 5 * ms, Prefill: 20 * ms, Decode: 100 * ms, Miss: "new"}
	told := &parley.Usage{Prefill: 20 * ms, Decode: 100 * ms}
	stored := *usage
	stored.Transfer = &parley.Transfer{
		From:        "redis cache:6379",
		AskedTokens: 96,
		CameTokens:  64,
		Bytes:       2e6,
		Took:        12 * ms,
		Miss:        "not in the store",
	}
	leg := func(kind string, s *parley.WorkerTimings, u *parley.Usage) parley.Attempt {
		return parley.Attempt{Worker: "w", Kind: kind, Reason: "holds most", Terms: at(10), Sent: at(11), First: at(50),
			Ended: at(155), Tokens: 9, End: "done", Timings: s, Usage: u}
	}
	ended := func(l parley.Attempt, end, why string) parley.Attempt {
		l.End, l.Why = end, why
		return l
	}
	stay := &parley.WorkerTimings{Admitted: 3 * ms, First: 30 * ms, Whole: 133 * ms, Paused: 2 * ms}
	early := &parley.WorkerTimings{Admitted: 3 * ms, First: 30 * ms}
	before := "gateway: read and render 0+8\nqueue: wait for a turn 8+2\n"
	choice := before + "router: choose a worker 10+1 | w | holds most\n"
	for name, c := range map[string]struct {
		timeline Timeline
		want     string
	}{
		"refused": {Timeline{Elapsed: 4 * ms}, "gateway: read 0+4\n"},
		"shared": {Timeline{Handed: 8 * ms, Elapsed: 20 * ms, Shared: true},
			"gateway: read and render 0+8\ngateway: follow another's answer 8+12 | computed for an equal request\n"},
		"one engine": {Timeline{First: 50 * ms, Usage: *usage, Reason: "the only one"},
			before +
				"router: choose a worker 10+0 | the only one\nworker: hand to the engine 10+15 | in this process: " +
				"no hop\n" +
				"engine: wait for compute 25+5\nengine: prefill 30+20 | not cached (new): not seen before\nengine: " +
				"decode 50+100\ngateway: write 150+10\n"},
		"one engine before a store": {Timeline{First: 50 * ms, Usage: stored, Reason: "the only one"},
			before +
				"router: choose a worker 10+0 | the only one\nworker: fetch blocks from redis cache:6379 10+12 | " +
				"64 of 96 tokens came, 2.0 MB; the others were computed: not in the store\n" +
				"worker: hand to the engine 22+3 | in this process: no hop\nengine: wait for compute 25+5\n" +
				"engine: prefill 30+20 | not cached (new): not seen before\nengine: decode 50+100\n" +
				"gateway: write 150+10\n"},
		"an engine of a fleet": {Timeline{Attempts: []parley.Attempt{leg(InProcess, nil, usage)}},
			choice + "worker: hand to the engine 11+14 | w | in this process: no hop\n" +
				"engine: wait for compute 25+5 | w\nengine: prefill 30+20 | w | not cached (new): not seen " +
				"before\nengine: decode 50+100 | w\ngateway: write 150+10\n"},
		"a worker": {Timeline{Attempts: []parley.Attempt{leg("parley", stay, usage)}},
			choice + "worker: hop, there and back 11+9 | w | 39ms passed here, 30ms there\n" +
				"worker: receive and admit 20+3 | w\nworker: hand to the engine 23+2 | w\nengine: wait for compute " +
				"25+5 | w\nengine: prefill 30+20 | w | not cached (new): not seen before\n" +
				"engine: decode 50+100 | w | paused for 2ms: what it had written was not taken\nworker: send the " +
				"end 150+3 | w\ngateway: write 153+7\n"},
		"one seat, too little memory": {Timeline{First: 50 * ms, Usage: parley.Usage{Queued: 10 * ms, SeatWait: 3 * ms,
			MemoryWait: 5 * ms, Prefill: 20 * ms, Decode: 100 * ms,
			Preemptions: 2, Preempted: 30 * ms}, Reason: "the only one"},
			before +
				"router: choose a worker 10+0 | the only one\nworker: hand to the engine 10+10 | in this process: " +
				"no hop\n" +
				"engine: wait for a seat 20+3 | as many answers ran as the worker computes at once " +
				"(--seqs)\nengine: wait for memory 23+5 | the key/value blocks of the prompt were in use\n" +
				"engine: wait for compute 28+2\nengine: prefill 30+20\nengine: decode 50+100 | preempted 2 times " +
				"for 30ms\ngateway: write 150+10\n"},
		"a worker that embeds": {Timeline{Attempts: []parley.Attempt{{Worker: "w", Kind: "parley", Reason: "holds most",
			Terms: at(10), Sent: at(11), Ended: at(61), End: "done",
			Timings: &parley.WorkerTimings{Admitted: 3 * ms, Whole: 40 * ms},
			Usage:   &parley.Usage{Queued: 5 * ms, Prefill: 30 * ms}}}}, choice +
			"worker: hop, there and back 11+10 | w | 50ms passed here, 40ms there\nworker: receive and admit 21+3 " +
			"| w\nworker: hand to the engine 24+2 | w\n" +
			"engine: wait for compute 26+5 | w\nengine: prefill 31+30 | w\ngateway: write 61+99\n"},
		"one that was lost in the middle": {Timeline{Attempts: []parley.Attempt{ended(leg("parley", early, nil), "lost",
			"reset")}}, choice + "worker: hop, there and back 11+9 | w | 39ms passed here, 30ms there\n" +
			"worker: receive and admit 20+3 | w\nengine: wait and prefill 23+27 | w\nengine: decode 50+105 | w | " +
			"it was lost after 9 tokens: reset\ngateway: write 155+5\n"},
		"one that never answered": {Timeline{Attempts: []parley.Attempt{{Worker: "w", Kind: "parley",
			Reason: "holds most",
			Terms:  at(10), Sent: at(11), Ended: at(155), End: "lost"}}}, choice +
			"worker: until it ended 11+144 | w | it did not tell its own times | it was lost\ngateway: write 155+5\n"},
		"one that was too busy": {Timeline{Attempts: []parley.Attempt{{Worker: "w", Kind: "parley",
			Reason: "holds most",
			Terms:  at(10), Sent: at(11), Ended: at(21), End: "refused", Why: "full",
			Timings: &parley.WorkerTimings{Admitted: 1 * ms, Whole: 4 * ms}}}}, choice +
			"worker: hop, there and back 11+6 | w | 10ms passed here, 4ms there\nworker: receive and admit 17+1 | " +
			"w\nworker: until it ended 18+3 | w | it was too busy: full\ngateway: write 21+139\n"},
		"vllm": {Timeline{Attempts: []parley.Attempt{leg("vllm", nil,
			&parley.Usage{Prefill: 39 * ms, Decode: 105 * ms, Outside: true})}}, choice +
			"worker: until its first token 11+39 | w | a vllm worker does not tell its own times: the hop, its " +
			"wait and its prefill are one\nworker: until its last token 50+105 | w\ngateway: write 155+5\n"},
		"llama.cpp": {Timeline{Attempts: []parley.Attempt{leg("llamacpp", nil, told)}}, choice +
			"worker: hop, wait and hand over 11+19 | w | a llamacpp worker reports only prefill and " +
			"decode\nengine: prefill 30+20 | w\nengine: decode 50+100 | w\ngateway: write 150+10\n"},
		"nothing known": {Timeline{}, before +
			"worker: until it ended 10+150 | no measures came: it did not end well\n"},
		"clocks that lie": {Timeline{Attempts: []parley.Attempt{leg("parley", &parley.WorkerTimings{
			Admitted: time.Hour, First: time.Hour,
			Whole: -time.Hour}, &parley.Usage{Queued: -time.Hour, Prefill: time.Hour})}}, choice +
			"worker: hop, there and back 11+0 | w | 39ms passed here, 1h0m0s there\nworker: receive and admit " +
			"11+144 | w\nworker: hand to the engine 155+0 | w\nworker: send the end 155+0 | w\ngateway: write 155+5\n"},
	} {
		c.timeline.Came = came
		if c.timeline.Elapsed == 0 {
			c.timeline.Handed, c.timeline.Waited, c.timeline.Elapsed = 8*ms, 2*ms, 160*ms
		}
		if got := written(c.timeline.Stages()); got != c.want {
			t.Errorf("%s:\n%swant\n%s", name, got, c.want)
		}
	}
}

// TestCoursesOverTwoWorkers tells the part of each worker that had the answer.
func TestCoursesOverTwoWorkers(t *testing.T) {
	c := Timeline{Came: came, Handed: 8 * ms, Elapsed: 300 * ms, More: 3, Attempts: []parley.Attempt{
		{Worker: "a", Kind: "parley", Terms: at(10), Sent: at(11), First: at(50), Ended: at(155), Tokens: 9,
			End: "lost", Why: "reset", Timings: &parley.WorkerTimings{Admitted: 3 * ms, First: 30 * ms}},
		{Worker: "b", Kind: "parley", Terms: at(155), Sent: at(160), First: at(190), Ended: at(290), Tokens: 9,
			End: "done", Timings: &parley.WorkerTimings{Admitted: 1 * ms, First: 25 * ms, Whole: 120 * ms},
			Usage: &parley.Usage{Prefill: 20 * ms, Decode: 90 * ms}},
	}}
	var of []string
	for _, s := range c.Stages() {
		of = append(of, fmt.Sprint(s.Where, s.Attempt, s.Worker))
	}
	const want = "gateway0 router1a worker1a worker1a engine1a engine1a router2b worker2b worker2b engine2b " +
		"engine2b engine2b worker2b gateway0"
	if got := strings.Join(of, " "); got != want {
		t.Errorf("stages of %s, want %s", got, want)
	}
	if last := c.Stages()[len(of)-1]; !strings.Contains(last.Note, "3 more") {
		t.Errorf("the last stage is %+v", last)
	}
}
