package worker

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"parley"
)

// DeviceMetrics are the metrics of a GPU, with labels that say whose it is. Numbers that are
// not known are left out.
type DeviceMetrics struct {
	gauges          []*prometheus.Desc // of [parley.DeviceGauges]
	info, throttled *prometheus.Desc
}

// NewDeviceMetrics returns the metrics with labels of the given names.
func NewDeviceMetrics(labels ...string) *DeviceMetrics {
	d := &DeviceMetrics{}
	for _, g := range parley.DeviceGauges {
		d.gauges = append(d.gauges, prometheus.NewDesc(g.Name, g.Help, labels, nil))
	}
	with := func(more ...string) []string { return append(slices.Clone(labels), more...) }
	d.info = prometheus.NewDesc(parley.DeviceInfoMetric, "The name of a GPU and the version of its driver.",
		with("name", "driver"), nil)
	d.throttled = prometheus.NewDesc(parley.DeviceThrottledMetric,
		"1 for a reason that keeps the clocks of a GPU low now, 0 for others.", with("reason"), nil)
	return d
}

// Describe lists all metrics.
func (d *DeviceMetrics) Describe(to chan<- *prometheus.Desc) {
	for _, g := range d.gauges {
		to <- g
	}
	to <- d.info
	to <- d.throttled
}

// Collect sends the numbers of a GPU whose labels have the given values.
func (d *DeviceMetrics) Collect(to chan<- prometheus.Metric, s *parley.DeviceState, labels ...string) {
	send := func(desc *prometheus.Desc, value float64, more ...string) {
		all := append(slices.Clone(labels), more...)
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, all...)
	}
	send(d.info, 1, s.Name, s.Driver)
	for i, g := range parley.DeviceGauges {
		if value := *g.Of(s); value != nil {
			send(d.gauges[i], *value)
		}
	}
	if s.Throttled == nil {
		return
	}
	for _, reason := range parley.ThrottleReasons {
		value := 0.0
		if slices.Contains(s.Throttled, reason) {
			value = 1
		}
		send(d.throttled, value, reason)
	}
}
