package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley"
	"parley/internal/testkit"
)

func postgresDSN(t *testing.T) string { return testkit.PostgresDSN(t) }

// TestOnPostgres runs the tests of what is kept once more, with PostgreSQL.
func TestOnPostgres(t *testing.T) {
	file := storeName
	t.Cleanup(func() { storeName = file })
	for _, c := range []struct {
		name string
		test func(*testing.T)
	}{
		{"ConversationShapes", TestConversationShapes}, {"ConversationListAndSearch", TestConversationListAndSearch},
		{"Turn", TestTurn}, {"Branches", TestBranches},
		{"TurnTools", TestTurnTools}, {"TurnKey", TestTurnKey}, {"TurnBreaksOff", TestTurnBreaksOff},
		{"TurnFails", TestTurnFails},
		{"ContextPolicies", TestContextPolicies}, {"Titles", TestTitles},
		{"OthersConversations", TestOthersConversations}, {"TurnPanic", TestTurnPanic},
		{"TierCapsConversations", TestTierCapsConversations}, {"SummariesExtend", TestSummariesExtend},
		{"ResponseWhole", TestResponseWhole}, {"ResponseStream", TestResponseStream},
		{"ResponseTakenUpAgain", TestResponseTakenUpAgain}, {"ResponseChain", TestResponseChain},
		{"InputItems", TestInputItems}, {"ResponseCutByLength", TestResponseCutByLength},
		{"ResponseFails", TestResponseFails}, {"ResponseClientLeaves", TestResponseClientLeaves},
		{"ResponseKey", TestResponseKey}, {"ResponseTruncation", TestResponseTruncation},
		{"ResponseTools", TestResponseTools}, {"ResponseThoughts", TestResponseThoughts},
		{"Background", TestBackground}, {"BackgroundOutlivesItsClient", TestBackgroundOutlivesItsClient},
		{"BackgroundCancel", TestBackgroundCancel},
		{"BackgroundFails", TestBackgroundFails}, {"CloseStopsBackground", TestCloseStopsBackground},
		{"ResponseInConversation", TestResponseInConversation}, {"ResponseSocket", TestResponseSocket},
	} {
		t.Run(c.name, func(t *testing.T) {
			dsn := postgresDSN(t)
			storeName = func(*testing.T) string { return dsn }
			c.test(t)
		})
	}
}

// TestPostgresRestartsUnderLoad restarts the database the hard way while clients
// talk in conversations and ask for responses. Requests wait, or fail with 503 and
// say so; a client that tries again with the same key has each turn, and each
// response, once.
func TestPostgresRestartsUnderLoad(t *testing.T) {
	dsn, ctl := testkit.Cluster(t)
	w := &worker{script: func(r *parley.Request) []say { return speech(t, r, 0, "Yes<|im_end|>") }}
	s := start(t, w, keepIn(t, dsn), untitled, roomy)
	t.Cleanup(func() { s.gateway.Close(t.Context()) })
	load := &restartLoad{server: s, done: make(chan struct{}), answered: make(chan struct{})}
	var clients sync.WaitGroup
	turns, responses := make([]int, 3), make([][]string, 3)
	paths := make([]string, 3)
	for i := range paths {
		paths[i] = s.converse("")
		clients.Go(func() { turns[i] = load.talk(t, i, paths[i]) })
		clients.Go(func() { responses[i] = load.respond(t, i) })
	}
	for _, mode := range []string{"immediate", "fast"} {
		load.wait(t, 30)
		if out, err := exec.Command(ctl, "restart", "-m", mode).CombinedOutput(); err != nil {
			t.Errorf("restart: %v\n%s", err, out)
		}
		load.wait(t, 30)
	}
	close(load.done)
	clients.Wait()
	for i, path := range paths {
		if _, o := s.call("GET", path, ""); o["message_count"] != float64(2*turns[i]) {
			t.Errorf("%d turns were acknowledged, and there are %v messages", turns[i], o["message_count"])
		}
		for n, id := range responses[i] {
			if again := load.response(t, fmt.Sprintf("r%d-%d", i, n)); again != id {
				t.Errorf("the response %s is now %s", id, again)
			}
		}
	}
	t.Logf("%v turns and %d responses over two restarts, %d tries in vain", turns,
		len(responses[0])+len(responses[1])+len(responses[2]), load.failures.Load())
}

// A restartLoad is what clients do until done is closed. Each answer that they
// have is told to answered, and what was tried in vain is counted.
type restartLoad struct {
	*server
	done, answered chan struct{}
	failures       atomic.Int64
}

// wait returns after so many more answers.
func (l *restartLoad) wait(t *testing.T, answers int) {
	for range answers {
		select {
		case <-l.answered:
		case <-time.After(2 * time.Minute):
			t.Error("nobody was answered for two minutes")
			return
		}
	}
}

func (l *restartLoad) over() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

// talk has one turn after the other in a conversation and returns how many.
func (l *restartLoad) talk(t *testing.T, client int, path string) (turns int) {
	for ; !l.over(); turns++ {
		l.post(t, path+"/messages", fmt.Sprintf(`{"model":%q,"content":"Hi","parent_id":"root"}`, modelID),
			fmt.Sprintf("t%d-%d", client, turns))
	}
	return turns
}

// respond asks for one response after the other and returns their ids.
func (l *restartLoad) respond(t *testing.T, client int) (ids []string) {
	for !l.over() {
		ids = append(ids, l.response(t, fmt.Sprintf("r%d-%d", client, len(ids))))
	}
	return ids
}

func (l *restartLoad) response(t *testing.T, key string) string {
	var answer struct{ ID, Status string }
	if err := json.Unmarshal(l.post(t, "/v1/responses", responseBody(`"Hi"`, ""), key), &answer); err != nil ||
		answer.Status != "completed" {
		t.Errorf("%s: %+v, %v", key, answer, err)
	}
	return answer.ID
}

// post tries until there is an answer, for a minute. Whatever is no answer must
// say that the store is away, or that an earlier try is still being answered.
func (l *restartLoad) post(t *testing.T, path, body, key string) []byte {
	for until := time.Now().Add(time.Minute); ; l.failures.Add(1) {
		r, err := http.NewRequestWithContext(t.Context(), "POST", "http://parley"+path, strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return nil
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", key)
		response, err := l.client.Do(r)
		if err != nil {
			t.Error(err)
			return nil
		}
		answer, err := io.ReadAll(response.Body)
		response.Body.Close()
		switch {
		case err == nil && response.StatusCode == 200:
			select {
			case l.answered <- struct{}{}:
			case <-l.done:
			}
			return answer
		case response.StatusCode != 503 && response.StatusCode != 409:
			t.Errorf("%s: %d %s %v", key, response.StatusCode, answer, err)
			return nil
		case time.Now().After(until):
			t.Errorf("%s: no answer within a minute; at last %d %s %v", key, response.StatusCode, answer, err)
			return nil
		}
		time.Sleep(10 * time.Millisecond)
	}
}
