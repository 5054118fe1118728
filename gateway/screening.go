package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/models"
	"parley/gateway/openai"
	"parley/gateway/safety"
)

// A screening is what a call knows of its policy: the rules, and what was
// taken out of its prompt.
type screening struct {
	ruling *safety.Ruling
	vault  *safety.Vault
	// noted counts the findings that are told one by one, unnoted the others.
	noted, unnoted int
}

// findingsMost bounds the findings of a request that are logged and remembered one
// by one: a text may have one in every word. Of the others there is a count.
const findingsMost = 20

// screenChat judges the prompt of a conversation before anything is computed
// for it. What is redacted is replaced in request; what is blocked is an error.
func (c *call) screenChat(m *models.Model, request *openai.ChatRequest) error {
	var parts screenParts
	var system strings.Builder
	for i := range request.Messages {
		said := &request.Messages[i]
		origin := originOf(said.Role)
		if origin == safety.FromSystem {
			system.WriteString(said.Content + "\n")
		}
		parts.add(&said.Content, origin, i)
		parts.add(&said.Name, origin, i)
		parts.add(&said.Reasoning, origin, i)
		for j := range said.ToolCalls {
			parts.add(&said.ToolCalls[j].Name, origin, i)
			parts.add(&said.ToolCalls[j].Arguments, origin, i)
		}
	}
	if request.ToolChoice.Mode != openai.ToolsNone {
		for i := range request.Tools {
			parts.addTool(&request.Tools[i], i)
		}
	}
	parts.addArguments(request.TemplateArgs)
	return c.screen(m, "messages", system.String(), parts)
}

// originOf returns where the text of a message with this role comes from.
func originOf(role string) safety.Origin {
	switch role {
	case "system", "developer":
		return safety.FromSystem
	case "assistant":
		return safety.FromAssistant
	case "tool", "function":
		return safety.FromTool
	}
	return safety.FromUser
}

// screenParts are the texts of a prompt.
type screenParts []screenPart

// add lists a text that is replaced in place.
func (p *screenParts) add(text *string, origin safety.Origin, index int) {
	if *text != "" {
		*p = append(*p, screenPart{text: text, origin: origin, index: index})
	}
}

// addTool lists what is said of a tool. Its parameters are judged as JSON text.
func (p *screenParts) addTool(t *openai.Tool, index int) {
	p.add(&t.Name, safety.FromDefinition, index)
	p.add(&t.Description, safety.FromDefinition, index)
	if parameters := string(t.Parameters); parameters != "" {
		set := func(text string) {
			if t.Parameters = nil; json.Valid([]byte(text)) {
				t.Parameters = json.RawMessage(text)
			}
		}
		*p = append(*p, screenPart{&parameters, safety.FromDefinition, index, set})
	}
}

// addArguments lists the texts among a template's arguments, such as documents,
// which are judged like what a search brought.
func (p *screenParts) addArguments(args map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(args)) {
		p.addValue(args[name], func(v any) { args[name] = v })
	}
}

func (p *screenParts) addValue(v any, set func(any)) {
	switch v := v.(type) {
	case string:
		*p = append(*p, screenPart{&v, safety.FromTool, 0, func(text string) { set(text) }})
	case []any:
		for i := range v {
			p.addValue(v[i], func(changed any) { v[i] = changed })
		}
	case map[string]any:
		p.addArguments(v)
	}
}

// screenPrompts judges plain prompts. Prompts that are tokens are read as text
// first, and are refused rather than redacted.
func (c *call) screenPrompts(m *models.Model, param string, prompts []openai.Prompt) error {
	var parts []screenPart
	for i := range prompts {
		text := &prompts[i].Text
		if prompts[i].IsTokens {
			decoded := m.Tokenizer.Decode(prompts[i].Tokens, true)
			text = &decoded
		}
		parts = append(parts, screenPart{text: text, origin: safety.FromUser, index: i})
	}
	return c.screen(m, param, "", parts)
}

