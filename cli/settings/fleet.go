package settings

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"parley"
	"parley/fleet"
	"parley/fleet/discover"
	"parley/gateway/job"
	"parley/worker"

	"github.com/goccy/go-yaml"
)

// fleetSettings are about workers in other processes.
var fleetSettings = []Setting{
	{
		Key:   "worker",
		wants: "[KIND[:ROLE]=]URL, with a kind of " + kindNames(),
		many:  true,
		set:   setWorker,
		Help: "use the worker at `[KIND[:ROLE]=]URL` instead of an engine in this process, such as " +
			"vllm=http://10.0.0.7:8000; KIND defaults to parley; vllm and sglang may have the ROLE prefill or " +
			"decode; repeatable",
	},
	{
		Key:   "pools",
		wants: "a list of pools as docs/fleet.md shows it",
		tree:  true,
		holds: poolsHoldKeys,
		set:   setPools,
		Help:  "divide the workers into pools, a `YAML` list; see docs/fleet.md",
	},
	{
		Key:    "worker-key",
		wants:  wantsSecret,
		secret: true,
		set:    setSecret(func(s *Settings) *string { return &s.WorkerKey }),
		Help:   "send `KEY` to the Parley workers of --worker, and of pools whose entry has no key",
	},
	{Key: "worker-ca", wants: "the path of a PEM file", set: setText(func(s *Settings) *string { return &s.WorkerCA }),
		Help: "trust the certificate authorities in `FILE` for https workers (default: the system's)"},
	{Key: "worker-client-cert", wants: "the path of a PEM file",
		set:  setText(func(s *Settings) *string { return &s.WorkerClientCert }),
		Help: "present the client certificate in `FILE` to https workers with a --client-ca; reloaded when it changes"},
	{Key: "worker-client-key", wants: "the path of a PEM file",
		set:  setText(func(s *Settings) *string { return &s.WorkerClientKey }),
		Help: "private key of --worker-client-cert, a `FILE`"},
	{
		Key:    "fleet-join-token",
		wants:  wantsSecret,
		secret: true,
		set:    setSecret(func(s *Settings) *string { return &s.JoinToken }),
		Help:   "let workers register with `TOKEN`; it grants nothing else",
	},
	{
		Key:    "fleet-token",
		wants:  wantsSecret,
		secret: true,
		set:    setSecret(func(s *Settings) *string { return &s.JoinToken }),
		Help:   "old name of --fleet-join-token, a `TOKEN`",
	},
	{
		Key:    "fleet-operate-token",
		wants:  wantsSecret,
		secret: true,
		set:    setSecret(func(s *Settings) *string { return &s.OperateToken }),
		Help:   "let operators view and control the fleet with `TOKEN`, in addition to admin keys",
	},
	{
		Key:   "fleet-join-networks",
		wants: "networks such as 10.1.0.0/16, or private, or any",
		many:  true,
		set:   setJoinNetworks,
		Help: "let workers register from `NETWORK`, such as 10.1.0.0/16, private (addresses not routed on the " +
			"Internet) or any; repeatable (default private)",
	},
	{
		Key:   "fleet-join-kinds",
		wants: "one of " + kindNames(),
		many:  true,
		set:   setJoinKinds,
		Help:  "let workers of this `KIND` register; repeatable (default parley)",
	},
	{Key: "kv-transfer", wants: "on or off", set: setKVTransfer,
		Help: "let workers fetch cached context from each other where that is faster than computing it: `on` or off " +
			"(default on)"},
	{Key: "kv-warm-up", wants: "a time such as 5s", set: setKVWarmUp,
		Help: "let a worker that joins or wakes fetch recently used context from the others, for up to `DURATION` " +
			"before it gets requests; 0 disables this (default 5s)"},
	{Key: "hedge-after", wants: "a time such as 2s",
		set: setTime(func(s *Settings) *time.Duration { return &s.HedgeAfter }),
		Help: "send a request to a second worker if no token has arrived after `DURATION`, and use the answer that " +
			"begins first (default: off)"},
	{
		Key:    "salt-key",
		wants:  wantsSecret,
		secret: true,
		set:    setSaltKey,
		Help: "derive the cache salts that separate organisations from this secret `TEXT`; servers that share " +
			"workers need the same (default: a random one in the store)",
	},
	{Key: "cache-scope", wants: "organisation, user or key", set: setCacheScope,
		Help: "share cached context and answers within `SCOPE`: organisation, user or key (default user)"},
	{
		Key:   "public-prompt",
		wants: "a text, or @ and the name of a file",
		many:  true,
		set:   setPublicPrompt,
		Help: "let all organisations share the cached context of conversations whose system message is or begins " +
			"with `TEXT`, or with the content of @FILE; repeatable",
	},
}

const wantsSecret = "a text of at least 16 characters, such as from `openssl rand -hex 16`"

func setCacheScope(s *Settings, text string) error {
	if text == "organisation" {
		text = string(job.ScopeOrganization)
	}
	if !slices.Contains(job.CacheScopes(), job.CacheScope(text)) {
		return errBadValue
	}
	s.CacheScope = job.CacheScope(text)
	return nil
}

func kindNames() string {
	var names []string
	for _, k := range worker.Kinds() {
		names = append(names, string(k))
	}
	return strings.Join(names, ", ")
}

// setWorker puts a worker into the pool that serves all.
func setWorker(s *Settings, text string) error {
	kind, address, named := strings.Cut(text, "=")
	if !named || strings.Contains(kind, "/") {
		kind, address = "", text
	}
	kind, role, _ := strings.Cut(kind, ":")
	if _, err := worker.ParseKind(kind); named && kind != "" && err != nil {
		return err
	}
	if _, err := discover.Static([]discover.Address{{URL: address}}); err != nil {
		return err
	}
	w := PoolWorker{URL: address, Kind: kind, Role: parley.WorkerRole(role)}
	if err := w.checkRole(); err != nil {
		return err
	}
	s.Workers = append(s.Workers, w)
	return nil
}

