package wire

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"reflect"
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
	payload, err := appendRequest(nil, newCall(&q, 64, now))
	if err != nil {
		t.Fatal(err)
	}
	c, err := parseRequest(payload)
	if err != nil {
		t.Fatal(err)
	}
	// The prompt and the grammar say the same, how to think is part of the prompt; the session is the router's alone.
	q.Turns, q.Terms, q.Session, q.Elsewhere, q.Thinking = nil, nil, "", nil, parley.Thinking{}
	q.Handoff = nil // is for foreign engines
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
	if got, want := len(d.Logprobs), reflect.TypeFor[parley.Delta]().NumField(); got == 0 || want != 18 {
		t.Errorf("a delta has %d members: the codec knows 18", want)
	}
	d.TextTokens, d.Usage.Estimated = 0, false // no engine of ours estimates
	d.Usage.Transfer = nil                     // the delta has it
	check := func(d parley.Delta) {
		t.Helper()
		payload, err := appendDelta(nil, &d)
		if err != nil {
			t.Fatal(err)
		}
		got, err := parseDelta(payload)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(&d, got); diff != "" {
			t.Errorf("the delta changed (-sent +received):\n%s", diff)
		}
	}
	check(d)
	all := reflect.ValueOf(d)
	for i := range all.NumField() { // each by itself
		var one parley.Delta
		reflect.ValueOf(&one).Elem().Field(i).Set(all.Field(i))
		check(one)
	}
	check(parley.Delta{Tokens: []parley.Token{0, -1, math.MaxInt32}, Choice: 1, Usage: &parley.Usage{Queued: -1}})
}

func TestLogOfZeroTravels(t *testing.T) {
	d := parley.Delta{Tokens: []parley.Token{1}, Logprobs: []parley.Logprob{{Token: 1, Logprob: float32(math.Inf(-1)),
		Top: []parley.TopLogprob{{Token: 2, Logprob: float32(math.Inf(-1))}}}}}
	payload, err := appendDelta(nil, &d)
	if err != nil {
		t.Fatal(err)
	}
	got, err := parseDelta(payload)
	if err != nil || got.Logprobs[0].Logprob != -math.MaxFloat32 || got.Logprobs[0].Top[0].Token != 2 {
		t.Errorf("%+v: %v", got, err)
	}
	d.Logprobs[0].Top[0].Logprob = float32(math.NaN())
	if _, err := appendDelta(nil, &d); err == nil {
		t.Error("what is not a number was sent")
	}
}

func TestErrorsTravel(t *testing.T) {
	sent := &parley.Error{Code: parley.ContextTooLong, Message: "too long", Param: "prompt", Wait: 3 * time.Second}
	for _, measured := range []*parley.WorkerTimings{nil, {Admitted: 1, First: 2, Whole: 3, Paused: 4, Traced: true}} {
		f, stay, err := parseError(appendError(nil, FaultOf(sent), measured))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sent, f.Err()) + cmp.Diff(measured, stay); diff != "" {
			t.Error(diff)
		}
	}
	hidden := FaultOf(errTest("password=hunter2"))
	if strings.Contains(hidden.Message, "hunter2") || parley.CodeOf(hidden.Err()) != parley.Internal {
		t.Errorf("%+v has what must stay in the log", hidden)
	}
}

type errTest string

func (e errTest) Error() string { return string(e) }

