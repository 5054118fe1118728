package gatewaycost

import (
	"bufio"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestProcessesEndWithWhoStartedThem kills a process that has started another.
func TestProcessesEndWithWhoStartedThem(t *testing.T) {
	if os.Getenv("TOLL_STARTS") != "" {
		child := exec.Command("sleep", "300")
		EndWithMe(child)
		if err := child.Start(); err != nil {
			t.Fatal(err)
		}
		os.Stdout.WriteString("started " + strconv.Itoa(child.Process.Pid) + "\n")
		time.Sleep(5 * time.Minute)
	}
	parent := exec.Command(os.Args[0], "-test.run", "^TestProcessesEndWithWhoStartedThem$")
	parent.Env = append(os.Environ(), "TOLL_STARTS=1")
	out, err := parent.StdoutPipe()
	if err == nil {
		err = parent.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	child, _ := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(line, "started ")))
	if err != nil || child == 0 {
		t.Fatalf("%q, %v", line, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait()
	for range 1000 {
		if syscall.Kill(child, 0) != nil || zombie(child) {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	_ = syscall.Kill(child, syscall.SIGKILL)
	t.Error("the process outlived who started it")
}

// zombie reports whether a process has ended and nobody has asked how.
func zombie(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err != nil || strings.Contains(string(stat), ") Z ")
}
