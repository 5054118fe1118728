package doctor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"parley"
	"parley/cli/remote"
	"parley/cli/serve"
	"parley/cli/settings"
	"parley/fleet"
	"parley/gateway/models"
	"parley/internal/load"
	"parley/token"
)

// examineWorkers asks each worker whose address is known.
func (d *doctor) examineWorkers(ctx context.Context) {
	for _, pool := range d.settings.AllPools() {
		for i := range pool.Workers {
			if w := &pool.Workers[i]; w.URL != "" {
				d.examineWorker(ctx, w)
			}
		}
	}
}

func (d *doctor) examineWorker(ctx context.Context, w *settings.PoolWorker) {
	ctx, cancel := context.WithTimeout(ctx, doctorWait)
	defer cancel()
	c, err := remote.New(w.URL)
	if err != nil {
		d.say("worker", w.URL, err, "correct its URL")
		return
	}
	c.Key = cmp.Or(w.Key, d.settings.ParleyKey(w))
	secure, err := serve.WorkerTLS(d.settings, slog.New(slog.DiscardHandler))
	if err != nil {
		d.say("worker", w.URL, err, "correct the TLS files")
		return
	}
	c.HTTP = &http.Client{Transport: &http.Transport{TLSClientConfig: secure(), DisableKeepAlives: true},
		CheckRedirect: c.HTTP.CheckRedirect}
	response, err := c.Send(ctx, http.MethodGet, "/v1/models", nil)
	if err != nil {
		d.say("worker", w.URL, err, "start it, or remove it from its pool")
		return
	}
	response.Body.Close()
	d.say("worker", w.URL, nil, "it answers")
	if there, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		d.compareClock("worker "+w.URL, there.Add(time.Second/2)) // it is in whole seconds
	}
	models, err := c.Models(ctx)
	if err != nil {
		d.say("worker", w.URL, err, "see what listens there")
		return
	}
	for i := range d.served {
		for _, m := range models {
			if m.ID == d.served[i].ID {
				d.compareTokens(ctx, c, w.URL, &d.served[i])
				d.compareTemplate(ctx, c, w.URL, &d.served[i])
			}
		}
	}
}

// tokenTexts are what vocabularies and templates are told apart by: spaces,
// numbers, other scripts, and what looks like a special token.
var tokenTexts = []string{"Hello, world!  Two spaces.", "1234567890 3.14", "naïve Übergröße 你好 🙂",
	"<|im_start|>\n\n\tdef f(x): return x"}

// compareTokens has a worker tokenize the same as we do. A worker that cannot is
// not wrong: foreign engines differ.
func (d *doctor) compareTokens(ctx context.Context, c *remote.Client, where string, m *models.Config) {
	for _, text := range tokenTexts {
		ours, err := m.Tokenizer.Encode(text, token.Options{ParseSpecial: true})
		if err != nil {
			continue
		}
		theirs, err := tokenized(ctx, c, map[string]any{"model": m.ID, "prompt": text, "add_special_tokens": false})
		if err != nil {
			d.warn("tokens", where, fmt.Sprintf("cannot check its tokenizer for %s: %v", m.ID, err),
				"make sure that it serves the same checkpoint")
			return
		}
		if !slices.Equal(ours, theirs) {
			d.say("tokens", where, fmt.Errorf("its vocabulary for %s differs: %q is %v here and %v there", m.ID, text,
				ours, theirs), "serve the same checkpoint on both")
			return
		}
	}
	d.say("tokens", where, nil, "its vocabulary for "+m.ID+" matches")
}

// templateTalk is what chat templates are told apart by.
var templateTalk = []token.Message{{Role: "system", Content: "Be brief."}, {Role: "user", Content: "Hi"},
	{Role: "assistant", Content: "Hello!"}, {Role: "user", Content: "Who are you?"}}

