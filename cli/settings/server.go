package settings

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/models"
	"parley/internal/local"
	"parley/internal/logrepeat"
	"parley/model/store"
)

// ShownStore is a store's name without its password.
func ShownStore(name string) string {
	if before, after, ok := strings.Cut(name, "@"); ok && strings.Contains(before, "://") {
		scheme, _, _ := strings.Cut(before, "://")
		return scheme + "://…@" + after
	}
	return name
}

// Serves reports whether the settings name a model so.
func (s *Settings) Serves(name string) bool {
	for _, m := range s.Models {
		if m.Name == name {
			return true
		}
	}
	return false
}

// StoreFlags are the flags by which another command finds the same store. They are
// shown, so the password is left out.
func (s *Settings) StoreFlags() string {
	switch fresh := Default(); {
	case s.Store != "":
		return fmt.Sprintf(" --store %q", ShownStore(s.Store))
	case s.Data != fresh.Data:
		return fmt.Sprintf(" --data %q", s.Data)
	}
	return ""
}

// Scheme is how clients speak to the server.
func (s *Settings) Scheme() string {
	if s.TLSCert != "" {
		return "https"
	}
	return "http"
}

// ModelFolder is where models are kept that were pulled.
func (s *Settings) ModelFolder() *store.Store {
	return &store.Store{Dir: filepath.Join(s.Data, "models")}
}

// StoreName returns what names the store of conversations.
func (s *Settings) StoreName() string {
	if s.Store != "" {
		return s.Store
	}
	return filepath.Join(s.Data, "conversations.db")
}

func setAddr(s *Settings, text string) error {
	_, port, err := net.SplitHostPort(text)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
		return errBadValue
	}
	s.Addr = text
	return nil
}

// setModel reads PATH or name=PATH. A path that exists is a path even if it
// has an equals sign in it.
func setModel(s *Settings, text string) error {
	name, path, named := strings.Cut(text, "=")
	if _, err := os.Stat(text); err == nil || !named {
		name, path = "", text
	}
	if path == "" || (named && name == "" && path != text) {
		return errBadValue
	}
	s.Models = append(s.Models, Model{name, path})
	return nil
}

func setKeepAlive(s *Settings, text string) error {
	if text == "never" {
		s.KeepAlive = -1
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errBadValue
	}
	s.KeepAlive = d
	return nil
}

func setTier(s *Settings, text string) error {
	class, rest, _ := strings.Cut(text, "=")
	policy, tokens, capped := strings.Cut(rest, ":")
	for i := range s.Tiers {
		if parley.Class(i).String() != class {
			continue
		}
		tier := models.TierContext{Policy: convo.Policy(policy)}
		if n, err := strconv.Atoi(tokens); capped && (err != nil || n < 0) {
			return errBadValue
		} else if capped {
			tier.Tokens = n
		}
		s.Tiers[i] = tier
		return s.Tiers.Validate()
	}
	return errBadValue
}

func setLogFormat(s *Settings, text string) error {
	if text != "text" && text != "json" {
		return errBadValue
	}
	s.LogFormat = text
	return nil
}

// repeatEvery is how often the log has the same failure again.
const repeatEvery = time.Minute

// Logger returns the log that the settings describe, on standard error.
func (s *Settings) Logger() *slog.Logger {
	opts := &slog.HandlerOptions{Level: s.LogLevel}
	var h slog.Handler = slog.NewTextHandler(os.Stderr, opts)
	if s.LogFormat == "json" {
		h = slog.NewJSONHandler(os.Stderr, opts)
	}
	if s.Collector.Beside != nil {
		h = s.Collector.Beside(h)
	}
	return slog.New(logrepeat.Limit(h, repeatEvery))
}

// ClearTextWarning warns of a worker that other machines reach without TLS.
func (s *Settings) ClearTextWarning(addr net.Addr) string {
	if s.TLSCert != "" || local.IsLoopback(addr.String()) {
		return ""
	}
	return "WARNING: prompts, answers and keys cross the network in clear text. Use --tls-cert and --tls-key, or a " +
		"trusted network.\n"
}
