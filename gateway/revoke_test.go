package gateway

import (
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"parley/gateway/tenant"

	"github.com/coder/websocket"
)

// TestStreamsEndWithTheirKey deletes, blocks or blocks the organisation of a key
// while its answer streams: the stream ends with the reason, and streams of other
// keys are unharmed.
func TestStreamsEndWithTheirKey(t *testing.T) {
	for what, revoke := range map[string]func(*testing.T, *tenantRig, string) error{
		"deleted": func(t *testing.T, rig *tenantRig, key string) error {
			return rig.store.DeleteKey(t.Context(), key)
		},
		"blocked": func(t *testing.T, rig *tenantRig, key string) error {
			blocked := true
			_, err := rig.store.ChangeKey(t.Context(), key, tenant.KeyChange{Blocked: &blocked})
			return err
		},
		"organisation blocked": func(t *testing.T, rig *tenantRig, _ string) error {
			blocked := true
			_, err := rig.store.ChangeOrganization(t.Context(), "acme", tenant.OrganizationChange{Blocked: &blocked})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			s, rig := startGuarded(t, &worker{script: speak(t, strings.Repeat("word ", 9000)+"<|im_end|>",
				20*time.Millisecond)}, newStoreName(t))
			secret, id := rig.key(tenant.NewKey{Organization: "acme"})
			other, _ := rig.key(tenant.NewKey{Organization: "other"})
			ended, kept := s.streamOf(secret), s.streamOf(other)
			defer kept.Close()
			if err := revoke(t, rig, id); err != nil {
				t.Fatal(err)
			}
			begun := time.Now()
			if err := rig.ring.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			rest, err := io.ReadAll(ended)
			if took := time.Since(begun); err != nil || took > revokedWithin ||
				!strings.Contains(string(rest), "API key") {
				t.Errorf("after %v: %v, %.300s", took, err, rest[max(0, len(rest)-300):])
			}
			if _, err := io.ReadFull(kept, make([]byte, 200)); err != nil {
				t.Errorf("the stream of another key: %v", err)
			}
			// the ended stream is finished after its client has read it
			for deadline := time.Now().Add(time.Minute); len(s.gateway.jobs.Revocations.Running()) != 1; {
				if time.Now().After(deadline) {
					t.Fatalf("%v have running work, want the other key alone", s.gateway.jobs.Revocations.Running())
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
}

// TestSocketsEndWithTheirKey deletes a key, as another gateway would, while it is answered
// over a WebSocket: the connection ends with the reason, and with it the work.
func TestSocketsEndWithTheirKey(t *testing.T) {
	w := &worker{script: speak(t, strings.Repeat("word ", 9000)+"<|im_end|>", 20*time.Millisecond)}
	s, rig := startGuarded(t, w, newStoreName(t))
	secret, id := rig.key(tenant.NewKey{Organization: "acme"})
	conns := map[string]*websocket.Conn{"idle": s.mustDial("/v1/responses", bearer(secret)...)}
	for path, frame := range map[string]string{
		"/v1/chat/completions": chatBody(""),
		"/v1/responses":        `{"type":"response.create","model":"` + modelID + `","input":"Hi"}`,
	} {
		conns[path] = s.mustDial(path, bearer(secret)...)
		sendFrame(t, conns[path], frame)
		framesUntil(t, conns[path], "delta")
	}
	if err := rig.store.DeleteKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	for name, conn := range conns {
		var err error
		for err == nil {
			_, _, err = conn.Read(t.Context())
		}
		closed, ok := errors.AsType[websocket.CloseError](err)
		if !ok || closed.Code != websocket.StatusPolicyViolation ||
			!strings.Contains(closed.Reason, "key of this request was deleted") || time.Since(begun) > revokedWithin {
			t.Errorf("%s: the connection ended after %v with %v", name, time.Since(begun), err)
		}
	}
	s.wantIdle(w, begun)
}

// TestBackgroundEndsWithItsKey deletes a key while a response of it is computed in the
// background: the work ends, and the response says that it failed.
func TestBackgroundEndsWithItsKey(t *testing.T) {
	w := &worker{script: speak(t, strings.Repeat("word ", 9000)+"<|im_end|>", 20*time.Millisecond)}
	s, rig := startGuarded(t, w, newStoreName(t))
	secret, id := rig.key(tenant.NewKey{Organization: "acme"})
	other, _ := rig.key(tenant.NewKey{Organization: "acme"})
	_, body := s.do("POST", "/v1/responses", responseBody(`"Hi"`, `,"background":true`), bearer(secret)...)
	path := "/v1/responses/" + parseObject(t, body).text("id")
	for w.active.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	if err := rig.store.DeleteKey(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	s.wantIdle(w, begun)
	for status := ""; status != "failed" && status != "cancelled"; {
		_, body := s.do("GET", path, "", bearer(other)...)
		status = parseObject(t, body).text("status")
		if time.Since(begun) > revokedWithin {
			t.Fatalf("after %v the response is %.300s", time.Since(begun), body)
		}
	}
}

// revokedWithin is a second, in which gateways hear of a deleted key, and much patience
// with a busy machine. Answers that nobody ends take minutes.
const revokedWithin = time.Minute

// wantIdle waits until a worker computes nothing any more.
func (s *server) wantIdle(w *worker, begun time.Time) {
	s.t.Helper()
	for w.active.Load() > 0 {
		if time.Since(begun) > revokedWithin {
			s.t.Fatalf("after %v the worker still answers %d requests", time.Since(begun), w.active.Load())
		}
		time.Sleep(time.Millisecond)
	}
}

// streamOf opens a stream with a key and reads its beginning.
func (s *server) streamOf(secret string) io.ReadCloser {
	s.t.Helper()
	body := `{"model":"` + modelID + `","stream":true,"messages":[{"role":"user","content":"Hi"}]}`
	response := s.open(s.t.Context(), "POST", "/v1/chat/completions", body, bearer(secret)...)
	if _, err := io.ReadFull(response.Body, make([]byte, 400)); err != nil {
		s.t.Fatal(err)
	}
	return response.Body
}
