package main

import (
	"bytes"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"parley"
	"parley/fleet"
	"parley/fleet/discover"
	"parley/gateway"
	"parley/worker"
)

// fleetSettings are about workers in other processes.
var fleetSettings = []setting{
	{key: "worker", wants: "[KIND=]URL, with a kind of " + kindNames(), many: true, set: setWorker,
		help: "let the worker at `[KIND=]URL` compute instead of this process, such as vllm=http://10.0.0.7:8000; repeat it for more (the kind is parley unless named)"},
	{key: "pools", wants: "a list of pools as docs/fleet.md shows it", tree: true, holds: poolsHoldKeys, set: setPools,
		help: "let pools of workers compute, as a `YAML` list; see docs/fleet.md"},
	{key: "worker-key", wants: wantsSecret, secret: true, set: setSecret(func(s *settings) *string { return &s.workerKey }),
		help: "show this `KEY` to the Parley workers of --worker, and to those of pools whose entry has no key"},
	{key: "worker-ca", wants: "the path of a PEM file", set: setText(func(s *settings) *string { return &s.workerCA }),
		help: "trust the authorities in this `FILE` when connecting to https workers (default: those that the system trusts)"},
	{key: "worker-client-cert", wants: "the path of a PEM file", set: setText(func(s *settings) *string { return &s.workerClientCert }),
		help: "show the certificate in this `FILE` to https workers, which have a --client-ca; it is read again when it changes"},
	{key: "worker-client-key", wants: "the path of a PEM file", set: setText(func(s *settings) *string { return &s.workerClientKey }),
		help: "the `FILE` with the key of that certificate"},
	{key: "fleet-join-token", wants: wantsSecret, secret: true, set: setSecret(func(s *settings) *string { return &s.joinToken }),
		help: "the `TOKEN` with which workers register; it opens nothing else"},
	{key: "fleet-token", wants: wantsSecret, secret: true, set: setSecret(func(s *settings) *string { return &s.joinToken }),
		help: "the old name of --fleet-join-token: give its `TOKEN` there"},
	{key: "fleet-operate-token", wants: wantsSecret, secret: true, set: setSecret(func(s *settings) *string { return &s.operateToken }),
		help: "the `TOKEN` with which operators see and change the fleet, beside keys with the admin right"},
	{key: "fleet-join-networks", wants: "networks such as 10.1.0.0/16, or private, or any", many: true, set: setJoinNetworks,
		help: "let workers of this `NETWORK` register, such as 10.1.0.0/16, private for all addresses that the Internet does not route, or any; repeat it for more (default private)"},
	{key: "fleet-join-kinds", wants: "one of " + kindNames(), many: true, set: setJoinKinds,
		help: "let workers of this `KIND` register; repeat it for more (default parley)"},
	{key: "hedge-after", wants: "a time such as 2s", set: setTime(func(s *settings) *time.Duration { return &s.hedgeAfter }),
		help: "ask a second worker when the first token has not come after this `TIME`, and take the answer that begins first (default: do not)"},
	{key: "salt-key", wants: wantsSecret, secret: true, set: setSaltKey,
		help: "derive what keeps tenants apart in caches from this secret `TEXT`; servers that share workers need the same (default: a random one kept in the store)"},
	{key: "cache-scope", wants: "organization, user or key", set: setCacheScope,
		help: "share cached context and answers among callers of one `SCOPE`: organization, user or key; user keeps the users that keys name apart (default user)"},
	{key: "public-prompt", wants: "a text, or @ and the name of a file", many: true, set: setPublicPrompt,
		help: "let all tenants share the context of conversations whose system message is this `TEXT` or begins so, or that of the file in @FILE; repeat it for more"},
}

const wantsSecret = "a text of at least 16 characters, such as from `openssl rand -hex 16`"

// fleetFields are what they set.
type fleetFields struct {
	// workerCA, workerClientCert and workerClientKey are files for TLS with workers.
	workerCA, workerClientCert, workerClientKey string

	workers       []workerConfig
	pools         []poolConfig
	workerKey     string
	joinToken     string // of workers
	operateToken  string // of operators
	joinNetworks  []netip.Prefix
	joinKinds     []string
	hedgeAfter    time.Duration
	saltKey       []byte
	publicPrompts []string
	cacheScope    gateway.CacheScope
}

