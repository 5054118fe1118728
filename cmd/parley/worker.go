package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/fleet/discover"
	"parley/internal/local"
	"parley/worker"
	"parley/worker/host"
	"parley/worker/wire"
)

// workerAddr is where a worker listens unless told otherwise: vLLM's port.
const workerAddr = "127.0.0.1:8000"

func newWorker() *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Serve one model to gateways",
		Long: `Serve one model to gateways: the engine as a separate process.

It serves the HTTP API of vLLM (completions with token ids, tokenize, health, vllm:
metrics, sleep and wake), and a native protocol for gateways with backpressure and cache
events. For other routers it can publish cache events over ZMQ as vLLM does (--events).
Conversations, keys and limits belong to parley serve. To listen beyond this machine it
needs a --worker-key. See docs/workers.md.

Ctrl-C lets running answers finish.`,
		Example: `  parley worker --model polly
  parley worker --model good=/models/llama-8b --addr 0.0.0.0:8000 --worker-key-file /run/secrets/worker-key
  parley worker --model model.gguf --events 127.0.0.1:5557 --events-replay 127.0.0.1:5558`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().StringVar(&file, "config", os.Getenv("PARLEY_CONFIG"), "read settings from the YAML `FILE`")
	flags := addWorkerFlags(cmd.Flags())
	cmd.Long += "\n\n" + workerSettingsHelp()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		defaults := defaultSettings()
		defaults.addr = workerAddr
		s, err := gatherOver(defaults, flags, os.LookupEnv, file)
		if err != nil {
			return err
		}
		return s.ended(work(cmd.Context(), s, s.noticesOn(cmd.ErrOrStderr())))
	}
	return cmd
}

// workerSettingsHelp lists the variable and the file's key of each setting.
func workerSettingsHelp() string {
	var out strings.Builder
	out.WriteString(
		"Every flag can also be a variable or a key in the --config file; flags take precedence\nover variables, " +
			"variables over the file:\n\n")
	w := tabwriter.NewWriter(&out, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, "  flag\tvariable\tkey in the file")
	for _, s := range workerList() {
		fmt.Fprintf(w, "  --%s\t%s\t%s\n", s.key, s.variable(), s.fileKey())
	}
	w.Flush()
	return strings.TrimRight(out.String(), "\n")
}

// work runs a worker until ctx ends, and then drains it.
func work(ctx context.Context, s *settings, out io.Writer) (err error) {
	if len(s.models) > 1 {
		return fmt.Errorf("a worker serves one model, not %d: start one worker for each", len(s.models))
	}
	if len(s.models) == 0 {
		s.models = []modelPath{{path: "polly"}}
	}
	if err := s.checkEvents(); err != nil {
		return err
	}
	listener, err := listen(ctx, s.addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := s.mayListenForGateways(listener.Addr()); err != nil {
		return err
	}
	log := s.logger()
	if listener, err = speakTLS(listener, s, log); err != nil {
		return err
	}
	if err := os.MkdirAll(s.data, 0o700); err != nil {
		return fmt.Errorf("data directory: %w: choose another with --data", err)
	}
	cfg := s.workerConfig(out)
	traces, endTraces := s.openTraces(ctx, "parley-worker", cfg.Log)
	defer endTraces()
	if traces != nil {
		cfg.Traced = func(a wire.Answer) { traces.Export(answerSpans(&a)) }
	}
	server, err := host.NewServer(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	greetGateways(out, s.scheme()+"://"+listener.Addr().String(), server)
	fmt.Fprint(out, s.clearTextWarning(listener.Addr()), s.eventsWarning())
	wait, err := s.announce(ctx, listener.Addr(), server)
	if err != nil {
		return err
	}
	defer wait()
	front := server.NewHTTPServer()
	err = server.Serve(ctx, front, func() error { return front.Serve(listener) }, s.drain)
	if ctx.Err() != nil {
		fmt.Fprintln(out, "The worker has stopped.")
	}
	return err
}

// workerConfig returns how the model is served under these settings.
func (s *settings) workerConfig(out io.Writer) host.ServerConfig {
	log := s.logger()
	cfg := host.ServerConfig{
		Open: func() (host.Candidate, error) {
			list, err := openModels(s, log)
			if err != nil {
				return host.Candidate{}, err
			}
			return list[0], nil
		},
		Planned:            func(p *host.Plan, available int64) { printPlans(out, []*host.Plan{p}, available) },
		Version:            cli.Version,
		Pool:               s.worker.pool,
		Log:                log,
		Key:                s.workerKey,
		Registers:          len(s.worker.register) > 0,
		ClientCertificates: s.worker.clientCA != "",
		Events:             s.worker.events,
		Replay:             s.worker.replayAddress(),
		Topic:              s.worker.topic,
		EventTokens:        s.worker.eventTokens,
	}
	return cfg
}

// announce registers the worker where the settings say, until ctx ends. The caller
// calls what it returns before the worker ends.
func (s *settings) announce(ctx context.Context, addr net.Addr, server *host.Server) (wait func(), err error) {
	secure, err := clientTLS(s.worker.gatewayCA, nil, s.logger())
	if err != nil {
		return nil, fmt.Errorf("%w (--gateway-ca)", err)
	}
	said := discover.Registration{Address: discover.Address{URL: cmp.Or(s.worker.advertise,
		s.scheme()+"://"+addr.String()), Kind: string(worker.Parley)}, Pool: s.worker.pool}
	if u, err := url.Parse(said.URL); err == nil {
		said.Name = u.Host
	}
	var all sync.WaitGroup
	for _, gateway := range s.worker.register {
		a := discover.Announcer{
			Gateway: gateway,
			Token:   s.joinToken,
			Said:    said,
			Accept:  func(credential string) { server.Accept(gateway, credential) },
			Client:  &http.Client{Transport: &http.Transport{TLSClientConfig: secure()}},
			Log:     s.logger(),
		}
		all.Go(func() { a.Run(ctx) })
	}
	return all.Wait, nil
}

// greetGateways says where the worker is.
func greetGateways(out io.Writer, url string, s *host.Server) {
	fmt.Fprintf(out, "\nParley worker for %s on %s\n", s.Models()[0].ID, url)
	if events, replay := s.EventPorts(); events != 0 {
		fmt.Fprintf(out, "Cache events over ZMQ on port %d, replay on port %d\n", events, replay)
	}
}

// clearTextWarning warns of a worker that other machines reach without TLS.
func (s *settings) clearTextWarning(addr net.Addr) string {
	if s.tlsCert != "" || local.IsLoopback(addr.String()) {
		return ""
	}
	return "WARNING: prompts, answers and keys cross the network in clear text. Use --tls-cert and --tls-key, or a " +
		"trusted network.\n"
}

// mayListenForGateways refuses to serve other machines without a credential: any host
// that reaches the address could use the worker and read what its cache holds.
func (s *settings) mayListenForGateways(addr net.Addr) error {
	tcp, ok := addr.(*net.TCPAddr)
	if s.workerKey != "" || len(s.worker.register) > 0 || s.worker.clientCA != "" || ok && tcp.IP.IsLoopback() {
		return nil
	}
	return fmt.Errorf(
		"%s can be reached from other machines, and the worker has no key: generate one with `openssl rand -hex "+
			"16`, set it on the worker and its gateways with PARLEY_WORKER_KEY or --worker-key-file, or listen "+
			"only on this machine with --addr %s", s.addr, workerAddr)
}
