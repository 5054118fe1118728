package cli

import (
	"fmt"
	"strings"

	"parley"
)

// DeviceText describes a GPU in one line. What is not known is left out.
func DeviceText(d *parley.DeviceState) string {
	parts := []string{d.Name}
	add := func(format string, values ...*float64) {
		numbers := make([]any, len(values))
		for i, v := range values {
			if v == nil {
				return
			}
			numbers[i] = *v
		}
		parts = append(parts, fmt.Sprintf(format, numbers...))
	}
	add("busy %.0f%%", times(100, d.Busy))
	add("bandwidth %.0f%%", times(100, d.Bandwidth))
	add("compute %.0f%%", times(100, d.Compute))
	add("memory %.1f of %.1f GiB", times(1./(1<<30), d.MemoryUsed), times(1./(1<<30), d.Memory))
	add("clock %.2f of %.2f GHz", times(1e-9, d.Clock), times(1e-9, d.ClockMax))
	add("memory clock %.2f of %.2f GHz", times(1e-9, d.MemoryClock), times(1e-9, d.MemoryClockMax))
	add("power %.0f of %.0f W", d.Power, d.PowerLimit)
	add("%.0f °C", d.Temperature)
	if d.ECCErrors != nil && *d.ECCErrors > 0 {
		add("%.0f uncorrected memory errors", d.ECCErrors)
	}
	if d.Throttled != nil {
		parts = append(parts, throttleText(d.Throttled))
	}
	return strings.Join(parts, ", ")
}

func throttleText(reasons []string) string {
	if len(reasons) == 0 {
		return "not throttled"
	}
	return "throttled: " + strings.ReplaceAll(strings.Join(reasons, " and "), "_", " ")
}

// times returns a number in another unit.
func times(factor float64, x *float64) *float64 {
	if x == nil {
		return nil
	}
	y := factor * *x
	return &y
}
