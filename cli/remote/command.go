package remote

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/cli"
	"parley/internal/load"

	"github.com/spf13/cobra"
)

// ClientHelp is what the help of every command says that asks a server.
const ClientHelp = `Variables:

  PARLEY_URL       the address of the server
  PARLEY_API_KEY   the API key, if the server needs one
  NO_COLOR         disables colour if not empty`

// FindWait bounds how long a server may take to say which models it has.
const FindWait = 5 * time.Second

// CompleteModels makes the shell offer the models of the server, or where none
// answers the built-in ones. The shell waits, so the server has little time.
func CompleteModels(cmd *cobra.Command, flag string, url *string) {
	err := cmd.RegisterFlagCompletionFunc(flag,
		func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
			return offeredModels(cmd.Context(), *url), cobra.ShellCompDirectiveDefault
		})
	if err != nil {
		panic(err) // the flag does not exist: a mistake in the caller
	}
}

func offeredModels(ctx context.Context, url string) (names []string) {
	address, _ := URL(url)
	c, err := New(address)
	if err != nil {
		return cli.BuiltinNames()
	}
	if ctx == nil {
		ctx = context.Background()
	}
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	models, err := c.Models(ctx)
	if err != nil {
		return cli.BuiltinNames()
	}
	for _, m := range models {
		names = append(names, m.ID)
	}
	return names
}

// AskWait bounds how long a server may take to answer a command.
const AskWait = 10 * time.Second

// A Command is a command that asks a server and prints what it said.
type Command struct {
	Address string
	JSON    bool
}

// Add gives a command the flags that all of them have.
func (s *Command) Add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&s.Address, "url", "", "use the server at `ADDRESS` (default "+DefaultURL+", or PARLEY_URL)")
	cmd.Flags().BoolVar(&s.JSON, "json", false, "print as JSON")
	cmd.Long += "\n\n" + ClientHelp
}

// Client returns a client of the server that the flags name.
func (s *Command) Client() (*Client, error) {
	address, _ := URL(s.Address)
	return New(address)
}

// StartHint says what to do where no server answers.
func StartHint(err error) error {
	if errors.Is(err, load.ErrNoServer) {
		return fmt.Errorf("%w: start one with `parley serve`, or name another with --url", err)
	}
	return err
}
