package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"parley"
	"parley/bench/gatewaycost"
	"parley/gateway/db"
	"parley/gateway/hijack"
	"parley/gateway/limit"
	"parley/gateway/tenant"
	"parley/internal/builtin"
	"parley/token"
	"parley/worker/host"
)

// gatewayFlags are what bench gateway can be told.
type gatewayFlags struct {
	parley, nginx, bifrost, keep string
	only, profiles               string
	streams                      int
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
what Go can do, the proxy of its own library. All are processes of their own; processor time and memory are those the system counts for each.

All are measured in turns, five times, and the medians compared, because the speed of a
machine changes. Each measurement has a bar; the exit code is 1 if one is missed.
Bars of processor time are for machines on which nginx takes 21 us for a request that
is not streamed: what is measured is scaled to that, and both are printed.`,
		Example: "  parley-bench gateway\n  parley-bench gateway --streams 100000 --keep bench/results",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	addParley(cmd.Flags(), &f.parley)
	cmd.Flags().StringVar(&f.nginx, "nginx", "nginx", "compare with the nginx at this `PATH`; empty compares with none")
	cmd.Flags().StringVar(&f.bifrost, "bifrost", "",
		"compare also with the gateway that already listens at this `URL` in front of --upstream, its process id "+
			"before an @, such as 4711@http://127.0.0.1:9000")
	cmd.Flags().StringVar(&f.keep, "keep", "", "keep the report in this `DIRECTORY`")
	cmd.Flags().StringVar(&f.only, "only", "", "make only the measurements whose names contain these `WORDS`")
	cmd.Flags().StringVar(&f.profiles, "profiles", "",
		"keep profiles of the gateway's processor time in this `DIRECTORY`")
	cmd.Flags().IntVar(&f.streams, "streams", 5000, "how many `N` streams must arrive whole")
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
	return &cobra.Command{
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
				Token: said[len(said)-1], Text: " the"}
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
	crew := gatewaycost.NewCrew(ctx)
	defer crew.Wait() // before their directory is removed
	defer stop()
	report := &gatewaycost.Report{Program: program(), Machine: machineText(), Started: time.Now(),
		Setup: "keys, limits of the key and the tenant, ledger in SQLite, prices, a fleet of one worker " +
			"reached by Parley's wire"}
	bench, err := f.setUp(ctx, crew, dir)
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
func (f *gatewayFlags) setUp(ctx context.Context, crew *gatewaycost.Crew, dir string) (*gatewaycost.Bench, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	parley, err := findParley(f.parley)
	if err != nil {
		return nil, err
	}
	upstream, _, err := started(crew, exe, "http://", "gateway", "upstream")
	if err != nil {
		return nil, err
	}
	key, err := costKey(ctx, filepath.Join(dir, "conversations.db"))
	if err != nil {
		return nil, err
	}
	serve := []string{"serve", "--addr", "127.0.0.1:0", "--data", dir, "--model", costModel, "--worker", upstream,
		"--prices", costModel + "=0.10/0.05/0.40", "--share", "off", "--queue-depth", "20000", "--slo-tpot", "10s",
		"--log-level", "error"}
	url, pid, err := started(crew, parley, "http://", serve...)
	if err != nil {
		return nil, err
	}
	roomyURL, roomyPID, err := started(crew, parley, "http://", append(serve, "--admission", "off")...)
	if err != nil {
		return nil, err
	}
	b := &gatewaycost.Bench{
		Gateway: gatewaycost.Target{
			Name:  "gateway",
			URL:   url,
			Key:   key,
			PID:   pid,
			Model: costModel,
		},
		Roomy: gatewaycost.Target{
			Name:  "gateway",
			URL:   roomyURL,
			Key:   key,
			PID:   roomyPID,
			Model: costModel,
		},
		Direct:   gatewaycost.Target{Name: "upstream", URL: upstream, Model: costModel},
		Requests: 20_000,
		Streams:  1000,
		Open:     5000,
		Whole:    f.streams,
		Only:     f.only,
		Profiles: f.profiles,
	}
	if f.quick {
		b.Requests, b.Streams, b.Open, b.Whole = 2000, 100, 500, f.streams/10
	}
	if f.nginx != "" {
		nginx, err := gatewaycost.StartNginx(ctx, crew, f.nginx, dir, upstream)
		if err != nil {
			return nil, fmt.Errorf("nginx: %w: install it, or leave it out with --nginx ''", err)
		}
		nginx.Model = costModel
		b.Others = append(b.Others, nginx)
	}
	plainURL, plainPID, err := started(crew, exe, "http://", "gateway", "proxy", upstream)
	if err != nil {
		return nil, err
	}
	b.Others = append(b.Others,
		gatewaycost.Target{Name: "plain Go proxy", URL: plainURL, PID: plainPID, Model: costModel})
	if f.bifrost != "" {
		var other gatewaycost.Target
		if _, err := fmt.Sscanf(strings.Replace(f.bifrost, "@", " ", 1), "%d %s", &other.PID, &other.URL); err != nil {
			return nil, fmt.Errorf("--bifrost is %q: write its process id, @ and its URL: %w", f.bifrost, errUsage)
		}
		other.Name, other.Model = "bifrost", costModel
		b.Others = append(b.Others, other)
	}
	return b, nil
}

// costKey makes a key with limits that are never reached.
func costKey(ctx context.Context, path string) (string, error) {
	d, err := db.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer d.Close()
	store, err := tenant.New(ctx, d)
	if err != nil {
		return "", err
	}
	limits := limit.Limits{
		RequestsPerSecond:     1_000_000,
		RequestsPerMinute:     100_000_000,
		InputTokensPerMinute:  100_000_000,
		OutputTokensPerMinute: 100_000_000,
		ConcurrentRequests:    100_000,
		MonthlyBudget:         1_000_000_000_000,
	}
	tier := parley.Enterprise
	_, secret, err := store.CreateKey(ctx,
		tenant.NewKey{Name: "bench", Organization: "bench", Tier: &tier, Limits: limits}, time.Now())
	return secret, err
}

// started starts a program and returns the first address that it prints.
func started(crew *gatewaycost.Crew, exe, prefix string, args ...string) (url string, pid int, err error) {
	cmd := crew.Command(exe, args...)
	out, in := io.Pipe()
	cmd.Stdout, cmd.Stderr = in, in
	if err := crew.Start(cmd, func(err error) { in.CloseWithError(errors.Join(err, io.EOF)) }); err != nil {
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
