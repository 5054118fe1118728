package keys

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"parley/cli"
	"parley/cli/remote"
	"parley/gateway/tenant"
	"parley/limit"
)

// A usageRow is what was used by one key or tenant, with one model or on one
// day.
type usageRow struct {
	Name string `json:"name"`
	// KeyName and Organization say whose key it is, where rows are of keys.
	KeyName      string `json:"key_name,omitempty"`
	Organization string `json:"organization,omitempty"`

	Requests int64        `json:"requests"`
	Input    int64        `json:"input_tokens"`
	Cached   int64        `json:"cached_tokens"`
	Output   int64        `json:"output_tokens"`
	Cost     limit.Micros `json:"cost"`
}

// usageBy says how the server names what rows are told apart by.
var usageBy = map[string]string{"org": "project_id", "key": "api_key_id", "model": "model", "day": ""}

// tagPrefix precedes the key of a tag; the server names it as the command does.
const tagPrefix = "tag:"

// group returns what the server calls what rows are told apart by.
func (f *usageFlags) group() (name string, known bool) {
	if strings.HasPrefix(f.by, tagPrefix) {
		return f.by, f.by != tagPrefix && !strings.Contains(f.by, ",")
	}
	name, known = usageBy[f.by]
	return name, known
}

type usageFlags struct {
	remote.Command
	by    string
	days  int
	asCSV bool
}

// NewUsage returns the command `parley usage`.
func NewUsage() *cobra.Command {
	f := &usageFlags{}
	cmd := &cobra.Command{
		Use:   "usage",
		Short: "Show usage and cost by organisation, key, model, day or tag",
		Long: `Show usage and cost by model, organisation, key, day (in UTC) or tag, which is an entry of a
request's metadata.

The numbers are sums over the server's ledger of all answered requests. Prices are set
with parley serve --prices. With an ordinary key in PARLEY_API_KEY you see its own usage,
with an admin key all usage.`,
		Example: "  parley usage\n  parley usage --by key --days 30\n  parley usage --by tag:project\n  " +
			"parley usage --by day --csv > usage.csv\n  " +
			"parley usage --json | jq '.data[].cost'",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			group, known := f.group()
			if !known || f.days < 1 || f.days > 180 {
				return fmt.Errorf("--by is %q and --days %d: use org, key, model, day or tag:KEY, and 1 to 180 days: "+
					"%w", f.by, f.days, cli.ErrUsage)
			}
			ctx, cancel := context.WithTimeout(cmd.Context(), remote.AskWait)
			defer cancel()
			c, err := f.Client()
			if err != nil {
				return err
			}
			rows, err := fetchUsage(ctx, c, group, f.days, time.Now())
			if err == nil && f.by == "key" {
				err = nameKeys(ctx, c, rows)
			}
			if errors.Is(err, context.Canceled) {
				return cli.ErrInterrupted
			}
			if err != nil {
				return remote.StartHint(err)
			}
			return f.print(cmd.OutOrStdout(), rows)
		},
	}
	cmd.Flags().StringVar(&f.by, "by", "model", "group by `org|key|model|day|tag:KEY`")
	cmd.Flags().IntVar(&f.days, "days", 30, "cover the last `DAYS` days, today included")
	cmd.Flags().BoolVar(&f.asCSV, "csv", false, "print as CSV")
	f.Add(cmd)
	cmd.MarkFlagsMutuallyExclusive("csv", "json")
	return cmd
}

// fetchUsage asks the server for the sums of the last days. An empty group means by
// day.
func fetchUsage(ctx context.Context, c *remote.Client, group string, days int, now time.Time) ([]usageRow, error) {
	today := now.UTC().Truncate(24 * time.Hour)
	query := url.Values{"start_time": {strconv.FormatInt(today.AddDate(0, 0, 1-days).Unix(), 10)}, "limit": {"180"},
		"bucket_width": {"1d"}, "format": {"csv"}}
	if group != "" {
		query.Set("group_by", group)
	}
	table, err := c.Get(ctx, "/v1/organization/usage/completions?"+query.Encode())
	if err != nil {
		return nil, err
	}
	return readUsage(bytes.NewReader(table), group == "")
}

