package meter

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/compute"
	"parley/model/weights"
)

// shape is a network whose work can be worked out by hand: 2 layers, queries of 8 numbers.
func shape(change func(*weights.Summary)) Network {
	s := &weights.Summary{
		Config: weights.Config{Sizes: weights.Sizes{
			Layers:  2,
			Hidden:  8,
			Heads:   2,
			KVHeads: 1,
			HeadDim: 4,
			Vocab:   100,
		}},
		Classes: []weights.Share{
			{Name: "attention", Parameters: 100, Bytes: 200},
			{Name: "mlp", Parameters: 300, Bytes: 600},
			{Name: "embedding", Parameters: 800, Bytes: 1600},
			{Name: "output", Parameters: 800, Bytes: 1600},
			{Name: "other", Parameters: 1e6, Bytes: 1e6},
		},
	}
	if change != nil {
		change(s)
	}
	return NewNetwork(s, 0, 16*2*10) // a position takes 10 bytes in a layer
}

func TestWork(t *testing.T) {
	tokens := func(n int) []parley.Token { return make([]parley.Token, n) }
	decode := compute.Step{
		Tokens:  tokens(2),
		Seqs:    []compute.Seq{{Rows: 1, Past: 9}, {Row: 1, Rows: 1, Past: 19}},
		Outputs: []int32{0, 1},
	}
	prefill := compute.Step{Tokens: tokens(4), Seqs: []compute.Seq{{Rows: 4, Past: 10}}}
	for _, row := range []struct {
		name    string
		network Network
		step    compute.Step
		want    Load
	}{
		{"decode", shape(nil), decode,
			Load{800 + 1600 + 2*10*(10+20), 2*2*400 + 2*2*800 + 4*2*8*(10+20)}},
		{"prefill without outputs", shape(nil), prefill,
			Load{800 + 2*10*14, 2*4*400 + 4*2*8*(11+12+13+14)}},
		{"weights loaded in half of the bytes", shape(func(s *weights.Summary) { s.Bytes = 400 }), decode,
			Load{400 + 1600 + 2*10*(10+20), 2*2*400 + 2*2*800 + 4*2*8*(10+20)}},
		{"tied", shape(func(s *weights.Summary) {
			s.Config.TieEmbeddings = true
			s.Classes = append(s.Classes[:3:3], s.Classes[4])
		}), decode, Load{800 + 1600 + 2*10*(10+20), 2*2*400 + 2*2*800 + 4*2*8*(10+20)}},
		{"one layer sees 12 positions", shape(func(s *weights.Summary) {
			s.Config.SlidingWindow, s.Config.Sliding = 12, []bool{true, false}
		}), prefill, Load{800 + 10*14 + 10*14, 2*4*400 + 4*8*(11+12+13+14) + 4*8*(11+12+12+12)}},
		{"one layer sees 3 positions", shape(func(s *weights.Summary) {
			s.Config.SlidingWindow, s.Config.Sliding = 3, []bool{true, false}
		}), prefill, Load{800 + 10*14 + 10*6, 2*4*400 + 4*8*(11+12+13+14) + 4*8*12}},
		{"a quarter of the experts for each of two tokens", shape(func(s *weights.Summary) {
			s.Config.Experts, s.Config.ExpertsPerToken = 8, 2
			s.Classes[1].Name = "experts"
		}), decode, Load{200 + 600*(1-0.75*0.75) + 1600 + 2*10*(10+20),
			2*2*(100+300/4) + 2*2*800 + 4*2*8*(10+20)}},
	} {
		if got := row.network.Of(&row.step); math.Abs(got.Bytes-row.want.Bytes) > 1e-9 ||
			math.Abs(got.Operations-row.want.Operations) > 1e-9 {
			t.Errorf("%s: %+v, want %+v", row.name, got, row.want)
		}
	}
}

// same compares numbers that may be absent.
func same(a, b *float64) bool {
	if a == nil || b == nil {
		return a == b
	}
	return math.Abs(*a-*b) < 1e-9
}

func gpu(bandwidth, operations float64) parley.DeviceState {
	return parley.DeviceState{Name: "GPU", BandwidthCeiling: &bandwidth, ComputeCeiling: &operations}
}

func TestSharesOfTheCeilings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		m := Start(gpu(10_000, 100_000), shape(nil), func(s *parley.DeviceState) {
			asked++
			s.Temperature = new(float64(60 + asked))
		})
		defer m.Close()
		check := func(name string, busy, bandwidth, operations *float64) {
			t.Helper()
			synctest.Wait()
			s := m.State()
			if !same(s.Busy, busy) || !same(s.Bandwidth, bandwidth) || !same(s.Compute, operations) {
				t.Errorf("%s: %+v", name, s)
			}
		}
		check("before the first second", nil, nil, nil)
		step := &compute.Step{Tokens: make([]parley.Token, 4), Seqs: []compute.Seq{{Rows: 4, Past: 10}}}
		// 1,080 bytes and 6,400 operations.
		m.Computed(step)
		m.Took(200 * time.Millisecond)
		m.Launched(step)
		m.Launched(step)
		m.Landed()
		m.Took(300 * time.Millisecond)
		time.Sleep(Every)
		check("two passes in half a second", new(0.5), new(2*1080/0.5/10_000), new(2*6400/0.5/100_000))
		time.Sleep(Every)
		check("none", new(float64(0)), nil, nil)
		m.Landed()
		m.Took(3 * time.Second)
		time.Sleep(Every)
		check("one that took longer than the second", new(float64(1)), new(1080/3./10_000), new(6400/3./100_000))
		m.Landed() // nothing is in the air
		m.Took(time.Second)
		time.Sleep(Every)
		check("one of unknown work", new(float64(1)), nil, nil)
		if s := m.State(); asked != 5 || !same(s.Temperature, new(float64(65))) || s.Name != "GPU" ||
			!same(s.BandwidthCeiling, new(float64(10_000))) || !same(s.ComputeCeiling, new(float64(100_000))) {
			t.Errorf("asked %d times: %+v", asked, s)
		}
	})
}

// TestUnknownCeilings leaves out what cannot be known.
func TestUnknownCeilings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := Start(parley.DeviceState{Name: "GPU"}, shape(nil), nil)
		defer m.Close()
		m.Took(500 * time.Millisecond)
		time.Sleep(Every)
		synctest.Wait()
		if s := m.State(); s.Bandwidth != nil || s.Compute != nil || s.BandwidthCeiling != nil ||
			s.ComputeCeiling != nil || !same(s.Busy, new(0.5)) {
			t.Errorf("%+v", s)
		}
	})
}

// TestNothingWaitsForTheDriver has a driver that does not answer until it is told to.
func TestNothingWaitsForTheDriver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan struct{})
		m := Start(gpu(1, 1), shape(nil), func(*parley.DeviceState) { <-answer })
		synctest.Wait()
		began := time.Now()
		m.Computed(&compute.Step{})
		m.Took(time.Second)
		m.State()
		if waited := time.Since(began); waited != 0 {
			t.Errorf("a pass waited %v for the driver", waited)
		}
		m.Close()
		if waited := time.Since(began); waited != closeWait {
			t.Errorf("closing waited %v for the driver, want %v", waited, closeWait)
		}
		close(answer) // synctest fails if a goroutine is left after this
		m.Close()
	})
}
