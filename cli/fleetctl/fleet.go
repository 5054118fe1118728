package fleetctl

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/cli/remote"
	"parley/fleet"
	"parley/internal/term"
)

// Standings asks a server for its workers.
func Standings(ctx context.Context, c *remote.Client) ([]fleet.Standing, error) {
	body, err := c.Get(ctx, "/fleet/workers")
	if err != nil {
		return nil, err
	}
	return readStandings(body)
}

func readStandings(body []byte) ([]fleet.Standing, error) {
	var list struct{ Data []fleet.Standing }
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("%w: %w", remote.ErrNoFleet, err)
	}
	return list.Data, nil
}

// Client is a client that shows the fleet's token.
func Client(s *remote.Command) (*remote.Client, error) {
	c, err := s.Client()
	if err != nil {
		return nil, err
	}
	c.OfFleet = true
	if token := os.Getenv("PARLEY_FLEET_OPERATE_TOKEN"); token != "" {
		c.Key = token
	}
	return c, nil
}

const fleetTokenHelp = "\n\nIf the server has keys, set PARLEY_API_KEY to an admin key, " +
	"or\nPARLEY_FLEET_OPERATE_TOKEN to its --fleet-operate-token."

func newFleetStatus() *cobra.Command {
	s := &remote.Command{}
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show the workers of a server and their state",
		Long: "Show the workers of a server: pool, state, running answers, cache hit rate, and how\naccurately " +
			"their caches are known." + fleetTokenHelp,
		Example: "  parley fleet status\n  parley fleet status --json | jq '.[] | select(.state != \"up\")'\n  " +
			"parley fleet status --watch",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := Client(s)
			if err != nil {
				return err
			}
			if watch {
				return watchFleet(cmd.Context(), c, cmd.OutOrStdout(), "", func() string { return "" })
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), remote.AskWait)
			defer cancel()
			workers, err := Standings(ctx, c)
			switch {
			case err != nil:
				return remote.StartHint(err)
			case s.JSON:
				return cli.PrintJSON(cmd.OutOrStdout(), workers)
			}
			return printStandings(cmd.OutOrStdout(), workers)
		},
	}
	s.Add(cmd)
	cmd.Flags().BoolVar(&watch, "watch", false,
		"refresh every second, until Ctrl-C; a file or a pipe gets a table for each change")
	return cmd
}

// watchFleet prints the table and news repeatedly, on a terminal in place, with word below it.
func watchFleet(ctx context.Context, c *remote.Client, out io.Writer, word string, news func() string) error {
	file, isFile := out.(*os.File)
	v := fleetView{out: out, inPlace: isFile && term.IsTerminal(file), word: word}
	for {
		workers, err := Standings(ctx, c)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return remote.StartHint(err)
		}
		if err := v.show(workers, news(), time.Now()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second):
		}
	}
}

// A fleetView shows a fleet as it changes.
type fleetView struct {
	out     io.Writer
	inPlace bool   // on a terminal; a file gets a table for each change
	word    string // below the table, or once before the first
	shown   string // the latest table, without what changes by itself
}

func (v *fleetView) show(workers []fleet.Standing, news string, now time.Time) error {
	if !v.inPlace {
		still := slices.Clone(workers)
		for i := range still {
			still[i].UpSeconds = 0
		}
		var table strings.Builder
		if err := printStandings(&table, still); err != nil || table.String()+news == v.shown {
			return err
		}
		v.shown = table.String() + news
	}
	var page strings.Builder
	page.WriteString(now.Format(time.TimeOnly) + "\n")
	if err := printStandings(&page, workers); err != nil {
		return err
	}
	page.WriteString(news)
	if v.inPlace {
		_, err := fmt.Fprint(v.out, "\x1b[H\x1b[2J", page.String(), "\n", v.word)
		return err
	}
	_, err := fmt.Fprint(v.out, v.word, page.String())
	v.word = ""
	return err
}

func printStandings(out io.Writer, workers []fleet.Standing) error {
	if len(workers) == 0 {
		_, err := fmt.Fprintln(out, "No worker has joined, and none is known.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "WORKER\tPOOL\tKIND\tSTATE\tUP\tREADY IN\tANSWERING\tSENT\tFAILED\tLOST\tMOVED\tCACHE HITS\t"+
		"INDEX\tBLOCKS")
	for _, s := range workers {
		index := s.Index
		if s.Degraded {
			index += "!"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%s\t%s\t%d\n", s.Name, s.Pool, s.Kind,
			stateText(&s), upTime(s.UpSeconds), readyText(s.ReadySeconds),
			s.Answering, s.Sent, s.Failed, s.Lost, s.Moved, shareText(s.CachedTokens, s.PromptTokens), index, s.Blocks)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range workers {
		if s.State == fleet.Absent {
			fmt.Fprintf(out, "%s cannot join: %s\n", s.Name, s.Trouble)
		}
	}
	return nil
}

// stateText is the state as people read it: a worker that drains and has nothing left can be stopped.
func stateText(s *fleet.Standing) string {
	if s.State == fleet.Draining && s.Answering+s.Running+s.Waiting == 0 {
		return "drained"
	}
	return string(s.State)
}

func upTime(seconds float64) string {
	if seconds == 0 {
		return "-"
	}
	return (time.Duration(seconds) * time.Second).String()
}

// readyText is how long a worker took to load its model, to a tenth of a second.
func readyText(seconds float64) string {
	if seconds == 0 {
		return "-"
	}
	return time.Duration(seconds * 1e9).Round(100 * time.Millisecond).String()
}

func shareText(part, whole uint64) string {
	if whole == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(part)/float64(whole))
}

// tellFleet has the server do something, and prints its workers then.
func tellFleet(s *remote.Command, cmd *cobra.Command, path string) error {
	ctx, cancel := context.WithTimeout(cmd.Context(), remote.AskWait)
	defer cancel()
	c, err := Client(s)
	if err != nil {
		return err
	}
	resp, err := c.Send(ctx, http.MethodPost, path, []byte{})
	if err != nil {
		return remote.StartHint(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, remote.DocumentBytesMax))
	if err != nil {
		return err
	}
	workers, err := readStandings(body)
	switch {
	case err != nil:
		return err
	case s.JSON:
		return cli.PrintJSON(cmd.OutOrStdout(), workers)
	}
	return printStandings(cmd.OutOrStdout(), workers)
}

var errNoWorkers = errors.New("a fleet needs at least one worker")
