package gateway

import (
	"bytes"
	"encoding/json"
	"strings"

	"parley/gateway/openai"
	"parley/token"
)

// toolPreamble tells a model of tools whose template does not. Its form is the
// one that many models have met in training, whatever their own is.
const toolPreamble = `# Tools

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
func (box *toolbox) plainMessages(messages []openai.Message, tools json.RawMessage) []token.Message {
	var plain []token.Message
	if tools != nil {
		if len(messages) == 0 || messages[0].Role != "system" {
			messages = append([]openai.Message{{Role: "system"}}, messages...)
		}
		first := messages[0]
		first.Content, first.HasContent = joined(first.Content, "\n\n", preamble(tools)), true
		plain, messages = append(plain, templateMessage(first)), messages[1:]
	}
	for i, message := range messages {
		isResult := message.Role == "tool" || message.Role == "function"
		if isResult && i > 0 && messages[i-1].Role == message.Role {
			last := &plain[len(plain)-1]
			last.Content = last.Content.(string) + "\n" + toolResponse(message)
			continue
		}
		if isResult {
			message = openai.Message{Role: "user", Content: toolResponse(message), HasContent: true}
		}
		if len(message.ToolCalls) > 0 {
			message.Content, message.HasContent = joined(message.Content, "\n", callsText(message.ToolCalls)), true
			message.ToolCalls = nil
		}
		plain = append(plain, templateMessage(message))
	}
	return plain
}

func preamble(tools json.RawMessage) string {
	var list []json.RawMessage
	_ = json.Unmarshal(tools, &list) // it was written a moment ago
	lines := bytes.Join(toBytes(list), []byte("\n"))
	return strings.Replace(toolPreamble, "TOOLS", string(lines), 1)
}

func toBytes(list []json.RawMessage) (all [][]byte) {
	for _, raw := range list {
		all = append(all, raw)
	}
	return all
}

// joined puts a separator between two texts, unless the first is empty.
func joined(a, separator, b string) string {
	if a == "" {
		return b
	}
	return a + separator + b
}

func toolResponse(m openai.Message) string {
	return "<tool_response>\n" + m.Content + "\n</tool_response>"
}

// callsText writes calls in the syntax that the preamble teaches.
func callsText(calls []openai.ToolCall) string {
	s := syntaxes[0]
	texts := make([]string, len(calls))
	for i, c := range calls {
		texts[i] = s.begin + strings.NewReplacer("$NAME", c.Name, "$ARGUMENTS", c.Arguments).Replace(s.call)
	}
	return strings.Join(texts, s.between)
}
