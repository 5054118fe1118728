package settings

import (
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"parley/compute"
	"parley/compute/cpu"
	"parley/worker/host"
	"parley/worker/kvstore"
)

// HostConfig returns how a model is hosted under these settings.
func (s *Settings) HostConfig(name string, log *slog.Logger) host.Config {
	return host.Config{
		Name:           name,
		KVTokens:       s.KVTokens,
		KVType:         s.KVType,
		KVHostBytes:    s.KVHost,
		KVDiskBytes:    s.KVDisk,
		KVStore:        s.KVStore.opened,
		DataDir:        s.Data,
		ContextTokens:  s.Context,
		Seqs:           s.Seqs,
		StepTokens:     s.StepTokens,
		Target:         s.Target,
		BackgroundWait: s.Background,
		SLO:            s.SLO.SLO,
		NoSpeculation:  !s.Speculate,
		DeviceName:     s.Device,
		RoundF8:        s.RoundF8,
		Threads:        s.Threads,
		Path:           s.CPU,
		Numerics:       s.Numerics,
		Log:            log,
		Classes:        s.shares(),
	}
}

func setBackground(s *Settings, text string) error {
	if text == "never" {
		s.Background = -1
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errBadValue
	}
	s.Background = d
	return nil
}

func setKVType(s *Settings, text string) (err error) {
	s.KVType, err = compute.ParseKVType(text)
	return err
}

func setCPU(s *Settings, text string) error {
	if !slices.Contains([]string{"auto", "plain", "avx2", "avx512", "amx", "neon"}, text) {
		return errBadValue
	}
	s.CPU = text
	if text == "auto" {
		s.CPU = ""
	}
	return nil
}

func setDevice(s *Settings, text string) error {
	s.Device = text
	_, err := host.ParseDevice(text)
	return err
}

func setWeights(s *Settings, text string) error {
	s.RoundF8 = text == "fp8"
	if !s.RoundF8 && text != "as-stored" {
		return errBadValue
	}
	return nil
}

func setNumerics(s *Settings, text string) (err error) {
	s.Numerics, err = cpu.ParseNumerics(text)
	return err
}

// A KVStore is a store of keys and values behind the fleet.
type KVStore struct {
	kvstore.Config
	opened *kvstore.Store
}

// kvStoreSettings are about the store of keys and values.
var kvStoreSettings = []Setting{
	{
		Key:        "kv-store",
		wants:      "redis://host:6379/0, redis-cluster://host:6379 or s3://bucket/prefix?endpoint=https://host:9000",
		secret:     true,
		secretFile: "kv-store-url-file",
		holds:      hasPassword,
		set:        setKVStore,
		Help: "share keys and values of prompts with other workers through the Redis, Valkey or S3 bucket at `URL`; " +
			"see docs/kv-store.md (default none)",
	},
	{Key: "kv-store-bandwidth", wants: "a size such as 32MiB, or 0 to write nothing", set: setKVStoreBandwidth,
		Help: "write at most `SIZE` a second to --kv-store; 0 only reads (default 32MiB)"},
	{Key: "kv-store-keep", wants: "a time such as 24h",
		set: setTime(func(s *Settings) *time.Duration { return &s.KVStore.Keep }),
		Help: "have Redis keep keys and values for `DURATION` after they were last written or renewed; a bucket " +
			"needs a lifecycle rule instead (default 24h)"},
	{Key: "kv-store-wait", wants: "a time such as 500ms, or auto", set: setKVStoreWait,
		Help: "wait for --kv-store up to `DURATION` before computing a prompt; auto waits only if reading is " +
			"expected to be faster than computing, and waits accordingly (default auto)"},
}

func setKVStore(s *Settings, text string) error {
	s.KVStore.URL = text
	return kvstore.CheckURL(text)
}

func setKVStoreBandwidth(s *Settings, text string) error {
	if text == "" {
		return errBadValue
	}
	err := setSize(func(s *Settings) *int64 { return &s.KVStore.Bandwidth })(s, strings.TrimSuffix(text, "/s"))
	if s.KVStore.Bandwidth == 0 {
		s.KVStore.Bandwidth = -1
	}
	return err
}

func setKVStoreWait(s *Settings, text string) error {
	if text == "auto" {
		s.KVStore.Wait = 0
		return nil
	}
	return setTime(func(s *Settings) *time.Duration { return &s.KVStore.Wait })(s, text)
}

// OpenKVStore opens the store of keys and values that the settings name, for the models that are
// hosted under them from now on; nil if they name none. The caller closes it after the models.
func (s *Settings) OpenKVStore(log *slog.Logger) (*kvstore.Store, error) {
	if s.KVStore.URL == "" {
		return nil, nil
	}
	cfg := s.KVStore.Config
	cfg.Log = log
	store, err := kvstore.Open(cfg)
	if err != nil {
		return nil, errors.Join(err, errors.New("name another with --kv-store"))
	}
	s.KVStore.opened = store
	return store, nil
}
