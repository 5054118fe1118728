package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"parley/cli/remote"
)

// TestSecurityOtherUsers starts a server without keys and has another user of the machine
// look for its token: neither the file nor the command line of the server shows it, so
// that user's commands are strangers to the server.
func TestSecurityOtherUsers(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can become another user")
	}
	s := startServerIn(t, t.TempDir(), "--model", "polly-mini")
	token := remote.LocalTokenOf(s.url)
	file := filepath.Join(remote.TokenDirs()[0], remote.TokenName("127.0.0.1", s.url[strings.LastIndex(s.url, ":")+1:]))
	if own, err := os.ReadFile(file); err != nil || !strings.Contains(string(own), token) || token == "" {
		t.Fatalf("its own user reads %q: %v", own, err)
	}
	nobody := &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	read := exec.Command("cat", file)
	read.SysProcAttr = nobody
	if out, err := read.CombinedOutput(); err == nil || strings.Contains(string(out), token) {
		t.Errorf("another user reads %q: %v", out, err)
	}
	list := exec.Command("sh", "-c", "cat /proc/[0-9]*/cmdline | tr '\\0' ' '")
	list.SysProcAttr = nobody
	if out, _ := list.Output(); strings.Contains(string(out), token) {
		t.Error("the token is in a command line")
	}
}
