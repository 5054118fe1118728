package host

import (
	"slices"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"parley"
	"parley/compute"
	"parley/fleet"
	"parley/internal/testkit"
	"parley/route"
	"parley/worker"
	"parley/worker/kvstore"
)

// openStore opens a store that is asked for everything, whatever it takes.
func openStore(t *testing.T, url string) *kvstore.Store {
	t.Helper()
	s, err := kvstore.Open(kvstore.Config{URL: url, Wait: time.Minute, Bandwidth: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// counted returns the sum of a store's counter over all labels, or over those with an outcome.
func counted(t *testing.T, s *kvstore.Store, name, outcome string) (sum float64) {
	t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(s.Metrics()...)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.Metric {
			if f.GetName() == name && (outcome == "" || m.Label[0].GetValue() == outcome) {
				sum += m.GetCounter().GetValue()
			}
		}
	}
	return sum
}

// awaitWrites returns when stores have taken a number of blocks in all.
func awaitWrites(t *testing.T, blocks int, stores ...*kvstore.Store) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(5 * time.Millisecond) {
		n := 0.0
		for _, s := range stores {
			n += counted(t, s, "parley_kv_store_writes_total", "written")
		}
		if n >= float64(blocks) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v of %d blocks were written", n, blocks)
		}
	}
}

func fullBlocks(r *parley.Request) int { return (len(r.Prompt) - 1) / compute.BlockTokens }

// stores calls test with each kind of store that there is.
func stores(t *testing.T, test func(t *testing.T, url string)) {
	t.Run("redis", func(t *testing.T) { test(t, testkit.StartRedis(t).URL) })
	t.Run("cluster", func(t *testing.T) { test(t, testkit.StartRedisCluster(t)) })
	t.Run("bucket", func(t *testing.T) { test(t, testkit.StartS3(t)) })
}

// TestStoreIsShared has one worker compute a prompt, and another one, which knows nothing of the
// first but their store, find it there: with all types of the pool, greedily and with a seed, and
// also after the first has ended. Tenants and types stay apart.
func TestStoreIsShared(t *testing.T) {
	stores(t, func(t *testing.T, url string) {
		for kind := range compute.KVType(compute.KVTypes) {
			t.Run(kind.String(), func(t *testing.T) {
				model := Config{KVTokens: 8192, ContextTokens: 2048, KVType: kind}
				plain, _ := startWorker(t, ServerConfig{}, model)
				given := openStore(t, url)
				model.KVStore = given
				first, _ := startWorker(t, ServerConfig{}, model)
				r := transferPrompt(t, first)
				r.Sampling = parley.Sampling{Temperature: 0.9, Seed: 7}
				want, _, _ := askTransfer(t, plain, r)
				if got, _, _ := askTransfer(t, first, r); !slices.Equal(got, want) {
					t.Errorf("with a store that is empty: %v, want %v", got, want)
				}
				awaitWrites(t, fullBlocks(r), given)
				if err := first.Sleep(false); err != nil {
					t.Fatal(err)
				}
				model.KVStore = openStore(t, url)
				_, at := startWorker(t, ServerConfig{}, model)
				second := dialWorker(t, worker.Config{URL: at, Kind: worker.Parley})
				got, u, moved := askTransfer(t, second, r)
				if !slices.Equal(got, want) {
					t.Errorf("with a store: %v, want %v", got, want)
				}
				if full := fullBlocks(r) * compute.BlockTokens; moved == nil || moved.Miss != "" ||
					moved.CameTokens != full || moved.AskedTokens != full || u.CachedTokens != full {
					t.Errorf("%+v came, %d tokens were cached, want %d", moved, u.CachedTokens, full)
				}
				other := *r
				other.Salt = parley.Salt{9}
				if got, u, moved := askTransfer(t, second, &other); !slices.Equal(got, want) || u.CachedTokens > 0 ||
					moved == nil || moved.Miss != "not in the store" || moved.CameTokens > 0 {
					t.Errorf("another tenant found %+v, %d tokens were cached", moved, u.CachedTokens)
				}
			})
		}
	})
}

