package gatewaycost

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// profile keeps where the processor time of a Parley gateway goes during the
// next three seconds, in a file of dir. The caller must call kept, which waits for
// it. Without a directory, and for others, nothing is kept.
func (t *Target) profile(ctx context.Context, dir, what string) (kept func() error) {
	if dir == "" || t.Key == "" {
		return func() error { return nil }
	}
	file := filepath.Join(dir, strings.NewReplacer(" ", "-", ",", "").Replace(t.Name+" "+what)+".pprof")
	done := make(chan error, 1)
	go func() { done <- t.fetch(ctx, "/debug/pprof/profile?seconds=3", file) }()
	return func() error { return <-done }
}

// fetch puts what a path of the target answers into a file.
func (t *Target) fetch(ctx context.Context, path, file string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, t.URL+path, nil)
	if err != nil {
		return err
	}
	r.Header = t.header()
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("a profile of the gateway: status %d: %w", response.StatusCode, err)
	}
	return os.WriteFile(file, body, 0o644)
}
