package ops

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/gateway/admin"
)

// A Scaling is what autoscalers report, for pages and metrics.
type Scaling struct {
	// Now returns the time.
	Now func() time.Time

	mu    sync.Mutex
	board admin.ScaleBoard
}

// take takes in a report, unless another process scales the same: then it returns which.
func (s *Scaling) take(r *admin.ScaleReport) (other string, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.Now()
	if other = s.board.Leader(r, now); other != "" {
		return other, nil
	}
	return "", s.board.Take(r, now)
}

func (s *Scaling) view(length time.Duration) []admin.ScaleView {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.board.View(length, s.Now())
}

var (
	scaleLabels  = []string{"target"}
	scaleDesired = prometheus.NewDesc("parley_scale_desired_workers",
		"Workers that the autoscaler wants, as an external metric for other autoscalers.", scaleLabels, nil)
	scaleReady = prometheus.NewDesc("parley_scale_ready_workers",
		"Workers that take requests, as the autoscaler sees them.", scaleLabels, nil)
	scaleRate = prometheus.NewDesc("parley_scale_requests_per_second",
		"Requests per second that came lately, as the autoscaler sees them.", scaleLabels, nil)
	scaleExpected = prometheus.NewDesc("parley_scale_expected_requests_per_second",
		"Requests per second that the autoscaler expects at most while a worker starts.", scaleLabels, nil)
	scaleCost = prometheus.NewDesc("parley_scale_cost_per_hour",
		"What the workers that there are cost in an hour, at the price that the autoscaler was given.",
		scaleLabels, nil)
)

// Describe lists nothing: without an autoscaler there are no metrics of it.
func (s *Scaling) Describe(chan<- *prometheus.Desc) {}

// Collect reports what autoscalers said last, if that is not too old.
func (s *Scaling) Collect(to chan<- prometheus.Metric) {
	for _, v := range s.view(0) {
		if v.Stale {
			continue
		}
		for desc, value := range map[*prometheus.Desc]float64{
			scaleDesired:  float64(v.Desired),
			scaleReady:    float64(v.Ready),
			scaleRate:     v.Rate,
			scaleExpected: v.Expected,
			scaleCost:     v.Cost,
		} {
			to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, v.Target)
		}
	}
}