// screenCompletion judges the prompts of a completion and what follows their gap.
func (c *call) screenCompletion(m *models.Model, request *openai.CompletionRequest) error {
	if request.Gap != nil && len(request.Prompts) == 1 {
		return c.screenGap(m, &request.Prompts[0], request.Gap)
	}
	return c.screenPrompts(m, "prompt", request.Prompts)
}

// screenGap judges what stands before and behind a gap that is to be filled.
func (c *call) screenGap(m *models.Model, before *openai.Prompt, gap *openai.Gap) error {
	prompts := []openai.Prompt{*before}
	if gap != nil {
		prompts = append(prompts, gap.After)
	}
	if err := c.screenPrompts(m, "prompt", prompts); err != nil {
		return err
	}
	before.Text = prompts[0].Text
	if gap != nil {
		gap.After.Text = prompts[1].Text
	}
	return nil
}

// askGuard has a model of this server say what it thinks of a text.
func (c *call) askGuard(ctx context.Context, name, text string) (string, error) {
	m, err := c.model(name)
	if err != nil {
		return "", err
	}
	said, _, err := c.aside(ctx, "guard").ask(m, "You are a strict moderator.", text, guardTokens)
	return said, err
}

// guardTokens bounds what a guard model says.
const guardTokens = 32

// A screenPart is a text of a prompt that is judged, and may be replaced.
type screenPart struct {
	text   *string
	origin safety.Origin
	index  int
	// set takes the text that replaces it, where that is not *text.
	set func(string)
}

// screen judges the parts of a prompt under the policy of its tenant and model,
// which then holds for its answer, too.
func (c *call) screen(m *models.Model, param, system string, parts []screenPart) error {
	keeper := c.gateway.safety
	c.screening.ruling, c.screening.vault = keeper.For(c.Identity.Organization, m.ID), safety.NewVault()
	ruling := c.screening.ruling
	if c.beside || !ruling.LooksAtInput() {
		return nil
	}
	for _, p := range parts {
		if !ruling.LooksAt(p.origin) && !ruling.AsksOf(p.origin) {
			continue
		}
		verdict := keeper.Screen.Judge(safety.Text{Body: *p.text, Origin: p.origin, System: system,
			Names: ruling.InputNames()})
		decisions, sternest := ruling.DecideInput(&verdict, p.origin)
		c.noteSafety("input", p.origin, p.index, *p.text, "", decisions)
		if sternest != safety.Block {
			var err error
			if sternest, err = c.moderate(p, sternest); err != nil {
				return err
			}
		}
		switch sternest {
		case safety.Block:
			return &parley.Error{Code: parley.Filtered, Param: param,
				Message: ruling.Refusal + " The safety policy of this server does not allow the request."}
		case safety.Redact:
			*p.text = c.screening.vault.Redact(*p.text, decisions)
			if p.set != nil {
				p.set(*p.text)
			}
		}
	}
	return nil
}

// moderate asks the moderators outside about a part of a prompt.
func (c *call) moderate(p screenPart, sternest safety.Action) (safety.Action, error) {
	if !c.screening.ruling.AsksOf(p.origin) || *p.text == "" {
		return sternest, nil
	}
	blocked, err := c.askModerators(*p.text, p.origin, p.index)
	if blocked {
		sternest = safety.Block
	}
	return sternest, err
}

// askModerators reports whether a moderator outside finds what the policy
// blocks. It is an error if one is needed and does not answer.
func (c *call) askModerators(text string, origin safety.Origin, part int) (blocked bool, err error) {
	ruling, keeper := c.screening.ruling, c.gateway.safety
	output := origin == safety.FromModel
	direction, decide := "input", ruling.DecideInput
	if output {
		direction, decide = "output", ruling.DecideOutput
	}
	found, down := keeper.Moderate(c.Request.Context(), ruling, text, output, c.askGuard)
	for name, err := range down {
		closed := ruling.ClosedWithout(name, output)
		c.gateway.records.ModeratorFailed(name)
		c.gateway.config.Log.Warn("a moderator did not answer", "moderator", name, "request_id", c.Record.ID, "refused",
			closed, "error", err)
		if closed {
			return false, parley.Errorf(parley.Unavailable,
				"The request cannot be checked now, and this server's safety policy wants it checked. Try again later.")
		}
	}
	for name, verdict := range found {
		decisions, action := decide(verdict, origin)
		c.noteSafety(direction, origin, part, text, name, decisions)
		blocked = blocked || action == safety.Block
	}
	return blocked, nil
}

