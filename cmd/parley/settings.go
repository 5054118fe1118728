package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley"
	"parley/cli"
	"parley/compute"
	"parley/compute/cpu"
	"parley/gateway"
	"parley/gateway/convo"
	"parley/gateway/infer"
	"parley/gateway/limit"
	"parley/gateway/models"
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
	// titles: the model writes titles for conversations.
	titles bool
	// auditKeep is how long the audit log keeps entries; 0 is for ever.
	auditKeep time.Duration
	// logAddresses: the logs name the addresses of clients.
	logAddresses bool
	tiers        models.TierContexts
	models       []modelPath
	drain        time.Duration
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
	speculate  bool
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
	aliases     map[string]models.Alias
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
	return &settings{
		addr:         "127.0.0.1:8080",
		data:         cli.DataDir(),
		drain:        30 * time.Second,
		logFormat:    "text",
		draft:        draftAuto,
		speculate:    true,
		titles:       true,
		logAddresses: true,
		slo:          parley.Objective{SLO: parley.DefaultSLO()},
		kvType:       compute.KVBF16,
		tiers:        models.DefaultTierContexts(),
		tenantTiers:  tenant.DefaultTiers(),
		economy:      economy{alert: limit.AlertDefault},
	}
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
		Name:           name,
		KVTokens:       s.kvTokens,
		KVType:         s.kvType,
		KVHostBytes:    s.kvHost,
		KVDiskBytes:    s.kvDisk,
		DataDir:        s.data,
		ContextTokens:  s.context,
		Seqs:           s.seqs,
		StepTokens:     s.stepTokens,
		Target:         s.target,
		BackgroundWait: s.background,
		SLO:            s.slo.SLO,
		NoSpeculation:  !s.speculate,
		DeviceName:     s.device,
		Threads:        s.threads,
		Path:           s.cpu,
		Numerics:       s.numerics,
		Log:            log,
		Classes:        s.shares(),
	}
}

// A setting is one thing that can be set, by whatever way.
type setting struct {
	// key is the flag's name. The variable is PARLEY_ and the key in capitals,
	// the file's key has underscores.
	key   string
	wants string // completes "expected …"
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
		return fmt.Errorf("expected %s: %w", s.wants, err)
	case err != nil && s.from != nil:
		return err
	case err != nil && s.secret:
		return fmt.Errorf("expected %s", s.wants)
	case err != nil:
		return fmt.Errorf("expected %s, got %q", s.wants, text)
	}
	return nil
}

