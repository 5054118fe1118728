package fleetctl

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"time"

	"parley/fleet/scale"
	"parley/gateway/admin"
)

// A reporter reports to gateways what is wanted and why, for their page and their metrics.
type reporter struct {
	config scale.Config
	target string

	rate    float64 // of requests, lately
	arrived uint64
	at      time.Time // when rate was brought up to date
	last    admin.ScaleReport
	sent    time.Time
}

const (
	// reportEvery is how often the same is reported again.
	reportEvery = 10 * time.Second
	// rateOver is how long the rate of requests is averaged over.
	rateOver = 30 * time.Second
)

// see brings the rate of requests up to date.
func (r *reporter) see(state *scale.State, now time.Time) {
	if since := now.Sub(r.at).Seconds(); !r.at.IsZero() && since > 0 {
		share := 1 - math.Exp(-since/rateOver.Seconds())
		r.rate += (float64(state.Arrived-r.arrived)/since - r.rate) * share
	}
	r.arrived, r.at = state.Arrived, now
}

// report reports to all gateways, if there is news. A gateway that does not take it is told the
// next time; what is wrong with it is known from elsewhere.
func (r *reporter) report(ctx context.Context, to *gateways, state *scale.State, want scale.Sizing, ready time.Duration,
	standsBy string, problem error, now time.Time) {
	news := admin.ScaleReport{
		Target:         r.target,
		Desired:        want.Workers,
		Ready:          state.Ready,
		Starting:       state.Starting,
		Min:            r.config.Min,
		Max:            r.config.Max,
		Why:            want.Why,
		Rate:           r.rate,
		Expected:       want.Expected,
		HorizonSeconds: ready.Seconds(),
		Price:          r.config.Price,
		Budget:         r.config.Budget,
		StandsBy:       standsBy,
	}
	if problem != nil {
		news.Problem = problem.Error()
	}
	same := news
	same.Why, same.Rate, same.Expected = r.last.Why, r.last.Rate, r.last.Expected
	if same == r.last && now.Sub(r.sent) < reportEvery {
		return
	}
	body, err := json.Marshal(&news)
	if err != nil {
		return // none of its numbers is infinite
	}
	var failed error
	for _, c := range to.each {
		failed = errors.Join(failed, post(ctx, c, "/fleet/scale", body))
	}
	if failed == nil {
		r.last, r.sent = news, now
	}
}
