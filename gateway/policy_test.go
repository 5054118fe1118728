package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/gateway/safety"
	"parley/gateway/tenant"
)

// moderatorOf is a moderator that can be down, and finds one category if it is not.
type moderatorOf struct {
	down  atomic.Bool
	finds string
}

func (m *moderatorOf) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	if m.down.Load() {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintf(w, `{"results":[{"flagged":%v,"categories":{%q:true}}]}`, m.finds != "", m.finds)
}

// One policy is open to one category and closed to another: what happens when
// moderators are down depends on which of them they were to judge.
func TestModeratorsFailOpenAndClosedByCategory(t *testing.T) {
	hate, violence, both := &moderatorOf{}, &moderatorOf{}, &moderatorOf{}
	policy := func(asked string) func(*Config) {
		return withPolicy(t, `
safety:
  default:
    input: {hate: {action: block, when_down: open}, violence: {action: block, when_down: closed}}
    moderators: [`+asked+`]
  moderators:
    hate: {url: "`+serveLocal(t, hate)+`", timeout: 5s, categories: [hate]}
    violence: {url: "`+serveLocal(t, violence)+`", timeout: 5s, categories: [violence]}
    both: {url: "`+serveLocal(t, both)+`", timeout: 5s}
`)
	}
	two := start(t, &worker{script: speak(t, "Hello", 0)}, policy("hate, violence"))
	one := start(t, &worker{script: speak(t, "Hello", 0)}, policy("both"))
	for _, c := range []struct {
		what                       string
		hateDown, violenceDown     bool
		bothDown                   bool
		finds                      string
		statusOfTwo, statusOfOne   int
		refusedForNobodyCouldCheck bool
	}{
		{what: "all answer", statusOfTwo: 200, statusOfOne: 200},
		{what: "the open one is down", hateDown: true, statusOfTwo: 200, statusOfOne: 200},
		{what: "the open one is down, and the other finds something", hateDown: true, finds: "violence",
			statusOfTwo: 400, statusOfOne: 200},
		{what: "the closed one is down", violenceDown: true, statusOfTwo: 503, statusOfOne: 200,
			refusedForNobodyCouldCheck: true},
		{what: "both are down", hateDown: true, violenceDown: true, bothDown: true, statusOfTwo: 503, statusOfOne: 503,
			refusedForNobodyCouldCheck: true},
	} {
		hate.down.Store(c.hateDown)
		violence.down.Store(c.violenceDown)
		both.down.Store(c.bothDown)
		violence.finds = c.finds
		status, answer := two.chat("")
		if status != c.statusOfTwo ||
			strings.Contains(answer, "cannot be checked now") != c.refusedForNobodyCouldCheck {
			t.Errorf("%s: %d %s, want %d", c.what, status, answer, c.statusOfTwo)
		}
		if status, answer := one.chat(""); status != c.statusOfOne {
			t.Errorf("%s, one for both: %d %s, want %d", c.what, status, answer, c.statusOfOne)
		}
	}
}

// Moderators that are to judge answers do so before one is shown.
func TestModeratorsJudgeAnswers(t *testing.T) {
	m := &moderatorOf{finds: "violence"}
	s := start(t, &worker{script: speak(t, "Hello", 0)}, withPolicy(t, `
safety:
  default:
    output: {violence: {action: block, when_down: closed}}
    refusal: "Not that."
    moderators: [theirs]
  moderators: {theirs: {url: "`+serveLocal(t, m)+`", timeout: 5s, output: true}}
`))
	if status, answer := s.chat(""); status != 200 || strings.Contains(answer, "Hello") ||
		!strings.Contains(answer, "Not that.") || !strings.Contains(answer, `"content_filter"`) {
		t.Errorf("what they flag was shown: %d %s", status, answer)
	}
	m.finds = "hate"
	if status, answer := s.chat(""); status != 200 || !strings.Contains(answer, "Hello") {
		t.Errorf("what the policy allows was not shown: %d %s", status, answer)
	}
	m.down.Store(true)
	if status, answer := s.chat(""); status != 503 || strings.Contains(answer, "Hello") {
		t.Errorf("what nobody could check was shown: %d %s", status, answer)
	}
}

