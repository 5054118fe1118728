package host

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

var modelStateDesc = prometheus.NewDesc("parley_model_state",
	"1 for the state that a model of the model folder is in: unloaded, loading, loaded, unloading or too_large.",
	[]string{"model_name", "state"}, nil)

// Describe and Collect make a library a [prometheus.Collector] of the states of its models.
func (l *Library) Describe(to chan<- *prometheus.Desc) { to <- modelStateDesc }

// Collect sends the state of each model.
func (l *Library) Collect(to chan<- prometheus.Metric) {
	for _, s := range l.States() {
		to <- prometheus.MustNewConstMetric(modelStateDesc, prometheus.GaugeValue, 1, s.Name,
			strings.ReplaceAll(s.State, " ", "_"))
	}
}
