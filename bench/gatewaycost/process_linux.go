package gatewaycost

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
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

// cpuOf reads the time of all threads, those that have ended included, in the
// ticks of the system, of which there are a hundred a second.
func cpuOf(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat cannot be read", pid)
	}
	user, _ := strconv.ParseInt(string(fields[11]), 10, 64)
	system, _ := strconv.ParseInt(string(fields[12]), 10, 64)
	return time.Duration(user+system) * 10 * time.Millisecond, nil
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