// serveSettings is the one list of what serve can be told.
var serveSettings = withSecretFiles(slices.Concat([]setting{
	{key: "addr", wants: "an address such as 127.0.0.1:8080", help: "listen on `ADDRESS` (default 127.0.0.1:8080)",
		set: setAddr},
	{
		key:   "model",
		wants: "PATH or name=PATH",
		many:  true,
		set:   setModel,
		help: "serve the model at `[NAME=]PATH`, a GGUF file or a directory of safetensors; repeatable (default: " +
			"the built-in polly and polly-mini)",
	},
	{key: "data", wants: "a directory", help: "store data in `DIRECTORY` (default: your account's data directory)",
		set: setText(func(s *settings) *string { return &s.data })},
	{
		key:        "store",
		wants:      "the path of a file or postgres://user@host/name",
		secret:     true,
		secretFile: "store-url-file",
		holds:      hasPassword,
		set:        setText(func(s *settings) *string { return &s.store }),
		help: "store conversations and responses in this SQLite file or PostgreSQL database, a `PATH` or " +
			"postgres://user@host/name; several servers may share it (default: conversations.db in the data directory)",
	},
	{key: "titles", wants: "on or off",
		help: "have the model write titles for conversations: `on` or off (default on)",
		set:  setSwitch(func(s *settings) *bool { return &s.titles })},
	{
		key:   "conversations",
		wants: "CLASS=POLICY or CLASS=POLICY:TOKENS, such as free=summarise:4096",
		many:  true,
		set:   setTier,
		help: "limit the history of conversations by tier, `TIER=POLICY[:TOKENS]`: the tier is free, pro or " +
			"enterprise; the policy for old turns, unless a conversation sets its own, is refuse, drop or " +
			"summarise; TOKENS is the most history shown to the model; repeatable (default free=drop:4096, " +
			"otherwise drop)",
	},
	{key: "drain", wants: "a time such as 30s",
		help: "after Ctrl-C, let running answers finish for up to `DURATION` (default 30s)",
		set:  setTime(func(s *settings) *time.Duration { return &s.drain })},
	{key: "keep-alive", wants: "a time such as 5m, or never", set: setKeepAlive,
		help: "unload an idle model of the model folder after `DURATION`; never keeps it loaded (default 5m)"},
	{key: "kv-tokens", wants: "a number of tokens, 0 or more",
		help: "size each model's key/value pool for this many `TOKENS`; 0 uses what fits",
		set:  setCount(func(s *settings) *int { return &s.kvTokens })},
	{key: "kv-type", wants: "one of f32, bf16, int8, fp8", set: setKVType,
		help: "store keys and values as `TYPE`: f32, bf16, int8 or fp8; smaller types fit more tokens into the " +
			"same memory (default bf16)"},
	{key: "kv-host", wants: "a size such as 4GiB", set: setSize(func(s *settings) *int64 { return &s.kvHost }),
		help: "offload keys and values of idle conversations to host memory, up to `SIZE` per model, such as 4GiB; " +
			"useful with a GPU (default none)"},
	{key: "kv-disk", wants: "a size such as 20GiB", set: setSize(func(s *settings) *int64 { return &s.kvDisk }),
		help: "offload keys and values of idle conversations to disk, in the data directory, up to `SIZE` per " +
			"model; they survive a restart (default none)"},
	{key: "context", wants: "a number of tokens, 0 or more",
		help: "limit prompt plus answer to `TOKENS`; 0 means the model's own limit",
		set:  setCount(func(s *settings) *int { return &s.context })},
	{key: "seqs", wants: "a number, 0 or more", help: "generate at most `N` answers concurrently; 0 means 128",
		set: setCount(func(s *settings) *int { return &s.seqs })},
	{key: "step-tokens", wants: "a number of tokens, 0 or more",
		help: "compute at most `TOKENS` in one forward pass; 0 means 512",
		set:  setCount(func(s *settings) *int { return &s.stepTokens })},
	{key: "tpot-target", wants: "a time such as 50ms",
		help: "let prefill slow running answers to at most `DURATION` per token (default 50ms)",
		set:  setTime(func(s *settings) *time.Duration { return &s.target })},
	{key: "background-wait", wants: "a time such as 1m, or never", set: setBackground,
		help: "admit one batch request after interactive load was continuous for `DURATION`; never disables this " +
			"(default 1m)"},
	{key: "slo-ttft", wants: "a time such as 1s", help: "SLO for the time to first token, a `DURATION` (default 1s)",
		set: setTime(func(s *settings) *time.Duration { return &s.slo.TTFT })},
	{key: "slo-ttft-cached", wants: "a time such as 700ms",
		help: "SLO for the time to first token when at least half of the prompt was cached, a `DURATION` " +
			"(default 700ms)", set: setTime(func(s *settings) *time.Duration { return &s.slo.CachedTTFT })},
	{key: "slo-tpot", wants: "a time such as 50ms",
		help: "SLO for the mean time between tokens, a `DURATION` (default 50ms)",
		set:  setTime(func(s *settings) *time.Duration { return &s.slo.TPOT })},
	{key: "speculate", wants: "on or off",
		help: "use speculative decoding where it saves time: `on` or off; answers are the same (default on)",
		set:  setSwitch(func(s *settings) *bool { return &s.speculate })},
	{key: "draft", wants: "auto, off, the name of a built-in model or a path", set: setDraft,
		help: "use a smaller `MODEL` with the same vocabulary for speculative decoding: a built-in model's name, a " +
			"path, off, or auto, which pairs polly with polly-mini (default auto)"},
	{key: "device", wants: "auto, cpu, cuda or cuda:N", set: setDevice,
		help: "compute on `DEVICE`: cpu, cuda (the first NVIDIA GPU), cuda:N (GPU N), or auto, which uses the " +
			"first GPU that the models fit on, otherwise the CPU (default auto)"},
	{key: "threads", wants: "a number, 0 or more", help: "compute with `N` threads; 0 means one per processor",
		set: setCount(func(s *settings) *int { return &s.threads })},
	{key: "cpu", wants: "one of auto, plain, avx2, avx512, amx, neon",
		help: "use the instruction set `NAME`: auto, plain, avx2, avx512, amx or neon (default auto)", set: setCPU},
	{key: "numerics", wants: "exact or fast", set: setNumerics,
		help: "compute with `exact` numerics, where an answer does not depend on other requests, or with fast " +
			"ones, which speed up prefill on processors with AMX (default exact)"},
	{key: "log-format", wants: "text or json", help: "write the log as `text` or json (default text)",
		set: setLogFormat},
	{key: "log-addresses", wants: "on or off", set: setSwitch(func(s *settings) *bool { return &s.logAddresses }),
		help: "include client addresses in the log and the audit log: `on` or off (default on)"},
	{key: "audit-keep", wants: "a time such as 8760h",
		set:  setTime(func(s *settings) *time.Duration { return &s.auditKeep }),
		help: "delete audit log entries after `DURATION` (default: keep all)"},
	{key: "log-level", wants: "debug, info, warn or error",
		help: "log at `LEVEL` and above: debug, info, warn or error (default info)",
		set:  func(s *settings, text string) error { return s.logLevel.UnmarshalText([]byte(text)) }},
}, traceSettings, objectiveSettings, overloadSettings, fleetSettings, economySettings, tenantSettings, limitSettings,
	safetySettings))

