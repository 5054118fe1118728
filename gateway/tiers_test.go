package gateway

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/models"
)

// capped gives the class of the tests' tenant a policy and a cap.
func capped(policy convo.Policy, tokens int) func(*Config) {
	return func(c *Config) {
		c.TierContexts = models.DefaultTierContexts()
		c.TierContexts[parley.Enterprise] = models.TierContext{Policy: policy, Tokens: tokens}
	}
}

func TestTierContextsValidate(t *testing.T) {
	usual := models.DefaultTierContexts()
	if err := usual.Validate(); err != nil || usual[parley.Free].Tokens == 0 || usual[parley.Pro].Tokens != 0 {
		t.Errorf("the default is %v: %v", usual, err)
	}
	for _, wrong := range []models.TierContext{
		{Policy: "forget"}, {Policy: convo.Drop, Tokens: 3}, {Policy: convo.Drop, Tokens: -1}} {
		bad := models.DefaultTierContexts()
		bad[parley.Pro] = wrong
		if bad.Validate() == nil {
			t.Errorf("%v is taken", wrong)
		}
	}
}

// TestTierCapsConversations has a model with much more context than the tier's
// conversations may take.
func TestTierCapsConversations(t *testing.T) {
	const most = 200
	for _, policy := range []convo.Policy{convo.Drop, convo.Summarise, convo.Refuse} {
		synctest.Test(t, func(t *testing.T) {
			w := &worker{script: speak(t, "ok<|im_end|>", 0)}
			s := startKept(t, w, untitled, capped(policy, most), func(c *Config) { c.Models[0].ContextTokens = 5000 })
			path := s.converse("")
			if _, o := s.call("GET", path, ""); o.text("context_policy") != string(policy) ||
				o["context_tokens_max"] != float64(most) || o.text("tier") != "enterprise" {
				t.Errorf("the conversation does not say its cap: %v", o)
			}
			status, last := 200, object{}
			for n := 0; n < 20 && status == 200; n++ {
				status, last = s.call("POST", path+"/messages",
					fmt.Sprintf(`{"model":%q,"content":%q}`, modelID, strings.Repeat("long ", 12)+itoa(n)))
				for _, r := range w.asked {
					if !strings.Contains(tinyTokenizer().Decode(r.Prompt, false), "Summarise the conversation") &&
						len(r.Prompt) > most {
						t.Fatalf("%s: the model was shown %d tokens", policy, len(r.Prompt))
					}
				}
			}
			switch {
			case policy == convo.Refuse && (status != 400 || last.text("error", "code") != "context_length_exceeded"):
				t.Errorf("refuse: %d %v", status, last)
			case policy != convo.Refuse && (status != 200 || last.text("context", "policy") != string(policy)):
				t.Errorf("%s: %d %v", policy, status, last)
			}
		})
	}
}

// TestSummariesExtend shows that a message is summed up once: a later summary
// reads the one before it and what came since.
func TestSummariesExtend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		summaries := 0
		w := &worker{}
		w.script = func(r *parley.Request) []say {
			if strings.Contains(tinyTokenizer().Decode(r.Prompt, false), "Summarise the conversation") {
				summaries++
				return speech(t, r, 0, fmt.Sprintf("sum %d<|im_end|>", summaries))
			}
			return speech(t, r, 0, "ok<|im_end|>")
		}
		s := startKept(t, w, untitled, capped(convo.Summarise, 400), func(c *Config) {
			c.Models[0].ContextTokens = 4000
		})
		path := s.converse("")
		for n := range 40 {
			s.tell(path, fmt.Sprintf("%s turn%03d", strings.Repeat("long ", 12), n), "")
		}
		if summaries < 3 {
			t.Fatalf("only %d summaries were written", summaries)
		}
		read, seen := map[string]int{}, 0
		for i := range w.asked {
			prompt := w.askedText(i)
			if !strings.Contains(prompt, "Summarise the conversation") {
				continue
			}
			if seen++; seen > 1 && !strings.Contains(prompt, fmt.Sprintf("The conversation before: sum %d\n", seen-1)) {
				t.Errorf("summary %d does not extend the one before it: %q", seen, prompt)
			}
			for n := range 40 {
				if name := fmt.Sprintf("turn%03d", n); strings.Contains(prompt, name) {
					read[name]++
				}
			}
		}
		for name, times := range read {
			if times != 1 {
				t.Errorf("%s was summed up %d times", name, times)
			}
		}
	})
}
