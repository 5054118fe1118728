package chat

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"parley/cli/remote"
)

// errQuit ends a conversation.
var errQuit = errors.New("quit")

// A chatCommand is something to say to the program rather than to the model.
type chatCommand struct {
	name, other string // other is a second name, if there is one
	wants, help string
	run         func(c *chat, argument string) (said string, err error)
}

// chatCommands lists them in the order of /help.
var chatCommands []chatCommand

func init() {
	chatCommands = []chatCommand{
		{"help", "?", "", "list the commands", (*chat).help},
		{"model", "", "[NAME]", "switch the model, or list the models", (*chat).changeModel},
		{"system", "", "[TEXT|none]", "set or show the system prompt", (*chat).changeSystem},
		{"set", "", "[NAME VALUE]", "set " + strings.Join(remote.ParameterNames, ", ") +
			"; the value default resets it",
			(*chat).set},
		{"show", "", "", "show the conversation so far", (*chat).show},
		{"retry", "", "", "generate the last answer again", (*chat).retryLast},
		{"clear", "", "", "clear the conversation", (*chat).clear},
		{"save", "", "NAME [--force]", "save the conversation, under a name or a path", (*chat).saveAs},
		{"load", "", "[NAME]", "continue a saved conversation, or list the saved ones", (*chat).load},
		{"stats", "", "", "show timings of the last answer and the context used", (*chat).stats},
		{"verbose", "", "", "show timings after every answer, or stop showing them", (*chat).toggleVerbose},
		{"quit", "bye", "", "quit; also Ctrl-D", func(*chat, string) (string, error) { return "", errQuit }},
	}
}

// obey carries out a command and returns what to say to the user.
func (c *chat) obey(text string) (said string, err error) {
	name, argument, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(text), "/"), " ")
	name = strings.TrimSpace(name)
	for i := range chatCommands {
		if cmd := &chatCommands[i]; name == cmd.name || name == cmd.other && name != "" {
			return cmd.run(c, strings.TrimSpace(argument))
		}
	}
	return "",
		fmt.Errorf(
			"unknown command /%s: /help lists the commands. To send a text that begins with a slash, begin it "+
				"with two", firstLine(name))
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return line
}

func (c *chat) help(string) (string, error) {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, cmd := range chatCommands {
		fmt.Fprintf(w, "/%s %s\t%s\n", cmd.name, cmd.wants, cmd.help)
	}
	w.Flush()
	return out.String() + `
Alt-Enter, Ctrl-J or \ and Enter begin a new line; """ begins and ends a text of several lines.
Up, Down and Ctrl-R browse the history. Ctrl-G opens your editor. Ctrl-C stops an answer.`, nil
}

func (c *chat) changeModel(name string) (string, error) {
	if name == "" {
		var lines []string
		for _, m := range c.models {
			mark := "  "
			if m.ID == c.talk.Model {
				mark = "* "
			}
			lines = append(lines, mark+m.ID)
		}
		return strings.Join(lines, "\n"), nil
	}
	if err := c.choose(name); err != nil {
		return "", err
	}
	return "Switched to " + name + ".", nil
}

func (c *chat) changeSystem(text string) (string, error) {
	switch text {
	case "":
		return cmp.Or(c.talk.System, "There is no system prompt."), nil
	case "none":
		c.talk.System = ""
		return "The system prompt was removed.", nil
	}
	c.talk.System = text
	return "The system prompt was set.", nil
}

func (c *chat) set(argument string) (string, error) {
	if argument == "" {
		var lines []string
		for _, p := range c.talk.Settings.List() {
			lines = append(lines, fmt.Sprintf("%-12s %s", p[0], p[1]))
		}
		return strings.Join(lines, "\n"), nil
	}
	fields := strings.Fields(strings.Replace(argument, "=", " ", 1))
	if len(fields) != 2 {
		return "", errors.New("usage: /set NAME VALUE, such as /set temperature 0.5")
	}
	return "", c.talk.Settings.Set(fields[0], fields[1])
}

