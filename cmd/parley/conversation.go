package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"parley/cli"
)

// parameters are what can be /set for a conversation. What is nil is the
// server's to choose.
type parameters struct {
	Temperature *float64 `json:"temperature,omitempty"`
	TopP        *float64 `json:"top_p,omitempty"`
	MaxTokens   *int     `json:"max_tokens,omitempty"`
	Seed        *int     `json:"seed,omitempty"`
}

// A transcript is what was said, and with which settings. It is also what
// /save writes.
type transcript struct {
	Schema   string     `json:"schema"`
	Model    string     `json:"model,omitempty"`
	System   string     `json:"system,omitempty"`
	Settings parameters `json:"settings"`
	Messages []message  `json:"messages"`
}

const transcriptSchema = "parley-chat/1"

// question is what is sent for the conversation as it stands.
func (c *transcript) question() question {
	q := question{Model: c.Model, parameters: c.Settings}
	if c.System != "" {
		q.Messages = append(q.Messages, message{"system", c.System})
	}
	q.Messages = append(q.Messages, c.Messages...)
	return q
}

// ask adds what the user said. A question that was never answered is replaced:
// two in a row would confuse the model.
func (c *transcript) ask(text string) {
	c.takeBack("user")
	c.Messages = append(c.Messages, message{"user", text})
}

// answer adds what the model said, unless it said nothing.
func (c *transcript) answer(text string) {
	if text != "" {
		c.Messages = append(c.Messages, message{"assistant", text})
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

// set changes a parameter; the value "default" leaves it to the server.
func (p *parameters) set(name, value string) error {
	switch name {
	case "temperature":
		return setNumber(&p.Temperature, value, 0, 2)
	case "top_p":
		return setNumber(&p.TopP, value, 0, 1)
	case "max_tokens":
		return setWhole(&p.MaxTokens, value, 1)
	case "seed":
		return setWhole(&p.Seed, value, 0)
	}
	return fmt.Errorf("unknown setting %q: use one of %s", name, strings.Join(parameterNames, ", "))
}

var parameterNames = []string{"temperature", "top_p", "max_tokens", "seed"}

const byServer = "default"

func setNumber(field **float64, value string, least, most float64) error {
	if value == byServer {
		*field = nil
		return nil
	}
	n, err := strconv.ParseFloat(value, 64)
	if err != nil || !(n >= least && n <= most) {
		return fmt.Errorf("%q is not a number from %g to %g or %q", value, least, most, byServer)
	}
	*field = &n
	return nil
}

func setWhole(field **int, value string, least int) error {
	if value == byServer {
		*field = nil
		return nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < least {
		return fmt.Errorf("%q is not an integer of at least %d or %q", value, least, byServer)
	}
	*field = &n
	return nil
}

// list returns names and values of all parameters.
func (p *parameters) list() [][2]string {
	text := func(set bool, value func() string) string {
		if !set {
			return byServer
		}
		return value()
	}
	return [][2]string{
		{"temperature", text(p.Temperature != nil, func() string { return fmt.Sprint(*p.Temperature) })},
		{"top_p", text(p.TopP != nil, func() string { return fmt.Sprint(*p.TopP) })},
		{"max_tokens", text(p.MaxTokens != nil, func() string { return fmt.Sprint(*p.MaxTokens) })},
		{"seed", text(p.Seed != nil, func() string { return fmt.Sprint(*p.Seed) })},
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
