package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"parley/gateway/admin"
)

func TestTopOnce(t *testing.T) {
	s := startServer(t, "--model", "polly")
	out, err := exec.Command("parley", "top", "--once", "--json", "--url", s.url).Output()
	var p admin.Picture
	if err != nil || json.Unmarshal(out, &p) != nil || p.Verdict.Sentence == "" || len(p.Workers) != 1 {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := exec.Command("parley", "top", "--url", s.url).Output(); err != nil ||
		!strings.Contains(string(out), "polly") {
		t.Errorf("%v: %s", err, out)
	}
	if out, err := exec.Command("parley", "top", "--url", "http://127.0.0.1:1").CombinedOutput(); err == nil ||
		!strings.Contains(string(out), "parley serve") {
		t.Errorf("no server: %s", out)
	}
}
