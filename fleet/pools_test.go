package fleet

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// paidPools are those of tests in which paid requests may overflow into a second
// pool, and free ones may not.
func paidPools() []Pool {
	return []Pool{
		{Name: "paid", Classes: []parley.Class{parley.Pro}},
		{Name: "spare", Classes: []parley.Class{parley.Pro}},
		{Name: "free", Classes: []parley.Class{parley.Free}},
	}
}

// startPaid starts a fleet with a worker in each pool.
func startPaid(t *testing.T, cfg Config) (*Fleet, map[string]*frail) {
	cfg.Pools = paidPools()
	workers := map[string]*frail{}
	var members []Member
	for _, p := range cfg.Pools {
		workers[p.Name] = newFrail(newOracle(t, time.Millisecond))
		m := joiner(p.Name+"-1", workers[p.Name])
		m.Pool = p.Name
		members = append(members, m)
	}
	f := newFleet(t, cfg, members...)
	synctest.Wait()
	return f, workers
}

func paidAsk(tokens int) *parley.Request {
	r := ask(tokens)
	r.Class, r.Tenant = parley.Pro, "acme"
	return r
}

// TestAnswersStayInTheirPools kills workers under answers: they go on in the pools
// that admit them, and never in another.
func TestAnswersStayInTheirPools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, workers := startPaid(t, Config{HedgeAfter: time.Nanosecond})
		go func() { time.Sleep(20 * time.Millisecond); workers["paid"].kill() }()
		got, err := hear(t.Context(), f, paidAsk(60))
		if err != nil || got[len(got)-1].Usage.Routing.Pool != "spare" {
			t.Errorf("%v, %v", got, err)
		}
		if n := workers["free"].asked.Load(); n != 0 {
			t.Errorf("the pool of others was asked %d times", n)
		}
		workers["spare"].kill()
		time.Sleep(5 * time.Second)
		if _, err := hear(t.Context(), f, paidAsk(5)); parley.CodeOf(err) != parley.Unavailable ||
			!strings.Contains(err.Error(), "pool 'paid': 1 down; pool 'spare': 1 down") ||
			strings.Contains(err.Error(), "free") {
			t.Error(err)
		}
		if n := workers["free"].asked.Load(); n != 0 {
			t.Errorf("with nobody left, the pool of others was asked %d times", n)
		}
	})
}

// TestReadinessIsOfOnePool looks whose workers are counted while they come and go.
func TestReadinessIsOfOnePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, workers := startPaid(t, Config{})
		want := func(when string, paid, spare int, order ...string) {
			t.Helper()
			if a, b := f.Ready(modelID, "paid"), f.Ready(modelID, "spare"); a != paid || b != spare {
				t.Errorf("%s: %d and %d are ready, want %d and %d", when, a, b, paid, spare)
			}
			if got := f.PoolsFor(paidAsk(1)); !slices.Equal(got, order) {
				t.Errorf("%s: the pools are %v, want %v", when, got, order)
			}
		}
		want("at first", 1, 1, "paid", "spare")
		workers["paid"].kill()
		time.Sleep(5 * time.Second)
		want("without its worker", 0, 1, "spare", "paid")
		workers["paid"].revive()
		time.Sleep(5 * time.Second)
		want("with it", 1, 1, "paid", "spare")
		if err := f.Drain("paid-1", -1); err != nil {
			t.Fatal(err)
		}
		want("while it drains", 0, 1, "spare", "paid")
		if err := f.Leave("paid-1"); err != nil {
			t.Fatal(err)
		}
		m := joiner("paid-1", workers["paid"])
		m.Pool = "spare"
		if err := f.Join(m); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		want("in another pool", 0, 2, "spare", "paid")
		if err := f.NoWorkers(paidAsk(1)); !strings.Contains(err.Error(), "pool 'paid': no worker has joined") {
			t.Error(err)
		}
	})
}

// TestAPoolIsAskedFirst has a queue in front choose the pool.
func TestAPoolIsAskedFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := startPaid(t, Config{})
		got, err := hear(t.Context(), f.Pool("spare"), paidAsk(3))
		if err != nil || got[0].Routing.Pool != "spare" {
			t.Errorf("%v, %v", got, err)
		}
		got, err = hear(t.Context(), f.Pool("free"), paidAsk(3)) // which does not admit it
		if err != nil || got[0].Routing.Pool != "paid" {
			t.Errorf("%v, %v", got, err)
		}
	})
}

// TestReplayBudgetsAreOfOnePool spends what one pool may compute again.
func TestReplayBudgetsAreOfOnePool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := startPaid(t, Config{ReplayBurst: 100})
		attempt := func(pool string) *attempt { return &attempt{member: &member{Member: Member{Pool: pool}}} }
		if !f.affords(attempt("free"), 100) || f.affords(attempt("free"), 100) {
			t.Error("a pool's budget is not what it should be")
		}
		if !f.affords(attempt("paid"), 100) {
			t.Error("another pool has spent this one's budget")
		}
	})
}

