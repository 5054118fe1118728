package traffic

import (
	"math"
	"strings"
	"testing"
	"time"
)

// TestReadRates reads rates as ServeGen's are written, and takes a part of them.
func TestReadRates(t *testing.T) {
	r, err := ReadRates(linesOf([]byte("t_seconds,rate_rps,active_clients\n600,200,43\n1200,100,40\n1800,0.5,41\n")))
	if err != nil {
		t.Fatal(err)
	}
	if want := (Rate{{0, 200}, {10 * time.Minute, 100}, {20 * time.Minute, 0.5}}); !equalRates(r, want) {
		t.Errorf("read %v, want %v", r, want)
	}
	part := r.Part(5*time.Minute, 0.1, 60)
	if want := (Rate{{0, 15}, {5 * time.Second, 10}, {15 * time.Second, 0.05}}); !equalRates(part, want) {
		t.Errorf("the part is %v, want %v", part, want)
	}
	if late := r.Part(time.Hour, 1, 1); !equalRates(late, Rate{{0, 0.5}}) {
		t.Errorf("after the end it is %v", late)
	}
	if fast := r.Part(0, 1, 1e13); len(fast) != 1 || fast.Validate() != nil {
		t.Errorf("points that fall together are %v", fast)
	}
}

func equalRates(a, b Rate) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].At != b[i].At || math.Abs(a[i].PerSecond-b[i].PerSecond) > 1e-9 {
			return false
		}
	}
	return true
}

func TestBadRateFiles(t *testing.T) {
	const header = "t_seconds,rate_rps\n"
	for text, want := range map[string]string{
		"":                            "the file has no rates",
		header:                        "the file has no rates",
		"seconds,rate_rps\n0,1\n":     `line 1: no column "t_seconds"`,
		header + "0,1\n600\n":         "line 3: 1 fields: expected 2",
		header + "0,1\nten,1\n":       `line 3: time "ten"`,
		header + "-1,1\n":             `line 2: time "-1"`,
		header + "1e300,1\n":          `line 2: time "1e300"`,
		header + "0,-3\n":             `line 2: rate "-3"`,
		header + "0,NaN\n":            `line 2: rate "NaN"`,
		header + "0,1e10\n":           "a rate of 1e+10 per second",
		header + "600,1\n600,2\n":     "each after the one before",
		header + "1200,1\n600,2\n":    "each after the one before",
		header + "0,1\n\n600,\"2\"\n": `line 4: rate "\"2\""`,
	} {
		if _, err := ReadRates(linesOf([]byte(text))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
