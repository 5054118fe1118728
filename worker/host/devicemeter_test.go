package host

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"

	"parley/compute"
	"parley/compute/libcuda"
	"parley/fleet"
	"parley/fleet/discover"
)

// A lookalike backend computes on the processor and says that it is a GPU, one that reads 2e9
// bytes in a second and does 1,024e9 operations.
type lookalike struct{ compute.Backend }

func (lookalike) Device() libcuda.Device {
	return libcuda.Device{
		Name:           "NVIDIA Lookalike",
		Major:          8,
		Minor:          9,
		Multiprocessor: 1,
		ClockHertz:     1e9,
		MemoryHertz:    1e9,
		MemoryBits:     8,
	}
}

func asGPU(b compute.Backend) compute.Backend { return lookalike{b} }

// TestDeviceIsMeasured answers until a second with passes was measured.
func TestDeviceIsMeasured(t *testing.T) {
	h := startHost(t, openBuiltin(t, "polly-mini"), Config{KVTokens: 512, NoSpeculation: true, wrap: asGPU})
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		ask(t, h, "Hello! Who are you?")
		if s := h.DeviceState(); s.Bandwidth != nil {
			if *s.Bandwidth <= 0 || s.Compute == nil || *s.Compute <= 0 || s.Busy == nil || *s.Busy <= 0 ||
				*s.Busy > 1 {
				t.Errorf("%+v", s)
			}
			return
		}
	}
	t.Error("no pass was measured in a minute")
}

// TestProcessorIsNoDevice has no metrics of a GPU without one.
func TestProcessorIsNoDevice(t *testing.T) {
	r := prometheus.NewRegistry()
	h := startHost(t, openBuiltin(t, "polly-mini"), Config{KVTokens: 512, Registry: r})
	if s := h.DeviceState(); s != nil {
		t.Errorf("the processor is %+v", s)
	}
	if text := exposition(t, r); strings.Contains(text, "parley_device_") {
		t.Error("the processor has metrics of a GPU")
	}
}

func exposition(t *testing.T, g prometheus.Gatherer) string {
	t.Helper()
	answer := httptest.NewRecorder()
	promhttp.HandlerFor(g, promhttp.HandlerOpts{}).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/", nil))
	if answer.Code != http.StatusOK {
		t.Fatal(answer.Body)
	}
	return answer.Body.String()
}

// TestDeviceTravels looks for a worker's GPU in its own metrics and in those of the gateway, where
// a model in the gateway's process has one as well.
func TestDeviceTravels(t *testing.T) {
	registry := prometheus.NewRegistry()
	h := startHost(t, openBuiltin(t, "polly-mini"), Config{
		Name:     "polly-mini",
		KVTokens: 512,
		Registry: registry,
		wrap:     asGPU,
	})
	_, url := startWorker(t, ServerConfig{}, Config{KVTokens: 2048, NoSpeculation: true, wrap: asGPU})
	response, err := http.Get(url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	own, err := io.ReadAll(response.Body)
	_ = response.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	const ceiling = `parley_device_bandwidth_ceiling_bytes{model_name=`
	if !strings.Contains(string(own), ceiling) {
		t.Errorf("the worker's metrics have no %s", ceiling)
	}
	f, err := fleet.New(fleet.Config{
		Models:     h.Models(),
		Pools:      []fleet.Pool{fleet.DefaultPool()},
		ProbeEvery: 10 * time.Millisecond,
		Registry:   registry,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	pool := fleet.DefaultPool().Name
	member, err := fleet.Dialer{Pool: pool}.Connect(t.Context(), discover.Address{Name: "a", URL: url})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Join(member); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); f.Standings()[0].Device == nil; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the gateway does not know the worker's GPU after a minute")
		}
	}
	text := exposition(t, registry)
	for _, want := range []string{
		`parley_device_bandwidth_ceiling_bytes{model_name="polly-mini"} 2e+09`,
		`parley_device_bandwidth_ceiling_bytes{pool="` + pool + `",worker="a"} 2e+09`,
		`parley_device_info{driver="",name="NVIDIA Lookalike",pool="` + pool + `",worker="a"} 1`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the gateway's metrics have no %s", want)
		}
	}
	for _, unknown := range []string{"parley_device_temperature_celsius", "parley_device_throttled"} {
		if strings.Contains(text, unknown) {
			t.Errorf("%s is there although the driver was not asked", unknown)
		}
	}
}

// TestMeterEndsWithItsHost fails if a goroutine is left.
func TestMeterEndsWithItsHost(t *testing.T) {
	before := goleak.IgnoreCurrent()
	plans, err := PlanMemory([]Candidate{{openBuiltin(t, "polly-mini"), Config{KVTokens: 512, wrap: asGPU}}}, 1<<40)
	if err != nil {
		t.Fatal(err)
	}
	h, err := Start(plans[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
	goleak.VerifyNone(t, before)
}
