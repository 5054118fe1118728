package main

import (
	"net/url"
	"time"

	"github.com/spf13/cobra"
)

// An order is something that a worker can be told through its server.
type order struct {
	verb, short, long, example string
	waits                      bool // for its answers; --within bounds that
}

func (o order) command() *cobra.Command {
	s := &serverCommand{}
	var within time.Duration
	cmd := &cobra.Command{
		Use: o.verb + " WORKER", Short: o.short, Long: o.long + fleetTokenHelp, Example: o.example,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := "/fleet/workers/" + url.PathEscape(args[0]) + "/" + o.verb
			if o.waits && cmd.Flags().Changed("within") {
				path += "?within=" + within.String()
			}
			return s.tellFleet(cmd, path)
		},
	}
	s.add(cmd)
	if o.waits {
		cmd.Flags().DurationVar(&within, "within", 0, "move answers that are not complete after this `TIME`")
	}
	return cmd
}

func newFleetDrain() *cobra.Command {
	return order{
		verb: "drain", short: "Keep new work from a worker", waits: true,
		long:    "Keep new work from a worker, such as before it is restarted. Its answers finish; with\n--within, those that have not by then go on with other workers.",
		example: "  parley fleet drain w2\n  parley fleet drain w2 --within 30s",
	}.command()
}

func newFleetResume() *cobra.Command {
	return order{
		verb: "resume", short: "Let a drained worker have work again",
		long:    "Let a worker that was drained have work again, or one that was to sleep and does not\nyet. One that sleeps is woken with `parley fleet wake`.",
		example: "  parley fleet resume w2",
	}.command()
}

func newFleetSleep() *cobra.Command {
	return order{
		verb: "sleep", short: "Have a worker give its memory back", waits: true,
		long: `Have a worker give its memory back, weights and caches, when its answers have finished;
with --within, those that have not by then go on with other workers. It stays in the list
as asleep and gets no work. It is woken with "parley fleet wake", or when a request comes
for its model that nobody else can answer; that request waits for it.

Parley workers can sleep, and vLLM with --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1.`,
		example: "  parley fleet sleep w2\n  parley fleet sleep w2 --within 30s",
	}.command()
}

func newFleetWake() *cobra.Command {
	return order{
		verb: "wake", short: "Wake a worker that sleeps",
		long:    "Have a worker that sleeps load its model again. It gets work when that is done.",
		example: "  parley fleet wake w2\n  parley fleet status --watch",
	}.command()
}
