package main

import (
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley"
	"parley/compute"
	"parley/compute/cpu"
	"parley/gateway"
	"parley/gateway/convo"
	"parley/gateway/infer"
	"parley/gateway/limit"
	"parley/gateway/tenant"
	"parley/internal/logrepeat"
	"parley/worker/host"
)

// settings are what a server can be told. Each one comes from a flag, else
// from an environment variable, else from the configuration file, else it has
// the default that defaultSettings gives it.
type settings struct {
	collector string // of traces
	addr      string
	data      string
	store     string // empty: a file in data
	untitled  bool
	// auditKeep is how long the audit log keeps entries; 0 is for ever.
	auditKeep   time.Duration
	noAddresses bool
	tiers       gateway.TierContexts
	models      []modelPath
	drain       time.Duration
	// keepAlive is how long an idle model of the model folder stays in memory.
	keepAlive  time.Duration
	logFormat  string
	logLevel   slog.Level
	kvTokens   int
	kvType     compute.KVType
	kvHost     int64 // bytes
	kvDisk     int64
	context    int
	seqs       int
	stepTokens int
	target     time.Duration
	background time.Duration
	// slo is promised to all requests that no other objective selects.
	slo        parley.Objective
	objectives parley.Objectives
	plodding   bool // no speculation
	draft      string
	threads    int
	cpu        string
	admission  infer.Admission
	share      infer.Sharing
	shareLocal bool
	numerics   cpu.Numerics
	device     string
	worker     workerSettings
	fleetFields
	economy         economy
	tlsCert, tlsKey string
	// tenantTiers are what each tier gets, aliases other names for models.
	tenantTiers tenant.Tiers
	aliases     map[string]gateway.Alias
	origins     []string
	metricsOpen bool
	// proxies are the networks of reverse proxies whose headers are believed.
	proxies []netip.Prefix
	// bodyTotal and bodyPerKey bound request bodies in memory, socketsPerKey connections.
	bodyTotal, bodyPerKey int64
	socketsPerKey         int
	// retention and keepFiles are how long what is stored is kept.
	retention gateway.Retention
	keepFiles time.Duration
	// safetyPolicy is the file that says what is allowed; empty flags only.
	safetyPolicy string
	// warning is what the log says of where the settings come from.
	warning string
}

// A modelPath is a model to serve; an empty name means the file's own.
type modelPath struct{ name, path string }

func defaultSettings() *settings {
	return &settings{addr: "127.0.0.1:8080", data: dataDir(), drain: 30 * time.Second, logFormat: "text", draft: draftAuto, slo: parley.Objective{SLO: parley.DefaultSLO()}, kvType: compute.KVBF16, tiers: gateway.DefaultTierContexts(), tenantTiers: tenant.DefaultTiers(), economy: economy{alert: limit.AlertDefault}}
}

// dataDir returns where the user's system keeps the data of programs.
func dataDir() string {
	if dir := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "parley")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return filepath.Join(os.TempDir(), "parley")
	}
	if runtime.GOOS == "darwin" {
		return filepath.Join(home, "Library", "Application Support", "parley")
	}
	return filepath.Join(home, ".local", "share", "parley")
}

// storeName returns what names the store of conversations.
func (s *settings) storeName() string {
	if s.store != "" {
		return s.store
	}
	return filepath.Join(s.data, "conversations.db")
}

// hostConfig returns how a model is hosted under these settings.
func (s *settings) hostConfig(name string, log *slog.Logger) host.Config {
	return host.Config{
		Name: name, KVTokens: s.kvTokens, KVType: s.kvType, KVHostBytes: s.kvHost, KVDiskBytes: s.kvDisk, DataDir: s.data, ContextTokens: s.context, Seqs: s.seqs, StepTokens: s.stepTokens, Target: s.target, BackgroundWait: s.background, SLO: s.slo.SLO, NoSpeculation: s.plodding,
		DeviceName: s.device, Threads: s.threads, Path: s.cpu, Numerics: s.numerics, Log: log, Classes: s.shares(),
	}
}

