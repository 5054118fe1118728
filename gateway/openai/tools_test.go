package openai

import (
	"strings"
	"testing"

	"parley"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

const validTools = `"tools":[{"type":"function","function":{"name":"f","parameters":{"type":"object"}}},{"type":"function","function":{"name":"g","strict":true}}]`

var toolRefusals = []refusal{
	{"tools object", `{CHAT,"tools":{}}`, "tools", "invalid_type", "an array"},
	{"tool string", `{CHAT,"tools":["f"]}`, "tools[0]", "invalid_type", "an object"},
	{"tool without type", `{CHAT,"tools":[{"function":{"name":"f"}}]}`, "tools[0].type", "missing_required_parameter",
		"type"},
	{"tool of another type", `{CHAT,"tools":[{"type":"web_search"}]}`, "tools[0].type", "invalid_value",
		"'web_search'. Supported values are: 'function'"},
	{"tool without function", `{CHAT,"tools":[{"type":"function"}]}`, "tools[0].function",
		"missing_required_parameter", "function"},
	{"tool without name", `{CHAT,"tools":[{"type":"function","function":{}}]}`, "tools[0].function.name",
		"missing_required_parameter", "name"},
	{"tool name", `{CHAT,"tools":[{"type":"function","function":{"name":"a b"}}]}`, "tools[0].function.name",
		"invalid_value", "'a b'"},
	{"tool name long", `{CHAT,"tools":[{"type":"function","function":{"name":"` + strings.Repeat("x", 65) + `"}}]}`,
		"tools[0].function.name", "string_above_max_length", "length 65"},
	{"tool twice",
		`{CHAT,"tools":[{"type":"function","function":{"name":"a"}},{"type":"function","function":{"name":"a"}}]}`,
		"tools[1]", "invalid_value", "two functions"},
	{"parameters", `{CHAT,"tools":[{"type":"function","function":{"name":"a","parameters":[]}}]}`,
		"tools[0].function.parameters", "invalid_type", "an object"},
	{"strict", `{CHAT,"tools":[{"type":"function","function":{"name":"a","strict":1}}]}`, "tools[0].function.strict",
		"invalid_type", "a boolean"},
	{"many tools", `{CHAT,"tools":[` + manyTools(129) + `]}`, "tools", "array_above_max_length", "128"},
	{"functions", `{CHAT,"functions":[{}]}`, "functions[0].name", "missing_required_parameter", "name"},
	{"tool_choice word", `{CHAT,TOOLS,"tool_choice":"any"}`, "tool_choice", "invalid_value",
		"'none', 'auto', and 'required'"},
	{"tool_choice number", `{CHAT,TOOLS,"tool_choice":1}`, "tool_choice", "invalid_type", "a string or an object"},
	{"tool_choice required without tools", `{CHAT,"tool_choice":"required"}`, "tool_choice", "invalid_value",
		"only allowed when 'tools' are specified"},
	{"tool_choice without function", `{CHAT,TOOLS,"tool_choice":{"type":"function"}}`, "tool_choice.function",
		"missing_required_parameter", "function"},
	{"tool_choice unknown", `{CHAT,TOOLS,"tool_choice":{"type":"function","function":{"name":"h"}}}`, "tool_choice",
		"invalid_value", "'h' is not one of 'tools'"},
	{"tool_choice type", `{CHAT,TOOLS,"tool_choice":{"type":"other"}}`, "tool_choice.type", "invalid_value",
		"'other'"},
	{"allowed_tools missing", `{CHAT,TOOLS,"tool_choice":{"type":"allowed_tools"}}`, "tool_choice.allowed_tools",
		"missing_required_parameter", "allowed_tools"},
	{"allowed_tools mode", `{CHAT,TOOLS,"tool_choice":{"type":"allowed_tools","allowed_tools":{"tools":[]}}}`,
		"tool_choice.allowed_tools.mode", "missing_required_parameter", "mode"},
	{"allowed_tools empty",
		`{CHAT,TOOLS,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[]}}}`,
		"tool_choice.allowed_tools.tools", "empty_array", "minimum length 1"},
	{"allowed_tools unknown",
		`{CHAT,TOOLS,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"h"}}]}}}`,
		"tool_choice.allowed_tools.tools[0]", "invalid_value", "'h'"},
	{"parallel_tool_calls", `{CHAT,TOOLS,"parallel_tool_calls":"no"}`, "parallel_tool_calls", "invalid_type",
		"a boolean"},
	{"json_schema missing", `{CHAT,"response_format":{"type":"json_schema"}}`, "response_format.json_schema",
		"missing_required_parameter", "json_schema"},
	{"json_schema string", `{CHAT,"response_format":{"type":"json_schema","json_schema":"x"}}`,
		"response_format.json_schema", "invalid_type", "an object"},
	{"json_schema without name", `{CHAT,"response_format":{"type":"json_schema","json_schema":{}}}`,
		"response_format.json_schema.name", "missing_required_parameter", "name"},
	{"json_schema name", `{CHAT,"response_format":{"type":"json_schema","json_schema":{"name":"a.b"}}}`,
		"response_format.json_schema.name", "invalid_value", "'a.b'"},
	{"json_schema schema", `{CHAT,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":true}}}`,
		"response_format.json_schema.schema", "invalid_type", "an object"},
	{"json_schema strict",
		`{CHAT,"response_format":{"type":"json_schema","json_schema":{"name":"a","schema":{},"strict":"yes"}}}`,
		"response_format.json_schema.strict", "invalid_type", "a boolean"},
	{"two formats", `{CHAT,"guided_json":{},"response_format":{"type":"json_object"}}`, "response_format",
		"invalid_value", "already given by 'guided_json'"},
	{"guided_json", `{CHAT,"guided_json":7}`, "guided_json", "invalid_type", "a JSON schema"},
	{"guided_json text", `{CHAT,"guided_json":"{"}`, "guided_json", "invalid_type", "a JSON schema"},
	{"guided_regex", `{CHAT,"guided_regex":["a"]}`, "guided_regex", "invalid_type", "a string"},
	{"guided_regex empty", `{CHAT,"guided_regex":""}`, "guided_regex", "invalid_value", "1 to"},
	{"guided_choice", `{CHAT,"guided_choice":"a"}`, "guided_choice", "invalid_type", "an array of strings"},
	{"guided_choice empty", `{CHAT,"guided_choice":[]}`, "guided_choice", "empty_array", "at least one"},
	{"guided_choice number", `{CHAT,"guided_choice":["a",1]}`, "guided_choice[1]", "invalid_type", "a string"},
	{"guided_choice blank", `{CHAT,"guided_choice":[""]}`, "guided_choice[0]", "empty_string", "empty string"},
	{"guided_grammar", `{CHAT,"guided_grammar":"root ::= x"}`, "guided_grammar", "unsupported_parameter",
		"a JSON schema, a regular expression or a list"},
	{"structured_outputs", `{CHAT,"structured_outputs":{"grammar":"root ::= x"}}`, "structured_outputs.grammar",
		"unsupported_parameter", "a JSON schema"},
	{"structured_outputs two", `{CHAT,"structured_outputs":{"regex":"a","choice":["b"]}}`, "structured_outputs.choice",
		"invalid_value", "already given by 'structured_outputs.regex'"},
}

func manyTools(n int) string {
	var list []string
	for i := range n {
		list = append(list,
			`{"type":"function","function":{"name":"f`+strings.Repeat("x", i%60)+strings.Repeat("y", i/60)+`"}}`)
	}
	return strings.Join(list, ",")
}

func TestToolsAccepted(t *testing.T) {
	f := Tool{Name: "f", Parameters: []byte(`{"type":"object"}`), Param: "tools[0].function.parameters"}
	g := Tool{Name: "g", Strict: true}
	for _, c := range []struct {
		extra string
		want  ToolChoice
	}{
		{``, ToolChoice{Mode: ToolsAuto}},
		{`,"tool_choice":"none"`, ToolChoice{Mode: ToolsNone}},
		{`,"tool_choice":"required","parallel_tool_calls":false`, ToolChoice{Mode: ToolsRequired, Single: true}},
		{`,"tool_choice":{"type":"function","function":{"name":"g"}}`,
			ToolChoice{Mode: ToolsRequired, Allowed: []string{"g"}, Single: true}},
		{`,"function_call":{"name":"g"}`, ToolChoice{Mode: ToolsRequired, Allowed: []string{"g"}, Single: true}},
		{`,"tool_choice":{"type":"allowed_tools","allowed_tools":{"mode":"auto","tools":[{"type":"function","function":{"name":"f"}}]}}`, ToolChoice{Mode: ToolsAuto, Allowed: []string{"f"}}},
	} {
		got, err := ParseChat([]byte(`{` + validChat + `,` + validTools + c.extra + `}`))
		if err != nil {
			t.Errorf("%s: %v", c.extra, err)
			continue
		}
		if diff := cmp.Diff([]Tool{f, g}, got.Tools); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(c.want, got.ToolChoice); diff != "" {
			t.Errorf("%s: %s", c.extra, diff)
		}
	}
}

func TestFormatsAccepted(t *testing.T) {
	schema := []byte(`{"type":"object"}`)
	held := func(g parley.Grammar) *parley.Grammar { return &g }
	for _, c := range []struct {
		extra string
		want  Format
	}{
		{`"response_format":{"type":"text"}`, Format{}},
		{`"response_format":{"type":"json_object"}`,
			Format{Kind: "json_object", Grammar: held(parley.JSONObject()), Param: "response_format"}},
		{`"response_format":{"type":"json_schema","json_schema":{"name":"a-1","strict":true,"schema":{"type":"object"}}}`,
			Format{Kind: "json_schema", Grammar: held(parley.JSONSchema(schema, true)),
				Param: "response_format.json_schema.schema", Name: "a-1"}},
		{`"response_format":{"type":"json_schema","json_schema":{"name":"a"}}`,
			Format{Kind: "json_schema", Grammar: held(parley.JSONObject()), Param: "response_format.json_schema",
				Name: "a"}},
		{`"guided_json":{"type":"object"}`,
			Format{Kind: "json_schema", Grammar: held(parley.JSONSchema(schema, false)), Param: "guided_json"}},
		{`"guided_json":"{\"type\":\"object\"}"`,
			Format{Kind: "json_schema", Grammar: held(parley.JSONSchema(schema, false)), Param: "guided_json"}},
		{`"guided_regex":"a+","guided_decoding_backend":"x"`,
			Format{Kind: "regex", Grammar: held(parley.Regex("a+")), Param: "guided_regex"}},
		{`"structured_outputs":{"choice":["a","b"],"json_object":false}`,
			Format{Kind: "choice", Grammar: held(parley.Choice(parley.Literal("a"), parley.Literal("b"))),
				Param: "structured_outputs.choice"}},
		{`"structured_outputs":{"json_object":true}`,
			Format{Kind: "json_object", Grammar: held(parley.JSONObject()), Param: "structured_outputs.json_object"}},
	} {
		got, err := ParseChat([]byte(`{` + validChat + `,` + c.extra + `}`))
		if err != nil {
			t.Errorf("%s: %v", c.extra, err)
			continue
		}
		if diff := cmp.Diff(c.want, got.Format, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: %s", c.extra, diff)
		}
	}
}
