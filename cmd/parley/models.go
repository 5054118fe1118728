package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/gateway/openai"
)

// askWait bounds how long a server may take to answer a command.
const askWait = 10 * time.Second

// A serverCommand is a command that asks a server and prints what it said.
type serverCommand struct {
	url    string
	asJSON bool
}

// add gives a command the flags that all of them have.
func (s *serverCommand) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.url, "url", "", "use the server at `ADDRESS` (default "+defaultURL+", or PARLEY_URL)")
	cmd.Flags().BoolVar(&s.asJSON, "json", false, "print as JSON")
	cmd.Long += "\n\n" + clientHelp
}

// client returns a client of the server that the flags name.
func (s *serverCommand) client() (*client, error) {
	address, _ := serverURL(s.url)
	return newClient(address)
}

func newModels() *cobra.Command {
	s := &serverCommand{}
	var available bool
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models of a server, or that can be pulled",
		Long: `List the models of a server, the one that is asked by default first.

With --available it lists the catalogue instead: models that parley pull takes by a short
name, what they are good at, how much memory they take with a context of 4K and of 32K
tokens, and whether that fits this machine. The models in the model folder are shown by
` + "`parley list`, the built-in ones by `parley model list`.",
		Example: "  parley models\n  parley models --available\n  parley models --json | jq -r '.[].id'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if available {
				return printCatalogue(cmd.OutOrStdout(), s.asJSON)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), askWait)
			defer cancel()
			c, err := s.client()
			if err != nil {
				return err
			}
			models, err := c.models(ctx)
			if err != nil {
				return startHint(err)
			}
			if s.asJSON {
				return cli.PrintJSON(cmd.OutOrStdout(), models)
			}
			return printModels(cmd.OutOrStdout(), models)
		},
	}
	s.add(cmd)
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
