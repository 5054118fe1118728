// Command parley serves large language models: one binary with a
// ChatGPT-style API in front and an inference engine behind it.
//
// This package wires the others together and talks to the person at the
// terminal. It decides nothing.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"parley/cli"
	"parley/cli/bench"
	"parley/cli/chat"
	"parley/cli/doctor"
	"parley/cli/drill"
	"parley/cli/fleetctl"
	"parley/cli/keys"
	"parley/cli/library"
	"parley/cli/monitor"
	"parley/cli/planner"
	"parley/cli/serve"
	"parley/cli/settings"
	"parley/cli/simulate"
	"parley/cli/users"
	"parley/internal/suggest"
)

func main() { os.Exit(run(slices.Clone(os.Args[1:]))) }

// run carries out a command line and returns the exit code.
func run(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	settings.RedactArguments(os.Args)
	root := newRoot()
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err != nil && !serve.IsTold(err) {
		fmt.Fprintln(os.Stderr, "parley:", err)
	}
	return exitCode(err)
}

// exitCodesLine ends every help.
const exitCodesLine = "\nExit codes: 0 success, 1 failure, 2 usage error, 3 no server, 130 interrupted; see parley " +
	"help exit-codes."

// newRoot returns the command line. It sets none of cobra's templates: with them the
// linker keeps every exported method of every type, a sixth of the program.
func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:   "parley",
		Short: "Serve large language models over the OpenAI API",
		Long: `Parley serves large language models over the OpenAI API, from one binary.

It includes two small models, so these work right away:

  parley chat
  parley serve`,
		Example: `  parley chat                                   chat with a model, with or without a server
  parley run qwen3:0.6b                         pull a real model and talk with it
  parley serve                                  serve all models of the model folder on 127.0.0.1:8080
  parley serve --model mine=model.gguf          serve your own model under the name "mine"
  parley bench --users 8                        measure the server in another terminal
  parley model inspect model.gguf               show the contents and memory needs of a model file
  parley plan --model llama-3-70b --tp 8        how many GPUs a load needs, and what they cost`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Version:       strings.TrimPrefix(cli.ThisBuild().String(), "parley "),
	}
	root.SetFlagErrorFunc(flagError)
	root.AddCommand(
		serve.New(), serve.NewWorker(), chat.New(), chat.NewRun(), library.NewPull(), library.NewList(),
		library.NewShow(),
		library.NewRm(), library.NewCp(),
		monitor.NewPs(), monitor.NewTop(), newLink(), drill.New(), doctor.New(), keys.NewUsage(), keys.NewAudit(),
		library.NewModels(),
		newConnect(), keys.New(), users.New(), users.NewOrgs(), library.NewModel(), bench.New(), planner.New(),
		simulate.New(), fleetctl.New(), planner.NewPrompt(), newVersion(),
		newLicenses(), newMan(), newExitCodes(), newConfig(),
	)
	help := root.HelpFunc()
	root.SetHelpFunc(func(cmd *cobra.Command, args []string) {
		help(cmd, args)
		fmt.Fprintln(cmd.OutOrStdout(), exitCodesLine)
	})
	return root
}

// flagError explains what is wrong with the flags of a command, and names the flag that a mistyped one may stand for.
func flagError(cmd *cobra.Command, err error) error {
	if missing, ok := errors.AsType[*pflag.NotExistError](err); ok && missing.GetSpecifiedShortnames() == "" {
		var names []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
		if meant := suggest.Name(missing.GetSpecifiedName(), names); meant != "" {
			return fmt.Errorf("%w: did you mean --%s? %w", err, meant, cli.ErrUsage)
		}
	}
	return fmt.Errorf("%w: %w", err, cli.ErrUsage)
}
