package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"parley"
	"parley/bench/gatewaycost"
	"parley/gateway/hijack"
	"parley/internal/builtin"
	"parley/token"
	"parley/worker/host"
)

// gatewayFlags are what bench gateway can be told.
type gatewayFlags struct {
	parley, nginx, bifrost, keep string
	before, beforeUpstream       string
	only, profiles               string
	streams, open                int
	quick, json                  bool
}

// costModel is the model that the gateway is measured with: only its tokenizer
// and its template are used.
const costModel = "polly-mini"

func newGateway() *cobra.Command {
	f := &gatewayFlags{}
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Measure what passing the gateway costs, beside nginx",
		Long: `Measure what passing the gateway costs: an upstream that answers at once, Parley's
gateway in front of it with keys, limits, the ledger and routing on, and
nginx with a plain proxy_pass in front of the same upstream; and, as the floor of
what Go can do, the proxy of its own library. All are processes of their own; processor
time and memory are those the system counts for each. The memory of open streams is
measured on every endpoint that streams.

All are measured in turns, five times, and the medians compared, because the speed of a
machine changes. Each measurement has a bar; the exit code is 1 if one is missed.
Bars of processor time are for machines on which nginx takes 21 us for a request that
is not streamed: what is measured is scaled to that, and both are printed. With
--before, an older parley is measured in turns, too, and processor time may be at most
1.05 times of what that takes.`,
		Example: "  parley-bench gateway\n  parley-bench gateway --streams 100000 --keep bench/results\n" +
			"  parley-bench gateway --only 'processor time' --before old/bin/parley",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	addParley(cmd.Flags(), &f.parley)
	cmd.Flags().StringVar(&f.nginx, "nginx", "nginx", "compare with the nginx at this `PATH`; empty compares with none")
	cmd.Flags().StringVar(&f.bifrost, "bifrost", "",
		"compare also with the gateway that already listens at this `URL` in front of --upstream, its process id "+
			"before an @, such as 4711@http://127.0.0.1:9000")
	cmd.Flags().StringVar(&f.before, "before", "", "compare with the older parley at this `PATH`")
	cmd.Flags().StringVar(&f.beforeUpstream, "before-upstream", "",
		"start its upstream with this `COMMAND`, if it does not speak today's protocol between gateways and workers")
	cmd.Flags().StringVar(&f.keep, "keep", "", "keep the report in this `DIRECTORY`")
	cmd.Flags().StringVar(&f.only, "only", "", "make only the measurements whose names contain these `WORDS`")
	cmd.Flags().StringVar(&f.profiles, "profiles", "",
		"keep profiles of the gateway's processor time in this `DIRECTORY`")
	cmd.Flags().IntVar(&f.streams, "streams", 5000, "how many `N` streams must arrive whole")
	cmd.Flags().IntVar(&f.open, "open", 5000, "measure the memory of `N` open streams")
	cmd.Flags().BoolVar(&f.quick, "quick", false, "send a tenth of all, to see that it works")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	cmd.AddCommand(newUpstream(), newProxy())
	return cmd
}

// newProxy is the floor: what a proxy of Go's own costs that does nothing but
// pass on.
func newProxy() *cobra.Command {
	return &cobra.Command{
		Use: "proxy URL", Hidden: true, Short: "Pass everything on, for bench gateway", Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			to, err := url.Parse(args[0])
			if err != nil {
				return err
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "http://%s\n", listener.Addr())
			proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(to) }, FlushInterval: -1,
				Transport: &http.Transport{MaxIdleConnsPerHost: 10_000, DisableCompression: true}}
			// A body that is read while its answer is passed on cuts streams off.
			whole := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
				if err != nil {
					return
				}
				r.Body = io.NopCloser(bytes.NewReader(body))
				proxy.ServeHTTP(w, r)
			})
			server := hijack.NewServer("", whole)
			defer context.AfterFunc(cmd.Context(), func() { _ = server.Close() })()
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
}

// newUpstream is the process that the gateway is measured in front of.
func newUpstream() *cobra.Command {
	var pace time.Duration
	cmd := &cobra.Command{
		Use:    "upstream",
		Hidden: true,
		Short:  "Answer at once, for bench gateway",
		Args:   cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			front, err := costFront()
			if err != nil {
				return err
			}
			said, err := front.Tokenizer.Encode(" the", token.Options{})
			if err != nil {
				return err
			}
			up := &gatewaycost.Upstream{Model: parley.Model{ID: costModel, ContextTokens: front.ContextTokens},
				Token: said[len(said)-1], Text: " the", Pace: pace}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			protocols := new(http.Protocols)
			protocols.SetHTTP1(true)
			protocols.SetUnencryptedHTTP2(true)
			fmt.Fprintf(cmd.OutOrStdout(), "http://%s\n", listener.Addr())
			server := &http.Server{Handler: up.Handler(), Protocols: protocols,
				HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1 << 20}}
			defer context.AfterFunc(cmd.Context(), func() { _ = server.Close() })()
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&pace, "pace", 0, "send a token every `DURATION` (default: the seed in microseconds)")
	return cmd
}

