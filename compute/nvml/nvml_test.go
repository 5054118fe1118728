package nvml

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"
	"unsafe"

	"parley"
)

// at returns what an argument points to.
func at[T any](word uintptr) *T { return *(**T)(unsafe.Pointer(&word)) }

// handleOfTest is what the stand-in calls its GPU.
const handleOfTest = 0x1234

// answers returns a function that writes value where its last argument points, if the
// arguments before it are the given ones.
func answers[T any](value T, args ...uintptr) function {
	return func(given ...uintptr) int32 {
		if len(given) != len(args)+2 || given[0] != handleOfTest {
			return 2
		}
		for i, a := range args {
			if given[i+1] != a {
				return 2
			}
		}
		*at[T](given[len(given)-1]) = value
		return 0
	}
}

// either returns a function that tries several.
func either(all ...function) function {
	return func(args ...uintptr) (status int32) {
		for _, f := range all {
			if status = f(args...); status == 0 {
				return 0
			}
		}
		return status
	}
}

// standIn returns a library with one GPU at 0000:1b:00.0.
func standIn() library {
	return library{
		"nvmlInit_v2": func(...uintptr) int32 { return 0 },
		"nvmlDeviceGetHandleByPciBusId_v2": func(args ...uintptr) int32 {
			id := at[[13]byte](args[0])
			if string(id[:]) != "0000:1b:00.0\x00" {
				return 6
			}
			*at[uintptr](args[1]) = handleOfTest
			return 0
		},
		"nvmlSystemGetDriverVersion": func(args ...uintptr) int32 {
			copy(unsafe.Slice(at[byte](args[0]), args[1]), "580.1\x00")
			return 0
		},
		"nvmlDeviceGetUtilizationRates": answers([2]uint32{93, 41}),
		"nvmlDeviceGetMemoryInfo_v2": func(args ...uintptr) int32 {
			to := at[[5]uint64](args[1])
			if to[0]&0xffffffff != 2<<24|40 {
				return 25
			}
			*to = [5]uint64{to[0], 141e9, 1e9, 60e9, 80e9}
			return 0
		},
		"nvmlDeviceGetMemoryInfo":         answers([3]uint64{141e9, 60e9, 81e9}),
		"nvmlDeviceGetClockInfo":          either(answers[uint32](1755, 1), answers[uint32](3201, 2)),
		"nvmlDeviceGetMaxClockInfo":       either(answers[uint32](1980, 1), answers[uint32](3202, 2)),
		"nvmlDeviceGetPowerUsage":         answers[uint32](512_500),
		"nvmlDeviceGetEnforcedPowerLimit": answers[uint32](700_000),
		"nvmlDeviceGetTemperature":        answers[uint32](61, 0),
		// The GPU is idle, and its power and temperature are too high.
		"nvmlDeviceGetCurrentClocksEventReasons":    answers[uint64](0x1 | 0x4 | 0x40),
		"nvmlDeviceGetCurrentClocksThrottleReasons": answers[uint64](0x4),
		"nvmlDeviceGetTotalEccErrors":               answers[uint64](2, 1, 0),
	}
}

