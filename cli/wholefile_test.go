package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

func filesIn(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestWholeFileOrNothing(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	text := func(s string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
	}
	if err := WriteWhole(t.Context(), path, text("first")); err != nil {
		t.Fatal(err)
	}
	broken := errors.New("no more")
	err := WriteWhole(t.Context(), path, func(w io.Writer) error { return errors.Join(text("half")(w), broken) })
	if !errors.Is(err, broken) {
		t.Errorf("a write that failed gave %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = WriteWhole(ctx, path, func(w io.Writer) error {
		defer cancel()
		if err := text("half")(w); err != nil {
			return err
		}
		cancel()
		return text("the rest")(w)
	})
	if !errors.Is(err, ErrInterrupted) {
		t.Errorf("a user without patience gave %v", err)
	}
	got, err := os.ReadFile(path)
	if names := filesIn(t, dir); err != nil || string(got) != "first" || len(names) != 1 {
		t.Errorf("%q, %v; the directory has %v", got, err, names)
	}
	if err := WriteWhole(t.Context(), path, text("second")); err != nil {
		t.Fatal(err)
	}
	if got, _ := os.ReadFile(path); string(got) != "second" {
		t.Errorf("the file was not replaced: %q", got)
	}
}
