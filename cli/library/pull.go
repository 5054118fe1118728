package library

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"parley/cli"
	"parley/cli/settings"
	"parley/internal/builtin"
	"parley/model/hub"
	"parley/model/store"
	"parley/model/weights"
	"parley/worker/host"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A Folder is a command about the folder of models.
type Folder struct {
	config string
	data   settings.Flags
}

// AddFlags gives a command the flags that say where the folder is.
func (d *Folder) AddFlags(f *pflag.FlagSet) {
	f.StringVar(&d.config, "config", os.Getenv("PARLEY_CONFIG"), "find the folder by the settings in this YAML `FILE`")
	d.data = settings.AddFlags(f, "data")
}

// open returns the folder that the flags name.
func (d *Folder) open() (*store.Store, error) {
	s, err := d.Settings()
	if err != nil {
		return nil, err
	}
	return s.ModelFolder(), nil
}

// Settings returns the settings of serve, from the flags, its variables and its file.
func (d *Folder) Settings() (*settings.Settings, error) {
	return settings.Gather(d.data, os.LookupEnv, cmp.Or(d.config, os.Getenv("PARLEY_CONFIG")))
}

// SourceHelp says what a model can be pulled from.
const SourceHelp = `A SOURCE is

  qwen3:0.6b                          a name of the catalogue: parley models --available
  hf:Qwen/Qwen3-0.6B-GGUF             a repository of the Hugging Face Hub; of several GGUF
                                      files the best that Parley computes with
  hf:Qwen/Qwen3-0.6B-GGUF:Q8_0        its file of that quantization
  hf:Qwen/Qwen3-0.6B                  its safetensors, if it has no GGUF files
  hf:Qwen/Qwen3-0.6B@v1.0             at a branch, tag or commit
  https://example.com/model.gguf      an address
  model.gguf, a directory             files on this machine

Variables:

  HF_TOKEN         a token for private models and models with terms to accept
  HF_ENDPOINT      a mirror of the Hub, such as one inside your network
  HTTPS_PROXY      a proxy; NO_PROXY lists hosts that need none`

// NewPull returns the command `parley pull`.
func NewPull() *cobra.Command {
	d := &Folder{}
	var name string
	cmd := &cobra.Command{
		Use:   "pull SOURCE",
		Short: "Download a model into the model folder",
		Long: `Download a model into the model folder, where parley serve, run and chat find it by
its name. A download that was interrupted continues where it stopped; checksums are
verified; a running server offers the model as soon as it is complete.

` + SourceHelp,
		Example: `  parley pull qwen3:0.6b
  parley pull hf:Qwen/Qwen3-0.6B-GGUF:Q8_0
  parley pull --name mine ./model.gguf`,
		Args:              cli.Exactly(1, "the source of a model"),
		ValidArgsFunction: CompleteCatalogue,
		RunE: func(cmd *cobra.Command, args []string) error {
			folder, err := d.open()
			if err != nil {
				return err
			}
			m, err := pullModel(cmd.Context(), folder, args[0], name, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s is ready (%s). Talk to it: parley run %s\n", m.Name, host.Size(m.Bytes), m.Name)
			return nil
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "call the model `NAME` (default: its catalogue or source name)")
	d.AddFlags(cmd.Flags())
	return cmd
}

// CompleteCatalogue makes the shell offer the names of the catalogue.
func CompleteCatalogue(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	var names []string
	for _, e := range store.Catalogue() {
		names = append(names, e.Name+"\t"+e.GoodAt)
	}
	return names, cobra.ShellCompDirectiveDefault
}

// pullModel brings a model into the folder, and reports on out how far it is.
func pullModel(ctx context.Context, folder *store.Store, text, name string, out io.Writer) (store.Model, error) {
	source, err := store.ParseSource(text, pathExists)
	if err != nil {
		return store.Model{}, fmt.Errorf("%w: %w", err, cli.ErrUsage)
	}
	bar := cli.NewProgress(out, text, cli.ByteAmount)
	client := hub.FromEnv(os.LookupEnv)
	client.Notify = func(text string) { fmt.Fprintf(out, "%s\n", text) }
	began := false
	p := &store.Puller{
		Store:    folder,
		Client:   client,
		Check:    CheckModel,
		Progress: bar.Update,
		Begin: func(name string, files int, bytes int64) {
			began = true
			bar.Name = name
			if !bar.Terminal {
				fmt.Fprintf(out, "pulling %s: %s, %s\n", name, countOf(files, "file"), host.Size(bytes))
			}
		},
	}
	m, err := p.Pull(ctx, source, name)
	if began {
		bar.Finish()
	}
	if errors.Is(err, context.Canceled) {
		return m, fmt.Errorf("%w: run the same command again to continue", cli.ErrInterrupted)
	}
	return m, err
}

func pathExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func countOf(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// CheckModel refuses a model that this program cannot serve.
func CheckModel(path string) error {
	ck, err := weights.Open(path)
	if err != nil {
		return err
	}
	if problems := weights.Describe(ck).Problems; len(problems) > 0 {
		return errors.Join(errors.New(strings.Join(problems, "; ")), ck.Close())
	}
	_, err = host.OpenFront(host.Candidate{Checkpoint: ck}) // which closes it
	return err
}

// Ensure returns the name of a model that is built in or in the folder; it pulls a
// source that is neither.
func Ensure(ctx context.Context, d *Folder, text string) (string, error) {
	if _, ok := builtin.Find(text); ok {
		return text, nil
	}
	folder, err := d.open()
	if err != nil {
		return "", err
	}
	if m, err := folder.Get(text); err == nil {
		return m.Name, nil
	} else if !errors.Is(err, store.ErrUnknown) {
		return "", err
	}
	m, err := pullModel(ctx, folder, text, "", os.Stderr)
	return m.Name, err
}
