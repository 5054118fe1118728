package dialect

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"

	"parley/token"
	"parley/token/jinja"
)

// Preamble describes tools to a model whose template does not. Its form is one that many models have met in training,
// whatever their own is.
const Preamble = `# Tools

You may call functions to help with the request. Their definitions, one per line:
<tools>
TOOLS
</tools>

To call a function, write a JSON object with its name and arguments between tags, like this:
CALL
The results come back between <tool_response> and </tool_response>.`

// A ChatInput is what a prompt is made of.
type ChatInput struct {
	Messages []token.Message
	// Tools is a JSON list of definitions, nil for none.
	Tools json.RawMessage
	// OpenTurn, ContinueFinal and Kwargs are as in [token.RenderOptions].
	OpenTurn, ContinueFinal bool
	Kwargs                  map[string]any
	Now                     time.Time
}

// Render has a template write a conversation, in the shape the template wants. If it cannot describe these tools,
// though it knows tools, the gateway does.
func (t *Tools) Render(template *token.ChatTemplate, c *ChatInput) (token.Prompt, error) {
	prompt, err := t.render(template, c)
	if err == nil || c.Tools == nil || !t.describes {
		return prompt, err
	}
	whole, plain := *c, *t
	whole.Tools, plain.describes = withoutGaps(c.Tools), false
	if again, err := t.render(template, &whole); err == nil {
		return again, nil
	}
	if again, err := plain.render(template, c); err == nil {
		return again, nil
	}
	return prompt, err
}

// withoutGaps adds to schemas what means the same and what some templates read without asking whether it is there:
// empty descriptions, and schemas of further members and of elements.
func withoutGaps(tools json.RawMessage) json.RawMessage {
	var list any
	if json.Unmarshal(tools, &list) != nil {
		return tools
	}
	fillGaps(list)
	whole, err := json.Marshal(list)
	if err != nil {
		return tools
	}
	return whole
}

func fillGaps(v any) {
	switch v := v.(type) {
	case []any:
		for _, item := range v {
			fillGaps(item)
		}
	case map[string]any:
		for _, member := range v {
			fillGaps(member)
		}
		for of, keyword := range map[string]string{"object": "additionalProperties", "array": "items"} {
			if _, ok := v[keyword].(map[string]any); v["type"] == of && !ok {
				v[keyword] = map[string]any{}
			}
		}
		if _, isSchema := v["type"].(string); isSchema && v["description"] == nil {
			v["description"] = ""
		}
	}
}

func (t *Tools) render(template *token.ChatTemplate, c *ChatInput) (token.Prompt, error) {
	messages, options := t.prompt(c.Messages, c.Tools, c.Kwargs, c.Now)
	options.AddGenerationPrompt, options.ContinueFinal = c.OpenTurn, c.ContinueFinal
	return template.Render(messages, options)
}

// prompt returns a conversation as the template takes it, and what the template is given beside it.
func (t *Tools) prompt(messages []token.Message, tools json.RawMessage, kwargs map[string]any,
	now time.Time) ([]token.Message, token.RenderOptions) {
	known := t.describes && (t.writes || t.results)
	writes := t.writes || t.somehow && tools == nil
	options := t.options(nil, kwargs, now)
	if known {
		options = t.options(tools, kwargs, now)
	}
	messages = withNames(messages)
	if t.single {
		messages = oneCallEach(messages)
	}
	messages = t.withIDs(messages)
	if !known && tools != nil {
		messages = t.withPreamble(messages, tools)
	}
	for i := range messages {
		m := &messages[i]
		if len(m.ToolCalls) > 0 && !writes {
			m.Content = joined(m.Content, "\n", t.callsText(m.ToolCalls))
			m.ToolCalls = nil
		}
		if m.Content == nil && t.text {
			m.Content = ""
		}
	}
	if !writes && !known {
		messages = plainResults(messages)
	}
	return messages, options
}

// withNames returns a copy of messages in which results have the names of their tools.
func withNames(messages []token.Message) []token.Message {
	named, names := make([]token.Message, len(messages)), map[string]string{}
	for i, m := range messages {
		for _, c := range m.ToolCalls {
			names[c.ID] = c.Name
		}
		if m.Role == "tool" && m.Name == "" {
			m.Name = names[m.ToolCallID]
		}
		named[i] = m
	}
	return named
}

