package ops

import (
	"encoding/json"
	"net/http"

	"parley"
	"parley/gateway/admin"
	"parley/gateway/exchange"
)

// ToWorker has something done to the worker that a request names.
func (a *API) ToWorker(do func(name string) error) func(*exchange.Exchange) error {
	return func(x *exchange.Exchange) error {
		name, err := workerNamed(x)
		if err != nil {
			return err
		}
		x.Changes(name, nil, nil)
		if err := do(name); err != nil {
			return err
		}
		return a.ShowNow(x)
	}
}

// workerNamed reads which worker something is to be done to: {"worker": NAME}.
func workerNamed(x *exchange.Exchange) (string, error) {
	body, err := x.Body() // JSON, which no foreign page may send unasked
	if err != nil {
		return "", err
	}
	var wanted struct {
		Worker string `json:"worker"`
	}
	if err := json.Unmarshal(body, &wanted); err != nil || wanted.Worker == "" {
		return "", parley.Invalid("worker", "Name a worker: {\"worker\": \"NAME\"}. GET /admin/api/now lists them.")
	}
	return wanted.Worker, nil
}

// A FindingList is what the watch over prompts has found, the latest first.
type FindingList struct {
	Object string          `json:"object"`
	Data   []admin.Finding `json:"data"`
}

// ListFindings answers GET /admin/api/findings and /fleet/findings.
func (a *API) ListFindings(x *exchange.Exchange) error {
	list := FindingList{Object: "list", Data: []admin.Finding{}}
	for _, f := range a.Prefixes.Findings() {
		f.WasText, f.NowText = a.Text(f.Model, f.Was), a.Text(f.Model, f.Now)
		list.Data = append([]admin.Finding{f}, list.Data...)
	}
	return x.Reply(http.StatusOK, list)
}
