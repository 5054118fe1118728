package kvwire

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

var giveBlocks = flag.Bool("give", false,
	"serve blocks on the inherited socket until standard input ends, for TestWorkersInContainers")

// TestWorkersInContainers fetches from processes with a network, files or a user of their own, as containers on one
// host have them. Blocks go through shared memory where the socket can be reached and over TCP where it cannot, and the
// two sides name the same place if and only if it can.
func TestWorkersInContainers(t *testing.T) {
	mapped := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
	groups := []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	for name, test := range map[string]struct {
		apart uintptr // what it has of its own, besides the namespace of users that this takes
		user  bool    // it is another user
		near  bool
	}{
		"a process":        {near: true},
		"files of its own": {apart: syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC, near: true},
		"another user":     {user: true, near: true},
		"its own network":  {apart: syscall.CLONE_NEWNET},
		"all of its own": {
			apart: syscall.CLONE_NEWNS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID |
				syscall.CLONE_NEWUTS,
		},
	} {
		t.Run(name, func(t *testing.T) {
			attr := &syscall.SysProcAttr{}
			if test.apart != 0 {
				attr.Cloneflags = test.apart | syscall.CLONE_NEWUSER
				attr.UidMappings, attr.GidMappings = mapped, groups
			}
			if test.user {
				if os.Getuid() != 0 {
					t.Skip("NOT RUN: only root can start processes of other users")
				}
				attr.Credential = &syscall.Credential{Uid: 65534, Gid: 65534, NoSetGroups: true}
			}
			url, place := startGiver(t, attr)
			if near := place == Place(); near != test.near || place == "" {
				t.Errorf("it is at %q and this process at %q", place, Place())
			}
			s := newShelf(9)
			g := &rig{shelf: s}
			put := func(_ context.Context, blocks ...[]byte) error {
				g.taken = append(g.taken, slices.Concat(blocks...)...)
				return nil
			}
			f := &Fetch{URL: url, Format: testFormat, Names: s.names, Put: put}
			client := Client{HTTP: &http.Client{Transport: NewTransport(nil)}, Config: Config{ShareFrom: 1}}
			defer client.HTTP.CloseIdleConnections()
			n, err := client.Run(t.Context(), f)
			if err != nil || n != 9 || !g.whole(n) || f.Shared != test.near {
				t.Errorf("%d blocks came, through shared memory: %t, %v", n, f.Shared, err)
			}
		})
	}
}

// startGiver runs a process that gives blocks on a socket of this process's network, as one in a container does whose
// port is published. It returns its URL and the place that it names.
func startGiver(t *testing.T, attr *syscall.SysProcAttr) (url, place string) {
	t.Helper()
	l, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	socket, err := l.File()
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	cmd := exec.Command("/proc/self/exe", "-test.run", "^TestGivesBlocks$", "-test.timeout", "1h", "-give")
	cmd.SysProcAttr, cmd.ExtraFiles, cmd.Stderr = attr, []*os.File{socket}, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("NOT RUN: this system does not start such a process: %v", err)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.HasPrefix(lines.Text(), giverSays) {
	}
	place, ok := strings.CutPrefix(lines.Text(), giverSays)
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(io.Discard, out)
	}()
	t.Cleanup(func() {
		in.Close()
		<-read
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	})
	if !ok {
		t.Fatal("it did not start")
	}
	return "http://" + l.Addr().String(), place
}

// giverSays begins the line that names the place of a process.
const giverSays = "place: "

// TestGivesBlocks is the other process of TestWorkersInContainers.
func TestGivesBlocks(t *testing.T) {
	if !*giveBlocks {
		t.Skip("NOT RUN: part of TestWorkersInContainers")
	}
	socket := os.NewFile(3, "socket")
	l, err := net.FileListener(socket)
	if err != nil {
		t.Fatal(err)
	}
	socket.Close()
	g := &rig{shelf: newShelf(9)}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, err := g.server.Serve(w, r, Holder{Format: g.shelf.format, Read: g.read}); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
		}
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	fmt.Println(giverSays + Place())
	_, _ = io.Copy(io.Discard, os.Stdin)
	server.Close()
	<-served
}
