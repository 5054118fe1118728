package chat

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"parley/cli"
	"parley/cli/library"
	"parley/cli/remote"
	"parley/cli/serve"
	"parley/gateway/openai"
	"parley/internal/load"
	"parley/internal/term"

	"github.com/spf13/cobra"
)

// chatFlags are what the command line of chat says.
type chatFlags struct {
	model, url, system, format, think string
	set                               []string
	verbose, json                     bool
	// pulled says that the model may have come this moment.
	pulled bool
	// folderCommand says where models are that this program loads itself.
	library.Folder
}

// New returns the command `parley chat`.
func New() *cobra.Command {
	f := &chatFlags{}
	cmd := &cobra.Command{
		Use:   "chat [PROMPT...]",
		Short: "Chat with a model, in the terminal or in a pipe",
		Long: `Chat with a model. Uses the server at --url; if no server runs at the default address,
loads the models into this process.

With a PROMPT, prints one answer and exits. Piped text is appended to the prompt. Only
the answer goes to standard output; everything else goes to standard error.

Without a PROMPT, starts a conversation:

  Enter             send
  Alt-Enter Ctrl-J  new line; so is \ at the end of a line, followed by Enter
  """               begin and end a text of several lines
  Up Down Ctrl-R    browse and search the history
  Tab               complete commands, models and file names
  Ctrl-G            edit the text in $VISUAL or $EDITOR
  Ctrl-C            stop an answer and keep its text so far; discard what was typed;
                    twice at an empty prompt, quit
  Ctrl-D /quit      quit
  /help             list the commands

Pasted text, even of several lines, is not sent before Enter is pressed.`,
		Example: `  parley chat                                          a conversation
  parley chat --model llama.gguf                       with your own model, no server needed
  parley chat "What is the capital of France?"         one answer
  git diff | parley chat "write a commit message"      a prompt and text from a pipe
  parley chat --format json "three colours as JSON" | jq .`,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.model, "model", "m", "",
		"use `MODEL`, one of the server's models or the path of a file to load (default: the server's first)")
	flags.StringVar(&f.url, "url", "", "use the server at `ADDRESS` (default "+remote.DefaultURL+", or PARLEY_URL)")
	flags.StringVar(&f.system, "system", "", "set the system prompt to `TEXT`")
	flags.StringArrayVar(&f.set, "set", nil,
		"set the sampling parameter `NAME=VALUE`, one of "+strings.Join(remote.ParameterNames, ", ")+"; repeatable")
	flags.StringVar(&f.format, "format", "", "constrain the answer to `FORMAT`: json, or the path of a JSON schema")
	flags.StringVar(&f.think, "think", "", "switch a reasoning model's thinking `on|off` (default: the model's own)")
	flags.BoolVarP(&f.verbose, "verbose", "v", false, "print timings and cache usage to standard error")
	flags.BoolVar(&f.json, "json", false, "print the answer, usage and timings as one JSON document")
	remote.CompleteModels(cmd, "model", &f.url)
	cli.Complete(cmd, "think", []string{"on", "off"})
	cli.Complete(cmd, "set", []string{"temperature=", "top_p=", "max_tokens=", "seed="})
	cmd.Long += "\n\n" + remote.ClientHelp
	cmd.RunE = func(cmd *cobra.Command, args []string) error { return runChat(cmd.Context(), f, args) }
	return cmd
}

// A chat is one run of the command.
type chat struct {
	talk   transcript
	client *remote.Client
	models []openai.Model
	where  string // in words
	data   string
	demands
	verbose  bool
	color    bool
	last     remote.Reply
	totals   chatTotals
	loaded   string // the name under which the conversation was saved or loaded
	askAgain bool   // the last question is to be asked
}

// demands are what the flags ask of every answer.
type demands struct {
	format   any
	template any // what the model's chat template is told
}

// chatTotals add up what a conversation cost.
type chatTotals struct{ answers, prompt, cached, output int }

