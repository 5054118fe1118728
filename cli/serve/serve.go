package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"parley/cli"
	"parley/cli/settings"
	"parley/gateway"
	"parley/gateway/batch"
	"parley/gateway/hijack"
	"parley/gateway/record"
	"parley/internal/gctune"
	"parley/web"

	"github.com/spf13/cobra"
)

// New returns the command `parley serve`.
func New() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve models over the OpenAI API",
		Long: `Serve models over the OpenAI API.

Without flags it serves the models of the model folder (parley pull), each loaded when it
is asked for, and the built-in models polly and polly-mini, on 127.0.0.1:8080. Models may
come and go while it runs. Ctrl-C lets running answers finish; a second Ctrl-C ends at once.`,
		Example: `  parley serve
  parley serve --model llama.gguf --addr 127.0.0.1:9000
  parley serve --model fast=small.gguf --model good=/models/llama-8b
  parley serve --config parley.yaml`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "config", os.Getenv("PARLEY_CONFIG"), "read settings from the YAML `FILE`")
	flags := settings.AddFlags(cmd.Flags())
	cmd.Long += "\n\n" + settings.Sources
	settings.GroupFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s, err := settings.Gather(flags, os.LookupEnv, file)
		if err != nil {
			return err
		}
		return ended(s, run(cmd.Context(), s, noticesOn(s, cmd.ErrOrStderr())))
	}
	return cmd
}

// run runs a server until ctx ends, and then drains it.
func run(ctx context.Context, s *settings.Settings, out io.Writer) (err error) {
	listener, err := listenAt(ctx, s)
	if err != nil {
		return err
	}
	defer listener.Close()
	telemetry, registry := openTelemetry(ctx, s, "parley"), record.NewRegistry()
	defer telemetry.end()
	telemetry.enter(registry)
	log := telemetry.log
	kept, err := openStores(ctx, s, registry, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, kept.close()) }()
	if err := mayListen(listener.Addr(), kept.keys, s); err != nil {
		return err
	}
	if listener, err = speakTLS(listener, s, log); err != nil {
		return err
	}
	behind, err := openBack(ctx, s, registry, log, out)
	defer func() { err = errors.Join(err, behind.close()) }()
	if err != nil {
		return err
	}
	batches, err := openBatches(s, log)
	if err != nil {
		return err
	}
	defer closeBatches(batches)
	folder, err := openModelFolder(s, behind, registry, log)
	defer func() { err = errors.Join(err, folder.close()) }()
	if err != nil {
		return err
	}
	config := s.FrontConfig()
	config.ModelAPI = folder.api(ctx)
	if config.Pages, err = web.New(); err != nil {
		return err
	}
	config.Models, config.Log, config.Registry, config.Batches = behind.served, log, registry, batches
	kept.give(&config)
	config.SaltKey = s.SaltSecret(kept.salt)
	if err := s.CheckTierModels(behind.served); err != nil {
		return err
	}
	config.Fleet, config.FleetAPI = behind.admin(), behind.api
	config.Traces = telemetry.traces
	var unwatch func()
	if config.Safety, unwatch, err = openSafety(ctx, s, log); err != nil {
		return err
	}
	defer unwatch()
	link, forget := makeToken(listener.Addr(), kept.keys.Empty(), &config, log)
	defer forget()
	warnPlain(s, listener.Addr(), kept.keys.Empty(), log)
	front, err := gateway.New(config)
	if err != nil {
		return err
	}
	defer closeNow(front)
	defer inBackground(ctx, front.Observe)()
	defer folder.follow(ctx, front)()
	memory := gctune.New()
	defer inBackground(ctx, memory.Run)()
	greet(out, listener.Addr(), s, behind, kept.keys.Empty(), link)
	return serveUntilDone(ctx, hijack.NewServer(s.Addr, memory.Count(front)), listener, front, s.Drain, out)
}

// openBatches opens where files and batches are kept. While another server uses
// the directory, this one has none.
func openBatches(s *settings.Settings, log *slog.Logger) (*batch.Store, error) {
	store, err := batch.Open(filepath.Join(s.Data, "batch"), batch.Limits{Keep: s.KeepFiles})
	if errors.Is(err, batch.ErrInUse) {
		log.Warn("files and batches disabled: another server uses the data directory; choose another with --data",
			"data", s.Data)
		return nil, nil
	}
	return store, err
}

func closeBatches(store *batch.Store) {
	if store != nil {
		_ = store.Close() // all is written; only the lock goes
	}
}

// serveUntilDone serves until ctx ends, then lets running answers finish for
// at most drain. A second signal ends the process at once.
func serveUntilDone(ctx context.Context, server *http.Server, l net.Listener, front *gateway.Gateway,
	drain time.Duration, out io.Writer) error {
	failed := make(chan error, 1)
	var serving sync.WaitGroup
	serving.Go(func() { failed <- hijack.Serve(server, l) })
	defer serving.Wait()
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	fmt.Fprintf(out, "\nDraining: running answers may finish for up to %s. Press Ctrl-C again to stop at once.\n",
		drain)
	again := make(chan os.Signal, 1)
	signal.Notify(again, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(again)

	front.Drain()
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	done := make(chan error, 1)
	serving.Go(func() {
		err := server.Shutdown(bounded)
		front.Close(bounded)
		done <- errors.Join(err, bounded.Err())
	})
	select {
	case err := <-done:
		if errors.Is(err, context.DeadlineExceeded) {
			fmt.Fprintln(out, "Some answers did not finish in time and were cut off.")
			return server.Close()
		}
		return err
	case <-again:
		return errors.Join(cli.ErrInterrupted, server.Close())
	}
}