func setText(field func(*settings) *string) func(*settings, string) error {
	return func(s *settings, text string) error {
		if text == "" {
			return errBadValue
		}
		*field(s) = text
		return nil
	}
}

// errBadValue says that a text does not spell a value; the setting itself
// says what would.
var errBadValue = errors.New("bad value")

func setCount(field func(*settings) *int) func(*settings, string) error {
	return func(s *settings, text string) error {
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return errBadValue
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
			return errBadValue
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
		return errBadValue
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
		return errBadValue
	}
	s.models = append(s.models, modelPath{name, path})
	return nil
}

func setTime(field func(*settings) *time.Duration) func(*settings, string) error {
	return func(s *settings, text string) error {
		d, err := time.ParseDuration(text)
		if err != nil || d < 0 {
			return errBadValue
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
		return errBadValue
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
		return errBadValue
	}
	s.background = d
	return nil
}

func setKVType(s *settings, text string) (err error) {
	s.kvType, err = compute.ParseKVType(text)
	return err
}

func setSwitch(field func(*settings) *bool) func(*settings, string) error {
	return func(s *settings, text string) error {
		if text != "on" && text != "off" {
			return errBadValue
		}
		*field(s) = text == "on"
		return nil
	}
}

func setTier(s *settings, text string) error {
	class, rest, _ := strings.Cut(text, "=")
	policy, tokens, capped := strings.Cut(rest, ":")
	for i := range s.tiers {
		if parley.Class(i).String() != class {
			continue
		}
		tier := models.TierContext{Policy: convo.Policy(policy)}
		if n, err := strconv.Atoi(tokens); capped && (err != nil || n < 0) {
			return errBadValue
		} else if capped {
			tier.Tokens = n
		}
		s.tiers[i] = tier
		return s.tiers.Validate()
	}
	return errBadValue
}

func setCPU(s *settings, text string) error {
	if !slices.Contains([]string{"auto", "plain", "avx2", "avx512", "amx", "neon"}, text) {
		return errBadValue
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
		return errBadValue
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
