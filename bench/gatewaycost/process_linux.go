package gatewaycost

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A usage is what processes took of the machine.
type usage struct {
	cpu time.Duration
	// resident is in bytes.
	resident int64
}

// EndWithMe sees to it that a process that cmd starts ends with this one, also when
// this one is killed and cannot tell it.
func EndWithMe(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }

// usageOf adds up what a process and its children have used.
func usageOf(pid int) (u usage, err error) {
	for _, id := range append([]int{pid}, children(pid)...) {
		cpu, err := cpuOf(id)
		if err != nil {
			return u, err
		}
		u.cpu += cpu
		u.resident += residentOf(id)
	}
	return u, nil
}

// cpuOf reads the time of all threads, those that have ended included, from the clock of
// the process: its id is that of the process, negated, before three bits that ask for the
// time that the scheduler has counted.
func cpuOf(pid int) (time.Duration, error) {
	var at unix.Timespec
	if err := unix.ClockGettime(int32(^pid<<3|2), &at); err != nil {
		return 0, fmt.Errorf("processor time of process %d: %w", pid, err)
	}
	return time.Duration(at.Nano()), nil
}

func residentOf(pid int) int64 {
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10
		}
	}
	return 0
}

func children(pid int) (ids []int) {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, name := range lists {
		text, _ := os.ReadFile(name)
		for field := range strings.FieldsSeq(string(text)) {
			if id, err := strconv.Atoi(field); err == nil {
				ids = append(ids, id)
			}
		}
	}
	return ids
}

// clockNow reads the first line of /proc/stat: the ticks of all processors, of which
// the eighth are those that were stolen.
func clockNow() (c clock) {
	stat, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, field := range strings.Fields(line) {
		ticks, _ := strconv.ParseFloat(field, 64)
		if i == 8 {
			c.stolen = ticks
		}
		if i <= 8 { // the rest is part of these
			c.all += ticks
		}
	}
	return c
}
