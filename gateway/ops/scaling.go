package ops

import (
	"encoding/json"
	"net/http"

	"parley"
	"parley/gateway/admin"
	"parley/gateway/exchange"
)

// A ScaleList is what autoscalers report.
type ScaleList struct {
	Object string            `json:"object"`
	Data   []admin.ScaleView `json:"data"`
}

// ListScaling answers GET /admin/api/scale?range=RANGE and GET /fleet/scale.
func (a *API) ListScaling(x *exchange.Exchange) error {
	length, known := ranges[x.Request.URL.Query().Get("range")]
	if !known {
		return parley.Invalid("range", "Invalid 'range': it must be 15m, 1h, 6h, 24h, 7d or 30d.")
	}
	return x.Reply(http.StatusOK, ScaleList{Object: "list", Data: a.Scaling.view(length)})
}

// TakeScaling answers POST /fleet/scale, with which an autoscaler reports.
func (a *API) TakeScaling(x *exchange.Exchange) error {
	body, err := x.Body() // JSON, which no foreign page may send unasked
	if err != nil {
		return err
	}
	var report admin.ScaleReport
	if err := json.Unmarshal(body, &report); err != nil {
		return parley.Invalid("", "The report of an autoscaler cannot be read: %v.", err)
	}
	other, err := a.Scaling.take(&report)
	if err != nil {
		return parley.Invalid("", "The report of an autoscaler is refused: %v.", err)
	}
	return x.Reply(http.StatusOK, struct {
		Object string `json:"object"`
		// StandBy is which process scales, if it is not the one that reports.
		StandBy string `json:"stand_by,omitempty"`
	}{"scale.report", other})
}
