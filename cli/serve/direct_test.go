package serve

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
)

// askDirect sends a request through a direct and returns the response.
func askDirect(ctx context.Context, d *direct) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://inside/x", strings.NewReader("hello"))
	if err != nil {
		return nil, err
	}
	return (&http.Client{Transport: d}).Do(r)
}

func TestDirectCarriesAnswers(t *testing.T) {
	d := &direct{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("X-Said", string(body))
		w.WriteHeader(http.StatusTeapot)
		w.Header().Set("X-Said", "too late")
		_, _ = io.WriteString(w, "one ")
		_ = http.NewResponseController(w).Flush()
		_, _ = io.WriteString(w, "two")
	})}
	resp, err := askDirect(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil || string(body) != "one two" || resp.StatusCode != http.StatusTeapot ||
		resp.Header.Get("X-Said") != "hello" {
		t.Errorf("%q, %d, %v, %v", body, resp.StatusCode, resp.Header, err)
	}
	resp.Body.Close()
	d.wait()
}

// TestDirectCancels: a body that is closed, and a context that ends, end the
// handler; nothing is left running.
func TestDirectCancels(t *testing.T) {
	begun := make(chan struct{}, 1)
	d := &direct{handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Silent") == "" {
			w.WriteHeader(http.StatusOK)
		}
		begun <- struct{}{}
		<-r.Context().Done()
	})}
	resp, err := askDirect(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	resp.Body.Close()
	d.wait()

	ctx, cancel := context.WithCancel(t.Context())
	resp, err = askDirect(ctx, d)
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	cancel()
	if _, err := io.ReadAll(resp.Body); !errors.Is(err, context.Canceled) {
		t.Errorf("the body ended with %v", err)
	}
	resp.Body.Close()
	d.wait()

	ctx, cancel = context.WithCancel(t.Context())
	go func() { <-begun; cancel() }()
	r, _ := http.NewRequestWithContext(ctx, http.MethodGet, "http://inside/x", nil)
	r.Header.Set("Silent", "yes")
	if _, err := (&http.Client{Transport: d}).Do(r); !errors.Is(err, context.Canceled) {
		t.Errorf("a request without an answer ended with %v", err)
	}
	d.wait()
}