// costFront opens the tokenizer of the model.
func costFront() (*host.Front, error) {
	m, ok := builtin.Find(costModel)
	if !ok {
		return nil, fmt.Errorf("no built-in model %s", costModel)
	}
	checkpoint, err := m.Open()
	if err != nil {
		return nil, err
	}
	return host.OpenFront(host.Candidate{Checkpoint: checkpoint, Config: host.Config{Name: costModel}})
}

func (f *gatewayFlags) run(cmd *cobra.Command) (err error) {
	dir, err := os.MkdirTemp("", "parley-gateway-cost")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(cmd.Context())
	processes := gatewaycost.NewProcesses(ctx)
	defer processes.Wait() // before their directory is removed
	defer stop()
	report := &gatewaycost.Report{Program: program(), Machine: machineText(), Started: time.Now(),
		Setup: "keys, limits of the key and the tenant, ledger in SQLite, prices, a fleet of one worker " +
			"reached by Parley's wire"}
	bench, err := f.setUp(ctx, processes, dir)
	if err != nil {
		return err
	}
	bench.Progress = func(what string) { fmt.Fprintln(cmd.ErrOrStderr(), what) }
	report.Results, err = bench.Run(ctx)
	if len(report.Results) > 0 {
		err = errors.Join(err, f.write(cmd.OutOrStdout(), report))
	}
	if missed := report.Missed(); len(missed) > 0 {
		err = errors.Join(err, fmt.Errorf("above the bar: %s", strings.Join(missed, ", ")))
	}
	return err
}

// setUp starts the processes.
func (f *gatewayFlags) setUp(
	ctx context.Context, processes *gatewaycost.Processes, dir string,
) (*gatewaycost.Bench, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	parley, err := findParley(f.parley)
	if err != nil {
		return nil, err
	}
	upstream, _, err := started(processes, exe, "http://", "gateway", "upstream")
	if err != nil {
		return nil, err
	}
	gateway, err := startGateway(ctx, processes, parley, filepath.Join(dir, "gateway"), upstream)
	if err != nil {
		return nil, err
	}
	b := &gatewaycost.Bench{
		Gateway: gateway,
		Roomy: func(ctx context.Context) (gatewaycost.Target, func(), error) {
			return startRoomy(ctx, exe, parley)
		},
		Direct:   gatewaycost.Target{Name: "upstream", URL: upstream, Model: costModel},
		Requests: 20_000,
		Streams:  1000,
		Open:     f.open,
		Whole:    f.streams,
		Only:     f.only,
		Profiles: f.profiles,
	}
	if f.quick {
		b.Requests, b.Streams, b.Open, b.Whole = 2000, 100, f.open/10, f.streams/10
	}
	if f.before != "" {
		if b.Before, err = f.startBefore(ctx, processes, dir, upstream); err != nil {
			return nil, err
		}
	}
	return b, f.startOthers(ctx, processes, b, exe, dir, upstream)
}

// startOthers starts the proxies that the gateway is compared with.
func (f *gatewayFlags) startOthers(ctx context.Context, processes *gatewaycost.Processes, b *gatewaycost.Bench,
	exe, dir, upstream string) error {
	if f.nginx != "" {
		nginx, err := gatewaycost.StartNginx(ctx, processes, f.nginx, dir, upstream)
		if err != nil {
			return fmt.Errorf("nginx: %w: install it, or leave it out with --nginx ''", err)
		}
		nginx.Model = costModel
		b.Others = append(b.Others, nginx)
	}
	plainURL, plainPID, err := started(processes, exe, "http://", "gateway", "proxy", upstream)
	if err != nil {
		return err
	}
	b.Others = append(b.Others,
		gatewaycost.Target{Name: "plain Go proxy", URL: plainURL, PID: plainPID, Model: costModel})
	if f.bifrost != "" {
		var other gatewaycost.Target
		if _, err := fmt.Sscanf(strings.Replace(f.bifrost, "@", " ", 1), "%d %s", &other.PID, &other.URL); err != nil {
			return fmt.Errorf("--bifrost is %q: write its process id, @ and its URL: %w", f.bifrost, errUsage)
		}
		other.Name, other.Model = "bifrost", costModel
		b.Others = append(b.Others, other)
	}
	return nil
}

