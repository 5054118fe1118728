package token

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"parley/internal/testkit"
)

// BenchmarkChatPrompt renders and tokenizes a chat of 4,096 tokens in 20 turns.
func BenchmarkChatPrompt(b *testing.B) {
	tok, err := Load(testkit.SharedData(b, "tokenizers", "qwen2"))
	if err != nil {
		b.Fatal(err)
	}
	english := prose(b)
	for _, name := range []string{"Qwen-Qwen2.5-7B-Instruct", "meta-llama-Llama-3.2-3B-Instruct", "Qwen3-Coder"} {
		source, err := os.ReadFile(filepath.Join(testkit.SharedData(b, "templates"), name+".jinja"))
		if err != nil {
			b.Fatal(err)
		}
		chat := mustChat(b, string(source), map[string]string{"bos_token": "<|endoftext|>", "eos_token": "<|im_end|>"})
		var messages []Message
		for i := range 20 {
			messages = append(messages,
				Message{Role: []string{"user", "assistant"}[i%2], Content: english[i*800 : (i+1)*800]})
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				text, err := chat.Render(messages, RenderOptions{AddGenerationPrompt: true, Now: time.Unix(1e9, 0)})
				if err != nil {
					b.Fatal(err)
				}
				ids, err := tok.EncodePrompt(text)
				if err != nil || len(ids) < 3500 {
					b.Fatal(len(ids), err)
				}
			}
		})
	}
}
