package chat

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"parley/cli"
	"parley/cli/remote"
)

// A transcript is what was said, and with which settings. It is also what
// /save writes.
type transcript struct {
	Schema   string            `json:"schema"`
	Model    string            `json:"model,omitempty"`
	System   string            `json:"system,omitempty"`
	Settings remote.Parameters `json:"settings"`
	Messages []remote.Message  `json:"messages"`
}

const transcriptSchema = "parley-chat/1"

// question is what is sent for the conversation as it stands.
func (c *transcript) question() remote.Question {
	q := remote.Question{Model: c.Model, Parameters: c.Settings}
	if c.System != "" {
		q.Messages = append(q.Messages, remote.Message{Role: "system", Content: c.System})
	}
	q.Messages = append(q.Messages, c.Messages...)
	return q
}

// ask adds what the user said. A question that was never answered is replaced:
// two in a row would confuse the model.
func (c *transcript) ask(text string) {
	c.takeBack("user")
	c.Messages = append(c.Messages, remote.Message{Role: "user", Content: text})
}

// answer adds what the model said, unless it said nothing.
func (c *transcript) answer(text string) {
	if text != "" {
		c.Messages = append(c.Messages, remote.Message{Role: "assistant", Content: text})
	}
}

// retry makes the last question the last message again, and reports false if
// nothing was asked yet.
func (c *transcript) retry() bool {
	c.takeBack("assistant")
	return len(c.Messages) > 0
}

// takeBack drops the last message if it has the role.
func (c *transcript) takeBack(role string) {
	if n := len(c.Messages); n > 0 && c.Messages[n-1].Role == role {
		c.Messages = c.Messages[:n-1]
	}
}

// chatFile returns where a conversation of this name is saved: names without a
// slash lie in a directory of their own.
func chatFile(data, name string) string {
	if strings.ContainsRune(name, filepath.Separator) {
		return name
	}
	return filepath.Join(data, "chats", strings.TrimSuffix(name, ".json")+".json")
}

// save writes the conversation. A file that exists is replaced only if that
// was asked for.
func (c *transcript) save(path string, replace bool) error {
	if _, err := os.Lstat(path); err == nil && !replace {
		return fmt.Errorf("%s exists: choose another name, or add --force to replace it", path)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	kept := *c
	kept.Schema = transcriptSchema
	return cli.WritePrivate(path, func(w io.Writer) error { return cli.PrintJSON(w, kept) })
}

// conversationBytesMax bounds a file that is loaded.
const conversationBytesMax = 64 << 20

// loadConversation reads what save wrote.
func loadConversation(path string) (*transcript, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, conversationBytesMax+1))
	if err != nil {
		return nil, err
	}
	if len(data) > conversationBytesMax {
		return nil, fmt.Errorf("%s has more than %d bytes: it is not a saved conversation", path, conversationBytesMax)
	}
	c, err := parseConversation(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

func parseConversation(data []byte) (*transcript, error) {
	var c transcript
	if err := json.Unmarshal(data, &c); err != nil {
		return nil, fmt.Errorf("not a saved conversation: %w", err)
	}
	if c.Schema != transcriptSchema {
		return nil, fmt.Errorf("the schema is %q: expected %q", c.Schema, transcriptSchema)
	}
	for i, m := range c.Messages {
		if m.Role != "user" && m.Role != "assistant" {
			return nil, fmt.Errorf("message %d has the role %q: expected user or assistant", i, m.Role)
		}
	}
	if len(c.Messages) > 0 && c.Messages[0].Role != "user" {
		return nil, errors.New("the first message is not the user's")
	}
	return &c, nil
}
