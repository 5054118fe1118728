package infer

import "github.com/prometheus/client_golang/prometheus"

// shareMetrics count what was not computed again.
type shareMetrics struct {
	requests *prometheus.CounterVec
	tokens   prometheus.Counter
	relayed  prometheus.Counter
}

func newShareMetrics() *shareMetrics {
	return &shareMetrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "parley_share_requests_total",
			Help: "Requests whose answer may be shared: hit is a kept answer, joined one in flight, led one that " +
				"was computed."}, []string{"result"}),
		tokens: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_share_output_tokens_total",
			Help: "Tokens given to clients that were computed for another request."}),
		relayed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_share_relayed_total",
			Help: "Answers that another gateway computed and this one followed through Redis."}),
	}
}

func (m *shareMetrics) count(result string) { m.requests.WithLabelValues(result).Inc() }

// A shareCollector reads what is kept and in flight when metrics are scraped.
type shareCollector struct{ shares *shares }

var (
	shareBytes   = prometheus.NewDesc("parley_share_kept_bytes", "Memory that complete answers take.", nil, nil)
	shareKept    = prometheus.NewDesc("parley_share_kept_answers", "Complete answers that are kept.", nil, nil)
	shareFlights = prometheus.NewDesc("parley_share_flights", "Answers in flight that others can join.", nil, nil)
)

// Describe names what is collected.
func (s shareCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{shareBytes, shareKept, shareFlights} {
		out <- d
	}
}

// Collect reads the numbers.
func (s shareCollector) Collect(out chan<- prometheus.Metric) {
	s.shares.mu.Lock()
	bytes, kept, flights := s.shares.kept.bytes, len(s.shares.kept.entries), len(s.shares.flights)
	s.shares.mu.Unlock()
	out <- prometheus.MustNewConstMetric(shareBytes, prometheus.GaugeValue, float64(bytes))
	out <- prometheus.MustNewConstMetric(shareKept, prometheus.GaugeValue, float64(kept))
	out <- prometheus.MustNewConstMetric(shareFlights, prometheus.GaugeValue, float64(flights))
}
