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
			Help: "Requests whose answer may be shared: hit is a cached answer, joined one in flight, led one that " +
				"was computed."}, []string{"result"}),
		tokens: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_share_output_tokens_total",
			Help: "Tokens sent to clients that were computed for another request."}),
		relayed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "parley_share_relayed_total",
			Help: "Answers that another gateway computed and this one relayed through Redis."}),
	}
}

func (m *shareMetrics) count(result string) { m.requests.WithLabelValues(result).Inc() }