// nameKeys adds to each row the name and the organisation of its key. Without the admin right a key
// can look up only itself.
func nameKeys(ctx context.Context, c *remote.Client, rows []usageRow) error {
	var me struct {
		Admin bool
		Key   *tenant.KeyDocument
	}
	var keys []tenant.KeyDocument
	server := keyServer{c}
	err := server.Call(ctx, http.MethodGet, "/v1/organization/me", nil, &me)
	switch {
	case err == nil && me.Admin:
		keys, err = server.listAll(ctx, keysPath+"?include_deleted=true")
	case err == nil && me.Key != nil:
		keys = []tenant.KeyDocument{*me.Key}
	}
	for i := range rows {
		for _, k := range keys {
			if k.ID == rows[i].Name {
				rows[i].KeyName, rows[i].Organization = k.Name, k.Organization
				if k.DeletedAt != nil {
					rows[i].KeyName = strings.TrimSpace(k.Name + " (deleted)")
				}
			}
		}
	}
	return err
}

// readUsage reads the server's table and adds up what has the same name. The
// server's rows are of a day each, in order.
func readUsage(from io.Reader, byDay bool) ([]usageRow, error) {
	table, err := csv.NewReader(from).ReadAll()
	if err != nil || len(table) == 0 {
		return nil, fmt.Errorf("the server's answer is not a usage table: %w", errors.Join(err, errNoTable))
	}
	rows, at := []usageRow{}, map[string]int{}
	for _, cells := range table[1:] {
		row, err := usageOf(cells, byDay)
		if err != nil {
			return nil, err
		}
		i, known := at[row.Name]
		if !known {
			at[row.Name] = len(rows)
			rows = append(rows, row)
			continue
		}
		rows[i].add(&row)
	}
	return rows, nil
}

var errNoTable = errors.New("is it a parley server of this version?")

// usageOf reads a line: the day, the group if days are not the groups, and five
// numbers.
func usageOf(cells []string, byDay bool) (row usageRow, err error) {
	named := 1
	if byDay {
		named = 0
	}
	if len(cells) != named+6 {
		return row, fmt.Errorf("a row of the server's usage table has %d cells: %w", len(cells), errNoTable)
	}
	row.Name = cells[named]
	if byDay && len(row.Name) > len(time.DateOnly) {
		row.Name = row.Name[:len(time.DateOnly)]
	}
	for i, into := range []*int64{&row.Requests, &row.Input, &row.Cached, &row.Output} {
		if *into, err = strconv.ParseInt(cells[named+1+i], 10, 64); err != nil {
			return row, fmt.Errorf("%w: %w", err, errNoTable)
		}
	}
	row.Cost, err = limit.ParseMicros(cells[named+5])
	return row, err
}

func (r *usageRow) add(other *usageRow) {
	r.Requests += other.Requests
	r.Input += other.Input
	r.Cached += other.Cached
	r.Output += other.Output
	r.Cost += other.Cost
}

func (f *usageFlags) print(out io.Writer, rows []usageRow) error {
	total := usageRow{Name: "total"}
	for i := range rows {
		total.add(&rows[i])
	}
	switch {
	case f.JSON:
		return cli.PrintJSON(out,
			map[string]any{"object": "list", "by": f.by, "days": f.days, "data": rows, "total": total})
	case f.asCSV:
		w := csv.NewWriter(out)
		_ = w.Write(append(f.heads("key_name", "organization"), "requests", "input_tokens", "cached_tokens",
			"output_tokens", "cost"))
		for i := range rows {
			_ = w.Write(f.cells(&rows[i]))
		}
		w.Flush()
		return w.Error()
	}
	w := tabwriter.NewWriter(out, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "%s\trequests\tinput\tcached\toutput\tcost\t\n", strings.Join(f.heads("name", "organisation"), "\t"))
	for _, row := range append(rows, total) {
		fmt.Fprintf(w, "%s\t\n", strings.Join(f.cells(&row), "\t"))
	}
	return w.Flush()
}

// heads are the titles of the columns that say what a row is of: whose, too, for
// a key.
func (f *usageFlags) heads(whose ...string) []string {
	if f.by == "key" {
		return append([]string{f.by}, whose...)
	}
	return []string{f.by}
}

func (f *usageFlags) cells(r *usageRow) []string {
	cells := []string{r.Name}
	if r.Name == "" {
		cells[0] = "(no key)"
		if strings.HasPrefix(f.by, tagPrefix) {
			cells[0] = "(no tag)"
		}
	}
	if f.by == "key" {
		cells = append(cells, r.KeyName, r.Organization)
	}
	for _, n := range []int64{r.Requests, r.Input, r.Cached, r.Output} {
		cells = append(cells, strconv.FormatInt(n, 10))
	}
	return append(cells, r.Cost.String())
}