// startBefore starts the older program, with an upstream of its own if one is given.
func (f *gatewayFlags) startBefore(ctx context.Context, processes *gatewaycost.Processes,
	dir, upstream string) (*gatewaycost.Target, error) {
	if command := strings.Fields(f.beforeUpstream); len(command) > 0 {
		var err error
		if upstream, _, err = started(processes, command[0], "http://", command[1:]...); err != nil {
			return nil, err
		}
	}
	t, err := startGateway(ctx, processes, f.before, filepath.Join(dir, "before"), upstream)
	t.Name = "before"
	return &t, err
}

// startRoomy starts a gateway without a queue in front of an upstream of its own, which
// sends slowly. All of it ends with stop.
func startRoomy(ctx context.Context, exe, parley string) (t gatewaycost.Target, stop func(), err error) {
	dir, err := os.MkdirTemp("", "parley-gateway-cost")
	if err != nil {
		return t, nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	processes := gatewaycost.NewProcesses(ctx)
	stop = func() {
		cancel()
		processes.Wait()
		_ = os.RemoveAll(dir) // the system empties its temporary directory
	}
	slow, _, err := started(processes, exe, "http://", "gateway", "upstream", "--pace", "500ms")
	if err == nil {
		t, err = startGateway(ctx, processes, parley, dir, slow, "--admission", "off", "--sockets-per-key", "100000")
	}
	if err != nil {
		stop()
	}
	return t, stop, err
}

// startGateway starts a gateway with a store in a directory, and creates a key for it
// with limits that are never reached. It is an admin key, which may fetch profiles.
func startGateway(ctx context.Context, processes *gatewaycost.Processes, parley, dir, upstream string,
	more ...string) (t gatewaycost.Target, err error) {
	t = gatewaycost.Target{Name: "gateway", Model: costModel}
	out, err := exec.CommandContext(ctx, parley, "keys", "create", "bench", "--admin", "--org", "bench", "--tier", "enterprise",
		"--requests-per-second", "1000000", "--requests-per-minute", "100000000",
		"--input-tokens-per-minute", "100000000", "--output-tokens-per-minute", "100000000",
		"--concurrent-requests", "100000", "--monthly-budget", "1000000", "--data", dir, "--json").Output()
	if err != nil {
		return t, fmt.Errorf("%s keys create: %w", parley, err)
	}
	var key struct {
		Value string `json:"value"`
	}
	if err := json.Unmarshal(out, &key); err != nil {
		return t, fmt.Errorf("%s keys create: %w", parley, err)
	}
	t.Key = key.Value
	t.URL, t.PID, err = started(processes, parley, "http://", append([]string{"serve", "--addr", "127.0.0.1:0",
		"--data", dir, "--model", costModel, "--worker", upstream, "--prices", costModel + "=0.10/0.05/0.40",
		"--share", "off", "--queue-depth", "20000", "--slo-tpot", "10s", "--log-level", "error"}, more...)...)
	return t, err
}

// started starts a program and returns the first address that it prints.
func started(processes *gatewaycost.Processes, exe, prefix string, args ...string) (url string, pid int, err error) {
	cmd := processes.Command(exe, args...)
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := processes.Start(cmd, func(err error) { in.CloseWithError(errors.Join(err, io.EOF)) }); err != nil {
		return "", 0, err
	}
	var said []string
	scan := bufio.NewScanner(out)
	for scan.Scan() {
		said = append(said, scan.Text())
		if at := strings.Index(scan.Text(), prefix); at >= 0 && (len(args) < 2 || args[0] != "serve" ||
			strings.Contains(scan.Text(), "ready on")) {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return strings.Fields(scan.Text()[at:])[0], cmd.Process.Pid, nil
		}
	}
	return "", 0, fmt.Errorf("%s %s ended: %s", exe, strings.Join(args, " "), strings.Join(said, "\n"))
}

// write prints the report and keeps it, as the flags say.
func (f *gatewayFlags) write(out io.Writer, report *gatewaycost.Report) error {
	asJSON := func(w io.Writer) error { return printJSON(w, report) }
	var errs []error
	if f.keep != "" {
		base := filepath.Join(f.keep, report.Started.UTC().Format(time.DateOnly)+"-gateway")
		errs = append(errs, os.MkdirAll(f.keep, 0o755), writeFile(base+".txt", report.WriteText))
	}
	if f.json {
		return errors.Join(append(errs, asJSON(out))...)
	}
	return errors.Join(append(errs, report.WriteText(out))...)
}
