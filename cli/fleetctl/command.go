package fleetctl

import "github.com/spf13/cobra"

// New returns the command `parley fleet`.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use: "fleet", Short: "Show and control a server's workers, or start a fleet on this machine",
		Long: `A server started with --worker, or with pools in its --config, uses workers in other
processes. These commands show their state, drain one before a restart, and start a
gateway with workers on this machine to try it out. See docs/fleet.md.`,
		Example: "  parley fleet status\n  parley fleet status --watch\n  parley fleet drain w2 --within 30s\n  " +
			"parley fleet sleep w2\n  parley fleet up --workers 3",
	}
	cmd.AddCommand(newFleetStatus(), newFleetDrain(), newFleetResume(), newFleetSleep(), newFleetWake(),
		newFleetScale(), newFleetUp())
	return cmd
}
