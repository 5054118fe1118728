package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
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
	"parley/gateway"
	"parley/gateway/db"
	"parley/gateway/limit"
	"parley/gateway/tenant"
	"parley/internal/toll"
	"parley/token"
	"parley/worker/host"
)

// gatewayFlags are what bench gateway can be told.
type gatewayFlags struct {
	nginx, bifrost, keep string
	only, profiles       string
	streams              int
	quick, json          bool
}

// tollModel is the model that the gateway is measured with: only its tokenizer
// and its template are used.
const tollModel = "polly-mini"

func newBenchGateway() *cobra.Command {
	f := &gatewayFlags{}
	cmd := &cobra.Command{
		Use:   "gateway",
		Short: "Measure what passing the gateway costs, beside nginx",
		Long: `Measure what passing the gateway costs: an upstream that answers at once, this
program's gateway in front of it with keys, limits, the ledger and routing on, and
nginx with a plain proxy_pass in front of the same upstream; and, as the floor of
what Go can do, the proxy of its own library. All are processes of their own; processor time and memory are those the system counts for each.

All are measured in turns, five times, and the medians compared, because the speed of a
machine changes. Each measurement has a bar; the exit code is 1 if one is missed.
Bars of processor time are for machines on which nginx takes 21 us for a request that
is not streamed: what is measured is scaled to that, and both are printed.`,
		Example: "  parley bench gateway\n  parley bench gateway --streams 100000 --keep bench",
		Args:    cobra.NoArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return f.run(cmd) },
	}
	cmd.Flags().StringVar(&f.nginx, "nginx", "nginx", "compare with the nginx at this `PATH`; empty compares with none")
	cmd.Flags().StringVar(&f.bifrost, "bifrost", "", "compare also with the gateway that already listens at this `URL` in front of --upstream, its process id before an @, such as 4711@http://127.0.0.1:9000")
	cmd.Flags().StringVar(&f.keep, "keep", "", "keep the report in this `DIRECTORY`")
	cmd.Flags().StringVar(&f.only, "only", "", "make only the measurements whose names contain these `WORDS`")
	cmd.Flags().StringVar(&f.profiles, "profiles", "", "keep profiles of the gateway's processor time in this `DIRECTORY`")
	cmd.Flags().IntVar(&f.streams, "streams", 5000, "how many `N` streams must arrive whole")
	cmd.Flags().BoolVar(&f.quick, "quick", false, "send a tenth of all, to see that it works")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	cmd.AddCommand(newBenchUpstream(), newBenchProxy())
	return cmd
}

// newBenchProxy is the floor: what a proxy of Go's own costs that does nothing but
// pass on.
func newBenchProxy() *cobra.Command {
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
			server := gateway.NewServer("", whole)
			defer context.AfterFunc(cmd.Context(), func() { _ = server.Close() })()
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
}

// newBenchUpstream is the process that the gateway is measured in front of.
func newBenchUpstream() *cobra.Command {
	return &cobra.Command{
		Use: "upstream", Hidden: true, Short: "Answer at once, for bench gateway", Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			front, err := tollFront()
			if err != nil {
				return err
			}
			said, err := front.Tokenizer.Encode(" the", token.Options{})
			if err != nil {
				return err
			}
			up := &toll.Upstream{Model: parley.Model{ID: tollModel, ContextTokens: front.ContextTokens}, Token: said[len(said)-1], Text: " the"}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				return err
			}
			protocols := new(http.Protocols)
			protocols.SetHTTP1(true)
			protocols.SetUnencryptedHTTP2(true)
			fmt.Fprintf(cmd.OutOrStdout(), "http://%s\n", listener.Addr())
			server := &http.Server{Handler: up.Handler(), Protocols: protocols, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 1 << 20}}
			defer context.AfterFunc(cmd.Context(), func() { _ = server.Close() })()
			if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
				return err
			}
			return nil
		},
	}
}

// tollFront opens the tokenizer of the model.
func tollFront() (*host.Front, error) {
	s := defaultSettings()
	s.models = []modelPath{{path: tollModel}}
	candidates, err := openModels(s, slog.New(slog.DiscardHandler))
	if err != nil {
		return nil, err
	}
	return host.OpenFront(candidates[0])
}