// TestFaultsOfAStoreChangeNoToken damages what is stored, has the store and be silent: the
// answer has the same tokens.
func TestFaultsOfAStoreChangeNoToken(t *testing.T) {
	server := testkit.StartRedis(t)
	options, err := redis.ParseURL(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	admin := redis.NewClient(options)
	t.Cleanup(func() { _ = admin.Close() })
	given := openStore(t, server.URL)
	model := Config{KVTokens: 8192, ContextTokens: 2048, KVStore: given}
	first, _ := startWorker(t, ServerConfig{}, model)
	r := transferPrompt(t, first)
	want, _, _ := askTransfer(t, first, r)
	awaitWrites(t, fullBlocks(r), given)
	names := parley.AppendBlockHashes(nil, parley.BlockHash{}, r.Salt, r.Prompt, compute.BlockTokens)
	key := "parley-kv/" + first.awake.format.Digest() + "/" + names[5].String()
	ask := func(t *testing.T, s *Server, came int, miss string) {
		t.Helper()
		got, u, moved := askTransfer(t, s, r)
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if moved == nil || moved.Miss != miss || moved.CameTokens != came*compute.BlockTokens ||
			u.CachedTokens != moved.CameTokens {
			t.Errorf("%+v, %d tokens were cached; want %d blocks and %q", moved, u.CachedTokens, came, miss)
		}
	}
	t.Run("damaged", func(t *testing.T) {
		value, err := admin.Get(t.Context(), key).Bytes()
		if err != nil {
			t.Fatal(err)
		}
		value[len(value)/2] ^= 1
		if err := admin.Set(t.Context(), key, value, 0).Err(); err != nil {
			t.Fatal(err)
		}
		model.KVStore = openStore(t, server.URL)
		s, _ := startWorker(t, ServerConfig{}, model)
		ask(t, s, 5, "damaged")
		for admin.Exists(t.Context(), key).Val() == 0 { // it is written again
			time.Sleep(5 * time.Millisecond)
		}
		sound(t, s)
		model.KVStore = openStore(t, server.URL)
		s, _ = startWorker(t, ServerConfig{}, model)
		ask(t, s, fullBlocks(r), "")
	})
	t.Run("incomplete", func(t *testing.T) {
		if err := admin.Unlink(t.Context(), key).Err(); err != nil {
			t.Fatal(err)
		}
		model.KVStore = openStore(t, server.URL)
		s, _ := startWorker(t, ServerConfig{}, model)
		ask(t, s, 5, "not in the store")
		sound(t, s)
	})
	t.Run("silent", func(t *testing.T) {
		store, err := kvstore.Open(kvstore.Config{URL: server.URL, Wait: 20 * time.Millisecond, Bandwidth: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = store.Close() })
		model.KVStore = store
		s, _ := startWorker(t, ServerConfig{}, model)
		server.Pause(t)
		defer server.Resume(t)
		ask(t, s, 0, "too slow")
		sound(t, s)
	})
}

// TestAStoreThatIsGoneIsLeftAlone asks for prompts whose store does not answer: the tokens are the
// same, and after some failures it is not asked any more.
func TestAStoreThatIsGoneIsLeftAlone(t *testing.T) {
	server := testkit.StartRedis(t)
	server.Stop()
	model := Config{KVTokens: 8192, ContextTokens: 2048}
	plain, _ := startWorker(t, ServerConfig{}, model)
	r := transferPrompt(t, plain)
	want, _, _ := askTransfer(t, plain, r)
	model.KVStore = openStore(t, server.URL)
	s, _ := startWorker(t, ServerConfig{}, model)
	const salts = 8
	asked := 0
	for i := range salts {
		r.Salt = parley.Salt{5, byte(i)}
		got, _, moved := askTransfer(t, s, r)
		if !slices.Equal(got, want) {
			t.Errorf("%v, want %v", got, want)
		}
		if moved != nil && moved.Miss != "unreachable" {
			t.Errorf("%+v", moved)
		} else if moved != nil {
			asked++
		}
	}
	skipped := counted(t, model.KVStore, "parley_kv_store_lookups_total", "unavailable")
	if asked < 3 || asked+int(skipped) != salts {
		t.Errorf("a store that is gone was asked %d times and left alone %v times of %d", asked, skipped, salts)
	}
	sound(t, s)
}

// TestStoreBesideAPeer sends a request with a worker to fetch from that holds a part of the prompt,
// or is gone: the rest is read from the store, and what came from the worker is what is reported.
func TestStoreBesideAPeer(t *testing.T) {
	url := testkit.StartRedis(t).URL
	given := openStore(t, url)
	model := Config{KVTokens: 8192, ContextTokens: 2048, KVStore: given}
	from, fromURL := startWorker(t, ServerConfig{Key: transferKey}, model)
	r := transferPrompt(t, from)
	want, _, _ := askTransfer(t, from, r)
	awaitWrites(t, fullBlocks(r), given)
	full := fullBlocks(r) * compute.BlockTokens
	for name, test := range map[string]struct {
		url    string
		tokens int
		came   int
		miss   string
	}{
		"a part": {url: fromURL, tokens: 160, came: 160},
		"all":    {url: fromURL, tokens: full, came: full},
		"gone":   {url: "http://127.0.0.1:1", tokens: full, miss: "unreachable"},
	} {
		t.Run(name, func(t *testing.T) {
			model.KVStore = openStore(t, url)
			to, _ := startWorker(t, ServerConfig{Key: transferKey}, model)
			fetching := *r
			fetching.Fetch = sourceOf(from, test.url)
			fetching.Fetch.Tokens = test.tokens
			got, u, moved := askTransfer(t, to, &fetching)
			if !slices.Equal(got, want) || u.CachedTokens != full {
				t.Errorf("%v, want %v; %d of %d tokens cached", got, want, u.CachedTokens, full)
			}
			if moved == nil || moved.From != "source" || moved.CameTokens != test.came || moved.Miss != test.miss {
				t.Errorf("%+v", moved)
			}
			sound(t, to)
		})
	}
	sound(t, from)
}

// TestStoreWithRoles has workers with roles and a store answer a prompt, and then others that know
// nothing but the store.
func TestStoreWithRoles(t *testing.T) {
	url := testkit.StartRedis(t).URL
	reference := startHost(t, openBuiltin(t, "polly-mini"), Config{Name: "polly-mini", ContextTokens: 2048})
	var want []parley.Token
	for round := range 2 {
		given := openStore(t, url)
		model := Config{KVTokens: 8192, ContextTokens: 2048, KVStore: given}
		a, urlA := startWorker(t, ServerConfig{Key: transferKey, Role: parley.RolePrefill}, model)
		model.KVStore = openStore(t, url)
		b, urlB := startWorker(t, ServerConfig{Key: transferKey, Role: parley.RoleDecode}, model)
		f := startFleet(t, urlA, urlB)
		r := transferPrompt(t, a)
		if round == 0 {
			want = answer(t, reference, r)
		}
		got, u, all := askFleet(t, f, r)
		if !slices.Equal(got, want) {
			t.Errorf("round %d: %v, want %v; %+v", round, got, want, all)
		}
		if round == 0 {
			awaitWrites(t, fullBlocks(r), given, model.KVStore)
		} else if found := counted(t, given, "parley_kv_store_read_tokens_total", "") +
			counted(t, model.KVStore, "parley_kv_store_read_tokens_total", ""); found == 0 {
			t.Errorf("nothing was read from the store: %+v, %+v", u, all)
		}
		sound(t, a, b)
	}
}

// TestStoreWithPools has a worker of one pool compute a prompt, and one of another pool asked for it: workers
// of two pools do not fetch from each other, and share what is in the store.
func TestStoreWithPools(t *testing.T) {
	url := testkit.StartRedis(t).URL
	first, second := openStore(t, url), openStore(t, url)
	a, urlA := startWorker(t, ServerConfig{Key: transferKey},
		Config{KVTokens: 8192, ContextTokens: 2048, KVStore: first})
	b, urlB := startWorker(t, ServerConfig{Key: transferKey},
		Config{KVTokens: 8192, ContextTokens: 2048, KVStore: second})
	f := startFleetOf(t, fleet.Config{
		Route: route.Config{FetchTime: maxFetch, FetchGain: 1e6},
		Pools: []fleet.Pool{
			{Name: "one", Purpose: fleet.AnyPurpose, Tenants: []string{"one"}},
			{Name: "two", Purpose: fleet.AnyPurpose, Tenants: []string{"two"}},
		},
	}, urlA, urlB)
	r := transferPrompt(t, a)
	r.Tenant = "one"
	want, _, all := askFleet(t, f, r)
	awaitWrites(t, fullBlocks(r), first)
	r.Tenant = "two"
	got, u, moved := askFleet(t, f, r)
	if len(all) != 1 || all[0].Pool != "one" || len(moved) != 1 || moved[0].Pool != "two" {
		t.Fatalf("%+v, then %+v", all, moved)
	}
	full := fullBlocks(r) * compute.BlockTokens
	if !slices.Equal(got, want) || u.CachedTokens != full {
		t.Errorf("%v, want %v; %d of %d tokens cached", got, want, u.CachedTokens, full)
	}
	if x := moved[0].Transfer; x == nil || x.From == "w0" || x.CameTokens != full || x.Miss != "" {
		t.Errorf("%+v", x)
	}
	if n := counted(t, second, "parley_kv_store_read_tokens_total", ""); n != float64(full) {
		t.Errorf("%v tokens were read from the store, want %d", n, full)
	}
	sound(t, a, b)
}
