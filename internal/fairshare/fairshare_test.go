package fairshare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestNoneIsAhead serves parties that always want more, the one with the least account
// first, and checks after each that none is ahead of another by more than it may be.
func TestNoneIsAhead(t *testing.T) {
	for seed := range uint64(50) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := 2 + random.IntN(6)
		accounts, weights, largest := make([]Account, n), make([]float64, n), make([]float64, n)
		for i := range weights {
			weights[i] = float64(1 + random.IntN(8))
		}
		for range 2000 {
			next := 0
			for i := range accounts {
				if Compare(&accounts[i], &accounts[next]) < 0 {
					next = i
				}
			}
			amount := float64(1 + random.IntN(1000))
			accounts[next].Charge(amount, weights[next])
			largest[next] = max(largest[next], amount/weights[next])
			for i := range accounts {
				for j := range accounts {
					if ahead := accounts[i].Served() - accounts[j].Served(); ahead > largest[i]+largest[j]+1e-6 {
						t.Fatalf("seed %d: %d is ahead of %d by %v, more than %v and %v", seed, i, j, ahead, largest[i],
							largest[j])
					}
				}
			}
		}
	}
}

// TestAbsenceEarnsNothing lets a party come back before and after the others have passed
// it.
func TestAbsenceEarnsNothing(t *testing.T) {
	g := NewGroup[Party](10)
	a, returns := g.Join("a")
	if b, _ := g.Join("b"); !returns || b == a {
		t.Fatal("two names have one party, or the first was there before")
	}
	a.Charge(100, 1)
	g.Leave(a)
	g.Find("b").Charge(30, 1)
	back, returns := g.Join("a")
	if least, others := g.Least(back); back != a || !returns || !others || least != 30 {
		t.Fatalf("%+v returns %v, the least of the others is %v", back, returns, least)
	}
	if back.Lift(30); back.Served() != 100 {
		t.Errorf("what it took before its absence is forgotten: %v", back.Served())
	}
	g.Leave(back)
	g.Find("b").Charge(170, 1)
	back, _ = g.Join("a")
	if back.Lift(200); back.Served() != 200 {
		t.Errorf("its absence earned it %v", 200-back.Served())
	}
	if again, returns := g.Join("a"); again != back || returns || back.Present() != 2 {
		t.Errorf("%+v returns although it is present", again)
	}
}

// TestGroupsAgreeWithTheirDefinition compares a group with lists that are searched.
func TestGroupsAgreeWithTheirDefinition(t *testing.T) {
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 2))
		keep := random.IntN(6)
		g := NewGroup[Party](keep)
		present, served := map[string]int{}, map[string]float64{}
		var absent []string // the oldest first
		for range 400 {
			name := fmt.Sprint(random.IntN(20))
			if present[name] > 0 && random.IntN(2) == 0 {
				p := g.Find(name)
				served[name] += 5
				p.Charge(10, 2)
				if g.Leave(p); present[name] == 1 {
					absent = append(absent, name)
				}
				if present[name]--; present[name] == 0 {
					delete(present, name)
				}
				if len(absent) > keep {
					delete(served, absent[0])
					absent = absent[1:]
				}
			} else {
				p, returns := g.Join(name)
				if returns != (present[name] == 0) || p.Name() != name {
					t.Fatalf("seed %d: %q returns: %v", seed, p.Name(), returns)
				}
				present[name]++
				absent = slices.DeleteFunc(absent, func(other string) bool { return other == name })
				if _, known := served[name]; !known {
					served[name] = 0
				}
			}
			compare(t, g, present, served, absent)
		}
	}
}

func compare(t *testing.T, g *Group[Party, *Party], present map[string]int, served map[string]float64,
	absent []string) {
	t.Helper()
	if g.Len() != len(served) || g.Absent() != len(absent) {
		t.Fatalf("%d parties, %d absent; wanted %d and %d", g.Len(), g.Absent(), len(served), len(absent))
	}
	var shares []float64
	for name, p := range g.All() {
		if p != g.Find(name) || p.Present() != present[name] || p.Served() != served[name] {
			t.Fatalf("%s is %+v, wanted %d times with %v", name, p, present[name], served[name])
		}
		if p.Present() > 0 {
			shares = append(shares, p.Served())
		}
	}
	if got, want := g.Fairness(), Jain(shares...); got < want-1e-9 || got > want+1e-9 {
		t.Fatalf("the index is %v, wanted %v", got, want)
	}
	for name := range present {
		least, others := 0.0, false
		for other := range present {
			if other != name && (!others || served[other] < least) {
				least, others = served[other], true
			}
		}
		if got, beside := g.Least(g.Find(name)); got != least || beside != others {
			t.Fatalf("the least beside %s is %v, wanted %v", name, got, least)
		}
	}
}

func TestJain(t *testing.T) {
	for _, c := range []struct {
		shares []float64
		want   float64
	}{{nil, 1}, {[]float64{0, 0}, 1}, {[]float64{3, 3, 3}, 1}, {[]float64{5, 0, 0, 0}, 0.25}} {
		if got := Jain(c.shares...); got != c.want {
			t.Errorf("%v: %v, wanted %v", c.shares, got, c.want)
		}
	}
}
