package settings

import (
	"slices"
	"time"
)

// List is the list of all settings of serve.
var List = withSecretFiles(slices.Concat([]Setting{
	{Key: "addr", wants: "an address such as 127.0.0.1:8080", Help: "listen on `ADDRESS` (default 127.0.0.1:8080)",
		set: setAddr},
	{
		Key:   "model",
		wants: "PATH or name=PATH",
		many:  true,
		set:   setModel,
		Help: "serve the model at `[NAME=]PATH`, a GGUF file or a directory of safetensors; repeatable (default: " +
			"the built-in polly and polly-mini)",
	},
	{Key: "data", wants: "a directory", Help: "store data in `DIRECTORY` (default: your account's data directory)",
		set: setText(func(s *Settings) *string { return &s.Data })},
	{
		Key:        "store",
		wants:      "the path of a file or postgres://user@host/name",
		secret:     true,
		secretFile: "store-url-file",
		holds:      hasPassword,
		set:        setText(func(s *Settings) *string { return &s.Store }),
		Help: "store conversations and responses in this SQLite file or PostgreSQL database, a `PATH` or " +
			"postgres://user@host/name; several servers may share it (default: conversations.db in the data directory)",
	},
	{Key: "titles", wants: "on or off",
		Help: "have the model write titles for conversations: `on` or off (default on)",
		set:  setSwitch(func(s *Settings) *bool { return &s.Titles })},
	{
		Key:   "conversations",
		wants: "CLASS=POLICY or CLASS=POLICY:TOKENS, such as free=summarise:4096",
		many:  true,
		set:   setTier,
		Help: "limit the history of conversations by tier, `TIER=POLICY[:TOKENS]`: the tier is free, pro or " +
			"enterprise; the policy for old turns, unless a conversation sets its own, is refuse, drop or " +
			"summarise; TOKENS is the most history shown to the model; repeatable (default free=drop:131072, " +
			"otherwise drop)",
	},
	{Key: "drain", wants: "a time such as 30s",
		Help: "after Ctrl-C, let running answers finish for up to `DURATION` (default 30s)",
		set:  setTime(func(s *Settings) *time.Duration { return &s.Drain })},
	{Key: "keep-alive", wants: "a time such as 5m, or never", set: setKeepAlive,
		Help: "unload an idle model of the model folder after `DURATION`; never keeps it loaded (default 5m)"},
	{Key: "kv-tokens", wants: "a number of tokens, 0 or more",
		Help: "size each model's key/value pool for this many `TOKENS`; 0 uses what fits",
		set:  setCount(func(s *Settings) *int { return &s.KVTokens })},
	{Key: "kv-type", wants: "one of f32, bf16, int8, fp8", set: setKVType,
		Help: "store keys and values as `TYPE`: f32, bf16, int8 or fp8; smaller types fit more tokens into the " +
			"same memory (default bf16)"},
	{Key: "kv-host", wants: "a size such as 4GiB", set: setSize(func(s *Settings) *int64 { return &s.KVHost }),
		Help: "offload keys and values of idle conversations to host memory, up to `SIZE` per model, such as 4GiB; " +
			"useful with a GPU (default none)"},
	{Key: "kv-disk", wants: "a size such as 20GiB", set: setSize(func(s *Settings) *int64 { return &s.KVDisk }),
		Help: "offload keys and values of idle conversations to disk, in the data directory, up to `SIZE` per " +
			"model; they survive a restart (default none)"},
	{Key: "context", wants: "a number of tokens, 0 or more",
		Help: "limit prompt plus answer to `TOKENS`; 0 means the model's own limit",
		set:  setCount(func(s *Settings) *int { return &s.Context })},
	{Key: "seqs", wants: "a number, 0 or more", Help: "generate at most `N` answers concurrently; 0 means 128",
		set: setCount(func(s *Settings) *int { return &s.Seqs })},
	{Key: "step-tokens", wants: "a number of tokens, 0 or more",
		Help: "compute at most `TOKENS` in one forward pass; 0 means 512",
		set:  setCount(func(s *Settings) *int { return &s.StepTokens })},
	{Key: "tpot-target", wants: "a time such as 50ms",
		Help: "let prefill slow running answers to at most `DURATION` per token (default 50ms)",
		set:  setTime(func(s *Settings) *time.Duration { return &s.Target })},
	{Key: "background-wait", wants: "a time such as 1m, or never", set: setBackground,
		Help: "admit one batch request after `DURATION` of continuous interactive load; never disables this " +
			"(default 1m)"},
	{Key: "slo-ttft", wants: "a time such as 1s", Help: "SLO for the time to first token, a `DURATION` (default 1s)",
		set: setTime(func(s *Settings) *time.Duration { return &s.SLO.TTFT })},
	{Key: "slo-ttft-cached", wants: "a time such as 700ms",
		Help: "SLO for the time to first token when at least half of the prompt was cached, a `DURATION` " +
			"(default 700ms)", set: setTime(func(s *Settings) *time.Duration { return &s.SLO.CachedTTFT })},
	{Key: "slo-tpot", wants: "a time such as 50ms",
		Help: "SLO for the mean time between tokens, a `DURATION` (default 50ms)",
		set:  setTime(func(s *Settings) *time.Duration { return &s.SLO.TPOT })},
	{Key: "speculate", wants: "on or off",
		Help: "use speculative decoding where it saves time: `on` or off; answers are the same (default on)",
		set:  setSwitch(func(s *Settings) *bool { return &s.Speculate })},
	{Key: "draft", wants: "auto, off, the name of a built-in model or a path",
		set: setText(func(s *Settings) *string { return &s.Draft }),
		Help: "use a smaller `MODEL` with the same vocabulary for speculative decoding: a built-in model's name, a " +
			"path, off, or auto, which pairs polly with polly-mini (default auto)"},
	{Key: "device", wants: "auto, cpu, cuda or cuda:N", set: setDevice,
		Help: "compute on `DEVICE`: cpu, cuda (the first NVIDIA GPU), cuda:N (GPU N), or auto, which uses the " +
			"first GPU that the models fit on, otherwise the CPU (default auto)"},
	{Key: "weights", wants: "as-stored or fp8", set: setWeights,
		Help: "compute with weights `as-stored`, or round matrices of 16 and 32 bits to fp8 when they are loaded: " +
			"half the memory of BF16, faster and less exact, on GPUs of compute capability 9.0 (H100, H200); other " +
			"devices refuse it (default as-stored)"},
	{Key: "threads", wants: "a number, 0 or more", Help: "compute with `N` threads; 0 means one per processor, " +
		"but for one on decode workers with four processors or more",
		set: setCount(func(s *Settings) *int { return &s.Threads })},
	{Key: "cpu", wants: "one of auto, plain, avx2, avx512, amx, neon",
		Help: "use the instruction set `NAME`: auto, plain, avx2, avx512, amx or neon (default auto)", set: setCPU},
	{Key: "numerics", wants: "exact or fast", set: setNumerics,
		Help: "compute with `exact` numerics, where an answer does not depend on other requests, or with fast " +
			"ones, which speed up prefill on processors with AMX (default exact)"},
	{Key: "log-format", wants: "text or json", Help: "write the log as `text` or json (default text)",
		set: setLogFormat},
	{Key: "log-addresses", wants: "on or off", set: setSwitch(func(s *Settings) *bool { return &s.LogAddresses }),
		Help: "include client addresses in the log and the audit log: `on` or off (default on)"},
	{Key: "audit-keep", wants: "a time such as 8760h",
		set:  setTime(func(s *Settings) *time.Duration { return &s.AuditKeep }),
		Help: "delete audit log entries after `DURATION` (default: keep all)"},
	{Key: "log-level", wants: "debug, info, warn or error",
		Help: "log at `LEVEL` and above: debug, info, warn or error (default info)",
		set:  func(s *Settings, text string) error { return s.LogLevel.UnmarshalText([]byte(text)) }},
}, kvStoreSettings, traceSettings, objectiveSettings, overloadSettings, fleetSettings, upstreamSettings,
	economySettings,
	tenantSettings, issuerSettings, limitSettings,
	safetySettings))

