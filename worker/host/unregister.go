package host

import "github.com/prometheus/client_golang/prometheus"

// An unregisterer registers metrics and takes them back, so that a model can be loaded
// again.
type unregisterer struct {
	to  prometheus.Registerer
	all []prometheus.Collector
}

// Register enters a collector.
func (u *unregisterer) Register(c prometheus.Collector) error {
	if u.to == nil {
		return nil
	}
	err := u.to.Register(c)
	if err == nil {
		u.all = append(u.all, c)
	}
	return err
}

// MustRegister enters collectors, and panics if it cannot.
func (u *unregisterer) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := u.Register(c); err != nil {
			panic(err)
		}
	}
}

// Unregister takes a collector back.
func (u *unregisterer) Unregister(c prometheus.Collector) bool {
	return u.to != nil && u.to.Unregister(c)
}

func (u *unregisterer) unregister() {
	for _, c := range u.all {
		u.Unregister(c)
	}
}
