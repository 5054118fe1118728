package settings

import (
	"os"
	"path/filepath"
	"testing"

	"parley"
)

// TestAWorkerKnowsTiers reads what tiers get of the engine from the flags and from the
// file of a worker.
func TestAWorkerKnowsTiers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worker.yaml")
	text := "tiers: {free: {tenant_kv_share: 0.1, requests_per_minute: 5}, enterprise: {kv_reserve: 0.2}}\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	flags := Flags{}
	for _, s := range workerList() {
		flags[s.Key] = &flagValue{of: s}
	}
	if flags["tiers"] == nil {
		t.Fatal("a worker has no setting for tiers")
	}
	s, err := Gather(nil, func(string) (string, bool) { return "", false }, path)
	if err != nil {
		t.Fatal(err)
	}
	classes := s.HostConfig("polly", nil).Classes
	if classes[parley.Free].TenantKVShare != 0.1 || classes[parley.Enterprise].KVReserve != 0.2 {
		t.Errorf("the engine is told %+v", classes)
	}
	if err := flags["tiers"].Set("free.tenant-kv-share=0.3"); err != nil {
		t.Fatal(err)
	}
	if s, err = Gather(flags, func(string) (string, bool) { return "", false }, path); err != nil {
		t.Fatal(err)
	}
	if got := s.HostConfig("polly", nil).Classes[parley.Free].TenantKVShare; got != 0.3 {
		t.Errorf("the flag gives %g", got)
	}
}
