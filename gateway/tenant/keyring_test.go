package tenant

import (
	"context"
	"errors"
	"net/http"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"parley"
	"parley/limit"
)

func TestIdentify(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		s, ring := opened(t, dsn), ringOf(t, dsn)
		if !ring.Empty() {
			t.Error("a new keyring has keys")
		}
		pro := parley.Pro
		k, secret := create(t, s, NewKey{Organization: "acme", User: "ann", Tier: &pro, Models: []string{"chat"},
			Limits: limit.Limits{RequestsPerMinute: 3}}, time.Now())
		check(t, ring.Refresh(t.Context()))
		if ring.Empty() {
			t.Error("the keyring is empty")
		}
		i := must(ring.Identify(t.Context(), secret))(t)
		if i.Organization != "acme" || i.User != "ann" || i.Key != k.ID || i.Tier != parley.Pro || i.Admin ||
			i.KeyLimits.RequestsPerMinute != 3 || i.Limits != DefaultTiers()[parley.Pro].Limits {
			t.Errorf("identified as %+v", i)
		}
		if alone := must(ring.OfKey(t.Context(), k.ID))(t); !reflect.DeepEqual(alone, i) {
			t.Errorf("without a client it is %+v", alone)
		}
		if i.MayUse("polly") || !i.MayUse("polly", "chat") {
			t.Error("the wrong models are allowed")
		}
		for _, wrong := range []string{"", "pk-", secret[:len(secret)-1], secret + "x", strings.ToUpper(secret),
			newSecret(), secret[:prefixLength] + newSecret()[prefixLength:]} {
			_, err := ring.Identify(t.Context(), wrong)
			fails(t, err, errUnknown)
		}
		ring.noteUsed(t.Context())
		if used := must(s.Key(t.Context(), k.ID))(t).LastUsed; time.Since(used) > time.Minute {
			t.Errorf("last used %v", used)
		}
	})
}

// TestRefusals has a key refused for each reason there is, and accepted again.
func TestRefusals(t *testing.T) {
	dsn := sqliteDSN(t)
	s, ring := opened(t, dsn), ringOf(t, dsn)
	soon := time.Now().Add(time.Hour)
	k, secret := create(t, s, NewKey{Organization: "acme", User: "ann", Expires: soon}, time.Now())
	var unknown error // how the key is refused for what it left, when its secret is not known
	expect := func(want error) {
		t.Helper()
		check(t, ring.Refresh(t.Context()))
		for range 2 { // the second time from memory
			_, err := ring.Identify(t.Context(), secret)
			fails(t, err, want)
		}
		if errors.Is(want, errUnknown) { // work that waits goes by the key's id, not by a secret
			want = unknown
		}
		_, err := ring.OfKey(t.Context(), k.ID)
		fails(t, err, want)
	}
	yes, no := true, false
	expect(nil)
	must(s.ChangeKey(t.Context(), k.ID, KeyChange{Blocked: &yes}))(t)
	expect(errBlocked)
	must(s.ChangeKey(t.Context(), k.ID, KeyChange{Blocked: &no}))(t)
	expect(nil)
	check(t, s.BlockUser(t.Context(), "acme", "ann", true))
	expect(errBlocked)
	check(t, s.BlockUser(t.Context(), "acme", "ann", false))
	must(s.ChangeOrganization(t.Context(), "acme", OrganizationChange{Blocked: &yes}))(t)
	expect(errBlocked)
	_, err := ring.Of(t.Context(), "acme", "ann")
	fails(t, err, errBlocked)
	must(s.ChangeOrganization(t.Context(), "acme", OrganizationChange{Blocked: &no}))(t)
	expect(nil)
	ring.now = func() time.Time { return soon }
	expect(errExpired)
	ring.now = time.Now
	_, fresh, err := s.RotateKey(t.Context(), k.ID, 0, time.Now())
	check(t, err)
	expect(errUnknown)
	secret = fresh
	expect(nil)
	check(t, s.DeleteKey(t.Context(), k.ID))
	unknown = errDeleted
	expect(errUnknown)
}

// TestRevocationIsSeenElsewhere has a key blocked through one store and refused
// by keyrings of others, which follow by themselves.
func TestRevocationIsSeenElsewhere(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		s, rings := opened(t, dsn), []*Keyring{ringOf(t, dsn), ringOf(t, dsn)}
		k, secret := create(t, s, NewKey{Organization: "acme"}, time.Now())
		yes, fastest := true, time.Hour
		for n := 0; n < 3 || fastest > time.Second && n < 30; n++ { // the machine may be busy with others
			accepted(t, rings, secret, true)
			must(s.ChangeKey(t.Context(), k.ID, KeyChange{Blocked: &yes}))(t)
			began := time.Now()
			accepted(t, rings, secret, false)
			fastest = min(fastest, time.Since(began))
			no := false
			must(s.ChangeKey(t.Context(), k.ID, KeyChange{Blocked: &no}))(t)
		}
		if fastest > time.Second {
			t.Errorf("a blocked key was refused everywhere after %v at best", fastest)
		}
	})
}

