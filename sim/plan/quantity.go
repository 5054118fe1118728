package plan

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"parley/internal/exactmath"
)

// scales are the suffixes of numbers, longest first where one ends in another.
var scales = []struct {
	suffix string
	factor float64
}{
	{"Ki", 1 << 10}, {"Mi", 1 << 20}, {"Gi", 1 << 30}, {"Ti", 1 << 40},
	{"k", 1e3}, {"K", 1e3}, {"M", 1e6}, {"G", 1e9}, {"B", 1e9}, {"T", 1e12}, {"P", 1e15},
}

// Parse reads a quantity of the unit as people write it: 80GB, 3.35TB/s, 700ms,
// 10M, 80%, $3.
func Parse(unit Unit, text string) (float64, error) {
	rest := strings.TrimSpace(text)
	factor := 1.0
	switch unit {
	case Bytes, BytesPerSecond:
		rest = strings.TrimSuffix(strings.TrimSuffix(rest, "/s"), "B")
	case OpsPerSecond:
		rest = strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(rest, "/s"), "FLOP"), "op")
	case Dollars, DollarsPerHour:
		rest = strings.TrimSuffix(strings.TrimPrefix(rest, "$"), "/h")
	case Seconds:
		rest, factor = parseTime(rest)
	case Fraction:
		if percent, ok := strings.CutSuffix(rest, "%"); ok {
			rest, factor = percent, 0.01
		}
	}
	for _, s := range scales {
		if number, ok := strings.CutSuffix(rest, s.suffix); ok {
			rest, factor = number, factor*s.factor
			break
		}
	}
	number, err := strconv.ParseFloat(strings.ReplaceAll(strings.TrimSpace(rest), ",", ""), 64)
	if err != nil || math.IsNaN(number) || math.IsInf(number, 0) || number < 0 {
		return 0, fmt.Errorf("%q is not a quantity such as %s", text, Example(unit))
	}
	return number * factor, nil
}

// parseTime takes the unit off a time and returns its seconds.
func parseTime(text string) (rest string, seconds float64) {
	for _, u := range []struct {
		suffix  string
		seconds float64
	}{{"ms", 1e-3}, {"us", 1e-6}, {"µs", 1e-6}, {"min", 60}, {"h", 3600}, {"s", 1}} {
		if rest, ok := strings.CutSuffix(text, u.suffix); ok {
			return rest, u.seconds
		}
	}
	return text, 1
}

// Example returns a quantity of the unit as [Parse] reads it.
func Example(unit Unit) string { return examples[unit] }

var examples = map[Unit]string{
	Bytes:             "80GB",
	Seconds:           "700ms",
	BytesPerSecond:    "3.35TB/s",
	OpsPerSecond:      "990T",
	Tokens:            "3000",
	TokensPerSecond:   "1600",
	RequestsPerSecond: "5000",
	Dollars:           "$1000",
	DollarsPerHour:    "3",
	Fraction:          "80%",
	Count:             "10M",
}

// Format writes a quantity for people, with about three digits.
func Format(unit Unit, x float64) string {
	switch {
	case math.IsNaN(x):
		return "unknown"
	case math.IsInf(x, 0):
		return "unbounded"
	}
	switch unit {
	case Bytes:
		return scaled(x, "B")
	case BytesPerSecond:
		return scaled(x, "B/s")
	case OpsPerSecond:
		return scaled(x, "FLOP/s")
	case Seconds:
		return formatTime(x)
	case Fraction:
		return digits(100*x) + "%"
	case Dollars:
		return "$" + money(x)
	case DollarsPerHour:
		return "$" + money(x) + "/h"
	case Count:
		return digits(x)
	}
	return digits(x) + " " + string(unit)
}

// scaled writes x with a decimal prefix.
func scaled(x float64, unit string) string {
	for _, s := range []struct {
		prefix string
		factor float64
	}{{"P", 1e15}, {"T", 1e12}, {"G", 1e9}, {"M", 1e6}, {"k", 1e3}} {
		if x >= s.factor {
			return digits(x/s.factor) + " " + s.prefix + unit
		}
	}
	return digits(x) + " " + unit
}

func formatTime(s float64) string {
	switch {
	case s >= 600:
		return digits(s/60) + " min"
	case s >= 1 || s == 0:
		return digits(s) + " s"
	case s >= 1e-3:
		return digits(s*1e3) + " ms"
	}
	return digits(s*1e6) + " µs"
}

// money writes whole dollars from a hundred up, cents below, and three digits of
// what is less than a cent.
func money(x float64) string {
	switch {
	case x >= 100 || x == 0:
		return grouped(x)
	case x >= 0.01:
		return strconv.FormatFloat(x, 'f', 2, 64)
	}
	return strconv.FormatFloat(x, 'g', 3, 64)
}

// digits writes three digits, or all of a whole number from a hundred up.
func digits(x float64) string {
	if x >= 99.95 {
		return grouped(x)
	}
	text := strconv.FormatFloat(x, 'f', max(0, 2-exponent(x)), 64)
	if strings.Contains(text, ".") {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// exponent returns the power of ten of the first digit of x, at least -6.
func exponent(x float64) int {
	if x < 1e-6 {
		return -6
	}
	return int(math.Floor(float64(exactmath.Log10(x)) + 1e-12))
}

// grouped writes a whole number with commas.
func grouped(x float64) string {
	text := strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
