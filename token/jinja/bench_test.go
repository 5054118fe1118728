package jinja

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"parley/internal/testkit"
)

// BenchmarkRender renders real templates with a conversation of three turns.
func BenchmarkRender(b *testing.B) {
	dir := testkit.SharedData(b, "templates")
	var cases []json.RawMessage
	readJSONFile(b, filepath.Join(dir, "cases.json"), &cases)
	_, vars := caseVars(b, cases[1])
	for _, name := range []string{"Qwen-Qwen2.5-7B-Instruct", "meta-llama-Llama-3.2-3B-Instruct",
		"google-gemma-4-31B-it-interleaved", "Kimi-K3"} {
		tmpl := sharedTemplate(b, dir, name)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Render(Context{Vars: vars, Now: dataNow}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkRenderLong shows that the cost grows with the conversation, not
// with its square.
func BenchmarkRenderLong(b *testing.B) {
	tmpl := sharedTemplate(b, testkit.SharedData(b, "templates"), "Qwen-Qwen2.5-7B-Instruct")
	for _, turns := range []int{10, 100, 1000} {
		messages := &List{}
		for i := range turns {
			m := NewMap()
			m.Set("role", []string{"user", "assistant"}[i%2])
			m.Set("content", fmt.Sprintf("turn %d says something of ordinary length", i))
			messages.Items = append(messages.Items, m)
		}
		vars := NewMap()
		vars.Set("messages", messages)
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			for b.Loop() {
				if _, err := tmpl.Render(Context{Vars: vars}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkParse(b *testing.B) {
	source, err := os.ReadFile(filepath.Join(testkit.SharedData(b, "templates"), "Kimi-K3.jinja"))
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := Parse("bench", string(source), Options{}); err != nil {
			b.Fatal(err)
		}
	}
}

func sharedTemplate(b *testing.B, dir, name string) *Template {
	b.Helper()
	source, err := os.ReadFile(filepath.Join(dir, name+".jinja"))
	if err != nil {
		b.Skipf("needs %s: %v", name, err)
	}
	tmpl, err := Parse(name, string(source), Options{})
	if err != nil {
		b.Fatal(err)
	}
	return tmpl
}