// runChat answers one prompt, or holds a conversation.
func runChat(ctx context.Context, f *chatFlags, args []string) (err error) {
	c := &chat{data: cli.DataDir(), verbose: f.verbose, color: colored(os.Stdout), talk: transcript{System: f.system}}
	if err := c.settle(f); err != nil {
		return err
	}
	prompt, err := readPrompt(strings.Join(args, " "), os.Stdin)
	if err != nil {
		return err
	}
	interactive := prompt == "" && term.IsTerminal(os.Stdin)
	switch {
	case interactive && !term.IsTerminal(os.Stdout):
		return fmt.Errorf("no prompt, and standard input is not a terminal: run parley chat \"your question\": %w",
			cli.ErrUsage)
	case interactive && f.json:
		return fmt.Errorf("--json needs a prompt: run parley chat --json \"your question\": %w", cli.ErrUsage)
	case prompt == "" && !interactive:
		return fmt.Errorf("no prompt: the pipe was empty: %w", cli.ErrUsage)
	}
	closing, err := c.connect(ctx, f, interactive)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closing()) }()
	if interactive {
		return c.converse(ctx)
	}
	return c.once(ctx, prompt, f.json)
}

// settle reads the flags that can be wrong before anything is loaded.
func (c *chat) settle(f *chatFlags) (err error) {
	for _, s := range f.set {
		name, value, _ := strings.Cut(s, "=")
		if err := c.talk.Settings.Set(name, value); err != nil {
			return fmt.Errorf("--set %s: %w: %w", s, err, cli.ErrUsage)
		}
	}
	switch f.think {
	case "":
	case "on", "off":
		c.template = map[string]bool{"enable_thinking": f.think == "on"}
	default:
		return fmt.Errorf("--think %s: use on or off: %w", f.think, cli.ErrUsage)
	}
	c.format, err = formatOf(f.format)
	return err
}

// shape gives a question the demands.
func (c *demands) shape(q *remote.Question) { q.ResponseFormat, q.Template = c.format, c.template }

// formatOf returns the member of a request that asks for a format.
func formatOf(flag string) (any, error) {
	switch flag {
	case "":
		return nil, nil
	case "json":
		return map[string]string{"type": "json_object"}, nil
	}
	schema, err := os.ReadFile(flag)
	if err != nil {
		return nil, fmt.Errorf("--format: expected json or the path of a JSON schema: %w: %w", err, cli.ErrUsage)
	}
	if !json.Valid(schema) {
		return nil, fmt.Errorf("--format: %s is not valid JSON: %w", flag, cli.ErrUsage)
	}
	return map[string]any{"type": "json_schema",
		"json_schema": map[string]any{"name": "answer", "schema": json.RawMessage(schema)}}, nil
}

// pipedBytesMax bounds what is read from a pipe. It is more than a server takes.
const pipedBytesMax = 16 << 20

// readPrompt joins the prompt with what is piped in, if anything is.
func readPrompt(prompt string, in *os.File) (string, error) {
	if term.IsTerminal(in) {
		return prompt, nil
	}
	piped, err := io.ReadAll(io.LimitReader(in, pipedBytesMax+1))
	if err != nil {
		return "", fmt.Errorf("standard input: %w", err)
	}
	if len(piped) > pipedBytesMax {
		return "", fmt.Errorf("the piped text exceeds %d MiB: send less", pipedBytesMax>>20)
	}
	text := strings.TrimSpace(strings.ToValidUTF8(string(piped), "\uFFFD"))
	if prompt == "" || text == "" {
		return prompt + text, nil
	}
	return prompt + "\n\n" + text, nil
}

// colored reports whether styles may be written to a file.
func colored(f *os.File) bool {
	return os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb" && term.IsTerminal(f)
}

// connect finds a server, or starts one in this process where none was named
// and none runs. The caller must call closing.
func (c *chat) connect(ctx context.Context, f *chatFlags, interactive bool) (closing func() error, err error) {
	address, named := remote.URL(f.url)
	if c.client, err = remote.New(address); err != nil {
		return nil, err
	}
	_, statErr := os.Stat(f.model)
	isFile := f.model != "" && statErr == nil
	bounded, cancel := context.WithTimeout(ctx, remote.FindWait)
	defer cancel()
	if named || !isFile {
		c.models, err = c.client.Models(bounded)
		if err == nil {
			c.where = "at " + c.client.Root
			return func() error { return nil }, c.awaitModel(ctx, f.model, f.pulled)
		}
	}
	if errors.Is(err, remote.ErrWantsKey) {
		return nil, err
	}
	if named {
		return nil, fmt.Errorf(
			"%w: start one there with `parley serve`, or omit --url and PARLEY_URL to run without a server", err)
	}
	if ctx.Err() != nil {
		return nil, cli.ErrInterrupted
	}
	return c.startInside(ctx, f, interactive)
}

