package fleetctl

import (
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"parley/cli/remote"
)

// An order is something that a worker can be told through its server.
type order struct {
	verb, short, long, example string
	waits                      bool // for its answers; --within bounds that
}

func (o order) command() *cobra.Command {
	s := &remote.Command{}
	var within time.Duration
	cmd := &cobra.Command{
		Use:     o.verb + " WORKER",
		Short:   o.short,
		Long:    o.long + fleetTokenHelp,
		Example: o.example,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/fleet/workers/" + url.PathEscape(args[0]) + "/" + o.verb
			if o.waits && cmd.Flags().Changed("within") {
				path += "?within=" + within.String()
			}
			return tellFleet(s, cmd, path)
		},
	}
	s.Add(cmd)
	if o.waits {
		cmd.Flags().DurationVar(&within, "within", 0, "move answers that are not complete after `DURATION`")
	}
	return cmd
}

func newFleetDrain() *cobra.Command {
	return order{
		verb:  "drain",
		short: "Send a worker no new requests",
		waits: true,
		long: "Send a worker no new requests, for example before a restart. Its answers finish; with\n--within, " +
			"other workers resume those that have not finished by then.",
		example: "  parley fleet drain w2\n  parley fleet drain w2 --within 30s",
	}.command()
}

func newFleetResume() *cobra.Command {
	return order{
		verb: "resume", short: "End the drain of a worker",
		long: "Send requests to a drained worker again, or to one that is about to sleep. Use\n`parley fleet " +
			"wake` for a sleeping worker.",
		example: "  parley fleet resume w2",
	}.command()
}

func newFleetSleep() *cobra.Command {
	return order{
		verb:  "sleep",
		short: "Have a worker release its memory",
		waits: true,
		long: `Have a worker release its memory, weights and caches, when its answers have finished;
with --within, other workers resume those that have not finished by then. It stays in the
list as asleep. "parley fleet wake" wakes it, or a request for its model that no other
worker can answer; that request waits for it.

Parley workers can sleep, and so can vLLM with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1.`,
		example: "  parley fleet sleep w2\n  parley fleet sleep w2 --within 30s",
	}.command()
}

func newFleetWake() *cobra.Command {
	return order{
		verb: "wake", short: "Wake a sleeping worker",
		long:    "Have a sleeping worker load its model again. It gets requests when that is done.",
		example: "  parley fleet wake w2\n  parley fleet status --watch",
	}.command()
}
