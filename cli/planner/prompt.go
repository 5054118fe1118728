package planner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"parley"
	"parley/cli"
	"parley/cli/remote"
)

// ErrUnstable says that too little of a prompt would be cached.
var ErrUnstable = errors.New("too little of the prompt stays cached")

// NewPrompt returns the command `parley prompt`, which checks that the prompts of an application begin alike, so
// that the cache finds them.
func NewPrompt() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "prompt",
		Short: "Check that the prompts of an application share a prefix",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(newPromptCheck())
	return cmd
}

func newPromptCheck() *cobra.Command {
	s := &remote.Command{}
	least := 0.0
	cmd := &cobra.Command{
		Use:   "check FILE... | DIRECTORY",
		Short: "Show where recorded requests first differ, and how much of them stays cached",
		Long: `Render recorded chat requests with the template of the server's model, and compare the tokens of each with the
one before: where they first differ, in which message, and how much of the prompt would hit the cache. Files are
bodies of POST /v1/chat/completions; the files of a directory are read in the order of their names. The command
fails if a smaller share of a prompt than --least stays cached, so the CI of a client can run it.`,
		Example: "  parley prompt check before.json after.json --least 0.8\n  parley prompt check recorded/",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			files, err := listed(args)
			if err != nil {
				return err
			}
			client, err := s.Client()
			if err != nil {
				return err
			}
			comparisons, err := compareAll(cmd.Context(), client, files)
			if err != nil {
				return remote.StartHint(err)
			}
			if s.JSON {
				err = cli.PrintJSON(cmd.OutOrStdout(), comparisons)
			} else {
				write(cmd.OutOrStdout(), comparisons)
			}
			for _, c := range comparisons {
				if share := c.share(); err == nil && share < least {
					err = fmt.Errorf("%w: %.0f %% of %s, and --least is %.0f %%", ErrUnstable, 100*share, c.File,
						100*least)
				}
			}
			return err
		},
	}
	s.Add(cmd)
	cmd.Flags().Float64Var(&least, "least", 0, "fail if less than this `SHARE` of a prompt stays cached")
	return cmd
}

// listed returns the files of the arguments, at least two.
func listed(args []string) ([]string, error) {
	if len(args) == 1 {
		found, err := filepath.Glob(filepath.Join(args[0], "*.json"))
		if err != nil {
			return nil, err
		}
		args = slices.Sorted(slices.Values(found))
	}
	if len(args) < 2 {
		return nil, fmt.Errorf("two files, or a directory with two or more *.json files, are needed: %w", cli.ErrUsage)
	}
	return args, nil
}

// A comparison is how a request begins, compared with the one before.
type comparison struct {
	File   string `json:"file"`
	Before string `json:"before"`
	// Tokens are those of the prompt, Alike how many it begins with as the one before does, and Cached those of
	// whole blocks, which the cache finds.
	Tokens int `json:"tokens"`
	Alike  int `json:"alike"`
	Cached int `json:"cached"`
	// Where is what differs first: a message or the template. Was and Is are its text from there on.
	Where string `json:"where,omitempty"`
	Was   string `json:"was,omitempty"`
	Is    string `json:"is,omitempty"`
}

func (c *comparison) share() float64 { return float64(c.Cached) / float64(max(1, c.Tokens)) }

// cacheBlock is how many tokens the cache keeps together.
const cacheBlock = 16

// shown is how many bytes of a difference are shown.
const shown = 40

// A rendering is a request as its model sees it.
type rendering struct {
	body   []byte
	text   string
	tokens []parley.Token
}

func compareAll(ctx context.Context, client *remote.Client, files []string) (out []comparison, err error) {
	var before rendering
	for i, file := range files {
		body, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r, err := render(ctx, client, body)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if i > 0 {
			c := compare(&before, &r)
			c.File, c.Before = file, files[i-1]
			out = append(out, c)
		}
		before = r
	}
	return out, nil
}

// render has the server render and tokenize a request.
func render(ctx context.Context, client *remote.Client, body []byte) (rendering, error) {
	r := rendering{body: body}
	var prompt struct{ Prompt string }
	if err := client.Call(ctx, http.MethodPost, "/apply-template", json.RawMessage(body), &prompt); err != nil {
		return r, err
	}
	var named struct{ Model string }
	if err := json.Unmarshal(body, &named); err != nil {
		return r, err
	}
	r.text = prompt.Prompt
	ask := map[string]any{"model": named.Model, "prompt": prompt.Prompt, "add_special_tokens": false}
	var tokens struct{ Tokens []parley.Token }
	err := client.Call(ctx, http.MethodPost, "/tokenize", ask, &tokens)
	r.tokens = tokens.Tokens
	return r, err
}

// compare finds where two prompts differ first.
func compare(before, after *rendering) comparison {
	c := comparison{Tokens: len(after.tokens)}
	for c.Alike < min(len(before.tokens), len(after.tokens)) && before.tokens[c.Alike] == after.tokens[c.Alike] {
		c.Alike++
	}
	c.Cached = c.Alike / cacheBlock * cacheBlock
	at := 0
	for at < min(len(before.text), len(after.text)) && before.text[at] == after.text[at] {
		at++
	}
	if at < max(len(before.text), len(after.text)) {
		c.Where, c.Was, c.Is = place(after, at), excerpt(before.text[at:]), excerpt(after.text[at:])
	}
	return c
}

func excerpt(text string) string { return strings.ToValidUTF8(text[:min(len(text), shown)], "") }

// place says which message of a request has the byte of its rendered text.
func place(r *rendering, at int) string {
	var request struct {
		Messages []struct {
			Role    string
			Content json.RawMessage
		}
	}
	if json.Unmarshal(r.body, &request) != nil {
		return "the template"
	}
	from := 0
	for i, m := range request.Messages {
		var text string
		if json.Unmarshal(m.Content, &text) != nil || text == "" {
			continue
		}
		text = strings.TrimSpace(text) // as many templates do
		begin := strings.Index(r.text[from:], text)
		if begin < 0 {
			continue
		}
		begin += from
		if at >= begin && at <= begin+len(text) {
			return fmt.Sprintf("messages[%d] (%s), byte %d", i, m.Role, at-begin)
		}
		from = begin + len(text)
	}
	return "what the template writes around the messages, such as tools or a date"
}

func write(w io.Writer, comparisons []comparison) {
	for _, c := range comparisons {
		fmt.Fprintf(w, "%s after %s: %d of %d tokens stay cached (%.0f %%), %d are alike\n", c.File, c.Before, c.Cached,
			c.Tokens, 100*c.share(), c.Alike)
		if c.Where != "" {
			fmt.Fprintf(w, "  token %d differs first, in %s: %q became %q\n", c.Alike, c.Where, c.Was, c.Is)
		}
	}
}
