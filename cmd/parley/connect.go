package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/cli/remote"
	"parley/internal/clientconfig"
)

// An app is a program that can be told to use this server.
type app struct {
	name, summary string
	// file returns where its configuration lies.
	file func() (string, error)
	// merge puts the connection into a configuration, which may be empty, and
	// leaves everything else in it alone. Doing so twice changes nothing.
	merge func(old []byte, c *clientconfig.Connection) ([]byte, error)
	// then says what to do once the file is there.
	then func(path string) string
	// promptTokens is how long the app's own prompt is, 0 if it has none to speak of. An
	// answer needs room beside it.
	promptTokens int
}

// apps are the programs that connect knows. Each one's file and keys were read
// from its own documentation; docs/terminal.md says for which versions.
var apps = []app{
	{"codex", "Codex CLI", codexFile, clientconfig.Codex, func(string) string {
		return "codex --profile parley"
	}, 8500},
	{"claude-code", "Claude Code", claudeFile, clientconfig.Claude, func(path string) string {
		return "claude --settings " + path
	}, 28000},
	{"continue", "Continue, in VS Code and JetBrains", homeFile(".continue", "config.yaml"), clientconfig.Continue,
		func(string) string {
			return "reload the editor window, and choose the model in Continue"
		}, 0},
	{"open-webui", "Open WebUI", localFile("open-webui.env"), clientconfig.OpenWebUI, func(path string) string {
		return "set -a; . " + path + "; open-webui serve      (or docker run --network host --env-file " + path +
			" ...; read only at its first start)"
	}, 0},
	{"vscode", "Chat in VS Code 1.122 or newer", vscodeFile, clientconfig.VSCode, func(string) string {
		return "choose the model in the chat's model picker"
	}, 0},
}

func appNames() (names []string) {
	for _, a := range apps {
		names = append(names, a.name)
	}
	return names
}