// A setting is one thing that can be set, by whatever way.
type setting struct {
	// key is the flag's name. The variable is PARLEY_ and the key in capitals,
	// the file's key has underscores.
	key   string
	wants string // completes "… is not"
	help  string
	many  bool // may be given several times
	// bare is what the flag means without a value; empty if it needs one.
	bare string
	tree bool // is any YAML in the file; its text is YAML, too
	// secret values are in no error, and can be read from a file by the flag
	// secretFile, or by key-file if that is empty. from is the setting that such a flag
	// reads. holds reports whether a text has a secret in it, where not all have.
	secret     bool
	secretFile string
	from       *setting
	holds      func(text string) bool
	set        func(s *settings, text string) error
}

func (s *setting) variable() string {
	return "PARLEY_" + strings.ToUpper(strings.ReplaceAll(s.key, "-", "_"))
}

func (s *setting) fileKey() string { return strings.ReplaceAll(s.key, "-", "_") }

// apply sets the value that text spells, or says what was expected.
func (s *setting) apply(to *settings, text string) error {
	err := s.set(to, text)
	switch {
	case err != nil && s.tree:
		return fmt.Errorf("not %s: %w", s.wants, err)
	case err != nil && s.from != nil:
		return err
	case err != nil && s.secret:
		return fmt.Errorf("what was given is not %s", s.wants)
	case err != nil:
		return fmt.Errorf("%q is not %s", text, s.wants)
	}
	return nil
}

