package host

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"os"
	"path"
	"strconv"
	"strings"
)

// AvailableBytes returns how much memory the process may still take: what the
// system calls available, or what is left of its control group's limit.
func AvailableBytes() (int64, error) {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0, err
	}
	available, err := memAvailable(text)
	if err != nil {
		return 0, err
	}
	return min(available, cgroupFree()), nil
}

// memAvailable reads the line "MemAvailable: N kB".
func memAvailable(meminfo []byte) (int64, error) {
	for scan := bufio.NewScanner(bytes.NewReader(meminfo)); scan.Scan(); {
		if rest, ok := strings.CutPrefix(scan.Text(), "MemAvailable:"); ok {
			kib, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kib << 10, err
		}
	}
	return 0, fmt.Errorf("/proc/meminfo has no MemAvailable")
}

// cgroupFree returns what the process's control group and those above it leave
// it, or a very large number where there is no limit. File pages are not
// counted as used: the system drops them when memory is short.
func cgroupFree() int64 {
	free := int64(math.MaxInt64)
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return free
	}
	for line := range strings.Lines(string(own)) {
		fields := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(fields) != 3 {
			continue
		}
		if fields[1] == "" {
			for dir := path.Clean(fields[2]); ; dir = path.Dir(dir) {
				free = min(free, groupFree(path.Join("/sys/fs/cgroup", dir), "memory.max", "memory.current", "file"))
				if dir == "/" || dir == "." {
					break
				}
			}
		} else if fields[1] == "memory" {
			dir := path.Join("/sys/fs/cgroup/memory", fields[2])
			free = min(free, groupFree(dir, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_cache"))
		}
	}
	return free
}

func groupFree(dir, limitFile, usedFile, fileKey string) int64 {
	limit, ok := readNumber(path.Join(dir, limitFile))
	if !ok {
		return math.MaxInt64
	}
	used, _ := readNumber(path.Join(dir, usedFile))
	return max(0, limit-used+statNumber(path.Join(dir, "memory.stat"), fileKey))
}

// readNumber reads a file that holds one number; "max" is not a number.
func readNumber(file string) (int64, bool) {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0, false
	}
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	return n, err == nil
}

// statNumber returns the value of one line of a memory.stat file, or 0.
func statNumber(file, key string) int64 {
	text, err := os.ReadFile(file)
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, key+" "); ok {
			n, _ := strconv.ParseInt(strings.TrimSpace(rest), 10, 64)
			return n
		}
	}
	return 0
}
