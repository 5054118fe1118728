package term

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// A History is what was typed before, oldest first. The zero value is kept in
// memory only.
//
// The file has one entry a line, as a JSON string, because entries may have
// several lines themselves. It is for its owner alone: people paste secrets.
type History struct {
	path    string
	entries []string
}

// Bounds of a history. Whatever the file holds beyond them is forgotten.
const (
	historyEntriesMax = 1000
	historyEntryMax   = 64 << 10 // bytes
	historyFileMax    = 4 << 20  // bytes
)

// OpenHistory reads a history. A file that does not exist is an empty one, and
// lines that cannot be understood are left out.
func OpenHistory(path string) (*History, error) {
	h := &History{path: path}
	f, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return h, err
	}
	if _, err := f.Seek(max(0, size-historyFileMax), io.SeekStart); err != nil {
		return h, err
	}
	data, err := io.ReadAll(io.LimitReader(f, historyFileMax))
	if err != nil {
		return h, err
	}
	h.entries = parseHistory(data)
	if len(h.entries) == historyEntriesMax || size > historyFileMax {
		return h, h.rewrite()
	}
	return h, nil
}

// parseHistory returns the newest entries of a file.
func parseHistory(data []byte) (entries []string) {
	for line := range bytes.Lines(data) {
		var entry string
		if json.Unmarshal(line, &entry) == nil && entry != "" {
			entries = append(entries, plainText(entry))
		}
	}
	return entries[max(0, len(entries)-historyEntriesMax):]
}

// Add appends an entry, unless it repeats the last one, is empty, or begins
// with a space, by which people say that something is not to be remembered.
func (h *History) Add(entry string) error {
	if strings.TrimSpace(entry) == "" || strings.HasPrefix(entry, " ") || len(entry) > historyEntryMax {
		return nil
	}
	if n := len(h.entries); n > 0 && h.entries[n-1] == entry {
		return nil
	}
	h.entries = append(h.entries, entry)
	h.entries = h.entries[max(0, len(h.entries)-historyEntriesMax):]
	if h.path == "" {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(h.path), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(h.path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(historyLine(entry)) // in one piece, so that several programs can share the file
	return errors.Join(err, f.Close())
}

func historyLine(entry string) []byte {
	line, err := json.Marshal(entry)
	if err != nil {
		panic(fmt.Sprintf("a string is always JSON: %v", err))
	}
	return append(line, '\n')
}

// rewrite leaves half of the entries in the file, so that it need not be done
// again soon.
func (h *History) rewrite() (err error) {
	f, err := os.CreateTemp(filepath.Dir(h.path), filepath.Base(h.path)+".*") // readable by its owner only
	if err != nil {
		return err
	}
	var all []byte
	for _, entry := range h.entries[len(h.entries)/2:] {
		all = append(all, historyLine(entry)...)
	}
	_, err = f.Write(all)
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return os.Rename(f.Name(), h.path)
}