// compareTemplate has a worker render the same conversation as we do. Gateways
// render for their workers; but who talks to such a worker himself, or puts
// another gateway before it, is answered by another template than here.
func (d *doctor) compareTemplate(ctx context.Context, c *remote.Client, where string, m *models.Config) {
	if m.Template == nil {
		return
	}
	prompt, err := m.Template.Render(templateTalk, token.RenderOptions{AddGenerationPrompt: true, Now: time.Now()})
	if err != nil {
		return // it takes no such conversation
	}
	ours, err := m.Tokenizer.EncodePrompt(prompt)
	if err != nil {
		return
	}
	var talk []remote.Message
	for _, said := range templateTalk {
		talk = append(talk, remote.Message{Role: said.Role, Content: fmt.Sprint(said.Content)})
	}
	theirs, err := tokenized(ctx, c, map[string]any{"model": m.ID, "messages": talk, "add_generation_prompt": true})
	switch {
	case err != nil:
		d.warn("template", where, fmt.Sprintf("cannot check its chat template for %s: %v", m.ID, err),
			"make sure that it serves the same checkpoint")
	case !slices.Equal(ours, theirs):
		at := 0
		for at < min(len(ours), len(theirs)) && ours[at] == theirs[at] {
			at++
		}
		d.say("template", where,
			fmt.Errorf(
				"its chat template for %s differs: one conversation is %d tokens here and %d there, different from "+
					"token %d on", m.ID, len(ours), len(theirs), at), "serve the same checkpoint on both")
	default:
		d.say("template", where, nil, "its chat template for "+m.ID+" matches")
	}
}

func tokenized(ctx context.Context, c *remote.Client, body any) ([]parley.Token, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	response, err := c.Send(ctx, http.MethodPost, "/tokenize", text)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	var answer struct {
		Tokens []parley.Token `json:"tokens"`
	}
	return answer.Tokens, json.NewDecoder(response.Body).Decode(&answer)
}

// examineServer asks a server that runs for its workers and their events.
func (d *doctor) examineServer(ctx context.Context, url string) {
	address, named := remote.URL(url)
	if !named {
		address = "http://" + d.settings.Addr
	}
	c, err := remote.New(address)
	if err != nil {
		d.say("server", address, err, "correct --url")
		return
	}
	p, err := remote.Picture(ctx, c)
	switch {
	case errors.Is(err, load.ErrNoServer) && !named:
		d.warn("server", address, "no server is running there", "start it with parley serve, or name one with --url")
		return
	case err != nil:
		d.say("server", address, err, "start it, or set PARLEY_API_KEY to an admin key")
		return
	}
	d.say("server", address, nil, p.Verdict.Sentence)
	d.compareClock("server "+address, p.At)
	for i := range p.Workers {
		switch w := &p.Workers[i]; fleet.State(w.State) {
		case fleet.Absent:
			d.say("worker", w.Name, fmt.Errorf("it cannot join: %s", w.Trouble),
				"the server asks it again every few seconds")
		case fleet.Down, fleet.Failing:
			d.say("worker", w.Name, fmt.Errorf("the server reports it as %s", w.State),
				"check its log; it gets requests again as soon as it answers")
		}
	}
	d.examineEvents(ctx, c)
}

// examineEvents looks whether the server knows what its workers hold.
func (d *doctor) examineEvents(ctx context.Context, c *remote.Client) {
	text, err := c.Get(ctx, "/metrics")
	if err != nil {
		d.warn("events", "", "cannot read its metrics: "+err.Error(), "set PARLEY_API_KEY to an admin key")
		return
	}
	for line := range strings.Lines(string(text)) {
		m, ok := remote.ParseMetric(line)
		if !ok || m.Name != "parley_fleet_index_degraded" {
			continue
		}
		worker := remote.Label(line[strings.Index(line, "{")+1:], "worker")
		if m.Value > 0 {
			d.warn("events", worker, "cache events were lost, so routing to it is approximate",
				"check that its events socket is reachable; the gateway then requests a snapshot")
			continue
		}
		d.say("events", worker, nil, "no cache events are missing")
	}
}
