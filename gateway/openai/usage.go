package openai

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley"
)

// A UsageQuery is what GET /v1/organization/usage/completions and …/costs ask
// for.
type UsageQuery struct {
	// Start and End bound the time; a zero End is now. Start is where a bucket
	// begins.
	Start, End time.Time
	Width      time.Duration
	// Limit is how many buckets there are on a page.
	Limit int
	// GroupBy and Only are named as the interface names them: project_id,
	// user_id, api_key_id, model, batch, service_tier, line_item; GroupBy may have one tag:KEY.
	GroupBy []string
	Only    map[string][]string
}

// usageWidths are the buckets, and how many of each a page has and may have.
var usageWidths = map[string]struct {
	width       time.Duration
	usual, most int
}{"1m": {time.Minute, 60, 1440}, "1h": {time.Hour, 24, 168}, "1d": {24 * time.Hour, 7, 180}}

// usageFilters are the parameters that name values, and what of.
var usageFilters = map[string]string{"project_ids": "project_id", "user_ids": "user_id", "api_key_ids": "api_key_id",
	"models": "model", "batch": "batch"}

const pagePrefix = "page_"

// ParseUsageQuery reads a query whose results can be told apart by groups.
func ParseUsageQuery(query url.Values, groups ...string) (*UsageQuery, error) {
	q := &UsageQuery{Only: map[string][]string{}}
	width := query.Get("bucket_width")
	if width == "" {
		width = "1d"
	}
	bucket, known := usageWidths[width]
	if !known {
		return nil, invalidValue("bucket_width", width, "'1m', '1h' and '1d'")
	}
	q.Width = bucket.width
	for name, into := range map[string]*time.Time{"start_time": &q.Start, "end_time": &q.End} {
		if text := query.Get(name); text != "" {
			n, err := strconv.ParseInt(text, 10, 64)
			if err != nil || n < 0 || n > 1<<40 {
				return nil, invalidValue(name, text, "seconds since 1970")
			}
			*into = time.Unix(n, 0).UTC()
		}
	}
	if query.Get("start_time") == "" {
		return nil, withCode("missing_required_parameter",
			parley.Invalid("start_time", "Missing required parameter: 'start_time'."))
	}
	page, err := ParsePage(url.Values{"limit": query["limit"]}, bucket.usual, bucket.most)
	if err != nil {
		return nil, err
	}
	q.Limit = page.Limit
	if err := q.readPage(query.Get("page")); err != nil {
		return nil, err
	}
	q.Start = q.Start.Truncate(q.Width)
	return q, q.readNames(query, groups)
}

// readPage continues where a page ended.
func (q *UsageQuery) readPage(text string) error {
	if text == "" {
		return nil
	}
	digits, ok := strings.CutPrefix(text, pagePrefix)
	n, err := strconv.ParseInt(digits, 10, 64)
	if !ok || err != nil || n < 0 || n > 1<<40 {
		return invalidValue("page", text, "the 'next_page' of an earlier answer")
	}
	q.Start = time.Unix(n, 0).UTC()
	return nil
}

// readNames reads the lists: repeated, with or without brackets, or with commas.
func (q *UsageQuery) readNames(query url.Values, groups []string) error {
	for _, name := range listed(query, "group_by") {
		tag := strings.HasPrefix(name, TagPrefix)
		switch {
		case slices.Contains(q.GroupBy, name):
			continue
		case tag && (name == TagPrefix || q.Tag() != ""):
			return invalidValue("group_by", name, "'tag:KEY' with the key of one tag")
		case !tag && !slices.Contains(groups, name):
			return invalidValue("group_by", name, "'"+strings.Join(groups, "', '")+"' and 'tag:KEY'")
		}
		q.GroupBy = append(q.GroupBy, name)
	}
	for parameter, of := range usageFilters {
		if values := listed(query, parameter); len(values) > 0 {
			q.Only[of] = values
		}
	}
	return nil
}

// TagPrefix precedes the key of a tag to group by.
const TagPrefix = "tag:"

