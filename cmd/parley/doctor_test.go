package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
)

// diagnose runs the doctor and returns what it found, and whether it was content.
func diagnose(t *testing.T, args ...string) (found []doctorFinding, content bool) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "parley", append([]string{"doctor", "--json", "--model", "polly-mini", "--data", t.TempDir(), "--addr", "127.0.0.1:1"}, args...)...).Output()
	if fault := json.Unmarshal(out, &found); fault != nil {
		t.Fatalf("%v, %v: %s", err, fault, out)
	}
	return found, err == nil
}

func has(found []doctorFinding, about, state string) bool {
	return slices.ContainsFunc(found, func(f doctorFinding) bool { return f.About == about && f.State == state && f.Says != "" })
}

func TestDoctorOfAHealthyServer(t *testing.T) {
	s := startServer(t, "--model", "polly-mini")
	found, content := diagnose(t, "--url", s.url)
	for _, about := range []string{"configuration", "data", "models", "store", "server", "clock"} {
		if !has(found, about, doctorOK) {
			t.Errorf("nothing good is said of %s: %+v", about, found)
		}
	}
	if !content {
		t.Errorf("not content: %+v", found)
	}
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stranger := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Date", "Mon, 02 Jan 2006 15:04:05 GMT")
		if r.URL.Path == "/tokenize" {
			_, _ = w.Write([]byte(`{"tokens":[1,2,3]}`))
			return
		}
		_, _ = w.Write([]byte(`{"object":"list","data":[{"id":"polly-mini","object":"model"}]}`))
	}))
	defer stranger.Close()
	config := filepath.Join(t.TempDir(), "parley.yaml")
	text := "pools:\n  - name: a\n    workers:\n      - url: " + stranger.URL + "\n      - url: http://127.0.0.1:1\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	found, content := diagnose(t, "--config", config, "--store", filepath.Join(blocked, "x.db"), "--redis", "redis://127.0.0.1:1/0", "--url", "http://127.0.0.1:1")
	if content {
		t.Error("it is content")
	}
	for _, about := range []string{"store", "redis", "worker", "tokens", "server"} {
		if !has(found, about, doctorProblem) {
			t.Errorf("no problem with %s: %+v", about, found)
		}
	}
	if !has(found, "clock", doctorWarning) {
		t.Errorf("the clock of 2006 is not seen: %+v", found)
	}
	for _, f := range found {
		if f.State != doctorOK && f.Fix == "" {
			t.Errorf("it does not say what to do: %+v", f)
		}
	}
}
