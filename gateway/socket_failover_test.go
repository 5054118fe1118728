package gateway

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/fleet"
)

// TestFramesSurviveAWorker has the worker lost that computes an answer over a WebSocket: another one continues it, and
// the client reads the same text.
func TestFramesSurviveAWorker(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const text = "A b c d e f g h<|im_end|>"
		lost := 0
		member := func(name string) fleet.Member {
			w := &worker{script: func(r *parley.Request) []say {
				said := speech(t, r, 10*time.Millisecond, text)
				if len(r.Resume) > 0 {
					return said[len(r.Resume[0].Tokens):]
				}
				lost++
				return append(said[:3], say{err: parley.Errorf(parley.Unavailable, "The worker was lost.")})
			}}
			return fleet.Member{Name: name, Pool: "default", Worker: w}
		}
		f := must(fleet.New(fleet.Config{
			Models:    []parley.Model{{ID: modelID, ContextTokens: 100}},
			Pools:     []fleet.Pool{fleet.DefaultPool()},
			SlowStart: -1,
		}))(t)
		defer f.Close()
		for _, name := range []string{"one", "two"} {
			if err := f.Join(member(name)); err != nil {
				t.Fatal(err)
			}
		}
		s := start(t, f)
		for path, c := range map[string]struct{ frame, last string }{
			"/v1/chat/completions": {chatBody(`,"stream":true`), "[DONE]"},
			"/v1/responses":        {`{"type":"response.create","model":"` + modelID + `","input":"Hi"}`, "response.completed"},
		} {
			conn, before := s.mustDial(path), lost
			sendFrame(t, conn, c.frame)
			var deltas []string
			for _, frame := range framesUntil(t, conn, c.last) {
				for _, word := range []string{"A", " b", " c", " d", " e", " f", " g", " h"} {
					if strings.Contains(frame, `"content":"`+word+`"`) || strings.Contains(frame, `"delta":"`+word+`"`) {
						deltas = append(deltas, word)
					}
				}
			}
			if got := strings.Join(deltas, ""); got+"<|im_end|>" != text || lost != before+1 {
				t.Errorf("%s: %q after %d lost workers", path, deltas, lost-before)
			}
			conn.CloseNow()
		}
	})
}