// read returns what a library says of its GPU, as JSON.
func read(t *testing.T, l library) string {
	t.Helper()
	if err := l.start(); err != nil {
		t.Fatal(err)
	}
	d, err := l.open("0000:1b:00.0")
	if err != nil {
		t.Fatal(err)
	}
	var s parley.DeviceState
	d.Read(&s)
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestRead(t *testing.T) {
	const want = `{"name":"","driver":"580.1","kernel_time":0.93,"memory_time":0.41,"memory_used":80000000000,` +
		`"memory":141000000000,"clock":1755000000,"clock_max":1980000000,"memory_clock":3201000000,` +
		`"memory_clock_max":3202000000,"power":512.5,"power_limit":700,"temperature":61,"ecc_errors":2,` +
		`"throttled":["power_cap","hardware_thermal_slowdown"]}`
	if got := read(t, standIn()); got != want {
		t.Errorf("read\n%s, want\n%s", got, want)
	}
}

// TestOlderLibraries leaves functions away: what they say is absent or comes from older ones.
func TestOlderLibraries(t *testing.T) {
	whole := read(t, standIn())
	for _, name := range symbols[2:] {
		l := standIn()
		delete(l, name)
		if name != "nvmlDeviceGetMemoryInfo" && name != "nvmlDeviceGetCurrentClocksThrottleReasons" &&
			read(t, l) == whole {
			t.Errorf("without %s nothing is missing", name)
		}
	}
	l := standIn()
	delete(l, "nvmlDeviceGetMemoryInfo_v2")
	delete(l, "nvmlDeviceGetCurrentClocksEventReasons")
	got := read(t, l)
	for _, part := range []string{`"memory_used":81000000000`, `"throttled":["power_cap"]`} {
		if !strings.Contains(got, part) {
			t.Errorf("an older library gives %s, without %s", got, part)
		}
	}
	maps.DeleteFunc(l, func(name string, _ function) bool { return name != symbols[0] && name != symbols[1] })
	if got, want := read(t, l), `{"name":""}`; got != want {
		t.Errorf("a library that says nothing gives %s, want %s", got, want)
	}
}

// TestUnsupported has every question answered by "not supported".
func TestUnsupported(t *testing.T) {
	l := standIn()
	for _, name := range symbols[2:] {
		l[name] = func(...uintptr) int32 { return 3 }
	}
	if got, want := read(t, l), `{"name":""}`; got != want {
		t.Errorf("a GPU that supports nothing gives %s, want %s", got, want)
	}
}

// TestNotThrottled tells "nothing slows it down" from "not known".
func TestNotThrottled(t *testing.T) {
	l := standIn()
	l["nvmlDeviceGetCurrentClocksEventReasons"] = answers[uint64](1)
	if got := read(t, l); !strings.HasSuffix(got, `"throttled":[]}`) {
		t.Errorf("an idle GPU gives %s, want that it is not throttled", got)
	}
}

func TestOpenErrors(t *testing.T) {
	without := standIn()
	delete(without, "nvmlDeviceGetHandleByPciBusId_v2")
	refuses := standIn()
	refuses["nvmlInit_v2"] = func(...uintptr) int32 { return 18 }
	_, elsewhere := standIn().open("0000:ff:00.0")
	_, nowhere := standIn().open("")
	for _, row := range []struct {
		err  error
		want string
	}{
		{without.start(), "lacks nvmlDeviceGetHandleByPciBusId_v2: install a newer NVIDIA driver"},
		{refuses.start(), "does not start: the library and the driver have different versions (status 18)"},
		{elsewhere, "no GPU at 0000:ff:00.0: it was not found (status 6)"},
		{nowhere, "does not say where on the PCI bus"},
	} {
		if row.err == nil || !strings.Contains(row.err.Error(), row.want) {
			t.Errorf("the error is %v, want %q", row.err, row.want)
		}
	}
}

func TestLayouts(t *testing.T) {
	if size := unsafe.Sizeof(memoryUse2{}); size != 40 {
		t.Errorf("nvmlMemory_v2_t has %d bytes, want 40", size)
	}
	if len(throttleBits) != len(parley.ThrottleReasons) {
		t.Errorf("%d bits for %d reasons", len(throttleBits), len(parley.ThrottleReasons))
	}
}

// TestGaugesCoverTheState finds numbers of the state that are no metric.
func TestGaugesCoverTheState(t *testing.T) {
	numbers := 0
	for field := range reflect.TypeFor[parley.DeviceState]().Fields() {
		if field.Type == reflect.TypeFor[*float64]() {
			numbers++
		}
	}
	var s parley.DeviceState
	places := map[**float64]bool{}
	for _, g := range parley.DeviceGauges {
		places[g.Of(&s)] = true
	}
	if len(places) != numbers || len(parley.DeviceGauges) != numbers {
		t.Errorf("%d metrics of %d of %d numbers", len(parley.DeviceGauges), len(places), numbers)
	}
}