func (c *chat) show(string) (string, error) {
	var out strings.Builder
	if c.talk.System != "" {
		fmt.Fprintf(&out, "system: %s\n\n", c.talk.System)
	}
	for _, m := range c.talk.Messages {
		fmt.Fprintf(&out, "%s: %s\n\n", m.Role, m.Content)
	}
	return printableText(cmp.Or(strings.TrimSpace(out.String()), "The conversation is empty.")), nil
}

func (c *chat) retryLast(string) (string, error) {
	if !c.talk.retry() {
		return "", errors.New("the conversation is empty")
	}
	c.askAgain = true
	return "", nil
}

func (c *chat) clear(string) (string, error) {
	c.talk.Messages, c.last, c.totals, c.loaded = nil, remote.Reply{}, chatTotals{}, ""
	return "Conversation cleared. The model and the settings stay.", nil
}

func (c *chat) saveAs(argument string) (string, error) {
	name, force := strings.CutSuffix(argument, " --force")
	if name = strings.TrimSpace(name); name == "" {
		name = c.loaded
	}
	if name == "" {
		return "", errors.New("usage: /save NAME")
	}
	path := chatFile(c.data, name)
	if err := c.talk.save(path, force || name == c.loaded); err != nil {
		return "", err
	}
	c.loaded = name
	return "Saved to " + path, nil
}

func (c *chat) load(name string) (string, error) {
	if name == "" {
		names := savedChats(c.data)
		if len(names) == 0 {
			return "No saved conversations: /save NAME saves one.", nil
		}
		return strings.Join(names, "\n"), nil
	}
	loaded, err := loadConversation(chatFile(c.data, name))
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("no saved conversation %q: /load lists them", name)
	}
	if err != nil {
		return "", err
	}
	model := c.talk.Model
	c.talk, c.last, c.totals, c.loaded = *loaded, remote.Reply{}, chatTotals{}, name
	said, _ := c.show("")
	if err := c.choose(loaded.Model); err != nil {
		c.talk.Model = model
		said += fmt.Sprintf("\n\n(%v. Continuing with %s.)", err, model)
	}
	return said, nil
}

// savedChats returns the names of the saved conversations, sorted.
func savedChats(data string) (names []string) {
	files, _ := filepath.Glob(filepath.Join(data, "chats", "*.json")) // the pattern is a good one
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ".json"))
	}
	slices.Sort(names)
	return names
}

func (c *chat) stats(string) (string, error) {
	if c.totals.answers == 0 {
		return "There is no answer yet.", nil
	}
	lines := summary(&c.last)
	for _, m := range c.models {
		if u := c.last.Usage; m.ID == c.talk.Model && m.MaxModelLen > 0 && u != nil {
			lines = append(lines, fmt.Sprintf("context: %d of %d tokens used (%d%%)", u.TotalTokens, m.MaxModelLen,
				100*u.TotalTokens/m.MaxModelLen))
		}
	}
	t := &c.totals
	lines = append(lines, fmt.Sprintf("total: %d answers, %d output tokens, %d prompt tokens, %d of them cached",
		t.answers, t.output, t.prompt, t.cached))
	return strings.Join(lines, "\n"), nil
}

func (c *chat) toggleVerbose(string) (string, error) {
	c.verbose = !c.verbose
	if c.verbose {
		return "Timings are shown after each answer.", nil
	}
	return "Timings are no longer shown.", nil
}

// completions returns what a text may become: a command with its argument.
func (c *chat) completions(before string) (out []string) {
	name, argument, has := strings.Cut(before, " ")
	var options []string
	switch {
	case !strings.HasPrefix(before, "/") || strings.Contains(before, "\n"):
		return nil
	case !has:
		for _, cmd := range chatCommands {
			options = append(options, "/"+cmd.name)
		}
		argument, name = before, ""
	case name == "/model":
		options = c.modelNames()
	case name == "/set":
		options = remote.ParameterNames
	case name == "/load" || name == "/save":
		options = savedChats(c.data)
	}
	for _, o := range options {
		if strings.HasPrefix(o, argument) {
			out = append(out, strings.TrimPrefix(name+" "+o, " "))
		}
	}
	return out
}
