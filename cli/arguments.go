package cli

import (
	"fmt"

	"parley/internal/builtin"

	"github.com/spf13/cobra"
)

// BuiltinNames lists the built-in models.
func BuiltinNames() (names []string) {
	for _, m := range builtin.Models() {
		names = append(names, m.Name)
	}
	return names
}

// Exactly requires n arguments; what describes them.
func Exactly(n int, what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) != n {
			return fmt.Errorf("expected %s, got %d arguments: %w", what, len(args), ErrUsage)
		}
		return nil
	}
}

// Complete makes the shell offer these values for a flag.
func Complete(cmd *cobra.Command, flag string, values []string) {
	err := cmd.RegisterFlagCompletionFunc(flag,
		func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return values, cobra.ShellCompDirectiveNoFileComp
		})
	if err != nil {
		panic(err) // the flag does not exist: a mistake in this file
	}
}
