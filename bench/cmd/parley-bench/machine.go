package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"
)

// machineText says what a measurement was made on: system, processor, how many
// of them.
func machineText() string {
	return fmt.Sprintf("%s/%s, %s, %d processors", runtime.GOOS, runtime.GOARCH, processorName(), runtime.NumCPU())
}

// processorName is what the system calls the processor, where it says so.
func processorName() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "unknown processor"
	}
	defer f.Close()
	for scan := bufio.NewScanner(f); scan.Scan(); {
		if key, value, ok := strings.Cut(scan.Text(), ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown processor"
}
