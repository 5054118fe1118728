package safety

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

func rulingOf(t testing.TB, text string) *Ruling {
	t.Helper()
	b, err := ParseBook([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return b.For("", "")
}

const strict = `
safety:
  default:
    window: 64
    output: {harassment: block, hate: block, violence: block, sexual: block, self-harm: block, illicit: block, secrets: redact, pii: redact}
`

var calm = []string{
	"The harbour was quiet in the morning and the boats lay still.",
	"Anna walked along the quay and counted the gulls.",
	"Naïve plans — café mornings, über-early walks — filled her notebook.",
	"She bought bread and two apples and went home.",
	"The museum opens at nine and has a great collection of paintings.",
	"You can take the train to the coast in two hours.",
	"In the evening the family cooked soup and played cards.", "The report explains how the new bridge was built.",
}

var flaggedTexts = []string{
	"you are a worthless fucking piece of shit and I hate you, stupid bitch",
	"all those filthy subhuman vermin should be exterminated and burned alive",
}

var redactedTexts = []string{
	"jane.doe@example.com", "4532424071974464", "GB04QHGE83377763088197", "sk-proj-abcDEF0123456789abcDEF0123",
	"AKIAIOSFODNN7EXAMPLE", "(760)514-1109",
}

// random text of n calm words with something planted in the middle.
func planted(random *rand.Rand, n int, what string) string {
	n = n/10 + 1
	words := make([]string, 0, n+1)
	at := random.IntN(n)
	for i := range n {
		if i == at {
			words = append(words, what)
		}
		words = append(words, calm[random.IntN(len(calm))])
	}
	return strings.Join(words, " ")
}

// chunkings cuts text at random places, also within characters' words, and
// says how many tokens each piece has.
func chunks(random *rand.Rand, text string) []string {
	var list []string
	for len(text) > 0 {
		n := min(1+random.IntN(1+random.IntN(24)), len(text))
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		list = append(list, text[:n])
		text = text[n:]
	}
	return list
}

// pour sends pieces through a stream and returns what was shown and the most
// tokens that were held.
func pour(t *testing.T, s *Stream, pieces []string) (shown string, halted bool) {
	t.Helper()
	var b strings.Builder
	for _, p := range pieces {
		tokens := 1 + len(p)/6
		passed := s.Push(p, tokens)
		b.WriteString(passed.Text)
		if s.Held() > s.ruling.Window+tokens {
			t.Fatalf("%d tokens are held, more than the window of %d", s.Held(), s.ruling.Window)
		}
		if halted = passed.Halted; halted {
			return b.String(), true
		}
	}
	passed := s.Close()
	b.WriteString(passed.Text)
	return b.String(), passed.Halted
}

// Of ten thousand ways to cut an answer into pieces none shows a character of
// what is blocked or redacted.
func TestNothingLeaksHoweverAnswersAreCut(t *testing.T) {
	n := 10_000
	if testing.Short() {
		n = 500
	}
	screen, ruling := New(), rulingOf(t, strict)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		what := redactedTexts[i%len(redactedTexts)]
		blocked := i%2 == 0
		if blocked {
			what = flaggedTexts[i/2%len(flaggedTexts)]
		}
		text := planted(random, 20+random.IntN(120), what)
		shown, halted := pour(t, screen.NewStream(ruling, nil), chunks(random, text))
		if blocked {
			at := strings.Index(text, what)
			if !halted || len(shown) > at || !strings.HasPrefix(text, shown) {
				t.Fatalf("%d: halted %v, %d bytes shown, what is blocked begins at %d:\n%s\n%s", i, halted, len(shown),
					at, text, shown)
			}
			continue
		}
		if halted || strings.Contains(shown, what[:5]) || !strings.Contains(shown, "_1]") {
			t.Fatalf("%d: halted %v, shown:\n%s", i, halted, shown)
		}
		if before, after, _ := strings.Cut(text, what); !strings.HasPrefix(shown, before) ||
			!strings.HasSuffix(shown, after) {
			t.Fatalf("%d: other text was changed:\n%s\n%s", i, text, shown)
		}
	}
}

// However long a secret is, no more is held back than the largest window, and
// none of it is shown.
func TestLongSecretsAreNotHeldBack(t *testing.T) {
	const after = "\nThis is what follows, and it is shown."
	for name, secret := range map[string]string{
		"PRIVATE_KEY": "-----BEGIN PRIVATE KEY-----\n" + strings.Repeat("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj\n",
			60) + "-----END PRIVATE KEY-----",
		"OPENAI_KEY": "sk-" + strings.Repeat("a1B2c3D4", 200),
		"URL":        "https://example.com/" + strings.Repeat("abc/def?x=1&", 200),
	} {
		for size := 1; size <= 7; size += 2 {
			s := New().NewStream(
				rulingOf(t, "safety: {default: {output: {pii: redact, secrets: redact}, kinds: [url], window: 32}}"),
				nil)
			text := "Here it is: " + secret + after
			var shown strings.Builder
			for i := 0; i < len(text); i += size {
				shown.WriteString(s.Push(text[i:min(i+size, len(text))], 1).Text)
				if s.Held() > windowMax {
					t.Fatalf("%s: %d tokens are held", name, s.Held())
				}
			}
			shown.WriteString(s.Close().Text)
			if want := "Here it is: [" + name + "_1]" + after; shown.String() != want {
				t.Errorf("%s in pieces of %d: shown %.300q", name, size, shown.String())
			}
		}
	}
}

// A clean answer is never behind by more than its window, from the first token on.
func TestCleanAnswersAreBehindByAWindowAtMost(t *testing.T) {
	for _, window := range []int{windowMin, windowDefault, windowMax} {
		s := New().NewStream(rulingOf(t,
			fmt.Sprintf("safety: {default: {output: {harassment: block, pii: redact}, window: %d}}", window)), nil)
		pushed, shown := 0, 0
		for _, word := range strings.SplitAfter(
			strings.Repeat("the boats lay still in the harbour and the gulls were counted ", 20), " ") {
			pushed++
			shown += strings.Count(s.Push(word, 1).Text, " ")
			if pushed-shown > window {
				t.Fatalf("after %d tokens %d were shown: more than a window of %d is missing", pushed, shown, window)
			}
		}
	}
}

func TestFlaggingHoldsNothingBack(t *testing.T) {
	s := New().NewStream(rulingOf(t, "safety: {default: {output: {harassment: flag}}}"), nil)
	found := 0
	for _, p := range chunks(rand.New(rand.NewPCG(3, 4)), planted(rand.New(rand.NewPCG(5, 6)), 60, flaggedTexts[0])) {
		passed := s.Push(p, 1)
		if passed.Text != p || passed.Halted {
			t.Fatalf("pushed %q, got %+v", p, passed)
		}
		found += len(passed.Decisions)
	}
	if found += len(s.Close().Decisions); found == 0 {
		t.Error("nothing was flagged")
	}
}

func TestRestorerPutsValuesBack(t *testing.T) {
	v := NewVault()
	text := "Write to jane@example.com and joe@example.com, not jane@example.com."
	ruling := rulingOf(t, "safety: {default: {input: {pii: redact}}}")
	verdict := New().Judge(Text{Body: text})
	decisions, action := ruling.DecideInput(&verdict, FromUser)
	hidden := v.Redact(text, decisions)
	if action != Redact || hidden != "Write to [EMAIL_1] and [EMAIL_2], not [EMAIL_1]." {
		t.Fatalf("%s: %q", action, hidden)
	}
	random := rand.New(rand.NewPCG(7, 8))
	for range 500 {
		r := NewRestorer(v)
		var b strings.Builder
		for _, p := range chunks(random, "["+hidden+" [EMAIL_3] [[EMAIL_1") {
			b.WriteString(r.Push(p))
		}
		b.WriteString(r.Flush())
		if want := "[" + text + " [EMAIL_3] [[EMAIL_1"; b.String() != want {
			t.Fatalf("restored %q, want %q", b.String(), want)
		}
	}
}

func TestPolicyErrorsSayWhatToDo(t *testing.T) {
	for text, want := range map[string]string{
		"default: {}": "unknown field",
		"other: 1":    "unknown field",
		"safety: {default: {input: {nonsense: block}}}":                     "there is no safety category",
		"safety: {default: {input: {hate: redact}}}":                        "cannot be redacted",
		"safety: {default: {input: {hate: explode}}}":                       "use one of off, flag, redact, block",
		"safety: {default: {input: {hate: {action: block, threshold: 2}}}}": "from 0 to 1",
		"safety: {default: {window: 100}}":                                  "from 8 to 64",
		"safety: {default: {kinds: [shoe]}}":                                "no kind of personal data",
		"safety: {default: {moderators: [who]}}":                            "no moderator",
		"safety: {moderators: {m: {timeout: 1s}}}":                          "give it a url",
		"safety: {organisations: {a: {}}, tenants: {a: {}}}":                "keep one of the two",
	} {
		_, err := ParseBook([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
}

func TestTenantsGoBeforeModels(t *testing.T) {
	b, err := ParseBook([]byte(`
safety:
  default: {input: {hate: flag, pii: redact}}
  models: {m: {input: {hate: block}, window: 16}}
  organisations: {acme: {input: {hate: off}, refusal: "No."}}
  tenants: {older: {input: {pii: flag}}}
`))
	if err != nil {
		t.Fatal(err)
	}
	if r := b.For("other", "m"); r.Input[Hate].Action != Block || r.Window != 16 || r.Input[PII].Action != Redact {
		t.Errorf("other at m: %+v", r)
	}
	if r := b.For("acme", "m"); r.Input[Hate].Action != Off || r.Refusal != "No." {
		t.Errorf("acme at m: %+v", r)
	}
	if r := b.For("older", "m"); r.Input[PII].Action != Flag {
		t.Errorf("an organisation under the former key, at m: %+v", r)
	}
}

func FuzzParseBook(f *testing.F) {
	f.Add([]byte(strict))
	f.Add([]byte("safety: {moderators: {m: {url: x, timeout: 1s}}, log_text: true}"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if b, err := ParseBook(data); err == nil {
			b.For("a", "b").LooksAtInput()
		}
	})
}

func FuzzModerationAnswers(f *testing.F) {
	f.Add([]byte(`{"results":[{"categories":{"hate":true},"category_scores":{"hate":0.9}}]}`), "unsafe\nS1,S10")
	f.Fuzz(func(t *testing.T, data []byte, said string) {
		if v, err := readModeration(data, 5); err == nil {
			check(t, v)
		}
		if v, err := readGuard(said, 5); err == nil {
			check(t, v)
		}
	})
}

func check(t *testing.T, v *Verdict) {
	for c, score := range v.Scores {
		if score < 0 || score > 1 {
			t.Fatal(fmt.Sprint(Category(c), score))
		}
	}
}

// BenchmarkStreamToken measures what one token of an answer costs.
func BenchmarkStreamToken(b *testing.B) {
	screen, ruling := New(), rulingOf(b, strict)
	s := screen.NewStream(ruling, nil)
	words := strings.Fields(strings.Join(calm, " "))
	i := 0
	for b.Loop() {
		s.Push(words[i%len(words)]+" ", 1)
		i++
	}
}