func TestFramesAreRead(t *testing.T) {
	long := strings.Repeat("x", 4*roomKept)
	var all []byte
	for _, text := range []string{"short", long, ""} {
		all = append(all, shortFrame('X', 300, []byte(text)...)...)
	}
	from, room := bufio.NewReader(bytes.NewReader(append(all, 0, 0))), []byte(nil)
	for _, want := range []string{"short", long, ""} {
		f, err := readFrame(from, 5*roomKept, &room)
		if err != nil || f.kind != 'X' || f.id != 300 || string(f.payload) != want {
			t.Fatalf("%c %d, %d bytes, %v", f.kind, f.id, len(f.payload), err)
		}
	}
	if cap(room) > roomKept {
		t.Errorf("%d bytes are kept", cap(room))
	}
	if _, err := readFrame(from, roomKept, &room); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a frame that breaks off in its length: %v", err)
	}
	for said, want := range map[string]error{
		string(all[:5]):                   io.ErrUnexpectedEOF,
		"\x7f\xff\xff\xff":                errFrameTooLong,
		"\x00\x00\x00\x00":                errMalformed,
		"\x00\x00\x00\x01X":               errMalformed,
		"\x00\x00\x00\x02X\x80":           errMalformed,
		"\x00\x10\x00\x00" + long[:90000]: io.ErrUnexpectedEOF,
	} {
		from.Reset(strings.NewReader(said))
		if _, err := readFrame(from, 5*roomKept, &room); !errors.Is(err, want) {
			t.Errorf("%.20q: %v, want %v", said, err, want)
		}
	}
	from.Reset(strings.NewReader(""))
	if _, err := readFrame(from, roomKept, &room); err != io.EOF {
		t.Errorf("the end: %v", err)
	}
}

func FuzzRequest(f *testing.F) {
	grammar := parley.Regex("a+")
	for _, c := range []*call{
		{Window: 3},
		{Request: parley.Request{Prompt: []parley.Token{1, 2}, Grammar: &grammar}, Left: -1, Window: 3},
		{Request: parley.Request{Stop: parley.Stop{Strings: []string{"a", ""}}}, Window: 1},
		{Request: parley.Request{Resume: []parley.Partial{{Done: true}}}, Window: 1},
		{},
	} {
		payload, err := appendRequest(nil, c)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload)
	}
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, payload []byte) {
		c, err := parseRequest(payload)
		if err == nil && (c.Window < 1 || c.request(time.Now()) == nil || len(c.Prompt) > len(payload)) {
			t.Fatalf("%+v", c)
		}
		if err != nil {
			return
		}
		written, err := appendRequest(nil, c)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseRequest(written); err != nil || !reflect.DeepEqual(again, c) {
			t.Errorf("%+v became %+v: %v", c, again, err)
		}
	})
}

func TestRequestsThatAreNotFiniteAreNotSent(t *testing.T) {
	nan := float32(math.NaN())
	for _, s := range []parley.Sampling{{Temperature: nan}, {TopP: float32(math.Inf(1))},
		{LogitBias: map[parley.Token]float32{1: nan}}} {
		if _, err := appendRequest(nil, &call{Request: parley.Request{Sampling: s}, Window: 1}); parley.CodeOf(err) !=
			parley.InvalidRequest {
			t.Errorf("%+v: %v", s, err)
		}
	}
}

// FuzzDelta reads deltas and errors. What was read is read again the same after it
// was written.
func FuzzDelta(f *testing.F) {
	for _, d := range []parley.Delta{
		{}, {Tokens: []parley.Token{1}}, {Choice: 1, Finish: parley.FinishLength, Usage: &parley.Usage{Miss: "new"}},
		{Logprobs: []parley.Logprob{{Token: 1, Logprob: -1, Top: []parley.TopLogprob{{Token: 2, Logprob: -2}}}}},
		{Timings: &parley.WorkerTimings{Admitted: 12, Traced: true}, Routing: &parley.Routing{Worker: "a"}},
	} {
		payload, err := appendDelta(nil, &d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(payload)
	}
	f.Add(appendError(nil, &Fault{Code: parley.Overloaded, Message: "x"}, nil))
	f.Fuzz(func(t *testing.T, payload []byte) {
		if fault, stay, err := parseError(payload); err == nil {
			again, stayAgain, err := parseError(appendError(nil, fault, stay))
			if err != nil || *again != *fault || !reflect.DeepEqual(stay, stayAgain) {
				t.Errorf("%+v became %+v: %v", fault, again, err)
			}
		}
		d, err := parseDelta(payload)
		if err != nil {
			return
		}
		written, err := appendDelta(nil, d)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := parseDelta(written); err != nil || len(again.Tokens) != len(d.Tokens) ||
			!reflect.DeepEqual(again.Usage, d.Usage) || !reflect.DeepEqual(again.Timings, d.Timings) {
			t.Errorf("%+v became %+v: %v", d, again, err)
		}
	})
}
