package main

import (
	"fmt"
	"net"
	"slices"

	"github.com/spf13/pflag"

	"parley/cli"
	"parley/cli/remote"
	"parley/internal/local"
)

// workerSettings are what a worker can be told and a server cannot.
type workerSettings struct {
	pool string
	// events and replay are addresses of ZMQ sockets, empty for none; eventTokens has
	// events carry token ids.
	events, replay, topic string
	eventTokens           bool
	// register are the gateways that the worker registers at, and advertise is where
	// they reach it.
	register  []string
	advertise string
	// clientCA has signed the certificates that gateways must show, gatewayCA those of
	// gateways to register at; empty for none and for what the system trusts.
	clientCA, gatewayCA string
}

// replayAddress is where events are repeated: any free port beside them unless it was
// set.
func (w *workerSettings) replayAddress() string {
	if w.replay != "" || w.events == "" {
		return w.replay
	}
	name, _, _ := net.SplitHostPort(w.events)
	return net.JoinHostPort(name, "0")
}

// workerOnly are the settings of `parley worker` alone.
var workerOnly = []setting{
	{key: "pool", wants: "the name of a pool",
		help: "announce to gateways that this worker belongs to the pool `NAME`",
		set:  setText(func(s *settings) *string { return &s.worker.pool })},
	{key: "events", wants: "an address such as 127.0.0.1:5557, or off", set: setEvents,
		help: "publish cache events over ZMQ on `ADDRESS`, as vLLM does, for routers other than Parley's; without " +
			"access control, so any host that reaches the port can read them (default off)"},
	{key: "events-replay", wants: "an address such as 127.0.0.1:5558",
		set: setAddress(func(s *settings) *string { return &s.worker.replay }),
		help: "replay cache events on `ADDRESS` for consumers that missed some (default: a free port of the " +
			"same host)"},
	{key: "events-topic", wants: "a text of at most 256 bytes", set: setTopic,
		help: "publish cache events under `TOPIC`, such as kv@10.0.0.7:8000@polly for llm-d (default none)"},
	{key: "events-tokens", wants: "on or off", set: setEventTokens,
		help: "include token ids in cache events: `on` or off; routers that compute block names themselves need " +
			"them, and any reader can recover the prompts (default off)"},
	{key: "client-ca", wants: "the path of a PEM file",
		set: setText(func(s *settings) *string { return &s.worker.clientCA }),
		help: "require client certificates signed by an authority in `FILE`, except for health and metrics; needs " +
			"--tls-cert (default: not required)"},
	{key: "gateway-ca", wants: "the path of a PEM file",
		set: setText(func(s *settings) *string { return &s.worker.gatewayCA }),
		help: "trust the certificate authorities in `FILE` when registering at an https gateway (default: the " +
			"system's)"},
	{
		key:   "register",
		wants: "the address of a gateway such as http://10.0.0.1:8080",
		many:  true,
		set:   setGateway,
		help: "register at the gateway at `URL`, with --fleet-join-token; repeat it for each gateway, rather than " +
			"naming a load balancer",
	},
	{key: "advertise", wants: "an address such as http://10.0.0.7:8000", set: setAdvertise,
		help: "have gateways reach this worker at `URL` (default: --addr)"},
}

// everySetting is what a file of settings and variables may give, whichever
// command reads them.
var everySetting = slices.Concat(serveSettings, workerOnly)

// hosting are the settings of a server that are about models and this process,
// and so are a worker's, too.
var hosting = []string{
	"addr", "model", "data", "drain", "kv-tokens", "kv-type", "kv-host", "kv-disk", "context", "seqs", "step-tokens",
	"tpot-target", "background-wait",
	"slo-ttft", "slo-ttft-cached", "slo-tpot", "tiers", "speculate", "draft", "device", "threads", "cpu", "numerics",
	"log-format", "log-level", "otlp-endpoint",
	"tls-cert", "tls-key", "worker-key", "worker-key-file", "fleet-join-token", "fleet-join-token-file", "fleet-token",
	"fleet-token-file",
}

// workerList returns the settings of a worker.
func workerList() (list []*setting) {
	for i := range everySetting {
		s := &everySetting[i]
		if slices.Contains(hosting, s.key) || slices.ContainsFunc(workerOnly, func(o setting) bool {
			return o.key == s.key
		}) {
			list = append(list, s)
		}
	}
	return list
}

// addWorkerFlags gives the command a flag for each setting of a worker.
func addWorkerFlags(flags *pflag.FlagSet) map[string]*flagValue {
	values := map[string]*flagValue{}
	for _, s := range workerList() {
		help := s.help
		switch s.key {
		case "addr":
			help = "listen on `ADDRESS` (default 127.0.0.1:8000)"
		case "worker-key":
			help = "require `KEY` as a bearer token, except for health and metrics"
		case "model":
			help = "serve the model at `[NAME=]PATH`, a GGUF file, a directory of safetensors or the name of a " +
				"built-in model (default polly)"
		case "tiers":
			help = "configure a tier, `TIER.SETTING=VALUE`; the settings are weight, kv-share, kv-reserve and " +
				"tenant-kv-share; repeatable (docs/keys.md)"
		}
		values[s.key] = &flagValue{of: s}
		flags.Var(values[s.key], s.key, help)
	}
	return values
}

func setEvents(s *settings, text string) error {
	if text == "off" {
		s.worker.events = ""
		return nil
	}
	return setAddress(func(s *settings) *string { return &s.worker.events })(s, text)
}

func setEventTokens(s *settings, text string) error {
	if text != "on" && text != "off" {
		return errBadValue
	}
	s.worker.eventTokens = text == "on"
	return nil
}

func setTopic(s *settings, text string) error {
	if len(text) > 256 {
		return errBadValue
	}
	return setText(func(s *settings) *string { return &s.worker.topic })(s, text)
}

// checkEvents says which settings of events have no effect.
func (s *settings) checkEvents() error {
	w := &s.worker
	if w.events == "" && (w.replay != "" || w.topic != "" || w.eventTokens) {
		return fmt.Errorf(
			"--events-replay, --events-topic and --events-tokens need events over ZMQ, which are off: add --events "+
				"with an address such as 127.0.0.1:5557: %w", cli.ErrUsage)
	}
	return nil
}

// eventsWarning says who can read the events over ZMQ, if that is more than this
// machine.
func (s *settings) eventsWarning() string {
	w := &s.worker
	if w.events == "" || local.IsLoopback(w.events) && local.IsLoopback(w.replayAddress()) {
		return ""
	}
	what := "which blocks are cached"
	if w.eventTokens {
		what = "the token ids of all prompts, and thus the prompts"
	}
	return "WARNING: events over ZMQ have no access control. Any host that can reach " + w.events + " can read " +
		what + ": restrict it with a firewall. Parley gateways do not need --events.\n"
}

// setAddress reads a host and a port.
func setAddress(field func(*settings) *string) func(*settings, string) error {
	return func(s *settings, text string) error {
		if _, _, err := net.SplitHostPort(text); err != nil {
			return errBadValue
		}
		*field(s) = text
		return nil
	}
}

func setGateway(s *settings, text string) error {
	if _, err := remote.New(text); err != nil {
		return err
	}
	s.worker.register = append(s.worker.register, text)
	return nil
}

func setAdvertise(s *settings, text string) error {
	if _, err := remote.New(text); err != nil {
		return err
	}
	s.worker.advertise = text
	return nil
}