// TestAnswersEarnAllTheirTokens has answers of several lengths fill the budget of their pool: every token that came
// counts once they have ended, also those of one whose worker was lost.
func TestAnswersEarnAllTheirTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, workers := startPaid(t, Config{})
		earned := func(pool string) float64 {
			b := f.budgets[pool]
			before := b.sum
			b.sum = 0
			return before
		}
		for _, tokens := range []int{1, 5, 16, 17, 40} {
			r := paidAsk(tokens)
			if _, err := hear(t.Context(), f, r); err != nil {
				t.Fatal(err)
			}
			prompt := float64(len(r.Prompt))
			if got := earned("paid"); got < float64(tokens) || got > float64(tokens)+prompt {
				t.Errorf("an answer of %d tokens to %v earned %v", tokens, prompt, got)
			}
		}
		go func() { time.Sleep(25 * time.Millisecond); workers["paid"].kill() }()
		if _, err := hear(t.Context(), f, paidAsk(60)); err != nil {
			t.Fatal(err)
		}
		if paid, spare := earned("paid"), earned("spare"); paid < 20 || spare < 60-paid {
			t.Errorf("a moved answer of 60 tokens earned %v in one pool and %v in the other", paid, spare)
		}
	})
}

// TestCachedTokensAreKnownOfAPool asks what a prompt finds in each pool.
func TestCachedTokensAreKnownOfAPool(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := startPaid(t, Config{})
		r := paidAsk(2)
		r.Prompt = make([]parley.Token, 160)
		if _, err := hear(t.Context(), f, r); err != nil {
			t.Fatal(err)
		}
		if n, known := f.Cached(r, "paid"); !known || n != 160 {
			t.Errorf("the pool that computed it holds %d tokens, known is %v", n, known)
		}
		if n, known := f.Cached(r, "spare"); !known || n != 0 {
			t.Errorf("another pool holds %d tokens, known is %v", n, known)
		}
		m := joiner("blind", newFrail(newOracle(t, time.Millisecond)))
		m.Pool, m.BlockTokens = "free", 0
		if err := f.Leave("free-1"); err != nil {
			t.Fatal(err)
		}
		if err := f.Join(m); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if n, known := f.Cached(r, "free"); known || n != 0 {
			t.Errorf("of a worker without blocks %d tokens are known (%v)", n, known)
		}
	})
}

// TestTurnsOnly: a model takes conversations alone if all of its workers do.
func TestTurnsOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, Config{})
		join := func(name string, only bool) {
			m := joiner(name, newFrail(newOracle(t, time.Millisecond)))
			m.TurnsOnly = only
			if err := f.Join(m); err != nil {
				t.Fatal(err)
			}
		}
		model := f.Models()[0].ID
		expect := func(want bool, when string) {
			if got := f.TurnsOnly(model); got != want {
				t.Errorf("%s: conversations alone: %v", when, got)
			}
		}
		expect(false, "no worker")
		join("chat", true)
		expect(true, "one that takes conversations")
		join("own", false)
		expect(false, "one that takes all beside it")
		if err := f.Leave("own"); err != nil {
			t.Fatal(err)
		}
		expect(true, "that one has left")
	})
}

// TestSessionsStayWithWorkersThatTellNothing sends the turns of many sessions of one
// tenant to workers that take no token ids: each session stays with its worker, and
// they are spread over all; the sessions of a worker that goes move, and no other.
func TestSessionsStayWithWorkersThatTellNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var members []Member
		for i := range 4 {
			m := joiner(fmt.Sprint("w", i), newFrail(newOracle(t, time.Millisecond)))
			m.BlockTokens, m.TextOnly = 0, true
			members = append(members, m)
		}
		f := newFleet(t, Config{SlowStart: -1}, members...)
		synctest.Wait()
		where := func(session int) string {
			r := paidAsk(2)
			r.Session = fmt.Sprint("acme conversation ", session)
			got, err := hear(t.Context(), f, r)
			if err != nil {
				t.Fatal(err)
			}
			return got[0].Routing.Worker
		}
		const sessions = 200
		first, count := map[int]string{}, map[string]int{}
		for turn := range 3 {
			for session := range sessions {
				worker := where(session)
				if turn == 0 {
					first[session] = worker
					count[worker]++
				} else if worker != first[session] {
					t.Errorf("turn %d of session %d went to %s, the first to %s", turn, session, worker, first[session])
				}
			}
		}
		for worker, n := range count {
			if n < sessions/4/2 || n > sessions/4*2 {
				t.Errorf("%s has %d of %d sessions", worker, n, sessions)
			}
		}
		if err := f.Drain("w1", -1); err != nil {
			t.Fatal(err)
		}
		for session := range sessions {
			if worker := where(session); first[session] != "w1" && worker != first[session] {
				t.Errorf("session %d moved from %s to %s when w1 went", session, first[session], worker)
			}
		}
	})
}
