package tier

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"parley"
	"parley/engine/kv"
)

// A file holds blocks under their names. It begins with a head of one page that
// says what the blocks depend on, then has one entry for each slot, and then
// the slots, each beginning at a page. All numbers are little-endian.
type file struct {
	*os.File
	layout
	entries []entry
}

// A layout is what two files must agree on to be of use to each other.
type layout struct {
	fingerprint [32]byte
	blockBytes  int64
	slots       int
}

// An entry says what a slot holds. It is written after the block, and its own
// checksum covers the slot's number, so that no entry counts in another place.
type entry struct {
	Hash, Parent parley.BlockHash
	Sum          uint64 // of the block's bytes
}

const (
	magic      = "PARLEYKV\x02"
	pageBytes  = 4096
	entryBytes = 32 + 32 + 8 + 8
)

func pages(n int64) int64 { return (n + pageBytes - 1) / pageBytes * pageBytes }

func (l *layout) entryAt(slot int32) int64 { return pageBytes + int64(slot)*entryBytes }

func (l *layout) blockAt(slot int32) int64 {
	return pages(l.entryAt(int32(l.slots))) + int64(slot)*pages(l.blockBytes)
}

// bytes returns the size of the whole file.
func (l *layout) bytes() int64 { return l.blockAt(int32(l.slots)) }

// head returns the first page.
func (l *layout) head() []byte {
	b := append(make([]byte, 0, pageBytes), magic...)
	b = append(b, l.fingerprint[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(l.blockBytes))
	b = binary.LittleEndian.AppendUint64(b, uint64(l.slots))
	return b[:pageBytes]
}

// openFile opens a file of that layout, or begins one, and lists its blocks.
func openFile(path string, l layout) (*file, []kv.DiskBlock, error) {
	if l.blockBytes < 1 || l.slots < 1 || l.slots > math.MaxInt32 ||
		int64(l.slots) > math.MaxInt64/4/max(l.blockBytes, pageBytes) {
		return nil, nil, fmt.Errorf("tier: %d blocks of %d bytes are not possible", l.slots, l.blockBytes)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, nil, fmt.Errorf("tier: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, nil, fmt.Errorf("tier: %w", err)
	}
	d := &file{File: f, layout: l}
	if err := lock(f); err != nil {
		return nil, nil, errors.Join(fmt.Errorf(
			"tier: %s is in use by another process: give this one a --data directory of its own", path), f.Close())
	}
	found, err := d.load()
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("tier: %s: %w", path, err), f.Close())
	}
	return d, found, nil
}

// load reads the entries, or empties a file that does not fit.
func (d *file) load() ([]kv.DiskBlock, error) {
	head := make([]byte, pageBytes)
	if _, err := d.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if !bytes.Equal(head, d.head()) {
		if err := d.begin(); err != nil {
			return nil, err
		}
	}
	d.entries = make([]entry, d.slots)
	all := make([]byte, d.slots*entryBytes)
	if n, err := d.ReadAt(all, d.entryAt(0)); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	} else {
		clear(all[n:])
	}
	var found []kv.DiskBlock
	for slot := range d.entries {
		e, ok := parseEntry(all[slot*entryBytes:][:entryBytes], slot)
		if ok {
			d.entries[slot] = e
			found = append(found, kv.DiskBlock{Hash: e.Hash, Parent: e.Parent, Slot: int32(slot)})
		}
	}
	return found, nil
}

// begin makes the file an empty one of the full size, which takes room on the
// disk only as it is filled.
func (d *file) begin() error {
	if err := d.Truncate(0); err != nil {
		return err
	}
	if free, ok := freeBytes(filepath.Dir(d.Name())); ok && free < d.bytes() {
		return fmt.Errorf("the disk tier wants %d MiB and only %d MiB are free: ask for less with --kv-disk",
			d.bytes()>>20, free>>20)
	}
	if err := d.Truncate(d.bytes()); err != nil {
		return err
	}
	_, err := d.WriteAt(d.head(), 0)
	return err
}

func (e *entry) encode(b []byte, slot int) []byte {
	b = append(b, e.Hash[:]...)
	b = append(b, e.Parent[:]...)
	b = binary.LittleEndian.AppendUint64(b, e.Sum)
	return binary.LittleEndian.AppendUint64(b, xxhash.Sum64(b)^uint64(slot+1))
}

func parseEntry(b []byte, slot int) (e entry, ok bool) {
	copy(e.Hash[:], b)
	copy(e.Parent[:], b[32:])
	e.Sum = binary.LittleEndian.Uint64(b[64:])
	want := e.encode(make([]byte, 0, entryBytes), slot)
	return e, bytes.Equal(b, want)
}

// write puts a block into a slot. A slot that could not be written holds nothing.
func (d *file) write(slot int32, e entry, data []byte) error {
	d.entries[slot] = entry{}
	if _, err := d.WriteAt(data, d.blockAt(slot)); err != nil {
		return fmt.Errorf("tier: %w", err)
	}
	e.Sum = xxhash.Sum64(data)
	if _, err := d.WriteAt(e.encode(make([]byte, 0, entryBytes), int(slot)), d.entryAt(slot)); err != nil {
		return fmt.Errorf("tier: %w", err)
	}
	d.entries[slot] = e
	return nil
}

// read reads the block of that name from a slot.
func (d *file) read(dst []byte, slot int32, hash parley.BlockHash) error {
	e := &d.entries[slot]
	if e.Hash != hash {
		return ErrDamaged
	}
	if _, err := d.ReadAt(dst, d.blockAt(slot)); err != nil {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if xxhash.Sum64(dst) != e.Sum {
		return ErrDamaged
	}
	return nil
}
