package main

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFullDisk fills the disk of a running server: models go on to answer,
// what cannot be stored is refused with the reason, deleting works, readiness
// says so, and the log has each failure once a minute.
func TestFullDisk(t *testing.T) {
	data := t.TempDir()
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, "size=90m"); err != nil {
		t.Skipf("a disk that can be filled needs the right to mount one: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(data, syscall.MNT_DETACH) })
	s := startServerIn(t, data, "--model", "polly-mini")
	_, made := s.fetch(t, "POST", "/v1/conversations", `{}`)
	id, _ := made["id"].(string)
	fillDisk(t, data)

	large := `{"items":[{"type":"message","role":"user","content":"` + strings.Repeat("word ", 100_000) + `"}]}`
	status, answer := 200, map[string]any(nil)
	for range 300 { // the database has some space of its own
		if status, answer = s.fetch(t, "POST", "/v1/conversations", large); status != 200 {
			break
		}
	}
	if status != 503 || !strings.Contains(errorMessage(answer), "disk") {
		t.Fatalf("a conversation on a full disk: %d %v", status, answer)
	}
	fillDisk(t, data)
	if _, ready := s.fetch(t, "GET", "/readyz", ""); ready["status"] != "degraded" {
		t.Errorf("readiness says %v", ready)
	}
	until := time.Now().Add(3 * time.Second)
	for n := 0; n < 3 || time.Now().Before(until); n++ {
		chat := `{"model":"polly-mini","max_tokens":4,"messages":[{"role":"user","content":"Hi"}]}`
		if status, answer := s.fetch(t, "POST", "/v1/chat/completions", chat); status != 200 {
			t.Fatalf("a chat on a full disk: %d %v", status, answer)
		}
	}
	if status, answer := s.fetch(t, "DELETE", "/v1/conversations/"+id, ""); status != 200 {
		t.Errorf("a deletion on a full disk: %d %v", status, answer)
	}
	_ = s.cmd.Process.Kill()
	count := map[string]int{}
	for line := range s.lines {
		if _, rest, ok := strings.Cut(line, "level=ERROR msg="); ok && !strings.HasPrefix(rest, "request ") {
			message, _, _ := strings.Cut(rest, `" `)
			count[message]++
		}
	}
	for message, n := range count {
		if n > 2 {
			t.Errorf("%d lines %s", n, message)
		}
	}
}

func errorMessage(answer map[string]any) string {
	failure, _ := answer["error"].(map[string]any)
	text, _ := failure["message"].(string)
	return text
}

// fillDisk takes all the space that is left in a directory's disk.
func fillDisk(t *testing.T, dir string) {
	t.Helper()
	file, err := os.OpenFile(filepath.Join(dir, "filler"), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for size := 1 << 20; size > 0; size /= 2 {
		for err = nil; err == nil; {
			_, err = io.Copy(file, strings.NewReader(strings.Repeat("x", size)))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
	}
}
