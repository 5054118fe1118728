package host

import (
	"github.com/prometheus/client_golang/prometheus"

	"parley"
	"parley/compute"
	"parley/compute/libcuda"
	"parley/compute/nvml"
	"parley/engine"
	"parley/model"
	"parley/model/weights"
	"parley/worker"
	"parley/worker/meter"
)

// gpuOf returns the GPU that a backend computes on, false for the processor.
func gpuOf(backend compute.Backend) (device libcuda.Device, ok bool) {
	computing, ok := backend.(interface{ Device() libcuda.Device })
	if ok {
		device = computing.Device()
	}
	return device, ok
}

// startMeter returns what measures the GPU that a model computes on, nil for the processor.
func (p *Plan) startMeter(backend compute.Backend, s *weights.Summary) *meter.Meter {
	device, ok := gpuOf(backend)
	if !ok {
		return nil
	}
	read, err := deviceReader(device)
	if err != nil && p.cfg.Log != nil {
		p.cfg.Log.Info("driver's measurements not available", "device", device.Name, "because", err)
	}
	return meter.Start(stateOf(device), meter.NewNetwork(s, p.WeightBytes, p.blockBytes()), read)
}

// stateOf returns what does not change: the name of a GPU and its ceilings.
func stateOf(d libcuda.Device) parley.DeviceState {
	s := parley.DeviceState{Name: d.Name}
	bandwidth, operations := d.Ceilings()
	if bandwidth > 0 {
		s.BandwidthCeiling = &bandwidth
	}
	if operations > 0 {
		s.ComputeCeiling = &operations
	}
	return s
}

// deviceReader returns what asks the driver how a GPU is, nil and why if it cannot be asked.
func deviceReader(d libcuda.Device) (func(*parley.DeviceState), error) {
	asked, err := nvml.Open(d.BusID)
	if err != nil {
		return nil, err
	}
	return asked.Read, nil
}

// State returns how a GPU is now, as far as its driver says. Err is why the driver cannot be asked;
// the state has what is known without.
func (d Device) State() (s parley.DeviceState, err error) {
	device, err := gpuAt(d.Index)
	if err != nil {
		return parley.DeviceState{Name: d.Name}, err
	}
	s = stateOf(device)
	read, err := deviceReader(device)
	if err == nil {
		read(&s)
	}
	return s, err
}

// A measure is the network of a host, measured by its meter if it has one.
type measure struct {
	network *model.Model
	meter   *meter.Meter
}

func (m measure) forward() func(*compute.Step, []float32) {
	if m.meter == nil {
		return m.network.Forward
	}
	return func(step *compute.Step, logits []float32) {
		m.network.Forward(step, logits)
		m.meter.Computed(step)
	}
}

// ahead returns how steps are computed ahead, nil if the device cannot.
func (m measure) ahead() *engine.Ahead {
	if !m.network.Chooses() {
		return nil
	}
	if m.meter == nil {
		return &engine.Ahead{Launch: m.network.Launch, Wait: m.network.AwaitChosen}
	}
	return &engine.Ahead{
		Launch: func(step *compute.Step, draws []compute.Draw) {
			m.network.Launch(step, draws)
			m.meter.Launched(step)
		},
		Wait: func() []compute.DrawResult {
			m.meter.Landed()
			return m.network.AwaitChosen()
		},
	}
}

// observer returns o with the time of passes measured.
func (m measure) observer(o engine.Observer) engine.Observer {
	if m.meter == nil {
		return o
	}
	observe := o.Step
	o.Step = func(p engine.StepReport) {
		m.meter.Took(p.Took)
		observe(p)
	}
	return o
}

// deviceCollector reports the GPU when metrics are read.
type deviceCollector struct {
	*worker.DeviceMetrics
	meter *meter.Meter
}

// Collect sends what was last measured.
func (c deviceCollector) Collect(to chan<- prometheus.Metric) {
	s := c.meter.State()
	c.DeviceMetrics.Collect(to, &s)
}

// device registers the GPU's metrics, if there is one.
func (r register) device(m *meter.Meter) {
	if m != nil {
		r.labelled.MustRegister(deviceCollector{worker.NewDeviceMetrics(), m})
	}
}

// close stops measuring.
func (m measure) close() {
	if m.meter != nil {
		m.meter.Close()
	}
}

// DeviceState returns how the GPU is and what it does, nil without one.
func (h *Host) DeviceState() *parley.DeviceState {
	if h.measured.meter == nil {
		return nil
	}
	s := h.measured.meter.State()
	return &s
}