// oneCallEach takes messages with several calls apart, with the result of each behind it.
func oneCallEach(messages []token.Message) (single []token.Message) {
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if len(m.ToolCalls) < 2 {
			single = append(single, m)
			continue
		}
		results := i + 1
		for results < len(messages) && messages[results].Role == "tool" {
			results++
		}
		for n, c := range m.ToolCalls {
			one := m
			one.ToolCalls = []token.ToolCall{c}
			if n > 0 {
				one.Content, one.ReasoningContent = nil, ""
			}
			single = append(single, one)
			for _, result := range messages[i+1 : results] {
				if result.ToolCallID == c.ID {
					single = append(single, result)
				}
			}
		}
		i = results - 1
	}
	return single
}

// withIDs gives calls the ids that the template wants. The same id always becomes the same.
func (t *Tools) withIDs(messages []token.Message) []token.Message {
	if t.ids == anyID {
		return messages
	}
	index, ids := 0, map[string]string{}
	for i := range messages {
		m := &messages[i]
		calls := append([]token.ToolCall(nil), m.ToolCalls...)
		for j, c := range calls {
			calls[j].ID = shortID(c.ID)
			if t.ids == nameAndIndex {
				calls[j].ID = callID(c.Name, strconv.Itoa(index))
			}
			ids[c.ID] = calls[j].ID
			index++
		}
		m.ToolCalls = calls
		if id, ok := ids[m.ToolCallID]; ok {
			m.ToolCallID = id
		} else if t.ids == nineLetters {
			m.ToolCallID = shortID(m.ToolCallID)
		}
	}
	return messages
}

var nineCharacters = regexp.MustCompile(`^[a-zA-Z0-9]{9}$`)

func shortID(id string) string {
	if id == "" || nineCharacters.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:])[:9]
}

// withPreamble describes the tools in the first message.
func (t *Tools) withPreamble(messages []token.Message, tools json.RawMessage) []token.Message {
	if t.preambleFirst && len(messages) > 0 {
		messages[0].Content = joined(t.preamble(tools), "\n\n", messages[0].Content)
		return messages
	}
	if len(messages) == 0 || messages[0].Role != "system" {
		messages = append([]token.Message{{Role: "system"}}, messages...)
	}
	first := &messages[0]
	first.Content = joined(first.Content, "\n\n", t.preamble(tools))
	return messages
}

func (t *Tools) preamble(tools json.RawMessage) jinja.Value {
	var list []json.RawMessage
	_ = json.Unmarshal(tools, &list) // it was written a moment ago
	lines := make([][]byte, len(list))
	for i := range list {
		lines[i] = list[i]
	}
	example := t.callsText([]token.ToolCall{
		{ID: probeID, Name: "function-name", Arguments: `{"argument": "value"}`},
	})
	text := Preamble
	if t.Syntax != Table[0] {
		text = strings.Replace(text, " a JSON object with its name and arguments between tags",
			" its name and arguments", 1)
	}
	before, rest, _ := strings.Cut(text, "TOOLS")
	between, after, _ := strings.Cut(rest, "CALL")
	return jinja.Concat(jinja.Own(before), string(bytes.Join(lines, []byte("\n"))), jinja.Own(between), example,
		jinja.Own(after))
}

// plainResults has the user say the results of calls, those of one answer in one message.
func plainResults(messages []token.Message) (plain []token.Message) {
	wasResult := false
	for _, m := range messages {
		isResult := m.Role == "tool" || m.Role == "function"
		switch {
		case !isResult:
			plain = append(plain, m)
		case wasResult:
			last := &plain[len(plain)-1]
			last.Content = jinja.Concat(last.Content, "\n", toolResponse(m))
		default:
			plain = append(plain, token.Message{Role: "user", Content: toolResponse(m)})
		}
		wasResult = isResult
	}
	return plain
}

// toolResponse writes a result. The marks around it are the gateway's own text.
func toolResponse(m token.Message) jinja.Value {
	return jinja.Concat(jinja.Own("<tool_response>\n"), m.Content, jinja.Own("\n</tool_response>"))
}

// joined puts a separator between two texts, unless the first is empty.
func joined(a jinja.Value, separator string, b jinja.Value) jinja.Value {
	if a == nil || a == "" {
		return b
	}
	return jinja.Concat(a, separator, b)
}
