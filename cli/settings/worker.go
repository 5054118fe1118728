package settings

import (
	"fmt"
	"net"

	"parley"
	"parley/cli"
	"parley/cli/remote"
	"parley/internal/local"

	"github.com/spf13/pflag"
)

// ReplayAddress is where events are repeated: any free port beside them unless it was
// set.
func (w *Worker) ReplayAddress() string {
	if w.Replay != "" || w.Events == "" {
		return w.Replay
	}
	name, _, _ := net.SplitHostPort(w.Events)
	return net.JoinHostPort(name, "0")
}

// setRole sets what of requests the worker does.
func setRole(s *Settings, text string) error {
	roles := map[string]parley.WorkerRole{"prefill": parley.RolePrefill, "decode": parley.RoleDecode, "both": ""}
	role, known := roles[text]
	if !known {
		return errBadValue
	}
	s.Worker.Role = role
	return nil
}

// workerOnly are the settings of `parley worker` alone.
var workerOnly = []Setting{
	{Key: "pool", wants: "the name of a pool",
		Help: "announce to gateways that this worker belongs to the pool `NAME`",
		set:  setText(func(s *Settings) *string { return &s.Worker.Pool })},
	{Key: "role", wants: "prefill, decode or both", set: setRole,
		Help: "compute prompts for others (prefill), write answers to prompts that others computed (decode), or " +
			"`both` (default both; docs/fleet.md)"},
	{Key: "events", wants: "an address such as 127.0.0.1:5557, or off", set: setEvents,
		Help: "publish cache events over ZMQ on `ADDRESS`, as vLLM does, for routers other than Parley's; without " +
			"access control, so any host that reaches the port can read them (default off)"},
	{Key: "events-replay", wants: "an address such as 127.0.0.1:5558",
		set: setAddress(func(s *Settings) *string { return &s.Worker.Replay }),
		Help: "replay cache events on `ADDRESS` for consumers that missed some (default: a free port of the " +
			"same host)"},
	{Key: "events-topic", wants: "a text of at most 256 bytes", set: setTopic,
		Help: "publish cache events under `TOPIC`, such as kv@10.0.0.7:8000@polly for llm-d (default none)"},
	{Key: "events-tokens", wants: "on or off", set: setEventTokens,
		Help: "include token ids in cache events: `on` or off; routers that compute block names themselves need " +
			"them, and any reader can recover the prompts (default off)"},
	{Key: "client-ca", wants: "the path of a PEM file",
		set: setText(func(s *Settings) *string { return &s.Worker.ClientCA }),
		Help: "require client certificates signed by an authority in `FILE`, except for health and metrics; needs " +
			"--tls-cert (default: not required)"},
	{Key: "gateway-ca", wants: "the path of a PEM file",
		set: setText(func(s *Settings) *string { return &s.Worker.GatewayCA }),
		Help: "trust the certificate authorities in `FILE` when registering at an https gateway (default: the " +
			"system's)"},
	{
		Key:   "register",
		wants: "the address of a gateway such as http://10.0.0.1:8080",
		many:  true,
		set:   setGateway,
		Help: "register at the gateway at `URL`, with --fleet-join-token; repeat it for each gateway, rather than " +
			"naming a load balancer",
	},
	{Key: "advertise", wants: "an address such as http://10.0.0.7:8000", set: setAdvertise,
		Help: "have gateways reach this worker at `URL` (default: --addr)"},
}

// AddWorkerFlags gives the command a flag for each setting of a worker.
func AddWorkerFlags(flags *pflag.FlagSet) Flags {
	values := Flags{}
	for _, s := range workerList() {
		help := s.Help
		switch s.Key {
		case "addr":
			help = "listen on `ADDRESS` (default 127.0.0.1:8000)"
		case "worker-key":
			help = "require `KEY` as a bearer token, except for health and metrics"
		case "model":
			help = "serve the model at `[NAME=]PATH`, a GGUF file, a directory of safetensors or the name of a " +
				"built-in model (default polly)"
		case "tiers":
			help = "configure a tier, `TIER.SETTING=VALUE`; the settings are weight, kv-share, kv-reserve and " +
				"organisation-kv-share; repeatable (docs/keys.md)"
		}
		values[s.Key] = &flagValue{of: s}
		flags.Var(values[s.Key], s.Key, help)
	}
	return values
}

func setEvents(s *Settings, text string) error {
	if text == "off" {
		s.Worker.Events = ""
		return nil
	}
	return setAddress(func(s *Settings) *string { return &s.Worker.Events })(s, text)
}

func setEventTokens(s *Settings, text string) error {
	if text != "on" && text != "off" {
		return errBadValue
	}
	s.Worker.EventTokens = text == "on"
	return nil
}

func setTopic(s *Settings, text string) error {
	if len(text) > 256 {
		return errBadValue
	}
	return setText(func(s *Settings) *string { return &s.Worker.Topic })(s, text)
}

// CheckEvents says which settings of events have no effect.
func (s *Settings) CheckEvents() error {
	w := &s.Worker
	if w.Events == "" && (w.Replay != "" || w.Topic != "" || w.EventTokens) {
		return fmt.Errorf(
			"--events-replay, --events-topic and --events-tokens need events over ZMQ, which are off: add --events "+
				"with an address such as 127.0.0.1:5557: %w", cli.ErrUsage)
	}
	return nil
}

// EventsWarning says who can read the events over ZMQ, if that is more than this
// machine.
func (s *Settings) EventsWarning() string {
	w := &s.Worker
	if w.Events == "" || local.IsLoopback(w.Events) && local.IsLoopback(w.ReplayAddress()) {
		return ""
	}
	what := "which blocks are cached"
	if w.EventTokens {
		what = "the token ids of all prompts, and thus the prompts"
	}
	return "WARNING: events over ZMQ have no access control. Any host that can reach " + w.Events + " can read " +
		what + ": restrict it with a firewall. Parley gateways do not need --events.\n"
}

func setGateway(s *Settings, text string) error {
	if _, err := remote.New(text); err != nil {
		return err
	}
	s.Worker.Register = append(s.Worker.Register, text)
	return nil
}

func setAdvertise(s *Settings, text string) error {
	if _, err := remote.New(text); err != nil {
		return err
	}
	s.Worker.Advertise = text
	return nil
}
