package fleetctl

import (
	"errors"
	"strings"
	"testing"

	"parley/cli"
)

// TestWorkersOfEachDevice names the devices of workers: every GPU, some, or none.
func TestWorkersOfEachDevice(t *testing.T) {
	two := func() ([]string, error) { return []string{"cuda:0", "cuda:1"}, nil }
	for _, c := range []struct{ named, want string }{
		{"all", "cuda:0,cuda:1"}, {"cuda:1,cpu", "cuda:1,cpu"}, {"", ""},
	} {
		var named []string
		if c.named != "" {
			named = strings.Split(c.named, ",")
		}
		got, err := workerDevices(named, two)
		if err != nil || strings.Join(got, ",") != c.want {
			t.Errorf("%q gives %v, %v", c.named, got, err)
		}
	}
	if _, err := workerDevices([]string{"gpu0"}, two); !errors.Is(err, cli.ErrUsage) {
		t.Errorf("a device that does not exist gives %v", err)
	}
	none := errors.New("there is no NVIDIA driver here")
	if _, err := workerDevices([]string{"all"}, func() ([]string, error) { return nil, none }); !errors.Is(err, none) {
		t.Errorf("all devices of a machine without any: %v", err)
	}
}