func setPools(s *Settings, text string) error {
	var pools []PoolConfig
	if err := yaml.NewDecoder(bytes.NewReader([]byte(text)), yaml.Strict()).Decode(&pools); err != nil {
		return fmt.Errorf("%s", yaml.FormatError(err, false, false))
	}
	for i := range pools {
		if err := pools[i].check(); err != nil {
			return err
		}
	}
	s.Pools = pools
	return nil
}

// check says what is wrong with a pool, as far as the file alone shows it.
func (p *PoolConfig) check() error {
	if p.Name == "" {
		return fmt.Errorf("a pool has no name")
	}
	if _, err := p.Pool(); err != nil {
		return err
	}
	if len(p.Workers) == 0 {
		return fmt.Errorf("pool %s has no workers: list them, or configure how they are discovered", p.Name)
	}
	for i := range p.Workers {
		if err := p.Workers[i].check(); err != nil {
			return fmt.Errorf("worker %d of pool %s: %w", i+1, p.Name, err)
		}
	}
	return nil
}

func (w *PoolWorker) check() error {
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
	if err := w.checkRole(); err != nil {
		return err
	}
	return w.checkAccess()
}

// checkRole says what is wrong with the part of requests that a worker does.
func (w *PoolWorker) checkRole() error {
	switch w.Role {
	case "":
		return nil
	case parley.RolePrefill, parley.RoleDecode:
	default:
		return fmt.Errorf("the role %q is not known: use prefill or decode", w.Role)
	}
	if !worker.Kind(w.Kind).Divides() {
		return fmt.Errorf("a role is set for a worker of the kind %q: only vllm and sglang have one here; "+
			"a Parley worker is started with --role", cmp.Or(w.Kind, string(worker.Parley)))
	}
	return nil
}

// checkAccess reads the entry's key and networks, and says what is wrong with them.
func (w *PoolWorker) checkAccess() (err error) {
	switch {
	case w.Register && (w.Key != "" || w.KeyFile != ""):
		return fmt.Errorf(
			"register and key are both set: a worker that registers has its own credential, so remove key")
	case !w.Register && (len(w.Networks) > 0 || len(w.Kinds) > 0):
		return fmt.Errorf("networks and kinds apply only to workers that register: remove them, or set register")
	case w.Key != "" && w.KeyFile != "":
		return fmt.Errorf("key and key_file are both set: set one")
	}
	if w.KeyFile != "" {
		read := Setting{wants: "the key of a worker", set: setText(func(s *Settings) *string { return &s.WorkerKey })}
		var holder Settings
		if err := read.readSecret(&holder, w.KeyFile); err != nil {
			return fmt.Errorf("key_file: %w", err)
		}
		w.Key = holder.WorkerKey
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

func setJoinNetworks(s *Settings, text string) error {
	networks, err := parseNetworks([]string{text})
	s.JoinNetworks = append(s.JoinNetworks, networks...)
	return err
}

func setJoinKinds(s *Settings, text string) error {
	kind, err := worker.ParseKind(text)
	s.JoinKinds = append(s.JoinKinds, string(kind))
	return err
}

// poolsHoldKeys reports whether a list of pools has keys in it.
func poolsHoldKeys(text string) bool {
	var pools []PoolConfig
	_ = yaml.Unmarshal([]byte(text), &pools) // what is wrong with it is said elsewhere
	return slices.ContainsFunc(pools, func(p PoolConfig) bool {
		return slices.ContainsFunc(p.Workers, func(w PoolWorker) bool { return w.Key != "" })
	})
}

// Pool returns the pool as the fleet takes it.
func (p *PoolConfig) Pool() (fleet.Pool, error) {
	out := fleet.Pool{Name: p.Name, Purpose: parley.Purpose(p.Purpose), Models: p.Models, Tenants: p.Payers}
	switch out.Purpose {
	case "", parley.ForChat, parley.ForComplete, fleet.AnyPurpose:
	default:
		return out, fmt.Errorf("the purpose of pool %s is %q: use chat, complete or any", p.Name, p.Purpose)
	}
	for _, name := range p.Tiers {
		class, ok := classNamed(name)
		if !ok {
			return out, fmt.Errorf("pool %s has the unknown tier %q: use free, pro or enterprise", p.Name, name)
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

func setSaltKey(s *Settings, text string) error {
	if len(text) < 16 {
		return errBadValue
	}
	s.SaltKey = []byte(text)
	return nil
}

func setPublicPrompt(s *Settings, text string) error {
	if name, isFile := strings.CutPrefix(text, "@"); isFile {
		content, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		text = strings.TrimRight(string(content), "\n")
	}
	if text == "" {
		return errBadValue
	}
	s.PublicPrompts = append(s.PublicPrompts, text)
	return nil
}

func setKVWarmUp(s *Settings, text string) error {
	err := setTime(func(s *Settings) *time.Duration { return &s.KVTransfer.WarmUp })(s, text)
	if err == nil && s.KVTransfer.WarmUp == 0 {
		s.KVTransfer.WarmUp = -1
	}
	return err
}

// setKVTransfer sets whether workers fetch blocks from each other.
func setKVTransfer(s *Settings, text string) error {
	on := true
	if err := setSwitch(func(*Settings) *bool { return &on })(s, text); err != nil {
		return err
	}
	s.KVTransfer.Off = !on
	return nil
}