// outsideJudge returns what has the moderators outside judge an answer that is
// shown as a whole; nil if the policy has none do so. An answer that they block
// is a refusal, as one that is halted in its midst.
func (c *call) outsideJudge() func(choice int, w *answer.CollectedChoice) error {
	if c.screening.ruling == nil || c.beside || !c.screening.ruling.AsksOfOutput() {
		return nil
	}
	return func(choice int, w *answer.CollectedChoice) error {
		if w.Text.Len() == 0 || w.Finish == answer.FinishFiltered {
			return nil
		}
		blocked, err := c.askModerators(w.Text.String(), safety.FromModel, choice)
		if blocked {
			*w = answer.CollectedChoice{Finish: answer.FinishFiltered}
			w.Text.WriteString(c.screening.ruling.Refusal)
		}
		return err
	}
}

// outputPolicy is what the call's answer is screened by; nil if by nothing.
func (c *call) outputPolicy() *answer.OutputPolicy {
	if c.beside {
		return nil
	}
	s := &c.screening
	return answer.NewOutputPolicy(s.ruling, c.gateway.safety.Screen, s.vault,
		func(choice int, text string, decisions []safety.Decision) {
			c.noteSafety("output", safety.FromModel, choice, text, "", decisions)
		})
}

// noteSafety counts, logs and remembers what was decided: where, and never
// what, unless the policy asks for it. What is decided most sternly comes first.
func (c *call) noteSafety(direction string, origin safety.Origin, part int, text, by string,
	decisions []safety.Decision) {
	decisions = c.noteworthy(direction, decisions)
	for _, d := range decisions {
		e := safety.Event{
			Time:      c.gateway.config.Now(),
			Request:   c.Record.ID,
			Tenant:    c.Identity.Organization,
			Model:     c.Record.Model(),
			Direction: direction,
			Origin:    origin,
			Part:      part,
			Decision:  d,
			By:        by,
		}
		if c.screening.ruling.LogText && d.End <= len(text) {
			e.Text = text[d.Start:d.End]
		}
		e = c.gateway.safety.Note(e)
		line := []any{"request_id", e.Request, "tenant", e.Tenant, "model", e.Model, "direction", direction, "origin",
			origin.String(), "part", part,
			"category", d.Category.String(), "kind", d.Kind, "score", d.Score, "start", d.Start, "end", d.End,
			"action", string(d.Action)}
		if by != "" {
			line = append(line, "by", by)
		}
		if e.Text != "" {
			line = append(line, "text", e.Text)
		}
		c.gateway.config.Log.Info("safety", line...)
	}
}

// noteworthy counts decisions, and returns those that are told one by one.
func (c *call) noteworthy(direction string, decisions []safety.Decision) []safety.Decision {
	for _, d := range decisions {
		c.gateway.records.Found(direction, d.Category.String(), string(d.Action))
	}
	room := findingsMost - c.screening.noted
	if len(decisions) <= room {
		c.screening.noted += len(decisions)
		return decisions
	}
	decisions = slices.SortedStableFunc(slices.Values(decisions), func(a, b safety.Decision) int {
		return cmp.Compare(b.Action.Sternness(), a.Action.Sternness())
	})
	c.screening.noted += room
	c.screening.unnoted += len(decisions) - room
	return decisions[:room]
}

// tellUnnoted logs how many findings of a request were not told one by one.
func (c *call) tellUnnoted() {
	if n := c.screening.unnoted; n > 0 {
		c.gateway.config.Log.Info("safety", "request_id", c.Record.ID, "tenant", c.Identity.Organization, "model",
			c.Record.Model(), "more_findings", n)
	}
}