// TestOldSecretsEnd has a key rotated: the old secret is taken until its time.
func TestOldSecretsEnd(t *testing.T) {
	dsn := sqliteDSN(t)
	s, ring := opened(t, dsn), ringOf(t, dsn)
	k, old := create(t, s, NewKey{Organization: "acme"}, time.Now())
	accepted(t, []*Keyring{ring}, old, true)
	_, fresh, err := s.RotateKey(t.Context(), k.ID, time.Hour, time.Now())
	check(t, err)
	accepted(t, []*Keyring{ring}, fresh, true)
	who, err := ring.Identify(t.Context(), old)
	if err != nil || who.Key != k.ID {
		t.Errorf("in its grace the old secret is %+v, %v", who, err)
	}
	_, _, err = s.RotateKey(t.Context(), k.ID, time.Millisecond, time.Now().Add(-time.Second))
	check(t, err)
	accepted(t, []*Keyring{ring}, fresh, false)
	if _, err := ring.Identify(t.Context(), old); err != nil {
		t.Errorf("the one before still has its hour: %v", err)
	}
}

// accepted waits until all rings say the same of a key.
func accepted(t *testing.T, rings []*Keyring, secret string, want bool) {
	t.Helper()
	for _, ring := range rings {
		for {
			if _, err := ring.Identify(t.Context(), secret); (err == nil) == want {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
}

// TestStaleAnswersAreNotKept runs changes beside lookups: after a change was
// taken up, what was read before it must not come back.
func TestStaleAnswersAreNotKept(t *testing.T) {
	dsn := sqliteDSN(t)
	s, ring := opened(t, dsn), ringOf(t, dsn)
	k, secret := create(t, s, NewKey{Organization: "acme"}, time.Now())
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for ctx.Err() == nil {
				_, _ = ring.Identify(ctx, secret)
			}
		})
	}
	for n := range 40 {
		blocked := n%2 == 0
		must(s.ChangeKey(t.Context(), k.ID, KeyChange{Blocked: &blocked}))(t)
		check(t, ring.Refresh(t.Context()))
		for range 20 {
			if _, err := ring.Identify(t.Context(), secret); (err != nil) != blocked {
				t.Errorf("after change %d: %v", n, err)
			}
		}
	}
	cancel()
	group.Wait()
}

// TestStoreAway closes the store under a keyring: what is known goes on for a
// while, the rest is told to come back.
func TestStoreAway(t *testing.T) {
	dsn := sqliteDSN(t)
	ring := ringOf(t, dsn)
	_, secret := create(t, ring.store, NewKey{}, time.Now())
	_, other := create(t, ring.store, NewKey{}, time.Now())
	check(t, ring.Refresh(t.Context()))
	must(ring.Identify(t.Context(), secret))(t)
	check(t, ring.store.db.Close())
	must(ring.Identify(t.Context(), secret))(t)
	if _, err := ring.Identify(t.Context(), other); err == nil || parley.CodeOf(err) == parley.Unauthenticated {
		t.Errorf("a key that nobody could look up: %v", err)
	}
	ring.now = func() time.Time { return time.Now().Add(knownAge) }
	if _, err := ring.Identify(t.Context(), secret); err == nil {
		t.Error("a key is believed for ever")
	}
}

func TestCacheIsBounded(t *testing.T) {
	c := newCache()
	for n := range unknownMax + 10 {
		c.put(digest{byte(n), byte(n >> 8), byte(n >> 16)}, keyLookup{refused: errUnknown}, 1, at(0))
	}
	for n := range knownMax + 10 {
		c.put(digest{byte(n), byte(n >> 8), byte(n >> 16), 1}, keyLookup{}, 1, at(0))
	}
	if len(c.known) > knownMax || len(c.unknown) > unknownMax {
		t.Errorf("%d known and %d unknown keys are remembered", len(c.known), len(c.unknown))
	}
	d := digest{9}
	c.put(d, keyLookup{digest: d}, 2, at(0))
	c.put(d, keyLookup{digest: d, refused: errBlocked}, 1, at(0))
	if v, ok := c.get(d, at(1)); !ok || v.refused != nil {
		t.Error("a verdict of an older generation was taken")
	}
	if _, ok := c.get(d, at(0).Add(knownAge)); ok {
		t.Error("a verdict does not age")
	}
	c.put(d, keyLookup{refused: errUnknown}, 3, at(0))
	if _, ok := c.get(d, at(0).Add(unknownAge)); ok {
		t.Error("a refusal does not age")
	}
}

func TestTiers(t *testing.T) {
	tiers := DefaultTiers()
	check(t, tiers.Validate())
	tiers[parley.Free] = Tier{Models: []string{"mini"},
		Limits: limit.Limits{RequestsPerMinute: 10, ConcurrentRequests: 1}, KVReserve: 2, KVShare: -1}
	if err := tiers.Validate(); err == nil || !strings.Contains(err.Error(), "KV share is -1") ||
		!strings.Contains(err.Error(), "at most 1") {
		t.Errorf("got %v", err)
	}
	i := tiers.identity(&Organization{ID: "acme", Limits: limit.Limits{RequestsPerMinute: 99}},
		&Key{Models: []string{"chat"}})
	if i.Limits != (limit.Limits{RequestsPerMinute: 99, ConcurrentRequests: 1}) {
		t.Errorf("limits %+v", i.Limits)
	}
	if !i.MayUse("chat", "mini") || i.MayUse("chat", "polly") || i.MayUse("mini") {
		t.Error("a model must be allowed by the key and by the tier")
	}
}