func (f *gatewayFlags) run(cmd *cobra.Command) (err error) {
	dir, err := os.MkdirTemp("", "parley-toll")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	ctx, stop := context.WithCancel(cmd.Context())
	crew := toll.NewCrew(ctx)
	defer crew.Wait() // before their directory is removed
	defer stop()
	report := &toll.Report{Program: "parley " + version + thisBuild().commitText(), Machine: machineText(), Started: time.Now(),
		Setup: "keys, limits of the key and the organisation, ledger in SQLite, prices, a fleet of one worker reached by Parley's wire"}
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
func (f *gatewayFlags) setUp(ctx context.Context, crew *toll.Crew, dir string) (*toll.Bench, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	upstream, _, err := started(crew, exe, "http://", "bench", "gateway", "upstream")
	if err != nil {
		return nil, err
	}
	key, err := tollKey(ctx, filepath.Join(dir, "conversations.db"))
	if err != nil {
		return nil, err
	}
	serve := []string{"serve", "--addr", "127.0.0.1:0", "--data", dir, "--model", tollModel, "--worker", upstream,
		"--prices", tollModel + "=0.10/0.05/0.40", "--share", "off", "--queue-depth", "20000", "--slo-tpot", "10s", "--log-level", "error"}
	url, pid, err := started(crew, exe, "http://", serve...)
	if err != nil {
		return nil, err
	}
	roomyURL, roomyPID, err := started(crew, exe, "http://", append(serve, "--admission", "off")...)
	if err != nil {
		return nil, err
	}
	b := &toll.Bench{
		Gateway:  toll.Target{Name: "gateway", URL: url, Key: key, PID: pid, Model: tollModel},
		Roomy:    toll.Target{Name: "gateway", URL: roomyURL, Key: key, PID: roomyPID, Model: tollModel},
		Direct:   toll.Target{Name: "upstream", URL: upstream, Model: tollModel},
		Requests: 20_000, Streams: 1000, Open: 5000, Whole: f.streams,
		Only: f.only, Profiles: f.profiles,
	}
	if f.quick {
		b.Requests, b.Streams, b.Open, b.Whole = 2000, 100, 500, f.streams/10
	}
	if f.nginx != "" {
		nginx, err := toll.StartNginx(ctx, crew, f.nginx, dir, upstream)
		if err != nil {
			return nil, fmt.Errorf("nginx: %w: install it, or leave it out with --nginx ''", err)
		}
		nginx.Model = tollModel
		b.Others = append(b.Others, nginx)
	}
	plainURL, plainPID, err := started(crew, exe, "http://", "bench", "gateway", "proxy", upstream)
	if err != nil {
		return nil, err
	}
	b.Others = append(b.Others, toll.Target{Name: "plain Go proxy", URL: plainURL, PID: plainPID, Model: tollModel})
	if f.bifrost != "" {
		var other toll.Target
		if _, err := fmt.Sscanf(strings.Replace(f.bifrost, "@", " ", 1), "%d %s", &other.PID, &other.URL); err != nil {
			return nil, fmt.Errorf("--bifrost is %q: write its process id, @ and its URL: %w", f.bifrost, errUsage)
		}
		other.Name, other.Model = "bifrost", tollModel
		b.Others = append(b.Others, other)
	}
	return b, nil
}

// tollKey makes a key with limits that are never reached.
func tollKey(ctx context.Context, path string) (string, error) {
	d, err := db.Open(ctx, path)
	if err != nil {
		return "", err
	}
	defer d.Close()
	store, err := tenant.New(ctx, d)
	if err != nil {
		return "", err
	}
	limits := limit.Limits{RequestsPerSecond: 1_000_000, RequestsPerMinute: 100_000_000, InputTokensPerMinute: 100_000_000, OutputTokensPerMinute: 100_000_000, ConcurrentRequests: 100_000, MonthlyBudget: 1_000_000_000_000}
	tier := parley.Enterprise
	_, secret, err := store.CreateKey(ctx, tenant.NewKey{Name: "toll", Organization: "toll", Tier: &tier, Limits: limits}, time.Now())
	return secret, err
}

// started starts this program and returns the first address that it prints.
func started(crew *toll.Crew, exe, prefix string, args ...string) (url string, pid int, err error) {
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
		if at := strings.Index(scan.Text(), prefix); at >= 0 && (len(args) < 2 || args[0] != "serve" || strings.Contains(scan.Text(), "ready on")) {
			go func() { _, _ = io.Copy(io.Discard, out) }()
			return strings.Fields(scan.Text()[at:])[0], cmd.Process.Pid, nil
		}
	}
	return "", 0, fmt.Errorf("parley %s ended: %s", strings.Join(args, " "), strings.Join(said, "\n"))
}

// write prints the report and keeps it, as the flags say.
func (f *gatewayFlags) write(out io.Writer, report *toll.Report) error {
	asJSON := func(w io.Writer) error { return printJSON(w, report) }
	var errs []error
	if f.keep != "" {
		base := filepath.Join(f.keep, report.Started.UTC().Format(time.DateOnly)+"-gateway")
		errs = append(errs, os.MkdirAll(f.keep, 0o755), writeWhole(context.Background(), base+".txt", report.WriteText))
	}
	if f.json {
		return errors.Join(append(errs, asJSON(out))...)
	}
	return errors.Join(append(errs, report.WriteText(out))...)
}
