package parley

import "strings"

// A DeviceState is the state and utilisation of a GPU. A number that the GPU or its driver
// does not report is nil, never 0. Shares are from 0 to 1.
type DeviceState struct {
	// Name is what the driver calls the GPU, and Driver the driver's version.
	Name   string `json:"name"`
	Driver string `json:"driver,omitempty"`
	// Busy is the share of the time in which forward passes were computed. Bandwidth and
	// Compute are what these passes had to read and to calculate, as shares of what the GPU
	// could have read and calculated in their time; nil if there were none.
	Busy      *float64 `json:"busy,omitempty"`
	Bandwidth *float64 `json:"bandwidth,omitempty"`
	Compute   *float64 `json:"compute,omitempty"`
	// BandwidthCeiling is how many bytes the GPU can read in a second, ComputeCeiling how
	// many 16-bit operations its tensor cores can do.
	BandwidthCeiling *float64 `json:"bandwidth_ceiling,omitempty"`
	ComputeCeiling   *float64 `json:"compute_ceiling,omitempty"`
	// KernelTime and MemoryTime are the shares of the time in which the driver saw a kernel
	// run and memory being accessed, by any process.
	KernelTime *float64 `json:"kernel_time,omitempty"`
	MemoryTime *float64 `json:"memory_time,omitempty"`
	// MemoryUsed of Memory bytes are in use, by all processes.
	MemoryUsed *float64 `json:"memory_used,omitempty"`
	Memory     *float64 `json:"memory,omitempty"`
	// Clock is that of the multiprocessors. Clocks are in hertz.
	Clock          *float64 `json:"clock,omitempty"`
	ClockMax       *float64 `json:"clock_max,omitempty"`
	MemoryClock    *float64 `json:"memory_clock,omitempty"`
	MemoryClockMax *float64 `json:"memory_clock_max,omitempty"`
	// Power is drawn, in watts, of at most PowerLimit.
	Power      *float64 `json:"power,omitempty"`
	PowerLimit *float64 `json:"power_limit,omitempty"`
	// Temperature is in degrees Celsius.
	Temperature *float64 `json:"temperature,omitempty"`
	// ECCErrors counts the memory errors that were not corrected since the driver started.
	ECCErrors *float64 `json:"ecc_errors,omitempty"`
	// Throttled lists the [ThrottleReasons] that hold now, nil if the driver does not say.
	Throttled []string `json:"throttled,omitzero"`
}

// ThrottleReasons are why a GPU's clocks may be lower than they could be.
var ThrottleReasons = []string{"application_clocks", "power_cap", "hardware_slowdown", "sync_boost",
	"thermal_slowdown", "hardware_thermal_slowdown", "power_brake", "display_clocks"}

// The metrics of devices that are not one number of the state: the first has the value 1 and
// the labels name and driver, the second is 1 for each reason that holds and 0 for others.
const (
	DeviceInfoMetric      = "parley_device_info"
	DeviceThrottledMetric = "parley_device_throttled"
)

// A DeviceGauge is one number of a device as a metric. Of returns where the state has it.
type DeviceGauge struct {
	Name, Help string
	Of         func(*DeviceState) **float64
}

// DeviceGauges are the metrics of devices.
var DeviceGauges = []DeviceGauge{
	{"parley_device_busy_ratio", "Share of the time in which forward passes were computed.",
		func(d *DeviceState) **float64 { return &d.Busy }},
	{"parley_device_bandwidth_ratio", "Bytes that passes must read, as a share of what could be read in their time.",
		func(d *DeviceState) **float64 { return &d.Bandwidth }},
	{"parley_device_compute_ratio", "Operations of passes, as a share of what could be done in their time.",
		func(d *DeviceState) **float64 { return &d.Compute }},
	{"parley_device_bandwidth_ceiling_bytes", "Bytes of device memory that can be read in a second.",
		func(d *DeviceState) **float64 { return &d.BandwidthCeiling }},
	{"parley_device_compute_ceiling_operations", "16-bit tensor operations that can be done in a second.",
		func(d *DeviceState) **float64 { return &d.ComputeCeiling }},
	{"parley_device_kernel_time_ratio", "Share of the time in which a kernel of any process ran.",
		func(d *DeviceState) **float64 { return &d.KernelTime }},
	{"parley_device_memory_time_ratio", "Share of the time in which any process accessed device memory.",
		func(d *DeviceState) **float64 { return &d.MemoryTime }},
	{"parley_device_memory_used_bytes", "Device memory in use, by all processes.",
		func(d *DeviceState) **float64 { return &d.MemoryUsed }},
	{"parley_device_memory_bytes", "Device memory.",
		func(d *DeviceState) **float64 { return &d.Memory }},
	{"parley_device_clock_hertz", "Clock of the multiprocessors.",
		func(d *DeviceState) **float64 { return &d.Clock }},
	{"parley_device_clock_max_hertz", "Highest clock of the multiprocessors.",
		func(d *DeviceState) **float64 { return &d.ClockMax }},
	{"parley_device_memory_clock_hertz", "Clock of the memory.",
		func(d *DeviceState) **float64 { return &d.MemoryClock }},
	{"parley_device_memory_clock_max_hertz", "Highest clock of the memory.",
		func(d *DeviceState) **float64 { return &d.MemoryClockMax }},
	{"parley_device_power_watts", "Power drawn.",
		func(d *DeviceState) **float64 { return &d.Power }},
	{"parley_device_power_limit_watts", "Limit of the power drawn.",
		func(d *DeviceState) **float64 { return &d.PowerLimit }},
	{"parley_device_temperature_celsius", "Temperature of the GPU.",
		func(d *DeviceState) **float64 { return &d.Temperature }},
	{"parley_device_ecc_errors", "Memory errors that were not corrected, since the driver started.",
		func(d *DeviceState) **float64 { return &d.ECCErrors }},
}

// SetMetric sets the state from a metric of a device. Label returns the value of one of its labels.
func (d *DeviceState) SetMetric(name string, value float64, label func(name string) string) {
	switch name {
	case DeviceInfoMetric:
		d.Name, d.Driver = label("name"), label("driver")
	case DeviceThrottledMetric:
		if d.Throttled == nil {
			d.Throttled = []string{}
		}
		if value > 0 {
			d.Throttled = append(d.Throttled, label("reason"))
		}
	}
	for _, g := range DeviceGauges {
		if g.Name == name {
			*g.Of(d) = &value
		}
	}
}

// IsDeviceMetric reports whether a metric is one of a device.
func IsDeviceMetric(name string) bool { return strings.HasPrefix(name, "parley_device_") }
