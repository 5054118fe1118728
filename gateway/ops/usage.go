package ops

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley"
	"parley/gateway/exchange"
	"parley/gateway/ledger"
	"parley/gateway/openai"
)

// usageGroups says how the interface names what sums are told apart by.
var usageGroups = map[string]ledger.By{
	"project_id": ledger.ByOrganization, "user_id": ledger.ByUser, "api_key_id": ledger.ByKey, "model": ledger.ByModel,
	"batch": ledger.ByBatch, "service_tier": ledger.ByTier, "line_item": ledger.ByModel,
}

// byOf returns what sums are told apart by, from its name in the interface.
func byOf(name string) ledger.By {
	if key, isTag := strings.CutPrefix(name, openai.TagPrefix); isTag {
		return ledger.ByTag(key)
	}
	return usageGroups[name]
}

// ShowUsage answers GET /v1/organization/usage/completions.
func (a *API) ShowUsage(x *exchange.Exchange) error {
	q, sums, err := a.sums(x, "project_id", "user_id", "api_key_id", "model", "batch", "service_tier")
	if err != nil {
		return err
	}
	if wantsCSV(x.Request) {
		return replyCSV(x, q, sums)
	}
	results := map[int64][]any{}
	for i := range sums {
		s := &sums[i]
		r := openai.UsageResult{
			Object:               "organization.usage.completions.result",
			InputTokens:          s.Input,
			InputCachedTokens:    s.Cached,
			InputUncachedTokens:  s.Input - s.Cached,
			OutputTokens:         s.Output,
			NumModelRequests:     s.Requests - s.Unanswered,
			NumRejectedRequests:  s.Unanswered,
			NumEstimatedRequests: s.Estimated,
			ProjectID:            group(q, s, "project_id"),
			UserID:               group(q, s, "user_id"),
			APIKeyID:             group(q, s, "api_key_id"),
			Model:                group(q, s, "model"),
			ServiceTier:          group(q, s, "service_tier"),
			Tag:                  group(q, s, q.Tag()),
		}
		if text := group(q, s, "batch"); text != nil {
			batch := *text == "1"
			r.Batch = &batch
		}
		results[s.Bucket] = append(results[s.Bucket], r)
	}
	return x.Reply(http.StatusOK, q.Page(results))
}

// ShowCosts answers GET /v1/organization/costs. The line items are the models.
func (a *API) ShowCosts(x *exchange.Exchange) error {
	q, sums, err := a.sums(x, "project_id", "user_id", "api_key_id", "line_item")
	if err != nil {
		return err
	}
	if wantsCSV(x.Request) {
		return replyCSV(x, q, sums)
	}
	results := map[int64][]any{}
	for i := range sums {
		s := &sums[i]
		results[s.Bucket] = append(results[s.Bucket], openai.CostsResult{
			Object:    "organization.costs.result",
			Amount:    openai.CostAmount{Value: json.Number(s.Cost.String()), Currency: a.Currency},
			LineItem:  group(q, s, "line_item"),
			ProjectID: group(q, s, "project_id"),
			UserID:    group(q, s, "user_id"),
			APIKeyID:  group(q, s, "api_key_id"),
			Tag:       group(q, s, q.Tag()),
		})
	}
	return x.Reply(http.StatusOK, q.Page(results))
}

// group returns the value that a sum is of, nil if sums are not told apart by it.
func group(q *openai.UsageQuery, s *ledger.Sum, name string) *string {
	if slices.Contains(q.GroupBy, name) {
		value := s.Group[byOf(name)]
		return &value
	}
	return nil
}

// sums adds up what a call asks for and may see.
func (a *API) sums(x *exchange.Exchange, groups ...string) (*openai.UsageQuery, []ledger.Sum, error) {
	if a.Ledger == nil {
		return nil, nil, parley.Errorf(parley.NotFound, "This server has no ledger, so it cannot report usage.")
	}
	q, err := openai.ParseUsageQuery(x.Request.URL.Query(), groups...)
	if err != nil {
		return nil, nil, err
	}
	if now := a.Now(); q.End.IsZero() || q.End.After(now) {
		q.End = now.Add(time.Second) // what ended in this one counts
	}
	asked := ledger.Query{From: q.Start, To: q.Start.Add(time.Duration(q.Buckets()) * q.Width), Width: q.Width,
		Only: map[ledger.By][]string{}}
	if asked.To.After(q.End) {
		asked.To = q.End
	}
	for _, name := range q.GroupBy {
		asked.By = append(asked.By, byOf(name))
	}
	for name, values := range q.Only {
		asked.Only[usageGroups[name]] = databaseValues(name, values)
	}
	for by, values := range visibleTo(x) {
		asked.Only[by] = within(asked.Only[by], values)
	}
	sums, err := a.Ledger.Sums(x.Request.Context(), asked)
	return q, sums, err
}

// databaseValues are the values as the ledger has them.
func databaseValues(name string, values []string) []string {
	if name != "batch" {
		return values
	}
	var flags []string
	for _, v := range values {
		flags = append(flags, map[string]string{"true": "1", "false": "0"}[v])
	}
	return flags
}

// within returns the asked values that are allowed; nothing asked is all of them.
func within(asked, allowed []string) []string {
	if asked == nil {
		return allowed
	}
	found := []string{}
	for _, value := range asked {
		for _, may := range allowed {
			if value == may {
				found = append(found, value)
			}
		}
	}
	return found
}

// visibleTo says whose use a call may see: that of its own key, or that of
// all keys if it is the operator's.
func visibleTo(x *exchange.Exchange) map[ledger.By][]string {
	who := x.Identity
	if who.Admin {
		return nil
	}
	return map[ledger.By][]string{ledger.ByOrganization: {who.Organization}, ledger.ByKey: {who.Key}}
}

// wantsCSV reports whether a table is asked for, by the header Accept or the
// parameter format.
func wantsCSV(r *http.Request) bool {
	return strings.HasPrefix(r.Header.Get("Accept"), "text/csv") || r.URL.Query().Get("format") == "csv"
}

// replyCSV sends sums as a table, with tokens and money in every row.
func replyCSV(x *exchange.Exchange, q *openai.UsageQuery, sums []ledger.Sum) error {
	var out bytes.Buffer
	w := csv.NewWriter(&out)
	_ = w.Write(append(append([]string{"start_time"}, q.GroupBy...), "requests", "input_tokens", "cached_tokens",
		"output_tokens", "cost"))
	for i := range sums {
		s := &sums[i]
		row := []string{q.Start.Add(time.Duration(s.Bucket) * q.Width).Format(time.RFC3339)}
		for _, name := range q.GroupBy {
			row = append(row, plainCell(s.Group[byOf(name)]))
		}
		for _, n := range []int64{s.Requests, s.Input, s.Cached, s.Output} {
			row = append(row, strconv.FormatInt(n, 10))
		}
		_ = w.Write(append(row, s.Cost.String()))
	}
	w.Flush() // to memory, which does not fail
	x.Header().Set("Content-Type", "text/csv; charset=utf-8")
	return x.Send(http.StatusOK, out.Bytes())
}

// plainCell keeps a spreadsheet from taking a name for a formula.
func plainCell(text string) string {
	if text != "" && strings.ContainsRune("=+-@\t\r", rune(text[0])) {
		return "'" + text
	}
	return text
}
