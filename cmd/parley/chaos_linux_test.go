package main

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"parley/internal/supervise"
)

// TestCutNetwork has one of three workers in a network of its own, and takes the
// cable out for longer than anybody waits: no connection ends, nothing arrives.
func TestCutNetwork(t *testing.T) {
	leftToChaos(t)
	space, cable := fmt.Sprintf("parley%d", os.Getpid()), fmt.Sprintf("pa%d", os.Getpid())
	ip := func(args ...string) error {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
		return nil
	}
	if err := ip("netns", "add", space); err != nil {
		t.Skipf("a cut network is NOT tested: this machine gives no network of one's own: %v", err)
	}
	t.Cleanup(func() { _ = ip("netns", "delete", space) }) // the cable goes with it
	net := fmt.Sprintf("10.231.%d.", os.Getpid()%250)
	for _, command := range [][]string{
		{"link", "add", cable, "type", "veth", "peer", "name", "cable", "netns", space},
		{"address", "add", net + "1/24", "dev", cable},
		{"link", "set", cable, "up"},
		{"-n", space, "address", "add", net + "2/24", "dev", "cable"},
		{"-n", space, "link", "set", "cable", "up"},
		{"-n", space, "link", "set", "lo", "up"},
	} {
		if err := ip(command...); err != nil {
			t.Skipf("a cut network is NOT tested: %v", err)
		}
	}
	t.Setenv("PARLEY_WORKER_KEY", "a key for workers on a network") // without one they stay on loopback
	c := newCrew(t)
	for range 2 {
		addr, err := supervise.FreeAddress()
		if err != nil {
			t.Fatal(err)
		}
		c.workers = append(c.workers, &hand{addr: addr})
	}
	c.workers = append(c.workers, &hand{addr: net + "2:8000", within: []string{"ip", "netns", "exec", space}})
	c.open(slices.Clone(calmly))
	c.under("the network cut", func() {
		for end := time.Now().Add(*chaosFor); time.Now().Before(end); {
			if err := ip("link", "set", cable, "down"); err != nil {
				t.Error(err)
			}
			time.Sleep(8 * time.Second)
			if err := ip("link", "set", cable, "up"); err != nil {
				t.Error(err)
			}
			c.ready(3)
			time.Sleep(time.Second)
		}
	})
}
