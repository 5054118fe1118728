// Package openaigo tests the real server with OpenAI's own client for Go. It
// is a module of its own, so that Parley does not depend on that client.
//
// PARLEY_BIN names the program under test.
package openaigo

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const (
	// mini answers fastest; polly is slow enough to interrupt.
	mini, polly = "polly-mini", "polly"

	readyWaitMax = 60 * time.Second
	stopWaitMax  = 20 * time.Second
	leaveWaitMax = 2 * time.Second
)

// A server is a running parley.
type server struct {
	url   string
	token string // the local token
	log   logged
	ended chan error
}

// logged keeps what the server wrote.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text.WriteString(line + "\n")
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start runs parley until the test ends, when SIGINT must end it with exit code 0.
func start(t *testing.T) *server {
	t.Helper()
	program := os.Getenv("PARLEY_BIN")
	if program == "" {
		t.Fatal("PARLEY_BIN must name the parley program")
	}
	cmd := exec.Command(program, "serve", "--addr", "127.0.0.1:0", "--data", t.TempDir())
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s := &server{ended: make(chan error, 1)}
	ready := make(chan [2]string, 1)
	go func() {
		s.read(stderr, ready)
		s.ended <- cmd.Wait()
	}()
	t.Cleanup(func() { s.stop(t, cmd.Process) })
	select {
	case found := <-ready:
		s.url, s.token = found[0], found[1]
	case err := <-s.ended:
		s.ended <- err // stop reads it again
		t.Fatalf("the server ended before it was ready: %v\n%s", err, &s.log)
	case <-time.After(readyWaitMax):
		t.Fatalf("the server was not ready within %v\n%s", readyWaitMax, &s.log)
	}
	return s
}

// read keeps the log and sends the address and the token in it.
func (s *server) read(stderr io.Reader, ready chan<- [2]string) {
	link := regexp.MustCompile(`^ +chat +(http://[^/]+)/\?token=(\S+)$`)
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		s.log.add(lines.Text())
		if m := link.FindStringSubmatch(lines.Text()); m != nil {
			ready <- [2]string{m[1], m[2]}
		}
	}
}

func (s *server) stop(t *testing.T, process *os.Process) {
	_ = process.Signal(os.Interrupt) // a process that is gone shows below
	select {
	case err := <-s.ended:
		if err != nil {
			t.Errorf("the server ended with %v; expected exit code 0\n%s", err, &s.log)
		}
	case <-time.After(stopWaitMax):
		_ = process.Kill()
		t.Errorf("the server did not end within %v of SIGINT\n%s", stopWaitMax, &s.log)
	}
}

// client returns a client that never tries twice, so that no failure is hidden.
func (s *server) client() *openai.Client {
	c := openai.NewClient(option.WithBaseURL(s.url+"/v1"), option.WithAPIKey(s.token), option.WithMaxRetries(0))
	return &c
}

// metric returns the value of a metric, by its name with labels as /metrics writes it.
func (s *server) metric(t *testing.T, name string) float64 {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+"/metrics", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+s.token)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	for lines := bufio.NewScanner(response.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			f, err := strconv.ParseFloat(value, 64)
			if err != nil {
				t.Fatal(err)
			}
			return f
		}
	}
	return 0
}

// waitForMetric returns when a metric has the value; it fails after leaveWaitMax.
func (s *server) waitForMetric(t *testing.T, name string, want float64) {
	t.Helper()
	deadline := time.Now().Add(leaveWaitMax)
	for {
		got := s.metric(t, name)
		if got == want {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is %v after %v; expected %v", name, got, leaveWaitMax, want)
		}
	}
}
