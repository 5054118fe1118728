package serve

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
	"sync"

	"parley"
	"parley/cli"
	"parley/cli/settings"
	"parley/fleet/discover"
	"parley/worker"
	"parley/worker/host"
	"parley/worker/wire"

	"github.com/spf13/cobra"
)

// workerAddr is where a worker listens unless told otherwise: vLLM's port.
const workerAddr = "127.0.0.1:8000"

// NewWorker returns the command `parley worker`.
func NewWorker() *cobra.Command {
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
	flags := settings.AddWorkerFlags(cmd.Flags())
	cmd.Long += "\n\n" + settings.Sources
	settings.GroupFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		defaults := settings.Default()
		defaults.Addr = workerAddr
		s, err := settings.GatherOver(defaults, flags, os.LookupEnv, file)
		if err != nil {
			return err
		}
		return ended(s, work(cmd.Context(), s, noticesOn(s, cmd.ErrOrStderr())))
	}
	return cmd
}

// work runs a worker until ctx ends, and then drains it.
func work(ctx context.Context, s *settings.Settings, out io.Writer) (err error) {
	if len(s.Models) > 1 {
		return fmt.Errorf("a worker serves one model, not %d: start one worker for each", len(s.Models))
	}
	if len(s.Models) == 0 {
		s.Models = []settings.Model{{Path: "polly"}}
	}
	if err := s.CheckEvents(); err != nil {
		return err
	}
	listener, err := listen(ctx, s.Addr)
	if err != nil {
		return err
	}
	defer listener.Close()
	if err := mayListenForGateways(s, listener.Addr()); err != nil {
		return err
	}
	telemetry := openTelemetry(ctx, s, "parley-worker")
	defer telemetry.end()
	log := telemetry.log
	if listener, err = speakTLS(listener, s, log); err != nil {
		return err
	}
	if err := os.MkdirAll(s.Data, 0o700); err != nil {
		return fmt.Errorf("data directory: %w: choose another with --data", err)
	}
	if s.Worker.Role == parley.RolePrefill && s.Target == 0 {
		s.Target = -1 // no answer is written here that long steps would delay
	}
	blocks, err := s.OpenKVStore(log)
	if err != nil {
		return err
	}
	cfg := serverConfig(s, out)
	if blocks != nil {
		cfg.Metrics = blocks.Metrics()
		defer func() { err = errors.Join(err, blocks.Close()) }()
	}
	if cfg.PeerTLS, err = WorkerTLS(s, log); err != nil {
		return err
	}
	if traces := telemetry.traces; traces != nil {
		cfg.Traced = func(a wire.Answer) { traces.Export(answerSpans(&a)) }
	}
	server, err := host.NewServer(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	greetGateways(out, s.Scheme()+"://"+listener.Addr().String(), server)
	fmt.Fprint(out, s.ClearTextWarning(listener.Addr()), s.EventsWarning())
	registered, unregister := context.WithCancel(context.WithoutCancel(ctx)) // others fetch blocks until it has drained
	wait, err := announce(registered, s, listener.Addr(), server)
	if err != nil {
		unregister()
		return err
	}
	defer func() { unregister(); wait() }()
	front := server.NewHTTPServer()
	err = server.Serve(ctx, front, func() error { return front.Serve(listener) }, s.Drain)
	if ctx.Err() != nil {
		fmt.Fprintln(out, "The worker has stopped.")
	}
	return err
}

// serverConfig returns how the model is served under these settings.
func serverConfig(s *settings.Settings, out io.Writer) host.ServerConfig {
	log := s.Logger()
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
		Pool:               s.Worker.Pool,
		Role:               s.Worker.Role,
		Log:                log,
		Key:                s.WorkerKey,
		Registers:          len(s.Worker.Register) > 0,
		ClientCertificates: s.Worker.ClientCA != "",
		Events:             s.Worker.Events,
		Replay:             s.Worker.ReplayAddress(),
		Topic:              s.Worker.Topic,
		EventTokens:        s.Worker.EventTokens,
	}
	return cfg
}

// announce registers the worker where the settings say, until ctx ends. The caller
// calls what it returns before the worker ends.
func announce(ctx context.Context, s *settings.Settings, addr net.Addr, server *host.Server) (wait func(), err error) {
	secure, err := clientTLS(s.Worker.GatewayCA, nil, s.Logger())
	if err != nil {
		return nil, fmt.Errorf("%w (--gateway-ca)", err)
	}
	said := discover.Registration{Address: discover.Address{URL: cmp.Or(s.Worker.Advertise,
		s.Scheme()+"://"+addr.String()), Kind: string(worker.Parley)}, Pool: s.Worker.Pool}
	if u, err := url.Parse(said.URL); err == nil {
		said.Name = u.Host
	}
	var all sync.WaitGroup
	for _, gateway := range s.Worker.Register {
		a := discover.Announcer{
			Gateway: gateway,
			Token:   s.JoinToken,
			Said:    said,
			Accept:  func(credential string) { server.Accept(gateway, credential) },
			Client:  &http.Client{Transport: &http.Transport{TLSClientConfig: secure()}},
			Log:     s.Logger(),
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

// mayListenForGateways refuses to serve other machines without a credential: any host
// that reaches the address could use the worker and read what its cache holds.
func mayListenForGateways(s *settings.Settings, addr net.Addr) error {
	tcp, ok := addr.(*net.TCPAddr)
	if s.WorkerKey != "" || len(s.Worker.Register) > 0 || s.Worker.ClientCA != "" || ok && tcp.IP.IsLoopback() {
		return nil
	}
	return fmt.Errorf(
		"%s can be reached from other machines, and the worker has no key: generate one with `openssl rand -hex "+
			"16`, set it on the worker and its gateways with PARLEY_WORKER_KEY or --worker-key-file, or listen "+
			"only on this machine with --addr %s", s.Addr, workerAddr)
}