func TestShown(t *testing.T) {
	for want, h := range map[string]http.Header{
		"a": {"Authorization": {"Bearer a"}, "X-Api-Key": {"b"}},
		"b": {"Authorization": {"Basic a"}, "X-Api-Key": {" b "}},
		"c": {"Sec-Websocket-Protocol": {"realtime, openai-insecure-api-key.c"}},
		"d": {"Authorization": {"bearer  d "}},
		"":  {"Authorization": {"Bearer "}, "Sec-Websocket-Protocol": {"openai-insecure-api-key."}},
	} {
		if got, shown := Shown(h); got != want || shown != (want != "") {
			t.Errorf("%v shows %q", h, got)
		}
	}
}

func FuzzShown(f *testing.F) {
	f.Add("Bearer "+newSecret(), "", "")
	f.Add("", newSecret(), "")
	f.Add("", "", "realtime,openai-insecure-api-key."+newSecret())
	f.Add("Bearer\t\x00", " ", ",,,")
	f.Fuzz(func(t *testing.T, authorization, apiKey, protocols string) {
		secret, shown := Shown(http.Header{"Authorization": {authorization}, "X-Api-Key": {apiKey},
			"Sec-Websocket-Protocol": {protocols}})
		if shown != (secret != "") || len(secret) > headerLengthMax || secret != strings.TrimSpace(secret) {
			t.Fatalf("%q %v", secret, shown)
		}
		if !strings.Contains(authorization+"\n"+apiKey+"\n"+protocols, secret) {
			t.Fatalf("%q was not sent", secret)
		}
		if prefix, ok := prefixOf(secret); ok && (len(secret) != secretLength || !strings.HasPrefix(secret, prefix)) {
			t.Fatalf("%q is taken for a key", secret)
		}
	})
}

func TestSecretsAreWellMade(t *testing.T) {
	seen := map[string]bool{}
	letters := map[rune]int{}
	for range 2000 {
		s := newSecret()
		if _, ok := prefixOf(s); !ok || seen[s] {
			t.Fatalf("a bad secret")
		}
		seen[s] = true
		for _, r := range s[prefixLength : prefixLength+hiddenLetters] {
			letters[r]++
		}
		changed := []byte(s)
		changed[20] ^= 1
		if _, ok := prefixOf(string(changed)); ok {
			t.Fatal("a mistyped secret passes")
		}
	}
	// 86,000 letters of 62: 1387 of each, with a standard deviation of 37.
	for r, n := range letters {
		if n < 1387-8*37 || n > 1387+8*37 {
			t.Errorf("%c was drawn %d times", r, n)
		}
	}
}

// TestOneAsksForAll shows a key while the store is asked for it already, and does not
// answer.
func TestOneAsksForAll(t *testing.T) {
	ring, secret := ringOf(t, sqliteDSN(t)), newSecret()
	answer, asking := make(chan struct{}), make(chan struct{})
	defer close(answer)
	go func() {
		_, _ = ring.asked.Find(context.Background(), keyOf(secret), func(context.Context) (keyLookup, error) {
			close(asking)
			<-answer
			return keyLookup{refused: errUnknown}, nil
		})
	}()
	<-asking
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := ring.Identify(ctx, secret)
	fails(t, err, context.DeadlineExceeded) // it has waited, and has not asked as well
}

// TestAnswersOfThePastAreAskedAgain has the store be slow to say that a key is good,
// which is blocked meanwhile: who shows it after that was taken up is refused.
func TestAnswersOfThePastAreAskedAgain(t *testing.T) {
	ring := ringOf(t, sqliteDSN(t))
	k, secret := create(t, ring.store, NewKey{Organization: "acme"}, time.Now())
	answer, asking := make(chan struct{}), make(chan struct{})
	var slow sync.WaitGroup
	slow.Go(func() {
		_, _ = ring.asked.Find(context.Background(), keyOf(secret), func(ctx context.Context) (keyLookup, error) {
			prefix, _ := prefixOf(secret)
			v, err := ring.ask(ctx, prefix, digestOf(secret), time.Now())
			close(asking)
			<-answer
			return v, err
		})
	})
	<-asking
	yes := true
	must(ring.store.ChangeKey(t.Context(), k.ID, KeyChange{Blocked: &yes}))(t)
	check(t, ring.Refresh(t.Context()))
	refused := make(chan error, 1)
	slow.Go(func() {
		_, err := ring.Identify(t.Context(), secret)
		refused <- err
	})
	time.Sleep(50 * time.Millisecond) // so that it waits, most times
	close(answer)
	fails(t, <-refused, errBlocked)
	slow.Wait()
}

// keyOf is the key under which lookups of a secret are shared.
func keyOf(secret string) string {
	d := digestOf(secret)
	return string(d[:])
}
