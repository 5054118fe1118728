package grammar

import (
	"fmt"
	"parley/engine/automaton"
	"strings"
	"testing"

	"parley"
)

// bigTool is a function as coding agents describe theirs: two dozen properties,
// nested objects, lists, choices and words about each.
func bigTool(n int) string {
	words := strings.Repeat("What this is for, at some length. ", 4)
	names := []string{"path", "pattern", "limit", "offset", "recursive", "include", "exclude", "old_string",
		"new_string", "replace_all", "command", "timeout_ms",
		"working_directory", "environment", "run_in_background", "query", "repository", "branch", "title", "body",
		"labels", "assignees", "draft", "maintainer_can_modify"}
	var properties []string
	for i := range 24 {
		kind := []string{
			`{"type":"string","description":%q}`,
			`{"type":"integer","minimum":0,"maximum":100000,"description":%q}`,
			`{"enum":["always","never","on failure","on success"],"description":%q}`,
			`{"type":"array","items":{"type":"string","maxLength":200},"maxItems":50,"description":%q}`,
			`{"type":"object","properties":{"from":{"type":"string"},"to":{"type":"string"},"lines":{"type":"array","items":{"type":"integer"}}},"required":["from"],"description":%q}`,
			`{"anyOf":[{"type":"string"},{"type":"null"}],"description":%q}`,
		}[i%6]
		properties = append(properties, fmt.Sprintf(`%q:`+kind, names[(i+n)%len(names)], words))
	}
	return fmt.Sprintf(`{"type":"object","properties":{%s},"required":[%q,%q],"additionalProperties":false}`,
		strings.Join(properties, ","), names[n%len(names)], names[(n+2)%len(names)])
}

// bigTools is a call of one of so many functions.
func bigTools(count int) parley.Grammar {
	var calls []parley.Grammar
	for n := range count {
		calls = append(calls,
			parley.Sequence(parley.Literal(fmt.Sprintf(`{"name": "function_number_%d", "arguments": `, n)),
				parley.JSONSchema([]byte(bigTool(n)), true), parley.Literal("}")))
	}
	return parley.Repeat(parley.Choice(calls...), 1, 0)
}

// TestBigTools shows that as many large functions as agents have are compiled,
// with work in proportion to their number, and that a call of the last is held
// to its schema.
func TestBigTools(t *testing.T) {
	one, many := bigTools(1), bigTools(80)
	alone, err := compileCounting(&one)
	if err != nil {
		t.Fatal(err)
	}
	steps, err := compileCounting(&many)
	if err != nil || steps > 80*alone {
		t.Fatalf("%d steps for 80 functions, %d for one: %v", steps, alone, err)
	}
	m := NewMasker(vocabularyOf(all), 1<<20)
	for text, want := range map[string]bool{
		`{"name": "function_number_79", "arguments": {"old_string":"x","replace_all":"never"}}`:     true,
		`{"name": "function_number_79", "arguments": {"old_string":"x","replace_all":"sometimes"}}`: false,
		`{"name": "function_number_79", "arguments": {"old_string":"x"}}`:                           false,
		`{"name": "function_number_80", "arguments": {"old_string":"x","replace_all":"never"}}`:     false,
	} {
		if got := match(t, m, many, text); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}

// TestHostileTools has a hard schema in each of eighty functions: all of them
// together are bounded as one is.
func TestHostileTools(t *testing.T) {
	for _, name := range []string{"five hundred optional", "patterns together", "many divisors"} {
		var calls []parley.Grammar
		for n := range 80 {
			calls = append(calls, parley.Sequence(parley.Literal(fmt.Sprintf("f%d(", n)),
				parley.JSONSchema([]byte(hostile[name].schema), true)))
		}
		g := parley.Choice(calls...)
		if steps, err := compileCounting(&g); err == nil || steps > automaton.StepsMax+automaton.NodesMax {
			t.Errorf("%s: %d steps, %v", name, steps, err)
		}
	}
}
