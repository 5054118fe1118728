package safety

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"
)

// outside asks moderators that are not part of this package, and leaves those
// alone for a while that do not answer.
type outside struct {
	client *http.Client
	mu     sync.Mutex
	// failed counts failures in a row; closed says until when one is not asked.
	failed map[string]int
	closed map[string]time.Time
}

// breakAfter failures in a row a moderator is not asked for breakFor.
const (
	breakAfter = 5
	breakFor   = 30 * time.Second
	replyMax   = 1 << 20
)

func newOutside() *outside {
	// A redirect would hand the text, which is a user's, to another server than the operator named.
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &outside{client: &http.Client{CheckRedirect: stay}, failed: map[string]int{}, closed: map[string]time.Time{}}
}

// A Guard asks a model of this server to judge a text and returns what it says.
type Guard func(ctx context.Context, model, text string) (string, error)

func (o *outside) ask(ctx context.Context, name string, m *Moderator, text string, guard Guard) (*Verdict, error) {
	if until := o.restsUntil(name); time.Now().Before(until) {
		return nil, fmt.Errorf("moderator %s failed %d times in a row and is skipped for a while", name, breakAfter)
	}
	wait := m.Timeout
	if wait == 0 {
		wait = timeoutDefault
	}
	within, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	var v *Verdict
	var err error
	if m.URL != "" {
		v, err = o.post(within, m, text)
	} else {
		v, err = askGuard(within, m, text, guard)
	}
	if ctx.Err() == nil { // a client that hung up is not the moderator's fault
		o.note(name, err)
	}
	return v, err
}

func (o *outside) restsUntil(name string) time.Time {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closed[name]
}

func (o *outside) note(name string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err == nil {
		o.failed[name] = 0
		return
	}
	if o.failed[name]++; o.failed[name] >= breakAfter {
		o.failed[name] = 0
		o.closed[name] = time.Now().Add(breakFor)
	}
}

// post asks an endpoint in the shape of OpenAI's moderations.
func (o *outside) post(ctx context.Context, m *Moderator, text string) (*Verdict, error) {
	body, err := json.Marshal(map[string]string{"input": text, "model": m.Model})
	if err != nil {
		return nil, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, m.URL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	if m.KeyFile != "" {
		key, err := os.ReadFile(m.KeyFile)
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	}
	reply, err := o.client.Do(request)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	data, err := io.ReadAll(io.LimitReader(reply.Body, replyMax))
	if err != nil {
		return nil, err
	}
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the moderator answered %s", reply.Status)
	}
	return readModeration(data, len(text))
}

// readModeration reads an answer of /v1/moderations about a text of textBytes
// bytes. A category of theirs such as "hate/threatening" counts for ours that
// it is a kind of; what is flagged without a score has the score 1.
func readModeration(data []byte, textBytes int) (*Verdict, error) {
	var answer struct {
		Results []struct {
			Categories map[string]bool    `json:"categories"`
			Scores     map[string]float32 `json:"category_scores"`
		} `json:"results"`
	}
	if err := json.Unmarshal(data, &answer); err != nil {
		return nil, fmt.Errorf("the moderator's answer is not JSON as /v1/moderations gives it: %w", err)
	}
	if len(answer.Results) == 0 {
		return nil, fmt.Errorf("the moderator's answer has no results")
	}
	v := &Verdict{}
	for _, r := range answer.Results {
		for name, flagged := range r.Categories {
			if score, ok := r.Scores[name]; flagged && (!ok || score < thresholdUsual) {
				v.raise(name, 1)
			}
		}
		for name, score := range r.Scores {
			v.raise(name, score)
		}
	}
	for c, score := range v.Scores {
		if score > 0 {
			v.Findings = append(v.Findings, Finding{Category: Category(c), End: textBytes, Score: score})
		}
	}
	return v, nil
}

// guardPrompt asks a model for a verdict in words that are easy to read.
const guardPrompt = "You judge texts. Answer with the single word safe, or with the word unsafe and then, parted " +
	"by commas, which of these the text is: " +
	"harassment, hate, sexual, sexual/minors, violence, self-harm, illicit, injection.\n\nText:\n"

// askGuard has a model of this server judge a text.
func askGuard(ctx context.Context, m *Moderator, text string, guard Guard) (*Verdict, error) {
	if guard == nil {
		return nil, fmt.Errorf("no model of this server can be asked here")
	}
	said, err := guard(ctx, m.Model, guardPrompt+text)
	if err != nil {
		return nil, err
	}
	return readGuard(said, len(text))
}

// readGuard reads what a guard model says: "safe", or "unsafe" and names of
// categories, be they ours or the codes that Llama Guard has for them.
func readGuard(said string, textBytes int) (*Verdict, error) {
	words := strings.FieldsFunc(strings.ToLower(said), func(r rune) bool {
		return r == ' ' || r == ',' || r == '\n' || r == '.' || r == ':'
	})
	v := &Verdict{}
	switch {
	case len(words) == 0:
		return nil, fmt.Errorf("the guard model said nothing")
	case words[0] == "safe":
		return v, nil
	case words[0] != "unsafe":
		return nil, fmt.Errorf("the guard model said neither safe nor unsafe")
	}
	for _, w := range words[1:] {
		if c, ok := guardCodes[w]; ok {
			w = c.String()
		}
		v.raise(w, 1)
	}
	if v.Scores == [categories]float32{} {
		v.Scores[Illicit] = 1
	}
	for c, score := range v.Scores {
		if score > 0 {
			v.Findings = append(v.Findings, Finding{Category: Category(c), End: textBytes, Score: score})
		}
	}
	return v, nil
}

// guardCodes are the codes of hazards that Llama Guard 3 answers with.
var guardCodes = map[string]Category{
	"s1": Violence, "s2": Illicit, "s3": Sexual, "s4": SexualMinors, "s5": Harassment, "s6": Illicit, "s7": PII,
	"s9":  Violence,
	"s10": Hate, "s11": SelfHarm, "s12": Sexual, "s14": Injection,
}
