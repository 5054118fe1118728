package keys

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"parley/cli"
	"parley/cli/settings"
	"parley/gateway/tenant"
	"parley/limit"

	"github.com/spf13/cobra"
)

// New returns the command `parley keys`.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "keys",
		Short: "Create, list and revoke API keys",
		Long: `Create, list and revoke the API keys of a server.

Without keys, a server answers only programs on its own machine. Once a key exists,
every call needs one. Changes reach running servers within a second.

Without --url the command works on the server's store, whether the server runs or not:
pass the same --data or --store as for parley serve. With --url it calls a running
server, with an admin key in PARLEY_API_KEY.`,
		Example: `  parley keys create --admin --name me
  parley keys create --name site --org acme --tier pro --model polly --requests-per-minute 60 --expires 90d
  parley keys list
  parley keys block site
  parley keys rotate site --url https://chat.example.com`,
	}
	options := &keyOptions{}
	options.AddFlags(cmd.PersistentFlags())
	cmd.AddCommand(newKeysCreate(options), newKeysList(options), newKeysRotate(options), newKeysBlock(options, true),
		newKeysBlock(options, false), newKeysDelete(options), newKeysRestore(options))
	return cmd
}

func newKeysCreate(options *keyOptions) *cobra.Command {
	var name, organization, user, tier, expires string
	var models []string
	var admin bool
	cmd := &cobra.Command{
		Use:   "create [NAME]",
		Short: "Create a key and show it once",
		Long: `Create a key and show it once: the store keeps only its prefix and a hash.

A key belongs to an organisation, which owns the conversations, files and batches
created with its keys and shares nothing with others. The organisation "local" always
exists and owns what was stored before there were keys; others are created with their
first key.`,
		Example: `  parley keys create --admin --name me
  parley keys create site --org acme --tier pro --expires 90d
  parley keys create trial --org acme --model polly --requests-per-minute 60 --monthly-budget 25.00`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&name, "name", "", "name the key `NAME`")
	f.StringVar(&organization, "org", tenant.LocalOrganization, "create it for `ORGANISATION`")
	f.StringVar(&user, "user", "", "create it for `USER` of the organisation, who has separate conversations")
	f.StringVar(&tier, "tier", "",
		"serve it in `TIER`: free, pro or enterprise (default: the organisation's; a new one is free)")
	f.StringSliceVar(&models, "model", nil,
		"allow only `MODEL`, a model or alias; repeatable (default: what the tier allows)")
	f.StringVar(&expires, "expires", "",
		"expire it after `DURATION`, such as 90d or 12h, or at the end of a date such as 2027-01-31 (default never)")
	f.BoolVar(&admin, "admin", false, "make it an admin key: it manages keys and sees all usage")
	amounts := addLimitFlags(f)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && name != "" {
			return fmt.Errorf("the key has two names, %q and %q: use one: %w", args[0], name, cli.ErrUsage)
		}
		if len(args) == 1 {
			name = args[0]
		}
		request := tenant.KeyRequest{Name: tenant.Some(name), Organization: tenant.Some(organization),
			User: tenant.Some(user), Admin: tenant.Some(admin)}
		if tier != "" {
			request.Tier = tenant.Some(&tier)
		}
		if models != nil {
			request.Models = tenant.Some(models)
		}
		own, err := amounts.limits()
		if err != nil {
			return err
		}
		request.Limits = tenant.Some(own)
		if request.ExpiresAt, err = parseExpiry(expires, time.Now()); err != nil {
			return err
		}
		return options.with(cmd.Context(), func(at keyPlace) error {
			k, err := at.create(cmd.Context(), request)
			if err != nil {
				return err
			}
			return options.showSecret(cmd.OutOrStdout(), cmd.ErrOrStderr(), k)
		})
	}
	return cmd
}

// parseExpiry reads a time from now, such as 90d, or a day.
func parseExpiry(text string, now time.Time) (at tenant.Maybe[*int64], err error) {
	if text == "" {
		return at, nil
	}
	end, err := time.ParseInLocation(time.DateOnly, text, time.Local)
	switch days, isDays := strings.CutSuffix(text, "d"); {
	case err == nil:
		end = end.AddDate(0, 0, 1)
	case isDays:
		n, err := strconv.Atoi(days)
		if err != nil || n <= 0 {
			return at, fmt.Errorf("--expires: %q is not a number of days: %w", text, cli.ErrUsage)
		}
		end = now.AddDate(0, 0, n)
	default:
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return at, fmt.Errorf("--expires: %q is not a time such as 90d, 12h or 2027-01-31: %w", text, cli.ErrUsage)
		}
		end = now.Add(d)
	}
	seconds := end.Unix()
	return tenant.Some(&seconds), nil
}

// limitFlags are the limits of a key as flags.
type limitFlags map[string]*string

