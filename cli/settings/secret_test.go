package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// writeSecret writes a file for a test, and returns its path.
func writeSecret(t *testing.T, text string, mode os.FileMode) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
	return path
}

func noVariables(string) (string, bool) { return "", false }

// TestSecretFiles reads every secret from a file, and says what is wrong with one.
func TestSecretFiles(t *testing.T) {
	const secret = "0123456789abcdef-the-secret"
	for _, s := range List {
		if s.from == nil {
			continue
		}
		value := secret
		if s.from.Key == "budget-webhook" {
			value = "https://example.com/" + secret
		} else if s.from.Key == "kv-store" {
			value = "redis://:" + secret + "@example.com"
		}
		f := &flagValue{of: &s}
		if err := f.Set(writeSecret(t, value+"\n", 0o600)); err != nil {
			t.Errorf("--%s: %v", s.Key, err)
			continue
		}
		got, err := Gather(Flags{s.Key: f}, noVariables, "")
		if err != nil {
			t.Errorf("--%s: %v", s.Key, err)
			continue
		}
		kept := []string{got.Store, got.WorkerKey, got.JoinToken, got.OperateToken, string(got.SaltKey),
			got.Economy.Redis, got.Economy.Hook, got.Issuer.ClientSecret, got.KVStore.URL}
		if !slices.Contains(kept, value) {
			t.Errorf("--%s set nothing of %q", s.Key, kept)
		}
		environ := func(name string) (string, bool) { return value, name == s.from.Variable() }
		if _, err := Gather(Flags{s.Key: f}, environ, ""); err == nil ||
			!strings.Contains(err.Error(), "both set") {
			t.Errorf("--%s beside its variable: %v", s.Key, err)
		}
	}
	key := everySetting[slices.IndexFunc(everySetting, func(s Setting) bool { return s.Key == "worker-key-file" })]
	for path, want := range map[string]string{
		writeSecret(t, "tooshort", 0o600): "16 characters", writeSecret(t, "", 0o600): "16 characters",
		writeSecret(t, strings.Repeat("x", secretBytesMax+1), 0o600): "more than", "/nowhere/at/all": "no such file",
	} {
		if err := (&flagValue{of: &key}).Set(path); err == nil || !strings.Contains(err.Error(), want) ||
			strings.Contains(err.Error(), "tooshort") {
			t.Errorf("%s: %v, want %q and no secret", path, err, want)
		}
	}
}

// TestReadableConfigurations refuses secrets in a file that everyone can read.
func TestReadableConfigurations(t *testing.T) {
	const token, plain = "fleet_join_token: 0123456789abcdef\n", "addr: 127.0.0.1:0\nstore: postgres://parley@host/db\n"
	for _, c := range []struct {
		text    string
		mode    os.FileMode
		refused bool
		warned  bool
	}{
		{token, 0o600, false, false},
		{token, 0o640, false, true},
		{token, 0o644, true, false},
		{token, 0o666, true, false},
		{plain, 0o644, false, false},
		{"store: postgres://parley:pw@host/db\n", 0o644, true, false},
		{"redis: redis://:pw@host/0\n", 0o604, true, false},
		{"pools: [{name: a, workers: [{url: 'http://x:1', key: k}]}]\n", 0o644, true, false},
		{"pools: [{name: a, workers: [{url: 'http://x:1'}]}]\n", 0o644, false, false},
		{"worker_key_file: " + writeSecret(t, "0123456789abcdef", 0o600) + "\n", 0o644, false, false},
	} {
		s, err := Gather(nil, noVariables, writeSecret(t, c.text, c.mode))
		if refused := err != nil && strings.Contains(err.Error(), "chmod 600"); refused != c.refused ||
			err != nil && !refused {
			t.Errorf("%q with mode %o: %v", c.text, c.mode, err)
		}
		if err == nil && (s.Warning != "") != c.warned {
			t.Errorf("%q with mode %o: warning %q", c.text, c.mode, s.Warning)
		}
		if err != nil && strings.Contains(err.Error(), "0123456789abcdef") {
			t.Errorf("the secret is in the error: %v", err)
		}
	}
}
