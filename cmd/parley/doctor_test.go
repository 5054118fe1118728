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

	"parley/cli/doctor"
)

// diagnose runs the doctor and returns what it found, and whether it was content.
func diagnose(t *testing.T, args ...string) (found []doctor.Diagnosis, content bool) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "parley", append([]string{"doctor", "--json", "--model", "polly-mini",
		"--data", t.TempDir(), "--addr", "127.0.0.1:1"}, args...)...).Output()
	if fault := json.Unmarshal(out, &found); fault != nil {
		t.Fatalf("%v, %v: %s", err, fault, out)
	}
	return found, err == nil
}

func has(found []doctor.Diagnosis, about, state string) bool {
	return slices.ContainsFunc(found, func(f doctor.Diagnosis) bool {
		return f.About == about && f.State == state && f.Says != ""
	})
}

func TestDoctorOfAHealthyServer(t *testing.T) {
	s := startServer(t, "--model", "polly-mini")
	found, content := diagnose(t, "--url", s.url)
	for _, about := range []string{"configuration", "data", "models", "store", "server", "clock"} {
		if !has(found, about, doctor.OK) {
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
	found, content := diagnose(t, "--config", config, "--store", filepath.Join(blocked, "x.db"), "--redis",
		"redis://127.0.0.1:1/0", "--url", "http://127.0.0.1:1")
	if content {
		t.Error("it is content")
	}
	for _, about := range []string{"store", "redis", "worker", "tokens", "template", "server"} {
		if !has(found, about, doctor.Problem) {
			t.Errorf("no problem with %s: %+v", about, found)
		}
	}
	if !has(found, "clock", doctor.Warning) {
		t.Errorf("the clock of 2006 is not seen: %+v", found)
	}
	for _, f := range found {
		if f.State != doctor.OK && f.Fix == "" {
			t.Errorf("it does not say what to do: %+v", f)
		}
	}
}

// TestDoctorOfAFleet looks at a real gateway and its workers: vocabularies,
// templates, clocks and event streams are compared, and all are well.
func TestDoctorOfAFleet(t *testing.T) {
	c := startCrew(t, 2)
	args := []string{"--url", c.front.url}
	for _, h := range c.workers {
		args = append(args, "--worker", "http://"+h.addr)
	}
	found, content := diagnose(t, args...)
	for _, about := range []string{"worker", "tokens", "template", "events"} {
		if n := len(slices.DeleteFunc(slices.Clone(found), func(f doctor.Diagnosis) bool {
			return f.About != about || f.State != doctor.OK
		})); n != 2 {
			t.Errorf("good is said of %s of %d workers: %+v", about, n, found)
		}
	}
	if !content {
		t.Errorf("not content: %+v", found)
	}
}

// TestDoctorSeesLostEvents asks a server that says so of one of its workers.
func TestDoctorSeesLostEvents(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/metrics" {
			_, _ = w.Write(
				[]byte(
					"parley_fleet_index_degraded{pool=\"default\",worker=\"w1\"} " +
						"1\nparley_fleet_index_degraded{pool=\"default\",worker=\"w2\"} 0\n"))
			return
		}
		_, _ = w.Write([]byte(`{"verdict":{"sentence":"Nothing binds."}}`))
	}))
	defer server.Close()
	found, _ := diagnose(t, "--url", server.URL)
	for name, state := range map[string]string{"w1": doctor.Warning, "w2": doctor.OK} {
		if !slices.ContainsFunc(found, func(f doctor.Diagnosis) bool {
			return f.About == "events" && f.Name == name && f.State == state
		}) {
			t.Errorf("of the events of %s it is not said that they are %s: %+v", name, state, found)
		}
	}
}
