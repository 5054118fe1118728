package testkit

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// A Redis is a server of a test's own, reached by a socket in a directory of its
// own.
type Redis struct {
	// URL is where it listens.
	URL     string
	socket  string
	program string
	dir     string
	process *exec.Cmd
}

// StartRedis starts a Redis or Valkey that ends with the test. Without one on
// this machine the test is skipped.
func StartRedis(t testing.TB) *Redis {
	t.Helper()
	r := &Redis{program: redisProgram()}
	if r.program == "" {
		t.Skip("NOT TESTED: redis-server is not installed; run test/need-redis.sh")
	}
	dir, err := os.MkdirTemp("", "parley-redis") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	r.dir, r.socket = dir, filepath.Join(dir, "s")
	r.URL = "unix://" + r.socket + "?db=0"
	t.Cleanup(func() {
		r.Stop()
		_ = os.RemoveAll(dir)
	})
	r.Start(t)
	return r
}

// redisProgram returns where Redis or Valkey is on this machine; empty if it is not.
func redisProgram() string {
	for _, name := range []string{"redis-server", "valkey-server"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// Start starts it again, with nothing in it.
func (r *Redis) Start(t testing.TB) {
	t.Helper()
	r.process = exec.Command(r.program, "--port", "0", "--unixsocket", r.socket, "--save", "", "--appendonly", "no",
		"--dir", r.dir, "--daemonize", "no", "--logfile", filepath.Join(r.dir, "log"))
	if err := r.process.Start(); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		if c, err := net.Dial("unix", r.socket); err == nil {
			_ = c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	log, _ := os.ReadFile(filepath.Join(r.dir, "log"))
	t.Fatalf("%s does not answer:\n%s", r.program, log)
}

// Stop kills it.
func (r *Redis) Stop() {
	if r.process != nil {
		_ = r.process.Process.Kill()
		_ = r.process.Wait()
		_ = os.Remove(r.socket)
		r.process = nil
	}
}

// Pause stops it, without losing data, until Resume.
func (r *Redis) Pause(t testing.TB) {
	t.Helper()
	if err := r.process.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
}

// Resume continues after Pause.
func (r *Redis) Resume(t testing.TB) {
	t.Helper()
	if err := r.process.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}
