package sim

import (
	"bytes"
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/sim/traffic"
)

// example runs one of the scenarios that come with Parley, changed.
func example(t *testing.T, name string, change func(s *Scenario)) *Result {
	t.Helper()
	s := readExample(t, name)
	if change != nil {
		change(s)
	}
	r, err := Run(s)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func readExample(t *testing.T, name string) *Scenario {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "examples", "sim", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s, err := Read(text)
	if err != nil {
		t.Fatal(err)
	}
	for i := range s.Traffic {
		if c := &s.Traffic[i]; c.RateFile != nil {
			c.RateFile.Give(readRates(t, c.RateFile.File))
		}
	}
	return s
}

func readRates(t *testing.T, name string) traffic.Rate {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "examples", "sim", name))
	if err != nil {
		t.Fatal(err)
	}
	rates, err := traffic.ReadRates(func(yield func([]byte, error) bool) {
		for line := range bytes.Lines(text) {
			if !yield(line, nil) {
				return
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return rates
}

// of returns the figures of one kind of traffic.
func (r *Result) of(t *testing.T, name string) Figures {
	t.Helper()
	i := slices.IndexFunc(r.Traffic, func(f Figures) bool { return f.Name == name })
	if i < 0 {
		t.Fatalf("no traffic is named %q", name)
	}
	return r.Traffic[i]
}

// row returns the window at a time.
func (r *Result) row(at time.Duration) *Row { return &r.Rows[int(at.Seconds()/r.Window)] }

func expect(t *testing.T, holds bool, format string, args ...any) {
	t.Helper()
	if !holds {
		t.Errorf(format, args...)
	}
}

// TestChatbot: between turns the history stays in the cache, and what limits that is
// memory: keys and values of half the size leave room for more of it.
func TestChatbot(t *testing.T) {
	t.Parallel()
	half := example(t, "chatbot", nil)
	fp8 := example(t, "chatbot", func(s *Scenario) { s.Pools[0].Replica["kv"] = "fp8" })
	none := example(t, "chatbot", func(s *Scenario) { s.Pools[0].NoCache = true })
	expect(t, fp8.Total.HitRate > half.Total.HitRate+0.05, "fp8 finds %.3f of the prompts, fp16 %.3f",
		fp8.Total.HitRate, half.Total.HitRate)
	expect(t, fp8.Total.Attainment > half.Total.Attainment, "fp8 meets the objectives for %.3f, fp16 for %.3f",
		fp8.Total.Attainment, half.Total.Attainment)
	expect(t, none.Total.Attainment < half.Total.Attainment-0.15,
		"without a cache the objectives are met for %.3f, with it for %.3f", none.Total.Attainment,
		half.Total.Attainment)
}

// TestCompletion: a miss takes longer than the objective allows, so that the router
// decides whether it is met.
func TestCompletion(t *testing.T) {
	t.Parallel()
	routed := example(t, "completion", nil).row(30 * time.Second)
	turns := example(t, "completion", func(s *Scenario) { s.Pools[0].RoundRobin = true }).row(30 * time.Second)
	expect(t, routed.TTFT.P95 < 0.2 && routed.HitRate > 0.9, "by cache: TTFT p95 %.3f s, %.2f cached", routed.TTFT.P95,
		routed.HitRate)
	expect(t, turns.TTFT.P95 > 0.2 && turns.HitRate < routed.HitRate-0.2, "in turn: TTFT p95 %.3f s, %.2f cached",
		turns.TTFT.P95, turns.HitRate)
}

// TestTiers: what a surge of free users costs is theirs.
func TestTiers(t *testing.T) {
	t.Parallel()
	r := example(t, "tiers", nil)
	free, paid := r.of(t, "free"), r.of(t, "enterprise")
	expect(t, paid.Rejected == 0 && paid.Attainment > 0.99,
		"%d of the enterprise are rejected, %.3f within objectives", paid.Rejected, paid.Attainment)
	expect(t, free.Rejected > free.Arrived/4, "only %d of %d free requests are rejected", free.Rejected, free.Arrived)
	one := example(t, "tiers", func(s *Scenario) { s.Pools[0].OneTier = true }).of(t, "enterprise")
	expect(t, one.Attainment < 0.9, "without tiers the enterprise is still at %.3f", one.Attainment)
}

// TestLongContext: a replica holds a handful of long documents, and a chat beside them
// gets its tokens at the same pace.
func TestLongContext(t *testing.T) {
	t.Parallel()
	r := example(t, "long-context", nil)
	documents, chat := r.of(t, "documents"), r.of(t, "chat")
	expect(t, r.Fleet.KVMost > 0.3 && r.Fleet.Running < 10, "%.1f requests run, the fullest worker is at %.2f",
		r.Fleet.Running, r.Fleet.KVMost)
	expect(t, documents.Finished > 0 && documents.Failed == 0, "%+v", documents)
	expect(t, chat.TPOT.P95 <= 0.1, "the chat gets a token in %.3f s", chat.TPOT.P95)
}

// TestTimestamp: one changing line at the head of the prompt takes the hit rate from
// over 80 % to nothing, and the objectives with it; both return when it is gone.
func TestTimestamp(t *testing.T) {
	t.Parallel()
	r := example(t, "timestamp", nil)
	before, during, after := r.row(50*time.Second), r.row(90*time.Second), r.row(150*time.Second)
	expect(t, before.HitRate > 0.8 && during.HitRate < 0.1 && after.HitRate > 0.8, "hit rates are %.2f, %.2f, %.2f",
		before.HitRate, during.HitRate, after.HitRate)
	expect(t, before.TTFT.P95 < 0.1 && during.TTFT.P95 > 0.7 && after.TTFT.P95 < 0.1, "TTFT p95 is %.2f, %.2f, %.2f s",
		before.TTFT.P95, during.TTFT.P95, after.TTFT.P95)
	expect(t, during.Bottleneck == arithmetic, "the bottleneck is %q", during.Bottleneck)
}

// TestRetries: with the queue, the minute of overload ends with it; without, clients who
// hang up and come again keep the workers busy with answers that no client reads.
func TestRetries(t *testing.T) {
	t.Parallel()
	queued := example(t, "retries", nil)
	bare := example(t, "retries-unqueued", nil)
	peak := 100 * time.Second
	expect(t, queued.row(peak).Goodput > 2*bare.row(peak).Goodput,
		"in the overload %.2f good requests/s, without a queue %.2f", queued.row(peak).Goodput, bare.row(peak).Goodput)
	expect(t, queued.Total.HungUp < bare.Total.HungUp/4, "%d hang up, without a queue %d", queued.Total.HungUp,
		bare.Total.HungUp)
	late := queued.row(4 * time.Minute)
	expect(t, late.Rejected == 0 && late.TTFT.P95 < 5, "two minutes later %d are rejected, TTFT p95 is %.2f s",
		late.Rejected, late.TTFT.P95)
}

// TestViral: the shared prompt is computed a few times and not a thousand, and the
// crowd is spread over the workers.
func TestViral(t *testing.T) {
	t.Parallel()
	r := example(t, "viral", nil)
	viral, usual := r.of(t, "viral"), r.of(t, "usual")
	expect(t, viral.HitRate > 0.95 && viral.Attainment > 0.99, "the crowd finds %.3f, %.3f within objectives",
		viral.HitRate, viral.Attainment)
	expect(t, usual.Attainment > 0.99, "of the others %.3f are within objectives", usual.Attainment)
}

// TestOutOfMemory: sequences give up blocks, and all that were admitted are answered.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	r := example(t, "oom", nil)
	o := r.Total
	expect(t, r.Fleet.Preempted > 0 && r.Fleet.KVMost > 0.95, "%d preemptions, the fullest worker is at %.2f",
		r.Fleet.Preempted, r.Fleet.KVMost)
	expect(t, o.Failed == 0 && o.Finished+o.Rejected == o.Arrived && o.Finished > o.Arrived*4/5,
		"%d of %d are answered, %d rejected, %d failed", o.Finished, o.Arrived, o.Rejected, o.Failed)
	expect(t, slices.ContainsFunc(r.Findings, func(f string) bool { return strings.Contains(f, kvMemory) }),
		"no finding names the memory: %q", r.Findings)
}

// TestColdStart: while there is no worker, what cannot be served in time is rejected; a
// minute after the workers are back all is as before, and every request was answered.
func TestColdStart(t *testing.T) {
	t.Parallel()
	r := example(t, "coldstart", nil)
	without, later := r.row(150*time.Second), r.row(5*time.Minute)
	expect(t, without.Ready == 0 && without.Bottleneck == workers && without.Rejected > 0, "in the outage: %+v",
		without)
	expect(t, later.Rejected == 0 && later.TTFT.P95 < 2, "later %d are rejected, TTFT p95 is %.2f s", later.Rejected,
		later.TTFT.P95)
	expect(t, r.Total.Finished == r.Total.Arrived && r.Total.Moved > 0, "%d of %d are answered, %d moved",
		r.Total.Finished, r.Total.Arrived, r.Total.Moved)
}

// TestHotTenant: a tenant that floods the fleet waits for itself.
func TestHotTenant(t *testing.T) {
	t.Parallel()
	r := example(t, "hot-tenant", nil)
	others, hot := r.of(t, "others"), r.of(t, "hot")
	expect(t, others.Attainment > 0.9 && others.TTFT.P95 < 1,
		"of the others %.3f are within objectives, TTFT p95 %.2f s", others.Attainment, others.TTFT.P95)
	expect(t, hot.Rejected > hot.Arrived/3, "only %d of %d hot requests are rejected", hot.Rejected, hot.Arrived)
}

// TestHotTenantLimits: the queue alone shares the fleet fairly and lets the hot tenant use what is left; limits
// keep it from the others altogether, at the price of capacity that is not used.
func TestHotTenantLimits(t *testing.T) {
	t.Parallel()
	without, with := example(t, "hot-tenant", nil), example(t, "hot-tenant-limits", nil)
	before, after := without.of(t, "others"), with.of(t, "others")
	expect(t, before.Rejected > 0 && after.Rejected == 0 && after.Limited == 0,
		"of the others, %d are rejected without limits, %d with them, and %d by them", before.Rejected, after.Rejected,
		after.Limited)
	expect(t, after.Attainment > 0.99 && after.Attainment > before.Attainment+0.03,
		"of the others %.3f are within objectives without limits, %.3f with them", before.Attainment, after.Attainment)
	hot := with.of(t, "hot")
	expect(t, hot.Limited > hot.Arrived && hot.Finished < without.of(t, "hot").Finished,
		"%d hot attempts are refused of %d requests; %d are answered, without limits %d", hot.Limited, hot.Arrived,
		hot.Finished, without.of(t, "hot").Finished)
	refused := uint64(0)
	for _, r := range with.Refused {
		expect(t, r.Organisation == "hot-0", "%s is refused %s", r.Organisation, r.Limit)
		refused += r.Attempts
	}
	expect(t, refused == hot.Limited, "%d refusals of organisations, %d of attempts", refused, hot.Limited)
}

// TestRack: a third of the workers is lost, and no answer.
func TestRack(t *testing.T) {
	t.Parallel()
	r := example(t, "rack", nil)
	o := r.Total
	expect(t, o.Moved > 0 && o.Finished == o.Arrived, "%d moved, %d of %d answered", o.Moved, o.Finished, o.Arrived)
	expect(t, o.Attainment > 0.98, "%.3f within objectives", o.Attainment)
	expect(t, r.row(70*time.Second).Ready < 7 && r.row(170*time.Second).Ready == 9, "%.0f workers, then %.0f",
		r.row(70*time.Second).Ready, r.row(170*time.Second).Ready)
}

// TestDay: a scaler that looks ahead meets the objectives for less than the peak costs
// around the clock; one that only follows is late for every rise. On the first day both
// are alike, because the forecast has no earlier day to learn from, so all three days
// are compared.
func TestDay(t *testing.T) {
	t.Parallel()
	r := example(t, "day", nil)
	late := example(t, "day", func(s *Scenario) {
		s.Pools[0].Scale.NoForecast, s.Pools[0].Scale.NoWarmPool = true, true
	})
	expect(t, r.Total.Attainment > 0.99, "%.4f within objectives", r.Total.Attainment)
	expect(t, 1-late.Total.Attainment > 2*(1-r.Total.Attainment), "without looking ahead %.4f, with it %.4f",
		late.Total.Attainment, r.Total.Attainment)
	most := slices.MaxFunc(r.Rows, func(a, b Row) int { return cmp.Compare(a.Ready, b.Ready) }).Ready
	expect(t, r.Fleet.Count < 0.75*most, "%.1f replicas on average, %.1f at the peak", r.Fleet.Count, most)
	expect(t, r.Total.Finished == r.Total.Arrived, "%d of %d are answered", r.Total.Finished, r.Total.Arrived)
}

// TestWeek: as many requests come as the file says, and the scaler follows them; there are fewer
// workers on the quiet days.
func TestWeek(t *testing.T) {
	t.Parallel()
	r := example(t, "week", nil)
	mean, rates := 0.0, readRates(t, "week-rate.csv")
	for _, p := range rates {
		mean += p.PerSecond / float64(len(rates))
	}
	want := 0.1 * mean * (140 * time.Minute).Seconds()
	came := float64(r.Total.Arrived)
	expect(t, math.Abs(came/want-1) < 0.05, "%.0f requests came, want about %.0f", came, want)
	expect(t, r.Total.Attainment > 0.98, "%.4f within objectives", r.Total.Attainment)
	work, quiet := r.row(25*time.Minute), r.row(55*time.Minute)
	expect(t, work.Ready > 2*quiet.Ready, "%.1f workers on a day of work, %.1f on a quiet one", work.Ready, quiet.Ready)
}

// TestRatesAreGiven: traffic whose rates are in a file that was not read does not run.
func TestRatesAreGiven(t *testing.T) {
	s := readExample(t, "week")
	s.Traffic[0].RateFile.Give(nil)
	_, err := Run(s)
	expect(t, err != nil && strings.Contains(err.Error(), "week-rate.csv"), "it runs without rates: %v", err)
}

// TestChatDay: workers that are full of keys and values use little of their arithmetic, so a
// scaler that looks at that has too few of them; on the first day the other one does, too, until
// it has seen enough.
func TestChatDay(t *testing.T) {
	t.Parallel()
	short := func(s *Scenario) {
		s.Duration = 40 * time.Minute
		s.Traffic[0].Day.Length, s.Traffic[0].Day.PeakAt, s.Pools[0].Scale.Day = s.Duration, s.Duration/2, s.Duration
	}
	r := example(t, "chat-day", short)
	busy := example(t, "chat-day", func(s *Scenario) {
		short(s)
		s.Pools[0].Scale.Utilisation = true
	})
	expect(t, r.Total.Attainment > 0.97, "%.4f within objectives", r.Total.Attainment)
	expect(t, busy.Total.Attainment < 0.9, "by utilisation %.4f are within objectives", busy.Total.Attainment)
	expect(t, busy.Fleet.Busy > 0 && r.Fleet.KVMost > 0.9, "the fullest worker is at %.2f", r.Fleet.KVMost)
}

// TestEveryExampleIsTested has the scenarios that come with Parley be read, at least.
func TestEveryExampleIsTested(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "examples", "sim", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no examples: %v", err)
	}
	var source []byte
	for _, file := range []string{"examples_test.go", "limits_test.go", "shard_test.go", "transfer_test.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		if name != "million" && !strings.Contains(string(source), `"`+name+`"`) {
			t.Errorf("no test runs %s", name)
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Read(text); err != nil {
			t.Errorf("%s: %v", file, err)
		}
	}
}