func setCacheScope(s *settings, text string) error {
	if !slices.Contains(gateway.CacheScopes(), gateway.CacheScope(text)) {
		return errNotWanted
	}
	s.cacheScope = gateway.CacheScope(text)
	return nil
}

func kindNames() string {
	var names []string
	for _, k := range worker.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// A poolConfig is a pool as the file describes it.
type poolConfig struct {
	Name    string         `yaml:"name"`
	Purpose string         `yaml:"purpose"`
	Models  []string       `yaml:"models"`
	Tiers   []string       `yaml:"tiers"`
	Payers  []string       `yaml:"payers"`
	Workers []workerConfig `yaml:"workers"`
}

// A workerConfig is a worker, or where some are found. Exactly one of the first
// fields is set.
type workerConfig struct {
	InProcess  bool              `yaml:"in_process"`
	URL        string            `yaml:"url"`
	File       string            `yaml:"file"`
	DNS        string            `yaml:"dns"`
	Kubernetes *kubernetesConfig `yaml:"kubernetes"`
	Register   bool              `yaml:"register"`

	Name   string            `yaml:"name"`
	Kind   string            `yaml:"kind"`
	Model  string            `yaml:"model"`
	Models map[string]string `yaml:"models"`
	Key    string            `yaml:"key"`
	// KeyFile holds the key instead.
	KeyFile string `yaml:"key_file"`
	Events  string `yaml:"events"`
	Replay  string `yaml:"replay"`
	// Networks and Kinds are those of workers that may register here; empty means those
	// of all pools.
	Networks []string `yaml:"networks"`
	Kinds    []string `yaml:"kinds"`

	networks []netip.Prefix
}

type kubernetesConfig struct {
	Service   string `yaml:"service"`
	Namespace string `yaml:"namespace"`
	Port      string `yaml:"port"`
	Scheme    string `yaml:"scheme"`
	API       string `yaml:"api"`
	TokenFile string `yaml:"token_file"`
	CAFile    string `yaml:"ca_file"`
}

// setWorker puts a worker into the pool that serves all.
func setWorker(s *settings, text string) error {
	kind, address, named := strings.Cut(text, "=")
	if !named || strings.Contains(kind, "/") {
		kind, address = "", text
	}
	if _, err := worker.ParseKind(kind); named && kind != "" && err != nil {
		return err
	}
	if _, err := discover.Static([]discover.Place{{URL: address}}); err != nil {
		return err
	}
	s.workers = append(s.workers, workerConfig{URL: address, Kind: kind})
	return nil
}

func setPools(s *settings, text string) error {
	var pools []poolConfig
	if err := yaml.NewDecoder(bytes.NewReader([]byte(text)), yaml.Strict()).Decode(&pools); err != nil {
		return fmt.Errorf("%s", yaml.FormatError(err, false, false))
	}
	for i := range pools {
		if err := pools[i].check(); err != nil {
			return err
		}
	}
	s.pools = pools
	return nil
}

// check says what is wrong with a pool, as far as the file alone shows it.
func (p *poolConfig) check() error {
	if p.Name == "" {
		return fmt.Errorf("a pool has no name")
	}
	if _, err := p.pool(); err != nil {
		return err
	}
	if len(p.Workers) == 0 {
		return fmt.Errorf("pool %s has no workers: list them, or say how they are found", p.Name)
	}
	for i := range p.Workers {
		if err := p.Workers[i].check(); err != nil {
			return fmt.Errorf("worker %d of pool %s: %w", i+1, p.Name, err)
		}
	}
	return nil
}

func (w *workerConfig) check() error {
	ways := 0
	for _, is := range []bool{w.InProcess, w.URL != "", w.File != "", w.DNS != "", w.Kubernetes != nil, w.Register} {
		if is {
			ways++
		}
	}
	if ways != 1 {
		return fmt.Errorf("%d of in_process, url, file, dns, kubernetes and register are set: set one", ways)
	}
	for _, kind := range append(slices.Clone(w.Kinds), w.Kind) {
		if _, err := worker.ParseKind(kind); kind != "" && err != nil {
			return err
		}
	}
	return w.checkAccess()
}

// checkAccess reads the entry's key and networks, and says what is wrong with them.
func (w *workerConfig) checkAccess() (err error) {
	switch {
	case w.Register && (w.Key != "" || w.KeyFile != ""):
		return fmt.Errorf("a key is shown to configured workers only: one that registers is called with a credential of its own, so remove key beside register")
	case !w.Register && (len(w.Networks) > 0 || len(w.Kinds) > 0):
		return fmt.Errorf("networks and kinds are of workers that register: remove them, or set register")
	case w.Key != "" && w.KeyFile != "":
		return fmt.Errorf("key and key_file are both set: set one")
	}
	if w.KeyFile != "" {
		read := setting{wants: "the key of a worker", set: setText(func(s *settings) *string { return &s.workerKey })}
		var holder settings
		if err := read.readSecret(&holder, w.KeyFile); err != nil {
			return fmt.Errorf("key_file: %w", err)
		}
		w.Key = holder.workerKey
	}
	w.networks, err = parseNetworks(w.Networks)
	return err
}

// parseNetworks reads networks as 10.1.0.0/16, private and any spell them.
func parseNetworks(texts []string) (networks []netip.Prefix, err error) {
	for _, text := range texts {
		switch text {
		case "private":
			networks = append(networks, discover.PrivateNetworks()...)
		case "any":
			networks = append(networks, netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("::/0"))
		default:
			n, err := netip.ParsePrefix(text)
			if err != nil {
				return nil, fmt.Errorf("%q is not a network such as 10.1.0.0/16, private or any", text)
			}
			networks = append(networks, n.Masked())
		}
	}
	return networks, nil
}

func setJoinNetworks(s *settings, text string) error {
	networks, err := parseNetworks([]string{text})
	s.joinNetworks = append(s.joinNetworks, networks...)
	return err
}

func setJoinKinds(s *settings, text string) error {
	kind, err := worker.ParseKind(text)
	s.joinKinds = append(s.joinKinds, string(kind))
	return err
}

// poolsHoldKeys reports whether a list of pools has keys in it.
func poolsHoldKeys(text string) bool {
	var pools []poolConfig
	_ = yaml.Unmarshal([]byte(text), &pools) // what is wrong with it is said elsewhere
	return slices.ContainsFunc(pools, func(p poolConfig) bool {
		return slices.ContainsFunc(p.Workers, func(w workerConfig) bool { return w.Key != "" })
	})
}

// pool returns the pool as the fleet takes it.
func (p *poolConfig) pool() (fleet.Pool, error) {
	out := fleet.Pool{Name: p.Name, Purpose: parley.Purpose(p.Purpose), Models: p.Models, Tenants: p.Payers}
	switch out.Purpose {
	case "", parley.ForChat, parley.ForComplete, fleet.AnyPurpose:
	default:
		return out, fmt.Errorf("the purpose of pool %s is %q: use chat, complete or any", p.Name, p.Purpose)
	}
	for _, name := range p.Tiers {
		class, ok := classNamed(name)
		if !ok {
			return out, fmt.Errorf("pool %s is for tier %q: there are free, pro and enterprise", p.Name, name)
		}
		out.Classes = append(out.Classes, class)
	}
	return out, nil
}

func classNamed(name string) (parley.Class, bool) {
	for class := range parley.Class(parley.Classes) {
		if class.String() == name {
			return class, true
		}
	}
	return 0, false
}

func setSaltKey(s *settings, text string) error {
	if len(text) < 16 {
		return errNotWanted
	}
	s.saltKey = []byte(text)
	return nil
}

func setPublicPrompt(s *settings, text string) error {
	if name, isFile := strings.CutPrefix(text, "@"); isFile {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text = strings.TrimRight(string(content), "\n")
	}
	if text == "" {
		return errNotWanted
	}
	s.publicPrompts = append(s.publicPrompts, text)
	return nil
}

// allPools returns the pools of the file, or one for all the workers that were
// named; none if this process computes alone.
func (s *settings) allPools() []poolConfig {
	pools := s.pools
	if len(s.workers) > 0 {
		pools = append(pools[:len(pools):len(pools)], poolConfig{Name: fleet.DefaultPool().Name, Purpose: string(fleet.AnyPurpose), Workers: s.workers})
	}
	return pools
}

// computes reports whether models are computed in this process.
func (s *settings) computes() bool {
	pools := s.allPools()
	for _, p := range pools {
		for _, w := range p.Workers {
			if w.InProcess {
				return true
			}
		}
	}
	return len(pools) == 0
}
