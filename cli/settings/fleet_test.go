package settings

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley"
)

const poolsFile = `
addr: 127.0.0.1:9000
pools:
  - name: vip
    purpose: chat
    models: [polly]
    tiers: [pro, enterprise]
    payers: [acme]
    workers:
      - in_process: true
      - url: http://10.0.0.7:8000
        kind: vllm
        events: "tcp://{host}:5557"
  - name: typing
    purpose: complete
    workers:
      - dns: http://workers:8000
      - file: workers.yaml
      - kubernetes: {service: llm, namespace: prod, port: http}
      - register: true
fleet_token: 0123456789abcdef
worker: http://10.0.0.8:8000
`

func TestPoolsOfTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "parley.yaml")
	if err := os.WriteFile(path, []byte(poolsFile), 0o600); err != nil {
		t.Fatal(err)
	}
	s, err := Gather(nil, func(string) (string, bool) { return "", false }, path)
	if err != nil {
		t.Fatal(err)
	}
	pools := s.AllPools()
	if len(pools) != 3 || len(pools[0].Workers) != 2 || len(pools[1].Workers) != 4 ||
		pools[1].Workers[2].Kubernetes.Service != "llm" || !s.Computes() || s.JoinToken == "" {
		t.Fatalf("%+v", pools)
	}
	vip, err := pools[0].Pool()
	if err != nil || vip.Purpose != parley.ForChat ||
		!slices.Equal(vip.Classes, []parley.Class{parley.Pro, parley.Enterprise}) || vip.Tenants[0] != "acme" {
		t.Errorf("%+v, %v", vip, err)
	}
	if last := pools[2]; last.Name != "default" || last.Workers[0].URL != "http://10.0.0.8:8000" {
		t.Errorf("%+v", last)
	}
}

func TestPoolsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		`[{workers: [{in_process: true}]}]`:                                 "no name",
		`[{name: a}]`:                                                       "no workers",
		`[{name: a, workers: [{}]}]`:                                        "set one",
		`[{name: a, workers: [{url: "http://x", file: y}]}]`:                "set one",
		`[{name: a, purpose: fun, workers: [{register: true}]}]`:            "use chat, complete or any",
		`[{name: a, tiers: [gold], workers: [{register: true}]}]`:           "use free, pro or enterprise",
		`[{name: a, workers: [{url: "http://x", kind: abacus}]}]`:           "is not a kind of worker",
		`[{name: a, workers: [{register: true, key: k}]}]`:                  "remove key",
		`[{name: a, workers: [{register: true, key_file: k}]}]`:             "remove key",
		`[{name: a, sise: 3, workers: [{register: true}]}]`:                 "sise",
		`[{name: a, workers: [{url: "http://x", role: prefill}]}]`:          "started with --role",
		`[{name: a, workers: [{url: "http://x", kind: vllm, role: both}]}]`: "use prefill or decode",
		`name: a`: "",
		`[{name: a, workers: [{kubernetes: {sevice: x}}]}]`: "sevice",
	} {
		err := setPools(&Settings{}, text)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	for _, bad := range []string{"", "10.0.0.7:8000", "abacus=http://x", "vllm=x", "vllm:all=http://x",
		"parley:decode=http://x", "ollama:prefill=http://x"} {
		if setWorker(&Settings{}, bad) == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	var s Settings
	if err := setWorker(&s, "vllm:prefill=http://x:1"); err != nil || s.Workers[0].Role != parley.RolePrefill ||
		s.Workers[0].Kind != "vllm" || s.Workers[0].URL != "http://x:1" {
		t.Errorf("%+v, %v", s.Workers, err)
	}
}
