package answer

import (
	"bytes"
	"encoding/json"
	"strings"

	"parley/gateway/openai"
	"parley/token"
	"parley/token/jinja"
)

// ToolPreamble describes tools to a model whose template does not. Its form is the
// one that many models have met in training, whatever their own is.
const ToolPreamble = `# Tools

You may call functions to help with the request. Their definitions, one per line:
<tools>
TOOLS
</tools>

To call a function, write a JSON object with its name and arguments between tags, like this:
<tool_call>
{"name": "function-name", "arguments": {"argument": "value"}}
</tool_call>
The results come back between <tool_response> and </tool_response>.`

// plainMessages writes a conversation for a template that knows no tools: the
// definitions stand in the system message, calls in what the assistant said,
// and results in what the user says next.
func (box *Tools) plainMessages(messages []openai.Message, tools json.RawMessage) []token.Message {
	var plain []token.Message
	if tools != nil {
		if len(messages) == 0 || messages[0].Role != "system" {
			messages = append([]openai.Message{{Role: "system"}}, messages...)
		}
		first := templateMessage(messages[0])
		first.Content = joined(messages[0].Content, "\n\n", preamble(tools))
		plain, messages = append(plain, first), messages[1:]
	}
	for i, message := range messages {
		isResult := message.Role == "tool" || message.Role == "function"
		if isResult && i > 0 && messages[i-1].Role == message.Role {
			last := &plain[len(plain)-1]
			last.Content = jinja.Concat(last.Content, "\n", toolResponse(message))
			continue
		}
		plain = append(plain, plainMessage(message, isResult))
	}
	return plain
}

// plainMessage writes one message without tools. The marks around calls and
// results are the gateway's own text, so they are read as control tokens where
// the vocabulary has them; what stands between them is data.
func plainMessage(message openai.Message, isResult bool) token.Message {
	if isResult {
		return token.Message{Role: "user", Content: toolResponse(message)}
	}
	calls := message.ToolCalls
	message.ToolCalls = nil
	plain := templateMessage(message)
	if len(calls) > 0 {
		plain.Content = joined(message.Content, "\n", callsText(calls))
	}
	return plain
}

func preamble(tools json.RawMessage) jinja.Value {
	var list []json.RawMessage
	_ = json.Unmarshal(tools, &list) // it was written a moment ago
	lines := bytes.Join(toBytes(list), []byte("\n"))
	before, after, _ := strings.Cut(ToolPreamble, "TOOLS")
	return jinja.Concat(jinja.Own(before), string(lines), jinja.Own(after))
}

func toBytes(list []json.RawMessage) (all [][]byte) {
	for _, raw := range list {
		all = append(all, raw)
	}
	return all
}

// joined puts a separator between two texts, unless the first is empty.
func joined(a, separator string, b jinja.Value) jinja.Value {
	if a == "" {
		return b
	}
	return jinja.Concat(a, separator, b)
}

func toolResponse(m openai.Message) jinja.Value {
	return jinja.Concat(jinja.Own("<tool_response>\n"), m.Content, jinja.Own("\n</tool_response>"))
}

// callsText writes calls in the syntax that the preamble teaches.
func callsText(calls []openai.ToolCall) jinja.Value {
	s := Syntaxes[0]
	var parts []jinja.Value
	for i, c := range calls {
		if i > 0 {
			parts = append(parts, jinja.Own(s.between))
		}
		parts = append(parts, jinja.Own(s.begin), s.write(c))
	}
	return jinja.Concat(parts...)
}

// write writes a call after its beginning. The name and the arguments are data.
func (s *toolSyntax) write(c openai.ToolCall) jinja.Value {
	var parts []jinja.Value
	for rest := s.call; rest != ""; {
		word, kind, ok := leadingWord(rest)
		switch {
		case !ok:
			word = rest[:1]
			parts = append(parts, jinja.Own(word))
		case kind == stepName:
			parts = append(parts, c.Name)
		case kind == stepArguments:
			parts = append(parts, c.Arguments)
		}
		rest = rest[len(word):]
	}
	return jinja.Concat(parts...)
}

func templateMessage(message openai.Message) token.Message {
	m := token.Message{
		Role:             message.Role,
		Name:             message.Name,
		ReasoningContent: message.Reasoning,
		ToolCallID:       message.ToolCallID,
	}
	if message.HasContent {
		m.Content = message.Content
	}
	for _, call := range message.ToolCalls {
		m.ToolCalls = append(m.ToolCalls, token.ToolCall(call))
	}
	return m
}
