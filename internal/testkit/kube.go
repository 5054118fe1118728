package testkit

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// A Kube is as much of a Kubernetes API server as Parley uses. `make k8s` has a real one.
type Kube struct {
	// Objects are what it has, by path.
	Objects map[string]map[string]any
	version int
	// Before is called before each request, and may refuse it by a status other than 0.
	Before func(r *http.Request) (status int, message string)
	// Calls are the requests so far.
	Calls []string
}

// ServeHTTP answers one request.
func (s *Kube) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.Calls = append(s.Calls, r.Method+" "+r.URL.Path)
	if s.Before != nil {
		if status, message := s.Before(r); status != 0 {
			refuseKube(w, status, message)
			return
		}
	}
	body, _ := io.ReadAll(r.Body)
	var document map[string]any
	if len(body) > 0 && json.Unmarshal(body, &document) != nil {
		refuseKube(w, http.StatusBadRequest, "not JSON")
		return
	}
	at := r.URL.Path
	if r.Method == http.MethodPost {
		at += "/" + document["metadata"].(map[string]any)["name"].(string)
	}
	old := s.Objects[at]
	switch {
	case r.Method == http.MethodPost && old != nil:
		refuseKube(w, http.StatusConflict, "already exists")
		return
	case r.Method != http.MethodPost && old == nil:
		refuseKube(w, http.StatusNotFound, "not found")
		return
	case r.Method == http.MethodPut && versionOf(old) != versionOf(document):
		refuseKube(w, http.StatusConflict, "the object has been modified")
		return
	case r.Method == http.MethodPatch:
		old["patch"], document = document, old
	}
	if r.Method != http.MethodGet {
		s.Put(at, document)
	}
	_ = json.NewEncoder(w).Encode(s.Objects[at])
}

// Put stores a document under a new version.
func (s *Kube) Put(at string, document map[string]any) {
	s.version++
	meta, _ := document["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{"name": "x"}
		document["metadata"] = meta
	}
	meta["resourceVersion"] = fmt.Sprint(s.version)
	s.Objects[at] = document
}

func versionOf(document map[string]any) any {
	meta, _ := document["metadata"].(map[string]any)
	return meta["resourceVersion"]
}

func refuseKube(w http.ResponseWriter, status int, message string) {
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(map[string]any{"kind": "Status", "message": message, "code": status})
}

// NewKube starts one that knows nothing and ends with the test.
func NewKube(t *testing.T) (*Kube, *httptest.Server) {
	s := &Kube{Objects: map[string]map[string]any{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return s, h
}

// Replicas is a document with n replicas.
func Replicas(n int) map[string]any {
	return map[string]any{"spec": map[string]any{"replicas": n}, "status": map[string]any{"replicas": n}}
}
