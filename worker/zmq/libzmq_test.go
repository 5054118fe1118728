package zmq

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// publish is a publisher and a router of libzmq: it counts under the topic t, and
// answers each question with three messages.
const publish = `
import { Publisher, Router, version } from 'zeromq';
const [events, replay] = [new Publisher(), new Router()];
await events.bind('tcp://127.0.0.1:0');
await replay.bind('tcp://127.0.0.1:0');
console.log(version, events.lastEndpoint, replay.lastEndpoint);
setInterval(() => {}, 1000);
(async () => { for (let i = 0; ; i++) { await events.send(['t', String(i), Buffer.alloc(1000, i)]); await new Promise((r) => setTimeout(r, 1)); } })();
for await (const [id, empty, question] of replay) for (let i = 0; i < 3; i++) await replay.send([id, '', question, String(i)]);
`

// TestLibzmq subscribes to, and asks, the real libzmq. PARLEY_ZEROMQ names a
// directory in which node finds the package zeromq; make clients has one.
func TestLibzmq(t *testing.T) {
	dir := os.Getenv("PARLEY_ZEROMQ")
	if dir == "" {
		t.Skip("PARLEY_ZEROMQ names no directory with the npm package zeromq: make clients has one")
	}
	script := filepath.Join(dir, "parley-publish.mjs") // where node looks for packages from
	if err := os.WriteFile(script, []byte(publish), 0o600); err != nil {
		t.Fatal(err)
	}
	defer os.Remove(script)
	cmd := exec.CommandContext(t.Context(), "node", script)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	words := strings.Fields(line)
	t.Logf("libzmq %s", words[0])
	sub := connect(t, words[1], Sub)
	if err := sub.Send([]byte("\x01t")); err != nil {
		t.Fatal(err)
	}
	next := -1
	for range 200 {
		m, err := sub.Receive()
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if _, err := fmt.Sscan(string(m[1]), &n); err != nil || len(m) != 3 || string(m[0]) != "t" ||
			len(m[2]) != 1000 || next >= 0 && n != next {
			t.Fatalf("%q after %d", m[:2], next-1)
		}
		next = n + 1
	}
	ask := connect(t, words[2], Dealer)
	if err := ask.Send(nil, []byte("what")); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		m, err := ask.Receive()
		if err != nil || len(m) != 3 || len(m[0]) != 0 || string(m[1]) != "what" || string(m[2]) != fmt.Sprint(i) {
			t.Fatalf("%q, %v", m, err)
		}
	}
}