// Two tenants send the same prompt with their own keys, and each has its policy.
func TestTenantsHaveTheirOwnPolicies(t *testing.T) {
	w := &worker{script: speak(t, "Write to jane@example.com.<|im_end|>", 0)}
	s, rig := startGuarded(t, w, newStoreName(t), roomy, withPolicy(t, `
safety:
  default: {input: {harassment: block}, refusal: "Not here."}
  tenants:
    strict: {input: {harassment: block}, output: {pii: redact}, refusal: "Not at ours."}
    lenient: {input: {harassment: flag}, output: {pii: off}}
`))
	strict, _ := rig.key(tenant.NewKey{Organization: "strict"})
	lenient, _ := rig.key(tenant.NewKey{Organization: "lenient"})
	other, _ := rig.key(tenant.NewKey{Organization: "other"})
	for _, c := range []struct {
		key, says, want string
		status          int
	}{
		{strict, insult, "Not at ours.", 400},
		{lenient, insult, "jane@example.com", 200},
		{other, insult, "Not here.", 400},
		{strict, "Good morning", "[EMAIL_1]", 200},
		{lenient, "Good morning", "jane@example.com", 200},
	} {
		response, answer := s.do("POST", "/v1/chat/completions", userSays(c.says), bearer(c.key)...)
		if response.StatusCode != c.status || !strings.Contains(answer, c.want) {
			t.Errorf("%q: %d %s, want %d and %s", c.says, response.StatusCode, answer, c.status, c.want)
		}
	}
}

// The policies of TestNoRequestSeesHalfAPolicy: the first lets the prompt in
// and halts the answer, the second refuses the prompt and would let the answer
// out. Half of each would show the answer, or refuse in the words of the other.
var changingPolicies = [2]string{
	`safety: {default: {input: {harassment: off}, output: {harassment: block}, window: 8, refusal: "The first refuses."}}`,
	`safety: {default: {input: {harassment: block}, output: {harassment: off}, window: 8, refusal: "The second refuses."}}`,
}

// A policy is exchanged again and again while requests run. Each has one of
// the two from its prompt to the end of its answer.
func TestNoRequestSeesHalfAPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "safety.yaml")
		write := func(n int) {
			// of other lengths, since files are told apart by length and time
			text := changingPolicies[n%2] + strings.Repeat("\n", 1+n%2)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(0)
		policies := safety.NewPolicies(must(safety.ReadBook(path))(t))
		s := start(t, &worker{script: speak(t, "Listen: "+insult+" and more of it<|im_end|>", time.Millisecond)},
			roomy, func(c *Config) { c.Safety = policies })
		ctx, cancel := context.WithCancel(t.Context())
		var beside, asking sync.WaitGroup
		beside.Go(func() { policies.Watch(ctx, path, 3*time.Millisecond, slog.New(slog.DiscardHandler)) })
		beside.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				time.Sleep(20 * time.Millisecond)
				write(n)
			}
		})
		var seen [2]atomic.Int64
		for range 8 {
			asking.Go(func() {
				for range 25 {
					askUnderChange(t, s, &seen)
					time.Sleep(time.Millisecond)
				}
			})
		}
		asking.Wait()
		cancel()
		beside.Wait()
		if seen[0].Load() < 20 || seen[1].Load() < 20 {
			t.Errorf("the policies were met %d and %d times", seen[0].Load(), seen[1].Load())
		}
	})
}

// askUnderChange sends an insult and counts which policy answered.
func askUnderChange(t *testing.T, s *server, seen *[2]atomic.Int64) {
	response, answer := s.do("POST", "/v1/chat/completions", userSays(insult))
	switch {
	case strings.Contains(answer, "worthless"):
		t.Errorf("the prompt was let in by the first policy and the answer out by the second: %s", answer)
	case response.StatusCode == 200 && strings.Contains(answer, "The first refuses.") && strings.Contains(answer,
		`"content_filter"`):
		seen[0].Add(1)
	case response.StatusCode == 400 && strings.Contains(answer, "The second refuses."):
		seen[1].Add(1)
	default:
		t.Errorf("%d %s", response.StatusCode, answer)
	}
}
