package infer

import (
	"context"
	"iter"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"parley"
)

// TestFlightStaysNearItsFastestMember has one member that does not read: the worker runs
// no further ahead of it than it would of a client alone.
func TestFlightStaysNearItsFastestMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShares(Sharing{}.WithDefaults(), time.Now)
		next := func(context.Context, *parley.Request) iter.Seq2[*Step, error] {
			return func(yield func(*Step, error) bool) {
				for yield(&Step{Delta: parley.Delta{Tokens: []parley.Token{1}}}, nil) {
				}
			}
		}
		from := s.answer(SharePolicy{Repeatable: true}, nil, next)
		_, stop := iter.Pull2(from(t.Context(), &parley.Request{Model: "m"}))
		defer stop()
		read, leave := iter.Pull2(from(t.Context(), &parley.Request{Model: "m"}))
		defer leave()
		if _, err, ok := read(); err != nil || !ok {
			t.Fatalf("the first step: %v, %v", err, ok)
		}
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, f := range s.flights {
			if ahead := len(f.deltas) - f.reached; ahead > eventsPending+1 || len(f.deltas) <= 1 {
				t.Errorf("the flight is %d ahead, at %d", ahead, len(f.deltas))
			}
		}
	})
}

// TestKeyHoldsAllThatDecides changes every field of a request and wants another
// key, or the same where the field decides nothing.
func TestKeyHoldsAllThatDecides(t *testing.T) {
	same := map[string]bool{"ID": true, "Turns": true, "Terms": true, "Class": true, "Tenant": true,
		"Background": true, "Deadline": true, "Salt": true, "PublicTokens": true, "Retain": true, "Purpose": true,
		"Resume": true, "Session": true, "Waited": true, "Elsewhere": true, "Fetch": true, "Handoff": true,
		"Objective.TTFT": true, "Objective.CachedTTFT": true, "Objective.TPOT": true}
	base := parley.Request{Model: "m", Prompt: []parley.Token{1, 2}, Sampling: parley.Sampling{Temperature: 1, Seed: 3}}
	key := func(r *parley.Request) shareKey { return keyOf(SharePolicy{Scope: "a", Repeatable: true}, r, nil) }
	var visit func(path string, v reflect.Value, r *parley.Request)
	visit = func(path string, v reflect.Value, r *parley.Request) {
		for i := range v.NumField() {
			field, name := v.Field(i), path+v.Type().Field(i).Name
			if field.Kind() == reflect.Struct && field.Type() != reflect.TypeFor[time.Time]() {
				if !same[name] {
					visit(name+".", field, r)
				}
				continue
			}
			old := reflect.ValueOf(field.Interface())
			field.Set(changed(t, field))
			if got := key(r) == key(&base); got != same[name] {
				t.Errorf("%s: the key stays is %v", name, got)
			}
			field.Set(old)
		}
	}
	r := base
	visit("", reflect.ValueOf(&r).Elem(), &r)
	if key(&base) == keyOf(SharePolicy{Scope: "b", Repeatable: true}, &base, nil) ||
		key(&base) == keyOf(SharePolicy{Scope: "a"}, &base, nil) ||
		key(&base) == keyOf(SharePolicy{Scope: "a", Repeatable: true}, &base, &parley.Grammar{}) {
		t.Error("the scope, the seed or the loose grammar is not in the key")
	}
}

// changed returns another value for a field.
func changed(t *testing.T, v reflect.Value) reflect.Value {
	switch x := v.Interface().(type) {
	case string:
		return reflect.ValueOf(x + "x")
	case int:
		return reflect.ValueOf(x + 7)
	case bool:
		return reflect.ValueOf(!x)
	case float32:
		return reflect.ValueOf(x + 0.5)
	case uint64:
		return reflect.ValueOf(x + 1)
	case []parley.Token:
		return reflect.ValueOf(append([]parley.Token{9}, x...))
	case []parley.Turn: // the prompt says the same
		return reflect.ValueOf([]parley.Turn{{Role: "user", Text: "a"}})
	case *parley.Terms: // the grammar says the same
		return reflect.ValueOf(&parley.Terms{CallRequired: true})
	case []string:
		return reflect.ValueOf(append([]string{"z"}, x...))
	case map[parley.Token]float32:
		return reflect.ValueOf(map[parley.Token]float32{4: 2})
	case *parley.Grammar:
		return reflect.ValueOf(&parley.Grammar{Kind: parley.GrammarObject})
	case parley.Class:
		return reflect.ValueOf(x + 1)
	case parley.Purpose:
		return reflect.ValueOf(x + "x")
	case *parley.BlockSource: // fetched or computed, the blocks are the same
		return reflect.ValueOf(&parley.BlockSource{Worker: "w"})
	case *parley.Handoff: // two workers say what one would
		return reflect.ValueOf(&parley.Handoff{Prefill: true})
	case []parley.Partial:
		return reflect.ValueOf([]parley.Partial{{Done: true}})
	case []parley.Code:
		return reflect.ValueOf([]parley.Code{parley.Internal})
	case parley.Salt:
		return reflect.ValueOf(parley.Salt{1})
	case time.Time:
		return reflect.ValueOf(x.Add(time.Hour))
	case time.Duration:
		return reflect.ValueOf(x + 1)
	}
	t.Fatalf("a field of type %v: does it decide an answer?", v.Type())
	return v
}