func addLimitFlags(f interface {
	StringVar(p *string, name, value, usage string)
}) limitFlags {
	flags := limitFlags{}
	add := func(name, usage string) {
		flags[name] = new(string)
		f.StringVar(flags[name], name, "", usage)
	}
	add("requests-per-second", "allow `N` requests per second")
	add("requests-per-minute", "allow `N` requests per minute")
	add("light-requests-per-minute", "allow `N` light requests per minute: reading and deleting stored data")
	add("input-tokens-per-minute", "allow `N` prompt tokens per minute")
	add("output-tokens-per-minute", "allow `N` output tokens per minute")
	add("concurrent-requests", "allow `N` concurrent requests")
	add("monthly-budget", "allow it to spend `AMOUNT` per month, such as 25.00")
	add("budget-alert",
		"alert when it has spent this `SHARE` of its budget, such as 0.9 (default: the server's --budget-alert)")
	return flags
}

func (f limitFlags) limits() (l limit.Limits, err error) {
	for name, field := range map[string]*int64{
		"requests-per-second":       &l.RequestsPerSecond,
		"requests-per-minute":       &l.RequestsPerMinute,
		"light-requests-per-minute": &l.LightRequestsPerMinute,
		"input-tokens-per-minute":   &l.InputTokensPerMinute,
		"output-tokens-per-minute":  &l.OutputTokensPerMinute,
		"concurrent-requests":       &l.ConcurrentRequests,
	} {
		if text := *f[name]; text != "" && settings.SetLimit(field, text) != nil {
			return l, fmt.Errorf("--%s: %q is not a number of at least 1 or %s: %w", name, text, settings.NoLimit,
				cli.ErrUsage)
		}
	}
	if text := *f["monthly-budget"]; text != "" && settings.SetMoney(&l.MonthlyBudget, text) != nil {
		return l, fmt.Errorf("--monthly-budget: %q is not an amount such as 25.00: %w", text, cli.ErrUsage)
	}
	if text := *f["budget-alert"]; text != "" && settings.SetAlert(&l.BudgetAlert, text) != nil {
		return l, fmt.Errorf("--budget-alert: %q is not a share of more than 0 to 1 such as 0.9: %w", text,
			cli.ErrUsage)
	}
	return l, nil
}

func newKeysList(options *keyOptions) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the keys",
		Example: "  parley keys list\n  parley keys list --json | jq '.keys[] | select(.blocked)'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return options.with(cmd.Context(), func(at keyPlace) error {
				keys, err := at.list(cmd.Context())
				if err != nil {
					return err
				}
				if options.JSON {
					return cli.PrintJSON(cmd.OutOrStdout(), map[string]any{"schema": "parley-keys/1", "keys": keys})
				}
				return printKeys(cmd.OutOrStdout(), keys, time.Now())
			})
		},
	}
}

func printKeys(out io.Writer, keys []tenant.KeyDocument, now time.Time) error {
	if len(keys) == 0 {
		_, err := fmt.Fprintln(out, "There are no keys. Create one with: parley keys create")
		return err
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "ID\tNAME\tKEY\tORGANISATION\tUSER\tTIER\tMODELS\tRIGHT\tBUDGET USED\tSTATE\tLAST USED")
	for i := range keys {
		k := &keys[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, cli.OrDash(k.Name), k.RedactedValue,
			k.Organization, cli.OrDash(textAt(k.User)), cli.OrDash(textAt(k.Tier)),
			cli.OrDash(strings.Join(k.Models, ",")), map[bool]string{true: "admin", false: "-"}[k.Admin],
			budgetUsed(k.Budget), keyState(k, now), since(k.LastUsedAt, now))
	}
	return w.Flush()
}

// budgetUsed says how a key stands with its budget of this month.
func budgetUsed(b *limit.StandingDocument) string {
	if b == nil {
		return "-"
	}
	used := fmt.Sprintf("%s of %s (%d%%", b.Spent, b.Limit, b.Used*100/limit.Whole)
	if b.State != limit.Fine {
		used += ", " + string(b.State)
	}
	return used + ")"
}

func textAt(p *string) string {
	if p == nil {
		return ""
	}
	return *p
}

func keyState(k *tenant.KeyDocument, now time.Time) string {
	switch {
	case k.Blocked:
		return "blocked"
	case k.BlockedBy == "organization":
		return "organisation blocked"
	case k.BlockedBy != "":
		return k.BlockedBy + " blocked"
	case k.ExpiresAt == nil:
		return "active"
	case *k.ExpiresAt <= now.Unix():
		return "expired"
	}
	return "until " + time.Unix(*k.ExpiresAt, 0).Format(time.DateOnly)
}

func since(at *int64, now time.Time) string {
	if at == nil {
		return "never"
	}
	return now.Sub(time.Unix(*at, 0)).Truncate(time.Second).String() + " ago"
}