// Tag returns the one of GroupBy that names a tag; empty if none does.
func (q *UsageQuery) Tag() string {
	if i := slices.IndexFunc(q.GroupBy, func(name string) bool { return strings.HasPrefix(name, TagPrefix) }); i >= 0 {
		return q.GroupBy[i]
	}
	return ""
}

func listed(query url.Values, name string) (values []string) {
	for _, text := range slices.Concat(query[name], query[name+"[]"]) {
		for value := range strings.SplitSeq(text, ",") {
			if value != "" {
				values = append(values, value)
			}
		}
	}
	return values
}

func invalidValue(param, value, wanted string) error {
	return withCode("invalid_value",
		parley.Invalid(param, "Invalid '%s': '%s'. Supported values are: %s.", param, shorten(value), wanted))
}

// A UsagePage is a list of buckets.
type UsagePage struct {
	Object   string        `json:"object"`
	Data     []UsageBucket `json:"data"`
	HasMore  bool          `json:"has_more"`
	NextPage *string       `json:"next_page"`
}

// A UsageBucket is what was used in a time: a [UsageResult] or a [CostsResult]
// for each group.
type UsageBucket struct {
	Object    string `json:"object"`
	StartTime int64  `json:"start_time"`
	EndTime   int64  `json:"end_time"`
	Results   []any  `json:"results"`
}

// A UsageResult counts tokens. What was not asked to be told apart is null.
type UsageResult struct {
	Object              string  `json:"object"`
	InputTokens         int64   `json:"input_tokens"`
	InputCachedTokens   int64   `json:"input_cached_tokens"`
	InputUncachedTokens int64   `json:"input_uncached_tokens"`
	OutputTokens        int64   `json:"output_tokens"`
	NumModelRequests    int64   `json:"num_model_requests"`
	ProjectID           *string `json:"project_id"`
	UserID              *string `json:"user_id"`
	APIKeyID            *string `json:"api_key_id"`
	Model               *string `json:"model"`
	Batch               *bool   `json:"batch"`
	ServiceTier         *string `json:"service_tier"`
	// What follows is of this server alone: requests that no worker began, those whose tokens are estimates, the tag.
	NumRejectedRequests  int64   `json:"num_rejected_requests,omitempty"`
	NumEstimatedRequests int64   `json:"num_estimated_requests,omitempty"`
	Tag                  *string `json:"tag,omitempty"`
}

// A CostsResult is an amount of money.
type CostsResult struct {
	Object    string     `json:"object"`
	Amount    CostAmount `json:"amount"`
	LineItem  *string    `json:"line_item"`
	ProjectID *string    `json:"project_id"`
	// UserID and Tag are of this server alone: elsewhere costs are not told by them.
	UserID   *string `json:"user_id,omitempty"`
	Tag      *string `json:"tag,omitempty"`
	APIKeyID *string `json:"api_key_id"`
}

// A CostAmount is exact: its value is a decimal number.
type CostAmount struct {
	Value    json.Number `json:"value"`
	Currency string      `json:"currency"`
}

// Page makes a page of the results of each bucket, from q.Start on.
func (q *UsageQuery) Page(results map[int64][]any) UsagePage {
	p := UsagePage{Object: "page", Data: []UsageBucket{}}
	for i := range q.Buckets() {
		start := q.Start.Add(time.Duration(i) * q.Width)
		b := UsageBucket{Object: "bucket", StartTime: start.Unix(), EndTime: start.Add(q.Width).Unix(),
			Results: results[int64(i)]}
		if b.Results == nil {
			b.Results = []any{}
		}
		p.Data = append(p.Data, b)
	}
	if next := q.Start.Add(time.Duration(q.Buckets()) * q.Width); next.Before(q.End) {
		text := pagePrefix + strconv.FormatInt(next.Unix(), 10)
		p.HasMore, p.NextPage = true, &text
	}
	return p
}

// Buckets is how many there are on the page that begins at Start.
func (q *UsageQuery) Buckets() int {
	if !q.Start.Before(q.End) {
		return 0
	}
	return int(min(int64(q.Limit), int64((q.End.Sub(q.Start)+q.Width-1)/q.Width)))
}