// serveSettings is the one list of what serve can be told.
var serveSettings = withSecretFiles(slices.Concat([]setting{
	{key: "addr", wants: "an address such as 127.0.0.1:8080", help: "listen on this `ADDRESS` (default 127.0.0.1:8080)", set: setAddr},
	{key: "model", wants: "PATH or name=PATH", many: true, set: setModel,
		help: "serve the model at `[NAME=]PATH`: a GGUF file or a directory of safetensors; repeat it for more (default: all models of the model folder, loaded when they are asked for, and the built-in polly and polly-mini)"},
	{key: "data", wants: "a directory", help: "keep data in this `DIRECTORY` (default: the data directory of your account)", set: setText(func(s *settings) *string { return &s.data })},
	{key: "store", wants: "the path of a file or postgres://user@host/name", secret: true, secretFile: "store-url-file", holds: hasPassword, set: setText(func(s *settings) *string { return &s.store }),
		help: "keep conversations and responses in this SQLite file or PostgreSQL database, a `PATH` or postgres://user@host/name; several servers may share it (default: conversations.db in the data directory)"},
	{key: "titles", wants: "on or off", help: "let the model write titles for conversations: `on` or off (default on)", set: setTitles},
	{key: "conversations", wants: "CLASS=POLICY or CLASS=POLICY:TOKENS, such as free=summarise:4096", many: true, set: setTier,
		help: "what conversations of a class of tenants hold, `CLASS=POLICY[:TOKENS]`: the class free, pro or enterprise, what becomes of old turns unless a conversation says otherwise (refuse, drop or summarise), and the most tokens shown to the model; repeat it for more (default free=drop:4096, else drop)"},
	{key: "drain", wants: "a time such as 30s", help: "on Ctrl-C let running answers finish for up to this `TIME` (default 30s)", set: setTime(func(s *settings) *time.Duration { return &s.drain })},
	{key: "keep-alive", wants: "a time such as 5m, or never", set: setKeepAlive,
		help: "keep an idle model of the model folder in memory for this `TIME`, or never unload it (default 5m)"},
	{key: "kv-tokens", wants: "a number of tokens, 0 or more", help: "size of each model's key/value pool in `TOKENS`; 0 chooses what fits", set: setCount(func(s *settings) *int { return &s.kvTokens })},
	{key: "kv-type", wants: "one of f32, bf16, int8, fp8", set: setKVType,
		help: "keep keys and values as `TYPE`: f32, bf16, int8 or fp8; smaller ones hold more tokens in the same memory (default bf16)"},
	{key: "kv-host", wants: "a size such as 4GiB", set: setSize(func(s *settings) *int64 { return &s.kvHost }),
		help: "keep keys and values of idle conversations in so much host memory for each model, a `SIZE` such as 4GiB; worth it with a GPU (default none)"},
	{key: "kv-disk", wants: "a size such as 20GiB", set: setSize(func(s *settings) *int64 { return &s.kvDisk }),
		help: "keep them on disk, under the data directory, up to this `SIZE` for each model, where they also survive a restart (default none)"},
	{key: "context", wants: "a number of tokens, 0 or more", help: "bound prompt and answer together to `TOKENS`; 0 means what the model was made for", set: setCount(func(s *settings) *int { return &s.context })},
	{key: "seqs", wants: "a number, 0 or more", help: "compute at most `N` answers at once; 0 means 128", set: setCount(func(s *settings) *int { return &s.seqs })},
	{key: "step-tokens", wants: "a number of tokens, 0 or more", help: "compute at most `TOKENS` in one forward pass; 0 means 512", set: setCount(func(s *settings) *int { return &s.stepTokens })},
	{key: "tpot-target", wants: "a time such as 50ms", help: "let prompts slow running answers to at most this `TIME` per token (default 50ms)", set: setTime(func(s *settings) *time.Duration { return &s.target })},
	{key: "background-wait", wants: "a time such as 1m, or never", set: setBackground,
		help: "let one request of a batch in after so much `TIME` in which others always had work, or never (default 1m)"},
	{key: "slo-ttft", wants: "a time such as 1s", help: "count first tokens within this `TIME` as served well (default 1s)", set: setTime(func(s *settings) *time.Duration { return &s.slo.TTFT })},
	{key: "slo-ttft-cached", wants: "a time such as 700ms", help: "the same `TIME` where at least half of the prompt was cached (default 700ms)", set: setTime(func(s *settings) *time.Duration { return &s.slo.CachedTTFT })},
	{key: "slo-tpot", wants: "a time such as 50ms", help: "count later tokens within this mean `TIME` as served well (default 50ms)", set: setTime(func(s *settings) *time.Duration { return &s.slo.TPOT })},
	{key: "speculate", wants: "on or off", help: "guess tokens ahead where it saves time: `on` or off; the answers are the same", set: setSpeculate},
	{key: "draft", wants: "auto, off, the name of a built-in model or a path", set: setDraft,
		help: "let a smaller `MODEL` of the same vocabulary guess ahead for the others: a built-in model's name, a path, off, or auto, which pairs polly with polly-mini (default auto)"},
	{key: "device", wants: "auto, cpu, cuda or cuda:N", set: setDevice,
		help: "compute on this `DEVICE`: cpu, cuda (the first NVIDIA GPU), cuda:N (GPU N), or auto, which takes the first GPU if there is one that the models fit on (default auto)"},
	{key: "threads", wants: "a number, 0 or more", help: "compute on `N` processors; 0 means all", set: setCount(func(s *settings) *int { return &s.threads })},
	{key: "cpu", wants: "one of auto, plain, avx2, avx512, amx, neon", help: "use these processor `INSTRUCTIONS`: auto, plain, avx2, avx512, amx or neon", set: setCPU},
	{key: "numerics", wants: "exact or fast", set: setNumerics,
		help: "compute with `exact` numerics, where an answer does not depend on what runs beside it, or with fast ones, which read prompts faster on processors with AMX (default exact)"},
	{key: "log-format", wants: "text or json", help: "write the log as `text` or json", set: setLogFormat},
	{key: "log-addresses", wants: "on or off", set: setLogAddresses,
		help: "write the addresses of clients into the log and the audit log: `on` or off (default on)"},
	{key: "audit-keep", wants: "a time such as 8760h", set: setTime(func(s *settings) *time.Duration { return &s.auditKeep }),
		help: "remove entries of the audit log after this `TIME` (default: keep all)"},
	{key: "log-level", wants: "debug, info, warn or error", help: "log from this `LEVEL` on: debug, info, warn or error (default info)", set: func(s *settings, text string) error { return s.logLevel.UnmarshalText([]byte(text)) }},
}, traceSettings, objectiveSettings, overloadSettings, fleetSettings, economySettings, tenantSettings, limitSettings, safetySettings))

func setText(field func(*settings) *string) func(*settings, string) error {
	return func(s *settings, text string) error {
		if text == "" {
			return errNotWanted
		}
		*field(s) = text
		return nil
	}
}

// errNotWanted says that a text does not spell a value; the setting itself
// says what would.
var errNotWanted = fmt.Errorf("not wanted")

func setCount(field func(*settings) *int) func(*settings, string) error {
	return func(s *settings, text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return errNotWanted
		}
		*field(s) = n
		return nil
	}
}

