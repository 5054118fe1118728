package convo

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"parley"
	"parley/internal/testkit"
)

// childVariable makes the test program write turns to the store it names.
const childVariable = "PARLEY_TEST_CONVO_CHILD"

// writeUntilKilled begins and finishes turns for ever, and prints each step
// once it is acknowledged.
func writeUntilKilled(dsn string) int {
	ctx := context.Background()
	s, err := Open(ctx, dsn)
	if err != nil {
		fmt.Println("failed", err)
		return 1
	}
	if err := s.Heartbeat(ctx, "child", at(1000)); err != nil {
		fmt.Println("failed", err)
		return 1
	}
	c, err := s.CreateConversation(ctx, ann, NewConversation{Key: "the one"}, at(0))
	for i := 0; err == nil; i++ {
		n := asked(fmt.Sprint("question ", i))
		n.Key, n.Process, n.Parent = fmt.Sprint(i), "child", Root
		var turn Turn
		if turn, err = s.BeginTurn(ctx, ann, c.ID, n, at(i)); err != nil {
			break
		}
		fmt.Println("begun", turn.Answer.ID)
		if _, err = s.FinishTurn(ctx, ann, turn.ID(),
			Outcome{Status: Completed, Content: said(fmt.Sprint("answer ", i))}, at(i)); err == nil {
			fmt.Println("done", turn.Answer.ID)
		}
	}
	fmt.Println("failed", err)
	return 1
}

// TestKilledWriterLosesNothing kills a writing process without warning, at
// various moments over a hundred turns, and looks for everything that it had
// been told was stored.
func TestKilledWriterLosesNothing(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		s := opened(t, dsn)
		c := must(s.CreateConversation(t.Context(), ann, NewConversation{Key: "the one"}, at(0)))(t)
		total := 0
		for _, steps := range []int{1, 2, 7, 40, 151} {
			begun, done := killedAfter(t, dsn, steps)
			total += len(begun)
			for _, id := range begun {
				if _, err := s.Message(t.Context(), ann, c.ID, id); err != nil {
					t.Errorf("the turn %s was acknowledged and is lost: %v", id, err)
				}
			}
			for _, id := range done {
				m := must(s.Message(t.Context(), ann, c.ID, id))(t)
				if m.Status != Completed || !strings.HasPrefix(m.Text, "answer ") {
					t.Errorf("the answer %s was acknowledged as complete and is %s, %q", id, m.Status, m.Text)
				}
			}
			checkWhole(t, s, c.ID)
		}
		if total < 100 {
			t.Errorf("only %d turns were written", total)
		}
		recovered := must(s.Recover(t.Context(), at(2000)))(t)
		for _, n := range must(s.Tree(t.Context(), ann, c.ID))(t) {
			if n.Status == InProgress {
				t.Errorf("%s is in progress after %d answers were recovered", n.ID, len(recovered.Answers))
			}
		}
	})
}

// killedAfter runs a writing process, kills it after so many steps, and
// returns what it had been told was begun and done.
func killedAfter(t *testing.T, dsn string, steps int) (begun, done []string) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childVariable+"="+dsn)
	child.Stderr = os.Stderr
	out := must(child.StdoutPipe())(t)
	check(t, child.Start())
	lines := bufio.NewScanner(out)
	for n := 0; lines.Scan(); n++ {
		if n == steps {
			check(t, child.Process.Kill())
		}
		what, id, _ := strings.Cut(lines.Text(), " ")
		switch what {
		case "begun":
			begun = append(begun, id)
		case "done":
			done = append(done, id)
		default:
			t.Errorf("the writer says: %s", lines.Text())
		}
	}
	if err := child.Wait(); err == nil || child.ProcessState.Exited() {
		t.Errorf("the writer was not killed: %v", err)
	}
	return begun, done
}

// checkWhole wants that every turn has a question and an answer and none is
// there twice.
func checkWhole(t *testing.T, s *Store, conversation string) {
	t.Helper()
	archive := must(s.Export(t.Context(), ann, conversation))(t)
	must(NewForest(archive.nodes()))(t)
	asked := map[string]int{}
	for i := range archive.Messages {
		if m := &archive.Messages[i]; m.Role == "user" {
			asked[PlainText(m.Content)]++
		}
	}
	if 2*len(asked) != len(archive.Messages) {
		t.Errorf("%d different questions among %d messages", len(asked), len(archive.Messages))
	}
	c := must(s.Conversation(t.Context(), ann, conversation))(t)
	if c.Messages != len(archive.Messages) {
		t.Errorf("the conversation counts %d messages and has %d", c.Messages, len(archive.Messages))
	}
}

// TestPostgresRestarts stops the server the hard way and starts it again while
// turns are being written. Calls wait, or fail and say so; whoever tries again
// with the same key has each turn once.
func TestPostgresRestarts(t *testing.T) {
	dsn, ctl := testkit.Cluster(t)
	s := opened(t, dsn)
	sc := newScene(t, s)
	stop, told := make(chan struct{}), make(chan struct{})
	var written, unavailable atomic.Int64
	var group sync.WaitGroup
	for w := range 4 {
		group.Go(func() {
			for i, going := 0, true; going; i++ {
				n := unavailableUntilDone(t, s, sc.id, fmt.Sprintf("%d-%d", w, i))
				unavailable.Add(int64(n))
				written.Add(1)
				select {
				case told <- struct{}{}:
				case <-stop:
					going = false
				}
			}
		})
	}
	until := func(turns int) {
		for range turns {
			<-told
		}
	}
	for _, mode := range []string{"immediate", "fast"} {
		until(20)
		if out, err := exec.Command(ctl, "restart", "-m", mode).CombinedOutput(); err != nil {
			t.Errorf("restart: %v\n%s", err, out)
		}
		until(20)
	}
	close(stop)
	group.Wait()
	checkWhole(t, s, sc.id)
	c := must(s.Conversation(t.Context(), ann, sc.id))(t)
	if int64(c.Messages) != 2*written.Load() {
		t.Errorf("%d turns were acknowledged, and there are %d messages", written.Load(), c.Messages)
	}
	t.Logf("%d turns over two restarts, %d calls failed as unavailable", written.Load(), unavailable.Load())
}

// unavailableUntilDone writes one turn, trying again as long as the store is
// unavailable, and returns how often it was.
func unavailableUntilDone(t *testing.T, s *Store, conversation, key string) (failures int) {
	n := asked(key)
	n.Key, n.Parent = key, Root
	for {
		turn, err := s.BeginTurn(t.Context(), ann, conversation, n, at(1))
		if err == nil {
			_, err = s.FinishTurn(t.Context(), ann, turn.ID(), Outcome{Status: Completed, Content: said("a")}, at(2))
		}
		if err == nil {
			return failures
		}
		if parley.CodeOf(err) != parley.Unavailable {
			t.Errorf("turn %s failed with %v", key, err)
			return failures
		}
		failures++
	}
}