// TestCacheIsBounded fills the cache with answers of all sizes.
func TestCacheIsBounded(t *testing.T) {
	c := newAnswerCache(20000, time.Minute)
	now := time.Unix(1000, 0)
	for i := range 200 {
		deltas := []parley.Delta{{Tokens: make([]parley.Token, i*7%800)}}
		c.put(shareKey{byte(i)}, deltas, now)
		if c.bytes > c.bytesMax || len(c.entries) != c.recent.Len() {
			t.Fatalf("%d bytes in %d answers", c.bytes, len(c.entries))
		}
		if i%3 == 0 {
			c.get(shareKey{byte(i - 3)}, now)
		}
	}
	if len(c.entries) < 5 {
		t.Errorf("only %d answers are kept", len(c.entries))
	}
	if c.get(shareKey{199}, now.Add(time.Minute)) != nil {
		t.Error("an answer is there after its time")
	}
}

// TestPaidDoesNotWaitForFree: one of a higher class does not join a request that
// still waits for its turn.
func TestPaidDoesNotWaitForFree(t *testing.T) {
	f := &flight{class: parley.Free, members: 1}
	if f.enter(parley.Pro) {
		t.Error("pro joined a free request that waits")
	}
	if !f.enter(parley.Free) {
		t.Error("free did not join")
	}
	f.deltas = make([]parley.Delta, 1)
	if !f.enter(parley.Enterprise) {
		t.Error("enterprise did not join an answer that comes")
	}
}

// TestStepsAreTheReadersUntilTheNext has a source use one step for all that it says, as those before workers do:
// what reads later has kept the contents, whether several members share the answer or it is pumped.
func TestStepsAreTheReadersUntilTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const tokens = 3 * takeMax
		next := func(context.Context, *parley.Request) iter.Seq2[*Step, error] {
			return func(yield func(*Step, error) bool) {
				var s Step
				for i := range tokens {
					s = Step{Delta: parley.Delta{Tokens: []parley.Token{parley.Token(i)}}}
					if i == tokens-1 {
						s.Delta.Usage = &parley.Usage{OutputTokens: tokens}
					}
					if !yield(&s, nil) {
						return
					}
					s = Step{Delta: parley.Delta{Tokens: []parley.Token{-1}}, Shared: true}
				}
			}
		}
		whole := func(got []parley.Token) bool {
			for i, tok := range got {
				if tok != parley.Token(i) {
					return false
				}
			}
			return len(got) == tokens
		}
		shares := newShares(Sharing{}.WithDefaults(), time.Now)
		from := shares.answer(SharePolicy{Repeatable: true}, nil, next)
		late, leave := iter.Pull2(from(t.Context(), &parley.Request{Model: "m"}))
		defer leave()
		first, _, _ := late()
		got := append([]parley.Token(nil), first.Delta.Tokens...)
		x := generate(t.Context(), []*parley.Request{{Model: "m"}}, 1)
		x.from = from
		defer x.Stop()
		var alone, pumped []parley.Token
		if err := x.Each(func(s *Step) (bool, error) {
			alone = append(alone, s.Delta.Tokens...)
			return false, nil
		}); err != nil {
			t.Error(err)
		}
		synctest.Wait()
		for s, err, ok := late(); ok; s, err, ok = late() {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, s.Delta.Tokens...)
		}
		y := generate(t.Context(), []*parley.Request{{Model: "m"}}, 1)
		y.from = next
		defer y.Stop()
		for e := range y.Pumped() {
			pumped = append(pumped, e.Delta.Tokens...)
			if e.Shared || e.Err != nil || e.Delta.Usage != nil {
				break
			}
		}
		if !whole(got) || !whole(alone) || !whole(pumped) {
			t.Errorf("a member that reads late: %v\na request alone: %v\npumped: %v", got, alone, pumped)
		}
	})
}
