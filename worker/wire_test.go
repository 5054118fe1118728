package worker

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley"
)

// fill gives every field below v a value that is not zero, so that one that
// does not travel shows.
func fill(t *testing.T, v reflect.Value, r *rand.Rand) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.String:
		v.SetString("x" + string(rune('a'+r.IntN(26))))
	case reflect.Int, reflect.Int32, reflect.Int64:
		v.SetInt(1 + r.Int64N(1000))
	case reflect.Uint8:
		v.SetUint(1 + r.Uint64N(2))
	case reflect.Uint64:
		v.SetUint(1 + r.Uint64())
	case reflect.Float32, reflect.Float64:
		v.SetFloat(float64(float32(r.Float64() + 0.1)))
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`{"type":"object"}`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), r)
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(t, v.Index(i), r)
		}
	case reflect.Map:
		k, e := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(t, k, r)
		fill(t, e, r)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(k, e)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), r)
	case reflect.Struct:
		switch v.Type() {
		case reflect.TypeFor[time.Time]():
			v.Set(reflect.ValueOf(time.Unix(1_800_000_000, 0).Add(time.Minute)))
		case reflect.TypeFor[parley.Grammar]():
			v.Set(reflect.ValueOf(parley.FreeText(parley.GrammarTrigger{Text: "<",
				Then: parley.Sequence(parley.Regex("a+"), parley.Repeat(parley.Literal("b"), 1, 3)), Again: true})))
		default:
			for _, field := range v.Fields() {
				fill(t, field, r)
			}
		}
	default:
		t.Fatalf("a field of the kind %s: say here how it is filled", v.Kind())
	}
}

// TestNothingOfARequestIsLost fills every field of a request, whatever fields
// it may get, and sends it over the wire.
func TestNothingOfARequestIsLost(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var q parley.Request
	fill(t, reflect.ValueOf(&q).Elem(), rand.New(rand.NewPCG(1, 2)))
	line, err := json.Marshal(newCall(&q, 64, now))
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseCall(line)
	if err != nil {
		t.Fatal(err)
	}
	// The prompt and the grammar say the same; the session is the router's alone.
	q.Turns, q.Terms, q.Session = nil, nil, ""
	if diff := cmp.Diff(&q, c.request(now)); diff != "" {
		t.Errorf("the request changed (-sent +received):\n%s", diff)
	}
	later := c.request(now.Add(time.Hour)) // on a machine whose clock is an hour ahead
	if got, want := later.Deadline.Sub(now.Add(time.Hour)), q.Deadline.Sub(now); got != want {
		t.Errorf("there %s are left, here %s", got, want)
	}
}

func TestNothingOfADeltaIsLost(t *testing.T) {
	var d parley.Delta
	fill(t, reflect.ValueOf(&d).Elem(), rand.New(rand.NewPCG(3, 4)))
	line, err := appendFrame(nil, &frame{Delta: &d})
	if err != nil {
		t.Fatal(err)
	}
	f, err := parseFrame(line)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&d, f.Delta); diff != "" {
		t.Errorf("the delta changed (-sent +received):\n%s", diff)
	}
}

func TestLogOfZeroTravels(t *testing.T) {
	d := parley.Delta{Tokens: []parley.Token{1}, Logprobs: []parley.Logprob{{Token: 1, Logprob: float32(math.Inf(-1)),
		Top: []parley.TopLogprob{{Token: 2, Logprob: float32(math.Inf(-1))}}}}}
	line, err := appendFrame(nil, &frame{Delta: &d})
	if err != nil {
		t.Fatal(err)
	}
	f, err := parseFrame(line)
	if err != nil || f.Delta.Logprobs[0].Logprob != -math.MaxFloat32 || f.Delta.Logprobs[0].Top[0].Token != 2 {
		t.Errorf("%s: %v", line, err)
	}
}

func TestErrorsTravel(t *testing.T) {
	sent := &parley.Error{Code: parley.ContextTooLong, Message: "too long", Param: "prompt", Wait: 3 * time.Second}
	line, err := appendFrame(nil, &frame{Error: faultOf(sent)})
	if err != nil {
		t.Fatal(err)
	}
	f, err := parseFrame(line)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(sent, f.Error.err()); diff != "" {
		t.Error(diff)
	}
	hidden := faultOf(errTest("password=hunter2"))
	if strings.Contains(hidden.Message, "hunter2") || parley.CodeOf(hidden.err()) != parley.Internal {
		t.Errorf("%+v tells what must stay in the log", hidden)
	}
}

