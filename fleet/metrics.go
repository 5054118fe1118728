package fleet

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"parley/worker"
)

func newMetrics(f *Fleet, registry prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		fleet: f,
		moves: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "parley_fleet_moves_total",
			Help: "Answers that failed over to another worker, by reason."}, []string{"why"}),
		delayed: prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_fleet_moves_delayed_total",
			Help: "Failovers that waited because the recomputation budget was spent."}),
		waits: prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_fleet_waits_total",
			Help: "Times a request waited because no worker had capacity."}),
	}
	m.hedges = prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_fleet_hedges_total",
		Help: "Requests hedged to a second worker because no token had arrived in time."})
	m.wakes = prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_fleet_wakes_total",
		Help: "Times a worker was woken, by operators or for a request."})
	m.withdrawn = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "parley_fleet_withdrawn_total",
		Help: "Requests withdrawn from a worker that had not begun them, by reason."}, []string{"why"})
	m.transfers = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "parley_kv_transfer_decisions_total",
		Help: "Requests sent with a worker to fetch blocks from (decided), and the outcomes: whole, or why not."},
		[]string{"outcome"})
	m.transferTokens = prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_kv_transfer_tokens_total",
		Help: "Prompt tokens that workers fetched from others instead of computing them."})
	m.warmUps = prometheus.NewCounterVec(prometheus.CounterOpts{Name: "parley_kv_transfer_warm_ups_total",
		Help: "Workers that warmed up, by outcome: whole, or why blocks were missing."},
		[]string{"outcome"})
	m.warmTokens = prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_kv_transfer_warm_up_tokens_total",
		Help: "Tokens whose blocks workers fetched to warm up."})
	m.handedTokens = prometheus.NewCounter(prometheus.CounterOpts{Name: "parley_kv_transfer_hand_over_tokens_total",
		Help: "Tokens whose blocks workers fetched from one that was about to stop."})
	if registry == nil {
		return m, nil
	}
	return m, errors.Join(registry.Register(m.moves), registry.Register(m.delayed), registry.Register(m.waits),
		registry.Register(m.hedges), registry.Register(m.wakes),
		registry.Register(m.withdrawn), registry.Register(m.transfers), registry.Register(m.transferTokens),
		registry.Register(m.warmUps), registry.Register(m.warmTokens), registry.Register(m.handedTokens),
		registry.Register(standings{f}), registry.Register(deviceStandings{f}))
}

// deviceStandings reports the GPUs of workers when metrics are read.
type deviceStandings struct{ fleet *Fleet }

var deviceMetrics = worker.NewDeviceMetrics(workerLabels...)

// Describe lists nothing: engines in this process have metrics of the same names with other
// labels, which a registry allows to collectors that do not say before what they collect.
func (deviceStandings) Describe(chan<- *prometheus.Desc) {}

// Collect reports each GPU as its worker did.
func (s deviceStandings) Collect(to chan<- prometheus.Metric) {
	seen := map[string]bool{}
	for _, w := range s.fleet.Standings() {
		if !seen[w.Name] && w.Device != nil {
			deviceMetrics.Collect(to, w.Device, w.Name, w.Pool)
		}
		seen[w.Name] = true
	}
}

// standings reports each worker when metrics are read.
type standings struct{ fleet *Fleet }

var (
	workerLabels = []string{"worker", "pool"}
	descUp       = prometheus.NewDesc("parley_fleet_worker_up", "1 for a worker that gets requests.", workerLabels, nil)
	descAsleep   = prometheus.NewDesc("parley_fleet_worker_asleep", "1 for a worker that is asleep.", workerLabels, nil)
	descAnswers  = prometheus.NewDesc("parley_fleet_worker_answering", "Running answers of a worker.", workerLabels,
		nil)
	descKV = prometheus.NewDesc("parley_fleet_worker_kv_usage",
		"Share of a worker's key/value memory in use, as it reports.", workerLabels, nil)
	descWaiting = prometheus.NewDesc("parley_fleet_worker_waiting", "Requests queued in a worker, as it reports.",
		workerLabels, nil)
	descSent   = prometheus.NewDesc("parley_fleet_worker_sent_total", "Requests sent to a worker.", workerLabels, nil)
	descFailed = prometheus.NewDesc("parley_fleet_worker_failed_total",
		"Requests that a worker answered with an error.", workerLabels, nil)
	descLost = prometheus.NewDesc("parley_fleet_worker_lost_total", "Answers cut off because a worker was lost.",
		workerLabels, nil)
	descPrompt = prometheus.NewDesc("parley_fleet_worker_prompt_tokens_total",
		"Prompt tokens of requests that a worker answered.", workerLabels, nil)
	descCached = prometheus.NewDesc("parley_fleet_worker_cached_tokens_total",
		"Prompt tokens that hit the worker's cache.", workerLabels, nil)
	descBlocks = prometheus.NewDesc("parley_fleet_index_blocks", "Cached blocks of a worker known to the router.",
		workerLabels, nil)
	descDegraded = prometheus.NewDesc("parley_fleet_index_degraded",
		"1 while the index of a worker's blocks is incomplete because events were lost.", workerLabels, nil)
	descGaps = prometheus.NewDesc("parley_fleet_index_gaps_total",
		"Gaps in the sequence numbers of a worker's events.", workerLabels, nil)
	descLosses = prometheus.NewDesc("parley_fleet_index_losses_total", "Gaps that no replay filled.", workerLabels, nil)
)

// Describe lists what is told.
func (s standings) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(s, to) }

// Collect reports each worker.
func (s standings) Collect(to chan<- prometheus.Metric) {
	seen := map[string]bool{} // one that leaves may have a successor
	for _, w := range s.fleet.Standings() {
		if seen[w.Name] {
			continue
		}
		seen[w.Name] = true
		for _, row := range []struct {
			desc  *prometheus.Desc
			kind  prometheus.ValueType
			value float64
		}{
			{descUp, prometheus.GaugeValue, bit(w.State == Up)},
			{descAsleep, prometheus.GaugeValue, bit(w.State == Asleep)},
			{descAnswers, prometheus.GaugeValue, float64(w.Answering)},
			{descKV, prometheus.GaugeValue, float64(w.UsedTokens) / float64(max(1, w.CapacityTokens))},
			{descWaiting, prometheus.GaugeValue, float64(w.Waiting)},
			{descSent, prometheus.CounterValue, float64(w.Sent)},
			{descFailed, prometheus.CounterValue, float64(w.Failed)},
			{descLost, prometheus.CounterValue, float64(w.Lost)},
			{descPrompt, prometheus.CounterValue, float64(w.PromptTokens)},
			{descCached, prometheus.CounterValue, float64(w.CachedTokens)},
			{descBlocks, prometheus.GaugeValue, float64(w.Blocks)},
			{descDegraded, prometheus.GaugeValue, bit(w.Degraded)},
			{descGaps, prometheus.CounterValue, float64(w.Gaps)},
			{descLosses, prometheus.CounterValue, float64(w.Losses)},
		} {
			to <- prometheus.MustNewConstMetric(row.desc, row.kind, row.value, w.Name, w.Pool)
		}
	}
}

func bit(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
