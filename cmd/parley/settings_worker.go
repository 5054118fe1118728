package main

import (
	"net"
	"slices"

	"github.com/spf13/pflag"
)

// workerSettings are what a worker can be told and a server cannot.
type workerSettings struct {
	pool   string
	events string // an address, empty for none
	replay string
	topic  string
	key    string
	// register are gateways that the worker tells of itself, and advertise is where
	// they will reach it.
	register  []string
	advertise string
}

// eventsOff turns events off.
const eventsOff = "off"

// workerOnly are the settings of `parley worker` alone.
var workerOnly = []setting{
	{key: "pool", wants: "the name of a pool", help: "say to gateways that this worker is meant for the pool of this `NAME`", set: setText(func(s *settings) *string { return &s.worker.pool })},
	{key: "worker-key", wants: "a text", help: "answer only who shows this `KEY` as a bearer token; health and metrics stay open", set: setText(func(s *settings) *string { return &s.worker.key })},
	{key: "events", wants: "an address such as 127.0.0.1:5557, or off", set: setEvents,
		help: "publish events of the cache over ZMQ on this `ADDRESS`, or off (default: the host of --addr and any free port, which gateways are told)"},
	{key: "events-replay", wants: "an address such as 127.0.0.1:5558", set: setAddress(func(s *settings) *string { return &s.worker.replay }),
		help: "repeat events on this `ADDRESS` for who missed some (default: any free port)"},
	{key: "events-topic", wants: "a text", help: "publish events under this `TOPIC`, such as kv@10.0.0.7:8000@polly for llm-d (default none)", set: setText(func(s *settings) *string { return &s.worker.topic })},
	{key: "register", wants: "the address of a gateway such as http://10.0.0.1:8080", many: true, set: setGateway,
		help: "register at the gateway at this `URL`, with --fleet-token; repeat it for more"},
	{key: "advertise", wants: "an address such as http://10.0.0.7:8000", set: setAdvertise,
		help: "tell gateways to reach this worker at this `URL` (default: --addr)"},
}

// everySetting is what a file of settings and variables may give, whichever
// command reads them.
var everySetting = slices.Concat(serveSettings, workerOnly)

// hosting are the settings of a server that are about models and this process,
// and so are a worker's, too.
var hosting = []string{
	"addr", "model", "data", "drain", "kv-tokens", "kv-type", "kv-host", "kv-disk", "context", "seqs", "step-tokens", "tpot-target", "background-wait",
	"slo-ttft", "slo-ttft-cached", "slo-tpot", "speculate", "draft", "threads", "cpu", "numerics", "log-format", "log-level", "fleet-token", "otlp-endpoint",
}

// workerList returns the settings of a worker.
func workerList() (list []*setting) {
	for i := range everySetting {
		s := &everySetting[i]
		if slices.Contains(hosting, s.key) || slices.ContainsFunc(workerOnly, func(o setting) bool { return o.key == s.key }) {
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
			help = "listen on this `ADDRESS` (default 127.0.0.1:8000)"
		case "model":
			help = "serve the model at `[NAME=]PATH`: a GGUF file, a directory of safetensors or the name of a built-in model (default polly)"
		}
		values[s.key] = &flagValue{of: s}
		flags.Var(values[s.key], s.key, help)
	}
	return values
}

func setEvents(s *settings, text string) error {
	if text == eventsOff {
		s.worker.events = eventsOff
		return nil
	}
	return setAddress(func(s *settings) *string { return &s.worker.events })(s, text)
}

// setAddress reads a host and a port.
func setAddress(field func(*settings) *string) func(*settings, string) error {
	return func(s *settings, text string) error {
		if _, _, err := net.SplitHostPort(text); err != nil {
			return errNotWanted
		}
		*field(s) = text
		return nil
	}
}

func setGateway(s *settings, text string) error {
	if _, err := newClient(text); err != nil {
		return err
	}
	s.worker.register = append(s.worker.register, text)
	return nil
}

func setAdvertise(s *settings, text string) error {
	if _, err := newClient(text); err != nil {
		return err
	}
	s.worker.advertise = text
	return nil
}
