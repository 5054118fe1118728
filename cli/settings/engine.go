package settings

import (
	"log/slog"
	"slices"
	"time"

	"parley/compute"
	"parley/compute/cpu"
	"parley/worker/host"
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