func newConnect() *cobra.Command {
	s := &remote.Command{}
	var model, file string
	var write bool
	cmd := &cobra.Command{
		Use:   "connect {" + strings.Join(appNames(), "|") + "}",
		Short: "Configure another program to use this server",
		Long: `Print the configuration that makes another program use this server, or install it
with --write. Existing settings are preserved, and the previous file is kept with the
suffix .bak.

` + appTable() + `
Codex and Claude Code get a separate profile, so that their defaults do not change. A key in
PARLEY_API_KEY is written into the file, except for Codex, which reads the variable itself.`,
		Example: `  parley connect codex
  parley connect codex --write && codex --profile parley
  parley connect claude-code --write --model llama
  parley connect claude-code --write --file ~/.claude/settings.json     for every session`,
		Args:      cli.Exactly(1, "one of "+strings.Join(appNames(), ", ")),
		ValidArgs: appNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			i := slices.IndexFunc(apps, func(a app) bool { return a.name == args[0] })
			if i < 0 {
				return fmt.Errorf("%q is not one of %s: %w", args[0], strings.Join(appNames(), ", "), cli.ErrUsage)
			}
			c, err := connection(cmd.Context(), s, model, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if err := apps[i].fits(c.Model); err != nil {
				return err
			}
			return apps[i].connect(c, file, write, s.JSON, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&model, "model", "m", "", "use `MODEL` (default: the server's first)")
	cmd.Flags().BoolVar(&write, "write", false, "write the file")
	cmd.Flags().StringVar(&file, "file", "", "write `FILE` instead of the default one")
	s.Add(cmd)
	remote.CompleteModels(cmd, "model", &s.Address)
	return cmd
}

// answerTokens is the room that an agent needs beside its own prompt: for a question, a file and an answer.
const answerTokens = 4000

// fits refuses a model whose context cannot hold the app's own prompt, with which every request would fail.
func (a *app) fits(m clientconfig.Model) error {
	if least := a.promptTokens + answerTokens; a.promptTokens > 0 && m.ContextTokens > 0 && m.ContextTokens < least {
		return fmt.Errorf("the model %s has a context of %d tokens, and %s needs %d: its own prompt has about %d; "+
			"choose another with --model", m.ID, m.ContextTokens, a.summary, least, a.promptTokens)
	}
	return nil
}

func appTable() string {
	var out strings.Builder
	for _, a := range apps {
		path, err := a.file()
		if err != nil {
			path = "unknown"
		}
		if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(path, home) {
			path = "~" + strings.TrimPrefix(path, home)
		}
		fmt.Fprintf(&out, "  %-12s %-35s %s\n", a.name, a.summary, path)
	}
	return out.String()
}

// connection asks the server what it has. A server that does not run is assumed
// to have the built-in model, or the one named.
func connection(ctx context.Context, s *remote.Command, model string,
	notes io.Writer) (*clientconfig.Connection, error) {
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	out := &clientconfig.Connection{Root: c.Root, Key: c.Key}
	ctx, cancel := context.WithTimeout(ctx, remote.FindWait)
	defer cancel()
	models, err := c.Models(ctx)
	if err != nil {
		out.Model = clientconfig.Model{ID: cmp.Or(model, cli.BuiltinNames()[0])}
		out.Models = []clientconfig.Model{out.Model}
		fmt.Fprintf(notes, "Note: %v; assuming it will have the model %s.\n", err, out.Model.ID)
		return out, nil
	}
	for _, m := range models {
		out.Models = append(out.Models, clientconfig.Model{ID: m.ID, ContextTokens: m.MaxModelLen})
	}
	for _, m := range out.Models {
		if model == "" || m.ID == model {
			out.Model = m
			return out, nil
		}
	}
	return nil, fmt.Errorf("%s has no model %q: `parley models` lists its models", c.Root, model)
}

// A connectReport is what connect prints as JSON.
type connectReport struct {
	Client  string `json:"client"`
	File    string `json:"file"`
	Content string `json:"content"`
	Written bool   `json:"written"`
	Backup  string `json:"backup,omitempty"`
	Then    string `json:"then"`
}

// connect prints the configuration, or writes it.
func (a *app) connect(c *clientconfig.Connection, file string, write, asJSON bool, out io.Writer) (err error) {
	if file == "" {
		if file, err = a.file(); err != nil {
			return err
		}
	}
	done := connectReport{Client: a.name, File: file, Then: a.then(file)}
	var content []byte
	if write {
		content, err = a.write(c, file, &done)
	} else {
		content, err = a.merge(nil, c)
	}
	if err != nil {
		return err
	}
	done.Content = string(content)
	switch {
	case asJSON:
		return cli.PrintJSON(out, done)
	case write:
		fmt.Fprintln(out, done.summary())
		fmt.Fprintln(out, "Next:", done.Then)
		return nil
	}
	_, err = fmt.Fprintf(out, "%s", content)
	return err
}

func (c *connectReport) summary() string {
	switch {
	case !c.Written:
		return c.File + " is already up to date."
	case c.Backup != "":
		return "Wrote " + c.File + "; the previous version is " + c.Backup + "."
	}
	return "Wrote " + c.File + "."
}

// write merges the connection into the file and keeps the file as it was.
func (a *app) write(c *clientconfig.Connection, file string, done *connectReport) ([]byte, error) {
	if target, err := filepath.EvalSymlinks(file); err == nil {
		file = target // the link stays a link
	}
	mode := os.FileMode(0o600) // there may be a key in it
	old, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if st, err := os.Stat(file); err == nil {
		mode = st.Mode().Perm()
	}
	content, err := a.merge(old, c)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: the file was not changed; `parley connect %s` prints what to add", file, err,
			a.name)
	}
	if string(content) == string(old) {
		return content, nil
	}
	if len(old) > 0 {
		if done.Backup, err = keepBackup(file, old, mode); err != nil {
			return nil, err
		}
	} else if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	done.Written = true
	return content, cli.WriteWholeMode(context.Background(), file, mode, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// keepBackup writes what a file holds beside it, under a name that is free.
func keepBackup(file string, content []byte, mode os.FileMode) (string, error) {
	for i := 1; ; i++ {
		path := file + ".bak"
		if i > 1 {
			path = fmt.Sprintf("%s.bak%d", file, i)
		}
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return "", err
		}
		_, err = f.Write(content)
		return path, errors.Join(err, f.Close())
	}
}

// homeFile returns a file below the user's home directory.
func homeFile(elements ...string) func() (string, error) {
	return func() (string, error) {
		home, err := os.UserHomeDir()
		return filepath.Join(append([]string{home}, elements...)...), err
	}
}

func localFile(name string) func() (string, error) {
	return func() (string, error) { return name, nil }
}

// dirFile returns a file in the directory that a variable names, else below the
// home directory.
func dirFile(variable, file string, usual ...string) (string, error) {
	if dir := os.Getenv(variable); dir != "" {
		return filepath.Join(dir, file), nil
	}
	return homeFile(append(usual, file)...)()
}

func codexFile() (string, error)  { return dirFile("CODEX_HOME", "parley.config.toml", ".codex") }
func claudeFile() (string, error) { return dirFile("CLAUDE_CONFIG_DIR", "parley.json", ".claude") }

func vscodeFile() (string, error) {
	const name = "chatLanguageModels.json"
	if runtime.GOOS == "darwin" {
		return homeFile("Library", "Application Support", "Code", "User", name)()
	}
	if dir := os.Getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "Code", "User", name), nil
	}
	return homeFile(".config", "Code", "User", name)()
}
