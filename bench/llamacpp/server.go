package llamacpp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"parley/cli/remote"
	"parley/internal/load"
	"parley/sim/traffic"
)

// A server is one that the harness started, and a client to it.
type server struct {
	cmd      *exec.Cmd
	begun    time.Time
	said     *tail
	ended    chan struct{} // closed when the process has ended
	endedErr error
	*load.Client
}

// A room says what a server must have room for: concurrent answers, and tokens of
// keys and values, which llama.cpp divides evenly among the answers.
type room struct{ answers, tokens int }

// patience is how long requests may wait for their first token: llama-server
// lets them wait for ever, so a slow machine must not decide who answers all.
const patience = "30m"

// startOurs starts parley serve. Everything but the size is the default, apart
// from guessing ahead; see the package comment.
func (l *Lab) startOurs(ctx context.Context, model string, r room) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	args := []string{"serve", "--addr", "127.0.0.1:" + port, "--model", "bench=" + model, "--data", l.scratch,
		"--log-level", "error",
		"--speculate", "off", "--threads", strconv.Itoa(l.Threads), "--kv-tokens", strconv.Itoa(r.tokens),
		"--queue-wait", patience, "--first-token-max", patience, "--device", l.device()}
	return start(ctx, exec.CommandContext(ctx, l.Parley, append(args, l.numerics()...)...), port)
}

// device is what the server computes on.
func (l *Lab) device() string {
	if l.GPU {
		return "cuda"
	}
	return "cpu"
}

// A Parley is a server of ours that was started, and a client to it.
type Parley struct{ server *server }

// StartParley starts `parley serve` with a model file and flags, and waits until it answers.
func StartParley(ctx context.Context, program, model string, flags ...string) (*Parley, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	args := append([]string{"serve", "--addr", "127.0.0.1:" + port, "--model", "bench=" + model}, flags...)
	s, err := start(ctx, exec.CommandContext(ctx, program, args...), port)
	if err != nil {
		return nil, err
	}
	if _, err := s.firstToken(ctx, fresh(0, 8, 1)); err != nil {
		s.stop()
		return nil, err
	}
	return &Parley{s}, nil
}

// Run sends requests. It fails if one of them is not answered in full.
func (p *Parley) Run(ctx context.Context, plan load.Plan) (*load.Result, error) {
	result, err := p.server.send(ctx, plan)
	if err != nil {
		return nil, err
	}
	if bad := failures(result.Records); bad != "" {
		return nil, errors.New(bad)
	}
	return result, nil
}

// Metrics returns the sums of the server's metrics by their names.
func (p *Parley) Metrics(ctx context.Context) (sums map[string]float64, err error) {
	metrics, err := p.server.metrics(ctx)
	sums = map[string]float64{}
	for _, m := range metrics {
		sums[m.Name] += m.Value
	}
	return sums, err
}

// metrics returns what the server counts.
func (s *server) metrics(ctx context.Context) ([]remote.Metric, error) {
	client := remote.Client{Root: strings.TrimSuffix(s.URL(), "/v1"), HTTP: http.DefaultClient}
	response, err := client.Send(ctx, http.MethodGet, "/metrics", nil)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, remote.DocumentBytesMax))
	return remote.ParseMetrics(text), err
}

// Stop ends the server.
func (p *Parley) Stop() { p.server.stop() }

// startTheirs starts llama-server.
func (l *Lab) startTheirs(ctx context.Context, model string, r room) (*server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	threads := strconv.Itoa(l.Threads)
	return start(ctx, exec.CommandContext(ctx, l.LlamaServer, "-m", model, "--host", "127.0.0.1", "--port", port, "-t",
		threads, "-tb", threads,
		"-np", strconv.Itoa(r.answers), "-cb", "-c", strconv.Itoa(r.tokens)), port)
}

// freePort returns a port that was free a moment ago.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, err
}

// requestTimeout is how long one answer may take.
const requestTimeout = 10 * time.Minute

// newHTTP returns a client that connects anew for each request: llama-server
// closes connections without a word, and a request that meets the end of one is
// lost.
func newHTTP() *http.Client {
	return &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DisableCompression: true}}
}

func start(ctx context.Context, cmd *exec.Cmd, port string) (*server, error) {
	client, err := load.NewClient(load.Target{
		URL:       "http://127.0.0.1:" + port + "/v1",
		Model:     "bench",
		Send:      load.IDs,
		IgnoreEnd: true,
		Timeout:   requestTimeout,
		Content:   traffic.Content{First: traffic.DefaultFirst},
		HTTP:      newHTTP(),
	})
	if err != nil {
		return nil, err
	}
	s := &server{cmd: cmd, said: &tail{}, ended: make(chan struct{}), Client: client}
	cmd.Stdout, cmd.Stderr = s.said, s.said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 20 * time.Second
	s.begun = time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		s.endedErr = cmd.Wait()
		close(s.ended)
	}()
	return s, ctx.Err()
}

// stop ends the server and waits for that.
func (s *server) stop() {
	s.Close()
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // one that has ended needs none
	select {
	case <-s.ended:
	case <-time.After(20 * time.Second):
		_ = s.cmd.Process.Kill()
		<-s.ended
	}
}

// readyMax is how long a server may take to load its model.
const readyMax = 3 * time.Minute

// firstToken asks for one token until there is one, and returns how long that
// took since the server's program was started.
func (s *server) firstToken(ctx context.Context, prompt traffic.Request) (time.Duration, error) {
	prompt.OutputTokens = 1
	for {
		record := s.Send(ctx, &prompt, s.begun)
		switch {
		case record.Outcome == load.Completed:
			return time.Duration(record.TTFT), nil
		case ctx.Err() != nil:
			return 0, ctx.Err()
		case time.Since(s.begun) > readyMax:
			return 0, fmt.Errorf("%s answers nothing after %v: %s%s", s.cmd.Path, readyMax, record.Message,
				s.said.text())
		}
		select {
		case <-s.ended:
			return 0, fmt.Errorf("%s ended: %w%s", s.cmd.Path, errors.Join(s.endedErr), s.said.text())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// A footprint is the memory that a process has, in bytes: its own, and files
// that it maps.
type footprint struct{ own, files int64 }

func (f footprint) all() int64 { return f.own + f.files }

// footprint reads what the system says of the process.
func (s *server) footprint() (f footprint, err error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.cmd.Process.Pid))
	if err != nil {
		return f, fmt.Errorf("resident memory: %w", err)
	}
	return parseFootprint(string(status))
}

// parseFootprint reads a status file of Linux.
func parseFootprint(status string) (f footprint, err error) {
	for line := range strings.Lines(status) {
		key, value, _ := strings.Cut(line, ":")
		var part *int64
		switch key {
		case "RssAnon", "RssShmem":
			part = &f.own
		case "RssFile":
			part = &f.files
		default:
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 48)
		if err != nil || kib < 0 {
			return footprint{}, fmt.Errorf("resident memory: the system says %.60q", line)
		}
		*part += kib << 10
	}
	if f.all() == 0 {
		return f, errors.New("resident memory: the system does not tell")
	}
	return f, nil
}