func (c *chat) startInside(ctx context.Context, f *chatFlags, interactive bool) (func() error, error) {
	model := f.model
	if interactive {
		fmt.Fprintf(os.Stderr, "%s\n", c.pale("No server is running; loading the model into this process."))
	}
	s, err := f.Folder.Settings()
	if err != nil {
		return nil, err
	}
	inside, client, err := serve.StartInside(model, s)
	if err != nil {
		return nil, err
	}
	c.client, c.where = client, "loaded into this process"
	if c.models, err = client.Models(ctx); err != nil {
		return nil, errors.Join(err, inside.Close())
	}
	if _, err := os.Stat(model); err == nil {
		model = "" // its name is what the file says
	}
	if err := c.choose(model); err != nil {
		return nil, errors.Join(err, inside.Close())
	}
	return inside.Close, nil
}

// choose settles the model, which the server must have.
func (c *chat) choose(model string) error {
	if len(c.models) == 0 {
		return errors.New("the server has no models")
	}
	model = cmp.Or(model, c.models[0].ID)
	for _, m := range c.models {
		if m.ID == model {
			c.talk.Model = model
			return nil
		}
	}
	return fmt.Errorf("no model %q %s; available: %s", model, c.where, strings.Join(c.modelNames(), ", "))
}

func (c *chat) modelNames() (names []string) {
	for _, m := range c.models {
		names = append(names, m.ID)
	}
	return names
}

// once answers one prompt on standard output.
func (c *chat) once(ctx context.Context, prompt string, asJSON bool) error {
	c.talk.ask(prompt)
	q := c.talk.question()
	c.shape(&q)
	prose := term.Prose{Columns: term.Columns(os.Stdout), Color: c.color}
	waits := waitLine{out: os.Stderr, columns: func() int { return term.Columns(os.Stderr) }, pale: c.pale}
	handlers := remote.Handlers{Text: func(text string, thought bool) error {
		if thought || asJSON {
			return nil
		}
		waits.clear()
		if prose.Columns > 0 {
			prose.Columns = term.Columns(os.Stdout)
			text = prose.Add(text)
		}
		_, err := os.Stdout.WriteString(text)
		return err
	}}
	if q.Progress = term.IsTerminal(os.Stderr) && obeysCodes() && c.reports(); q.Progress {
		handlers.Progress = waits.show
	}
	r, err := c.client.Ask(ctx, q, handlers)
	waits.clear()
	c.last = r
	if asJSON && err == nil {
		return cli.PrintJSON(os.Stdout, r)
	}
	if prose.Columns > 0 {
		fmt.Print(prose.End())
	} else if r.Text != "" && !strings.HasSuffix(r.Text, "\n") {
		fmt.Println()
	}
	if c.verbose && err == nil {
		fmt.Fprintln(os.Stderr, strings.Join(summary(&c.last), "; "))
	}
	if errors.Is(err, context.Canceled) {
		return cli.ErrInterrupted
	}
	return err
}

// historyFile is where what was typed is kept between runs.
func (c *chat) historyFile() string { return filepath.Join(c.data, "chat_history") }

// pale is text as an aside.
func (c *chat) pale(text string) string {
	if !c.color {
		return text
	}
	return "\x1b[2m" + text + "\x1b[0m"
}

// explain says what to do about an error of a conversation.
func explain(err error) string {
	switch {
	case errors.Is(err, load.ErrNoServer):
		return fmt.Sprintf("%v. Nothing is lost: restart the server and type /retry.", err)
	case errors.Is(err, remote.ErrCut):
		return fmt.Sprintf("%v. The text so far stays in the conversation; type /retry for a new answer.",
			remote.ErrCut)
	}
	return fmt.Sprintf("%v. Type /retry to send your question again.", err)
}
