package ops

import (
	"net/http"
	"strconv"
	"time"

	"parley"
	"parley/gateway/audit"
	"parley/gateway/exchange"
)

// auditPage is how many entries a page has if the client does not say.
const auditPage, auditPageMax = 20, 100

// An auditList is a page of the audit log.
type auditList struct {
	Object  string        `json:"object"`
	Data    []audit.Entry `json:"data"`
	FirstID *string       `json:"first_id"`
	LastID  *string       `json:"last_id"`
	HasMore bool          `json:"has_more"`
}

// ListAudit answers GET /v1/organization/audit_logs.
func (a *API) ListAudit(x *exchange.Exchange) error {
	filter, err := parseAuditQuery(x.Request)
	if err != nil {
		return err
	}
	wanted := filter.Limit
	filter.Limit++
	entries, err := a.Audit.List(x.Request.Context(), filter)
	if err != nil {
		return err
	}
	page := auditList{Object: "list", Data: append([]audit.Entry{}, entries[:min(wanted, len(entries))]...),
		HasMore: len(entries) > wanted}
	if n := len(page.Data); n > 0 {
		page.FirstID, page.LastID = &page.Data[0].ID, &page.Data[n-1].ID
	}
	return x.Reply(http.StatusOK, page)
}

// parseAuditQuery reads OpenAI's parameters, in brackets or not, and ours.
func parseAuditQuery(r *http.Request) (f audit.Filter, err error) {
	query := r.URL.Query()
	first := func(names ...string) string {
		for _, name := range names {
			if text := query.Get(name); text != "" {
				return text
			}
		}
		return ""
	}
	f = audit.Filter{
		Action: first("event_types[]", "event_types", "type"),
		Actor:  first("actor_ids[]", "actor_ids", "actor"),
		Target: first("resource_ids[]", "resource_ids", "target"),
		After:  first("after"),
		Limit:  auditPage,
	}
	if text := first("limit"); text != "" {
		if f.Limit, err = strconv.Atoi(text); err != nil || f.Limit < 1 || f.Limit > auditPageMax {
			return f, parley.Invalid("limit", "Invalid 'limit': it must be 1 to %d.", auditPageMax)
		}
	}
	for name, at := range map[string]*time.Time{"effective_at[gte]": &f.Since, "effective_at[lt]": &f.Until} {
		text := query.Get(name)
		if text == "" {
			continue
		}
		seconds, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return f, parley.Invalid(name, "Invalid '%s': it must be a time in seconds since 1970.", name)
		}
		*at = time.Unix(seconds, 0)
	}
	return f, nil
}