// setSize reads a number of bytes with a unit: B, KB, MB, GB, TB in thousands,
// KiB, MiB, GiB, TiB in powers of two.
func setSize(field func(*settings) *int64) func(*settings, string) error {
	return func(s *settings, text string) error {
		number := strings.TrimRight(text, "BKMGTi")
		unit := strings.TrimSuffix(text[len(number):], "B")
		base := int64(1000)
		if before, ok := strings.CutSuffix(unit, "i"); ok {
			base, unit = 1024, before
		}
		power := strings.Index(" KMGT", unit)
		if unit == "" {
			power = 0
		}
		n, err := strconv.ParseFloat(number, 64)
		if err != nil || len(unit) > 1 || power < 0 || n < 0 || n > 1e6 && power > 2 {
			return errNotWanted
		}
		for range power {
			n *= float64(base)
		}
		*field(s) = int64(n)
		return nil
	}
}

func setAddr(s *settings, text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return errNotWanted
	}
	s.addr = text
	return nil
}

// setModel reads PATH or name=PATH. A path that exists is a path even if it
// has an equals sign in it.
func setModel(s *settings, text string) error {
	name, path, named := strings.Cut(text, "=")
	if _, err := os.Stat(text); err == nil || !named {
		name, path = "", text
	}
	if path == "" || (named && name == "" && path != text) {
		return errNotWanted
	}
	s.models = append(s.models, modelPath{name, path})
	return nil
}

func setTime(field func(*settings) *time.Duration) func(*settings, string) error {
	return func(s *settings, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return errNotWanted
		}
		*field(s) = d
		return nil
	}
}

func setKeepAlive(s *settings, text string) error {
	if text == "never" {
		s.keepAlive = -1
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errNotWanted
	}
	s.keepAlive = d
	return nil
}

func setBackground(s *settings, text string) error {
	if text == "never" {
		s.background = -1
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errNotWanted
	}
	s.background = d
	return nil
}

func setKVType(s *settings, text string) (err error) {
	s.kvType, err = compute.ParseKVType(text)
	return err
}

func setSpeculate(s *settings, text string) error {
	if text != "on" && text != "off" {
		return errNotWanted
	}
	s.plodding = text == "off"
	return nil
}

func setLogAddresses(s *settings, text string) error {
	if text != "on" && text != "off" {
		return errNotWanted
	}
	s.noAddresses = text == "off"
	return nil
}

func setTitles(s *settings, text string) error {
	if text != "on" && text != "off" {
		return errNotWanted
	}
	s.untitled = text == "off"
	return nil
}

func setTier(s *settings, text string) error {
	class, rest, _ := strings.Cut(text, "=")
	policy, tokens, capped := strings.Cut(rest, ":")
	for i := range s.tiers {
		if parley.Class(i).String() != class {
			continue
		}
		tier := gateway.TierContext{Policy: convo.Policy(policy)}
		if n, err := strconv.Atoi(tokens); capped && (err != nil || n < 0) {
			return errNotWanted
		} else if capped {
			tier.Tokens = n
		}
		s.tiers[i] = tier
		return s.tiers.Validate()
	}
	return errNotWanted
}

func setCPU(s *settings, text string) error {
	if !slices.Contains([]string{"auto", "plain", "avx2", "avx512", "amx", "neon"}, text) {
		return errNotWanted
	}
	s.cpu = text
	if text == "auto" {
		s.cpu = ""
	}
	return nil
}

func setDevice(s *settings, text string) error {
	s.device = text
	_, err := host.ParseDevice(text)
	return err
}

func setNumerics(s *settings, text string) (err error) {
	s.numerics, err = cpu.ParseNumerics(text)
	return err
}

func setLogFormat(s *settings, text string) error {
	if text != "text" && text != "json" {
		return errNotWanted
	}
	s.logFormat = text
	return nil
}

// repeatEvery is how often the log has the same failure again.
const repeatEvery = time.Minute

// logger returns the log that the settings describe, on standard error.
func (s *settings) logger() *slog.Logger {
	opts := &slog.HandlerOptions{Level: s.logLevel}
	var h slog.Handler = slog.NewTextHandler(os.Stderr, opts)
	if s.logFormat == "json" {
		h = slog.NewJSONHandler(os.Stderr, opts)
	}
	return slog.New(logrepeat.Limit(h, repeatEvery))
}