type errTest string

func (e errTest) Error() string { return string(e) }

func TestLongLinesAreRead(t *testing.T) {
	long := strings.Repeat("x", 100_000)
	r, room := bufio.NewReader(strings.NewReader("short\n"+long+"\nrest")), []byte(nil)
	for _, want := range []string{"short", long} {
		line, err := readLine(r, 200_000, &room)
		if err != nil || string(line) != want {
			t.Fatalf("%d bytes, %v", len(line), err)
		}
	}
	if _, err := readLine(r, 200_000, &room); err == nil {
		t.Error("a line without an end was taken")
	}
	r.Reset(strings.NewReader(long + "\n"))
	if _, err := readLine(r, 50_000, &room); err != errLineTooLong {
		t.Errorf("%v for a line that is too long", err)
	}
}

func FuzzCall(f *testing.F) {
	f.Add([]byte(`{"Prompt":[1,2],"Window":3}`))
	f.Add([]byte(`{"Left":-1,"Window":3,"Grammar":{"kind":"regex"}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		c, err := parseCall(line)
		if err == nil && (c.Window < 1 || c.request(time.Now()) == nil) {
			t.Errorf("%+v", c)
		}
	})
}

// TestLastFramesAreReadQuickly makes sure that what this program writes at the end
// of an answer is known to the quick way.
func TestLastFramesAreReadQuickly(t *testing.T) {
	want := &parley.Delta{Tokens: []parley.Token{5}, Finish: parley.FinishStop, Usage: &parley.Usage{
		PromptTokens: 1, CachedTokens: 2, Miss: "short", OutputTokens: 3, DroppedTokens: 4, Queued: 5, Prefill: 6,
		Decode:   7,
		SeatWait: 12, MemoryWait: 13, Preemptions: 14, Preempted: 15},
		Stay: &parley.Stay{Admitted: 8, First: 9, Whole: 10, Paused: 11, Traced: true}}
	line, err := appendFrame(nil, &frame{Delta: want})
	if err != nil {
		t.Fatal(err)
	}
	if got, ok := quickDelta(bytes.TrimSpace(line)); !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("%s is read as %+v, %v", line, got, ok)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte(`{"delta":{"tokens":[1]}}`))
	f.Add([]byte(`{"error":{"code":"overloaded","message":"x"}}`))
	f.Add([]byte(`{"delta":{"tokens":[0,12,999999999]}}`))
	f.Add([]byte(`{"delta":{"tokens":[01]}}`))
	f.Add([]byte(`{"delta":{"tokens":[1,]}}`))
	f.Add(
		[]byte(
			`{"delta":{"choice":1,"tokens":[7],"finish":"length","usage":{"PromptTokens":3,"Miss":"new","OutputTokens":1,"Queued":12,"Prefill":3,"Decode":9}}}`))
	f.Add([]byte(`{"delta":{"finish":"stop","finish":"stop"}}`))
	f.Add([]byte(`{"delta":{"tokens":[7],"stay":{"Admitted":12,"First":90,"Traced":true}}}`))
	f.Add([]byte(`{"error":{"code":"unavailable","message":"x"},"stay":{"Admitted":12,"Whole":90}}`))
	f.Add([]byte(`{"delta":{"usage":{}}}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		if tokens, ok := plainTokens(nil, line); ok {
			var slow frame
			if err := json.Unmarshal(line, &slow); err != nil || slow.Delta == nil ||
				!slices.Equal(slow.Delta.Tokens, tokens) {
				t.Fatalf("%s is %v, and read as any JSON %+v, %v", line, tokens, slow.Delta, err)
			}
		}
		if d, ok := quickDelta(line); ok {
			var slow frame
			if err := json.Unmarshal(line, &slow); err != nil || !reflect.DeepEqual(slow.Delta, d) {
				t.Fatalf("%s is %+v, and read as any JSON %+v, %v", line, d, slow.Delta, err)
			}
		}
		got, err := parseFrame(line)
		if err != nil {
			return
		}
		again, err := appendFrame(nil, got)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := parseFrame(bytes.TrimSpace(again)); err != nil {
			t.Errorf("%s became %s: %v", line, again, err)
		}
	})
}
