package fleetctl

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
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
	// scaler names this process; empty if the gateways need not decide which one acts. leader is the
	// one that acts, if it is another; granted is when all gateways last said that this one may.
	scaler, leader string
	granted        time.Time
}

// leaseUse is for how long a scaler acts without asking again: less than the gateways wait for it.
const leaseUse = 2 * reportEvery

// leads reports whether this process may act.
func (r *reporter) leads(now time.Time) bool {
	return r.scaler == "" || r.leader == "" && now.Sub(r.granted) < leaseUse
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
		Scaler:         r.scaler,
	}
	if problem != nil {
		news.Problem = problem.Error()
	}
	same := news
	same.Why, same.Rate, same.Expected = r.last.Why, r.last.Rate, r.last.Expected
	if same == r.last && now.Sub(r.sent) < reportEvery {
		return
	}
	taken, err := r.send(ctx, to, &news)
	if taken {
		r.granted = now
	}
	if err == nil {
		r.last, r.sent = news, now
	}
}

// end lets another process act at once.
func (r *reporter) end(ctx context.Context, to *gateways) error {
	if r.scaler == "" || r.leader != "" || r.granted.IsZero() {
		return nil
	}
	r.last.Ends = true
	_, err := r.send(ctx, to, &r.last)
	return err
}

// send sends a report to all gateways, in the order of their addresses, so that of two processes only one
// can be the first. It reports whether a gateway has taken it, and none has another process that scales.
func (r *reporter) send(ctx context.Context, to *gateways, news *admin.ScaleReport) (taken bool, failed error) {
	body, err := json.Marshal(news)
	if err != nil {
		return false, err
	}
	for _, address := range slices.Sorted(maps.Keys(to.each)) {
		answer, err := post(ctx, to.each[address], "/fleet/scale", body)
		var said struct {
			StandBy string `json:"stand_by"`
		}
		if err == nil {
			err = json.Unmarshal(answer, &said)
		}
		if r.leader = said.StandBy; r.leader != "" {
			return false, errStandsBy
		}
		taken, failed = taken || err == nil, errors.Join(failed, err)
	}
	return taken, failed
}

var errStandsBy = errors.New("another process scales")
