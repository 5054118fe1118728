package main

import (
	"errors"
	"fmt"

	"parley/cli"
	"parley/cli/remote"

	"github.com/spf13/cobra"
)

// errNoToken says that there is no link, and why that may be.
var errNoToken = errors.New(
	"no server without keys, started by this user, runs there: if the server has keys, sign in on its page with one")

func newLink() *cobra.Command {
	s := &remote.Command{}
	var admin bool
	cmd := &cobra.Command{
		Use:   "link",
		Short: "Print the sign-in link of a server without keys",
		Long: `Print the link that signs a browser in to a server without keys that you started on this
machine. "parley serve" prints the same link when it starts.`,
		Example: "  parley link\n  parley link --admin\n  xdg-open $(parley link)",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := s.Client()
			if err != nil {
				return err
			}
			path := "/"
			if admin {
				path = "/admin"
			}
			link := remote.PageLink(c.Root, path)
			if link == c.Root+path {
				return fmt.Errorf("%s: %w", c.Root, errNoToken)
			}
			if s.JSON {
				return cli.PrintJSON(cmd.OutOrStdout(), map[string]string{"url": link})
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), link)
			return err
		},
	}
	s.Add(cmd)
	cmd.Flags().BoolVar(&admin, "admin", false, "print the link of the admin page")
	return cmd
}
