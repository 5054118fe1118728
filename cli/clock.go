package cli

import "fmt"

// ClockText writes seconds as people say them.
func ClockText(seconds float64) string {
	switch {
	case seconds == 0:
		return "–"
	case seconds < 1:
		return fmt.Sprintf("%.0f ms", 1000*seconds)
	}
	return fmt.Sprintf("%.1f s", seconds)
}