// everySetting is what a file of settings and variables may give, whichever
// command reads them.
var everySetting = slices.Concat(List, workerOnly)

// hosting are the settings of a server that are about models and this process,
// and so are a worker's, too.
var hosting = []string{
	"addr", "model", "data", "drain", "kv-tokens", "kv-type", "kv-host", "kv-disk", "context", "seqs", "step-tokens",
	"kv-store", "kv-store-url-file", "kv-store-bandwidth", "kv-store-keep", "kv-store-wait",
	"tpot-target", "background-wait",
	"slo-ttft", "slo-ttft-cached", "slo-tpot", "tiers", "speculate", "draft", "device", "weights",
	"threads", "cpu", "numerics",
	"log-format", "log-level", "otlp-endpoint", "otlp-logs",
	"tls-cert", "tls-key", "worker-ca", "worker-client-cert", "worker-client-key", "worker-key", "worker-key-file",
	"fleet-join-token", "fleet-join-token-file", "fleet-token", "fleet-token-file",
}

// workerList returns the settings of a worker.
func workerList() (list []*Setting) {
	for i := range everySetting {
		s := &everySetting[i]
		if slices.Contains(hosting, s.Key) || slices.ContainsFunc(workerOnly, func(o Setting) bool {
			return o.Key == s.Key
		}) {
			list = append(list, s)
		}
	}
	return list
}
