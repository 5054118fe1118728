package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/cli/remote"
	"parley/gateway/audit"
)

type auditFlags struct {
	remote.Command
	action, actor, target string
	since                 time.Duration
	limit                 int
}

// NewAudit returns the command `parley audit`.
func NewAudit() *cobra.Command {
	f := &auditFlags{}
	cmd := &cobra.Command{
		Use:   "audit",
		Short: "Show the audit log: changes of keys, organisations and workers",
		Long: `Show the audit log: changes of keys, organisations, users and workers, with the
credential, the address, and the state before and after, latest first. Rejected
changes are listed with their status. Needs an admin key in PARLEY_API_KEY.`,
		Example: `  parley audit
  parley audit --since 24h --action api_key.
  parley audit --target key_abc --json | jq '.data[] | {type, before, after}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.limit < 1 || f.limit > 1000 || f.since < 0 {
				return fmt.Errorf("--limit is %d and --since %v: use 1 to 1000 entries and a duration such as 24h: %w",
					f.limit, f.since, cli.ErrUsage)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), remote.AskWait)
			defer cancel()
			c, err := f.Client()
			if err != nil {
				return err
			}
			entries, err := auditLog(ctx, c, f, time.Now())
			if errors.Is(err, context.Canceled) {
				return cli.ErrInterrupted
			}
			if err != nil {
				return remote.StartHint(err)
			}
			if f.JSON {
				return cli.PrintJSON(cmd.OutOrStdout(), map[string]any{"object": "list", "data": entries})
			}
			return printAudit(cmd.OutOrStdout(), entries)
		},
	}
	cmd.Flags().StringVar(&f.action, "action", "",
		"show only `ACTION`, such as api_key.created, or all of a kind with a trailing dot, such as worker.")
	cmd.Flags().StringVar(&f.actor, "actor", "", "show changes made by the key, user or organisation `ID`")
	cmd.Flags().StringVar(&f.target, "target", "", "show changes of the object `ID`")
	cmd.Flags().DurationVar(&f.since, "since", 0, "show the last `DURATION`, such as 24h (default: all)")
	cmd.Flags().IntVar(&f.limit, "limit", 50, "show at most `N` entries")
	f.Add(cmd)
	return cmd
}

const auditPageMax = 100

// auditLog asks the server for entries, page by page.
func auditLog(ctx context.Context, c *remote.Client, f *auditFlags, now time.Time) ([]audit.Entry, error) {
	query := url.Values{}
	for name, value := range map[string]string{"type": f.action, "actor": f.actor, "target": f.target} {
		if value != "" {
			query.Set(name, value)
		}
	}
	if f.since > 0 {
		query.Set("effective_at[gte]", strconv.FormatInt(now.Add(-f.since).Unix(), 10))
	}
	entries := []audit.Entry{}
	for {
		query.Set("limit", strconv.Itoa(min(auditPageMax, f.limit-len(entries))))
		body, err := c.Get(ctx, "/v1/organization/audit_logs?"+query.Encode())
		if err != nil {
			return nil, err
		}
		var page struct {
			Data    []audit.Entry `json:"data"`
			HasMore bool          `json:"has_more"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			return nil, fmt.Errorf("cannot read the server's audit log: %w", err)
		}
		entries = append(entries, page.Data...)
		if !page.HasMore || len(page.Data) == 0 || len(entries) >= f.limit {
			return entries, nil
		}
		query.Set("after", page.Data[len(page.Data)-1].ID)
	}
}

func printAudit(out io.Writer, entries []audit.Entry) error {
	if len(entries) == 0 {
		_, err := fmt.Fprintln(out, "No changes are recorded.")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "TIME\tACTION\tTARGET\tBY\tFROM\tSTATUS")
	for i := range entries {
		e := &entries[i]
		status := "done"
		if e.Status >= 400 {
			status = "refused " + strconv.Itoa(e.Status)
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", e.At.Local().Format(time.DateTime), e.Action, e.Target,
			actorName(&e.Actor), e.Remote, status)
	}
	return w.Flush()
}

// actorName says who acted, as far as it is known.
func actorName(a *audit.Actor) string {
	switch {
	case a.Key != "" && a.User != "":
		return a.User + " (" + a.Key + ")"
	case a.Key != "":
		return a.Key
	case a.User != "":
		return a.Kind + " of " + a.User
	}
	return a.Kind
}
