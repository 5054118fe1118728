package openai

import "testing"

// TestRefusalsComeBack reads an assistant's message as clients resend it.
func TestRefusalsComeBack(t *testing.T) {
	body := `{"model":"m","messages":[{"role":"user","content":"a"},
		{"role":"assistant","content":null,"refusal":"I will not."},{"role":"user","content":"b"}]}`
	r, err := ParseChat([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Messages[1].Content; got != "I will not." {
		t.Errorf("the message says %q", got)
	}
}
