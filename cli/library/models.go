package library

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"parley/cli"
	"parley/cli/remote"
	"parley/gateway/openai"

	"github.com/spf13/cobra"
)

// NewModels returns the command `parley models`.
func NewModels() *cobra.Command {
	s := &remote.Command{}
	var available bool
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models of a server, or that can be pulled",
		Long: `List the models of a server, the default one first.

With --available it lists the catalogue instead: models that parley pull takes by a short
name, what they are good at, how much memory they take with a context of 4K and of 32K
tokens, and whether that fits this machine. The models in the model folder are shown by
` + "`parley list`, the built-in ones by `parley model list`.",
		Example: "  parley models\n  parley models --available\n  parley models --json | jq -r '.[].id'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if available {
				return printCatalogue(cmd.OutOrStdout(), s.JSON)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), remote.AskWait)
			defer cancel()
			c, err := s.Client()
			if err != nil {
				return err
			}
			models, err := c.Models(ctx)
			if err != nil {
				return remote.StartHint(err)
			}
			if s.JSON {
				return cli.PrintJSON(cmd.OutOrStdout(), models)
			}
			return printModels(cmd.OutOrStdout(), models)
		},
	}
	s.Add(cmd)
	cmd.Flags().BoolVar(&available, "available", false,
		"list the models of the catalogue that parley pull takes by name")
	return cmd
}

func printModels(out io.Writer, models []openai.Model) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "MODEL\tCONTEXT\tOWNER")
	for _, m := range models {
		context := "unknown"
		if m.MaxModelLen > 0 {
			context = fmt.Sprintf("%d tokens", m.MaxModelLen)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", m.ID, context, m.OwnedBy)
	}
	return w.Flush()
}
