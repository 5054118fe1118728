package library

import (
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/model/store"
	"parley/model/weights"
	"parley/worker/host"
)

// NewList returns the command `parley list`.
func NewList() *cobra.Command {
	d := &Folder{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the models in the model folder",
		Args:    cobra.NoArgs,
		Long: "List the models in the model folder. Files that you put there yourself are models, too:\n" +
			"NAME.gguf, or a directory NAME with a config.json.",
		Example: "  parley list\n  parley list --json | jq -r '.[].name'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			folder, err := d.open()
			if err != nil {
				return err
			}
			models, err := folder.List()
			if err != nil {
				return err
			}
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), append([]store.Model{}, models...))
			}
			if len(models) == 0 {
				const none = "No models in %s. Pull one: parley pull qwen3:0.6b\n"
				_, err = fmt.Fprintf(cmd.OutOrStdout(), none, folder.Dir)
				return err
			}
			return printFolder(cmd.OutOrStdout(), models)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	d.AddFlags(cmd.Flags())
	return cmd
}

func printFolder(out io.Writer, models []store.Model) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "NAME\tSIZE\tADDED\tSOURCE")
	for _, m := range models {
		added := m.Added.Local().Format(time.DateTime)
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", m.Name, host.Size(m.Bytes), added, cli.OrDash(m.Source))
	}
	return w.Flush()
}

// A shownModel is what show prints.
type shownModel struct {
	store.Model
	Summary weights.Summary `json:"summary"`
}

// NewShow returns the command `parley show`.
func NewShow() *cobra.Command {
	d := &Folder{}
	var asJSON bool
	cmd := &cobra.Command{
		Use:               "show NAME",
		Short:             "Show a model of the model folder: where it came from and what is in it",
		Example:           "  parley show qwen3:0.6b",
		Args:              cli.Exactly(1, "the name of a model"),
		ValidArgsFunction: d.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			folder, err := d.open()
			if err != nil {
				return err
			}
			m, err := folder.Get(args[0])
			if err != nil {
				return err
			}
			ck, err := weights.Open(m.Path)
			if err != nil {
				return err
			}
			defer ck.Close()
			shown := shownModel{m, weights.Describe(ck)}
			if asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), shown)
			}
			out := cmd.OutOrStdout()
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "name\t%s\nsource\t%s\ncommit\t%s\nlicense\t%s\nadded\t%s\npath\t%s\n", m.Name,
				cli.OrDash(m.Source), cli.OrDash(m.Commit), cli.OrDash(m.License),
				m.Added.Local().Format(time.DateTime), m.Path)
			if err := w.Flush(); err != nil {
				return err
			}
			fmt.Fprintln(out)
			printSummary(out, m.Name, &shown.Summary, ck)
			return nil
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	d.AddFlags(cmd.Flags())
	return cmd
}

// NewRm returns the command `parley rm`.
func NewRm() *cobra.Command {
	d := &Folder{}
	cmd := &cobra.Command{
		Use:   "rm NAME...",
		Short: "Remove models from the model folder",
		Long: "Remove models from the model folder. A running server finishes the answers that it is\n" +
			"writing with them, and frees their memory then.",
		Example:           "  parley rm qwen3:0.6b",
		Args:              cobra.MinimumNArgs(1),
		ValidArgsFunction: d.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			folder, err := d.open()
			if err != nil {
				return err
			}
			for _, name := range args {
				if err := folder.Remove(name); err != nil {
					return err
				}
				fmt.Fprintf(cmd.OutOrStdout(), "removed %s\n", name)
			}
			return nil
		},
	}
	d.AddFlags(cmd.Flags())
	return cmd
}

// NewCp returns the command `parley cp`.
func NewCp() *cobra.Command {
	d := &Folder{}
	cmd := &cobra.Command{
		Use:   "cp NAME NEW",
		Short: "Give a model of the model folder a second name",
		Long: "Give a model of the model folder a second name. The files are shared if the file system\n" +
			"supports that, so that they take no extra space; removing one name keeps the other.",
		Example:           "  parley cp qwen3:0.6b assistant",
		Args:              cli.Exactly(2, "a name and a new one"),
		ValidArgsFunction: d.complete,
		RunE: func(cmd *cobra.Command, args []string) error {
			folder, err := d.open()
			if err != nil {
				return err
			}
			m, err := folder.Copy(args[0], args[1])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s is the same as %s\n", m.Name, args[0])
			return nil
		},
	}
	d.AddFlags(cmd.Flags())
	return cmd
}

// complete makes the shell offer the models of the folder.
func (d *Folder) complete(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	folder, err := d.open()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	models, _ := folder.List()
	var names []string
	for _, m := range models {
		names = append(names, m.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
