package monitor

import (
	"strings"
	"testing"
	"time"

	"parley/cli/remote"
	"parley/gateway/admin"
)

func TestParseMetrics(t *testing.T) {
	text := `# HELP x help
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{model_name="a/b:\"1\"}",engine="0"} 2
vllm:num_requests_waiting{engine="0", model_name="a/b:\"1\"}"} 3 1700000000
vllm:kv_cache_usage_perc{model_name="two"} 0.25
vllm:prefix_cache_queries_total{model_name="two"} 200
vllm:prefix_cache_hits_total{model_name="two"} 50
vllm:inter_token_latency_seconds_count{model_name="two"} 9
parley_model_state{model_name="three",state="loading"} 1
parley_model_state{model_name="four",state="loaded"} 1
process_start_time_seconds 1.7e+09
broken{
vllm:num_requests_running{model_name="two"} NaN
`
	states := modelStates(remote.ParseMetrics([]byte(text)))
	if len(states) != 4 || states[0].Model != `a/b:"1"}` || states[0].Running != 2 || states[0].Waiting != 3 {
		t.Fatalf("%+v", states)
	}
	if s := states[1]; s.KVUsed != 0.25 || s.CacheHits != 0.25 || s.tokens != 9 || s.Running != 0 {
		t.Errorf("%+v", s)
	}
	for i, want := range []string{"ready", "idle", "loading", "idle"} {
		if states[i].State != want {
			t.Errorf("%s is %s, want %s", states[i].Model, states[i].State, want)
		}
	}
	before := &ServerState{Models: []modelState{{Model: "two", tokens: 4}}}
	now := &ServerState{Models: states}
	now.rates(before, 500*time.Millisecond)
	if now.Models[1].TokensPerSecond != 10 || now.Models[0].TokensPerSecond != 0 {
		t.Errorf("%+v", now.Models)
	}
}

func FuzzMetrics(f *testing.F) {
	f.Add("a{model_name=\"x\\\"\",b=\"}\"} 1 2\n")
	f.Fuzz(func(t *testing.T, text string) { modelStates(remote.ParseMetrics([]byte(text))) })
}

func busyPicture() *admin.Picture {
	return &admin.Picture{
		Verdict: admin.Diagnosis{Bottleneck: admin.ByKV,
			Sentence: "The key/value memory of polly is 97% in use, and 4 wait for memory.", Do: "Add a worker."},
		Running: 12, Waiting: map[string]int{"free": 3, "pro": 1}, WaitSeconds: 2.5,
		Rates: admin.Rates{Requests: 3.2, Decode: 480, Prefill: 120},
		TTFT:  admin.Spread{P50: 0.2, P95: 1.4, Count: 9}, Gap: admin.Spread{P50: 0.02, P95: 0.031}, Hits: 0.61,
		Promises: []admin.Promise{{Name: "ttft", Goal: 0.95, Limit: 1, Kept: 0.91, Count: 100, Burn5m: 1.8,
			Burn1h: 0.6}},
		Queues: []admin.QueuePicture{{Queue: admin.Queue{Model: "polly", ModelBreaker: "open",
			WorkerBreaker: "closed"}}},
		Workers: []admin.Worker{{Name: "polly", State: "up", KV: 0.97, Busy: 0.5, Running: 12},
			{Name: "gone", State: "down"}},
	}
}

func TestTopNamesTheBottleneck(t *testing.T) {
	for _, width := range []int{20, 80, 300} {
		got := drawTop("http://x", []*admin.Picture{{}, busyPicture()}, width, false)
		for _, want := range []string{"97% in use", "Add a worker.", "91.00%", "within 1.0 s", "pro 1 free 3", "1.4 s",
			"480/s", "hit rate 61%", "breaker of the model open", "down", "kv "} {
			if !strings.Contains(strings.Join(strings.Fields(got), " "), want) {
				t.Errorf("width %d: there is no %q in\n%s", width, want, got)
			}
		}
	}
}

func TestTopScreen(t *testing.T) {
	s := &topScreen{root: "http://x"}
	for range 2 * topPictures {
		s.add(busyPicture())
	}
	if n := len(s.recent); n != topPictures {
		t.Errorf("%d pictures are remembered", n)
	}
	s.lost(remote.ErrCut)
	if text := s.text(80); !strings.Contains(text, "Retrying") || !strings.Contains(text, "97%") {
		t.Errorf("the screen says\n%s", text)
	}
	if got, want := frame("a\nb\nc\n", 2), "\x1b[Ha\x1b[K\nb\x1b[J"; got != want {
		t.Errorf("the frame is %q, not %q", got, want)
	}
}