// one makes a command that does something with one key.
func oneKey(options *keyOptions, use, short string,
	run func(cmd *cobra.Command, at keyPlace, k tenant.KeyDocument) error) *cobra.Command {
	return &cobra.Command{
		Use:   use + " KEY",
		Short: short,
		Long:  short + ".\n\nKEY is the id, the name or the prefix of a key, as shown by parley keys list.",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return options.with(cmd.Context(), func(at keyPlace) error {
				keys, err := at.list(cmd.Context())
				if err != nil {
					return err
				}
				k, err := findKey(keys, args[0])
				if err != nil {
					return err
				}
				return run(cmd, at, k)
			})
		},
	}
}

// findKey returns the key that a person means.
func findKey(keys []tenant.KeyDocument, text string) (found tenant.KeyDocument, err error) {
	matches := 0
	for _, k := range keys {
		prefix := strings.TrimSuffix(k.RedactedValue, "…")
		switch {
		case k.ID == text:
			return k, nil
		case k.Name == text || strings.TrimSuffix(text, "…") == prefix || strings.HasPrefix(text, prefix):
			found = k
			matches++
		}
	}
	switch {
	case matches == 0 && strings.HasPrefix(text, "pk-"):
		return found, fmt.Errorf("no such key; parley keys list shows all keys")
	case matches == 0:
		return found, fmt.Errorf("no key %q; parley keys list shows all keys", text)
	case matches > 1:
		return found, fmt.Errorf("%d keys are named %q: use an id", matches, text)
	}
	return found, nil
}

func newKeysRotate(options *keyOptions) *cobra.Command {
	var grace time.Duration
	cmd := oneKey(options, "rotate",
		"Give a key a new secret and show it once; the old one expires at once, or after --grace",
		func(cmd *cobra.Command, at keyPlace, k tenant.KeyDocument) error {
			rotated, err := at.rotate(cmd.Context(), k.ID, grace)
			if err != nil {
				return err
			}
			return options.showSecret(cmd.OutOrStdout(), cmd.ErrOrStderr(), rotated)
		})
	cmd.Example = "  parley keys rotate site\n  parley keys rotate site --grace 24h"
	cmd.Flags().DurationVar(&grace, "grace", 0,
		"keep the old secret valid for `DURATION`, such as 24h, so that clients can switch; at most 2160h")
	return cmd
}

func newKeysBlock(options *keyOptions, blocked bool) *cobra.Command {
	use, short := "block", "Reject a key until it is unblocked"
	if !blocked {
		use, short = "unblock", "Accept a blocked key again"
	}
	return oneKey(options, use, short, func(cmd *cobra.Command, at keyPlace, k tenant.KeyDocument) error {
		changed, err := at.change(cmd.Context(), k.ID, tenant.KeyRequest{Blocked: tenant.Some(blocked)})
		if err != nil {
			return err
		}
		return options.tell(cmd.OutOrStdout(), changed, changed.String()+" is "+use+"ed.")
	})
}

func newKeysDelete(options *keyOptions) *cobra.Command {
	return oneKey(options, "delete", "Delete a key; parley keys restore can restore it within 7 days",
		func(cmd *cobra.Command, at keyPlace, k tenant.KeyDocument) error {
			if err := at.remove(cmd.Context(), k.ID); err != nil {
				return err
			}
			return options.tell(cmd.OutOrStdout(), map[string]any{"id": k.ID, "deleted": true},
				k.String()+" is deleted. Restore it within 7 days with: parley keys restore "+k.ID)
		})
}

func newKeysRestore(options *keyOptions) *cobra.Command {
	return &cobra.Command{
		Use:     "restore ID",
		Short:   "Restore a key that was deleted in the last 7 days, with its secret",
		Example: "  parley keys restore key_abc",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return options.with(cmd.Context(), func(at keyPlace) error {
				k, err := at.restore(cmd.Context(), args[0])
				if err != nil {
					return err
				}
				return options.tell(cmd.OutOrStdout(), k, k.String()+" is restored.")
			})
		},
	}
}

// showSecret prints a new secret: alone on standard output, so that it can be
// piped, and what to do with it beside.
func (o *keyOptions) showSecret(out, beside io.Writer, k tenant.KeyDocument) error {
	if o.JSON {
		return cli.PrintJSON(out, k)
	}
	if _, err := fmt.Fprintln(out, k.Value); err != nil {
		return err
	}
	_, err := fmt.Fprintf(beside,
		"This is the key %s of the organisation %s. It is not shown again.\nUse it as the API key of clients, and "+
			"as PARLEY_API_KEY for parley commands.\n", k.ID, k.Organization)
	return err
}

func (o *keyOptions) tell(out io.Writer, document any, sentence string) error {
	if o.JSON {
		return cli.PrintJSON(out, document)
	}
	_, err := fmt.Fprintln(out, sentence)
	return err
}
