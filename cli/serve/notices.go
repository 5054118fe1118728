package serve

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"

	"parley/cli"
	"parley/cli/settings"
	"parley/worker/host"
)

// A notices writer makes records of what would otherwise be lines for people, so
// that with --log-format json standard error has nothing that is not JSON. They
// are written whatever the level of the log is.
type notices struct {
	log  *slog.Logger
	line []byte
}

// Write makes a record of each line that has ended.
func (n *notices) Write(text []byte) (int, error) {
	n.line = append(n.line, text...)
	for {
		line, rest, ended := bytes.Cut(n.line, []byte("\n"))
		if !ended {
			return len(text), nil
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			n.log.Info(string(line))
		}
		n.line = rest
	}
}

// noticesOn returns where people are told what a server does. What the standard
// library logs goes the same way as our own log from then on.
func noticesOn(s *settings.Settings, out io.Writer) io.Writer {
	slog.SetDefault(s.Logger())
	if s.Warning != "" {
		s.Logger().Warn(s.Warning)
	}
	if s.LogFormat != "json" {
		return out
	}
	return &notices{log: slog.New(slog.NewJSONHandler(out, nil))}
}

// ended returns the error that a server ended with. In a log of JSON it is a record.
func ended(s *settings.Settings, err error) error {
	if err == nil || s.LogFormat != "json" {
		return err
	}
	slog.New(slog.NewJSONHandler(os.Stderr, nil)).Error("parley failed", "error", err.Error())
	return &reportedError{err}
}

// A reportedError is one that the user has been told.
type reportedError struct{ error }

func (e *reportedError) Unwrap() error { return e.error }

// IsTold reports whether the user has been told an error.
func IsTold(err error) bool {
	_, told := errors.AsType[*reportedError](err)
	return told
}

// plans reports where memory will go.
func (n *notices) plans(plans []*host.Plan, available int64) {
	for _, p := range plans {
		n.log.Info("memory plan", "model", p.Name, "bytes", p.Bytes(), "available_bytes", available, "weight_bytes",
			p.WeightBytes, "weights", cmp.Or(p.Weights, "as-stored"), "kv_bytes", p.KVBytes,
			"kv_tokens", p.KVTokens, "kv_type", p.KVType, "activation_bytes", p.ActivationBytes, "context_tokens",
			p.ContextTokens)
		if notice := p.ContextNotice(); notice != "" {
			n.log.Warn("context smaller than requested", "model", p.Name, "reason", notice)
		}
	}
}

// greet reports that the server is ready.
func (n *notices) greet(addr net.Addr, s *settings.Settings, b *backend, open bool, link accessLink) {
	url := rootURL(s, addr)
	n.log.Info("Parley is ready on "+url, "url", url, "version", cli.Version, "models", b.names(), "device",
		b.computedBy(), "data", s.Data, "keys", !open, "token_file", link.file)
}
