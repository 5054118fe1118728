// Package tier is the memory behind the device: host memory and a file, in
// whole blocks. It does the copies that package kv decides.
//
// The file outlives the process. Each block in it is named by its content and
// carries a checksum, so that whatever happened to the file, a block that is
// read is the block that was written, or [ErrDamaged]. Nothing is ever synced
// to the disk: a process that is killed loses nothing, because the system has
// what was written; a machine that loses power loses blocks, which are then
// damaged and computed again.
package tier

import (
	"errors"
	"fmt"
	"math"
	"time"

	"parley"
	"parley/compute"
	"parley/engine/kv"
)

// ErrDamaged says that a block does not hold what it should, or cannot be read.
var ErrDamaged = errors.New("tier: the block is damaged")

// A Device is the pool that tokens are computed in.
type Device struct {
	// Copy copies blocks within the pool.
	Copy func(dst, src []int32)
	// Read copies bytes of a block of the pool, from an offset on, into dst, Write copies them back.
	Read  func(dst []byte, block int32, at int)
	Write func(block int32, at int, src []byte)
	// Background, if not nil, is how copies of host memory are made while the device computes.
	Background *Background
}

// A Background makes Read and Write return before copies of memory that was pinned are done.
// What uses the blocks on the device waits for them.
type Background struct {
	Pin func(memory []byte) error
	// StartBatch and EndBatch enclose copies, and Batches returns how long those took that are done since
	// it was called last, the oldest first.
	StartBatch, EndBatch func()
	Batches              func() []time.Duration
	// Wait returns when all copies are done.
	Wait func()
}

// DeviceOf is the pool of a backend. What is pinned stays so until the backend is
// closed, which must be before the store is.
func DeviceOf(b compute.Backend) Device {
	d := Device{Copy: b.CopyBlocks, Read: b.ReadBlock, Write: b.WriteBlock}
	if p, ok := b.(interface {
		Pin(memory []byte) error
		StartBatch()
		EndBatch()
		Batches() []time.Duration
		WaitCopies()
	}); ok {
		d.Background = &Background{
			Pin:        p.Pin,
			StartBatch: p.StartBatch,
			EndBatch:   p.EndBatch,
			Batches:    p.Batches,
			Wait:       p.WaitCopies,
		}
	}
	return d
}

// A Config says how much memory there is behind the device.
type Config struct {
	Device Device
	// BlockBytes is the size of a block.
	BlockBytes int64
	// HostBlocks and DiskBlocks are how many blocks each tier holds; 0 means none.
	HostBlocks, DiskBlocks int
	// Path is the file of the disk tier.
	Path string
	// Fingerprint names everything but the tokens that a block's bytes depend
	// on: weights, layout, arithmetic. A file of another fingerprint is begun anew.
	Fingerprint [32]byte
}

// endless is a batch that is never known to be complete.
const endless = math.MaxInt

// A Store is the tiers of one device. It is used by one goroutine at a time.
type Store struct {
	cfg     Config
	arena   []byte // host memory
	file    *file  // nil without a disk tier
	transit []byte // between device and disk
	// inTransit is the name of the block from the disk that transit has; zero if it has another.
	inTransit parley.BlockHash
	// moving has the batch in which each slot of the host was copied last, endless outside of
	// batches. Of those that were begun, done are known to be complete.
	moving      map[int32]int
	begun, done int
	open        bool // the last batch
	dst, src    [1]int32
}

// Open takes the memory and opens the file, and returns the blocks that an
// earlier process left there.
func Open(cfg Config) (*Store, []kv.DiskBlock, error) {
	s := &Store{cfg: cfg, moving: map[int32]int{}}
	var found []kv.DiskBlock
	var err error
	if cfg.HostBlocks > 0 {
		if s.arena, err = takeArena(cfg.BlockBytes * int64(cfg.HostBlocks)); err != nil {
			return nil, nil, fmt.Errorf("tier: taking host memory for %d blocks: %w", cfg.HostBlocks, err)
		}
		if b := cfg.Device.Background; b != nil {
			if err := b.Pin(s.arena); err != nil {
				return nil, nil, errors.Join(
					fmt.Errorf("tier: pinning host memory for %d blocks: %w", cfg.HostBlocks, err), s.Close())
			}
		}
	}
	if cfg.DiskBlocks > 0 {
		s.transit = make([]byte, cfg.BlockBytes)
		if s.file, found, err = openFile(cfg.Path,
			layout{cfg.Fingerprint, cfg.BlockBytes, cfg.DiskBlocks}); err != nil {
			return nil, nil, errors.Join(err, s.Close())
		}
	}
	return s, found, nil
}

// Close gives the host memory back and closes the file, which keeps its blocks.
func (s *Store) Close() error {
	var errs []error
	if s.arena != nil {
		errs = append(errs, giveArena(s.arena))
	}
	if s.file != nil {
		errs = append(errs, s.file.Close())
	}
	s.arena, s.file = nil, nil
	return errors.Join(errs...)
}

// Settle returns when all copies between the device and host memory are done.
func (s *Store) Settle() {
	if len(s.moving) > 0 {
		s.cfg.Device.Background.Wait()
		clear(s.moving)
	}
}

// settle returns when the copies of a slot of the host are done.
func (s *Store) settle(slot int32) {
	if batch, moves := s.moving[slot]; moves && batch > s.done {
		s.Settle()
	}
}

// Background returns how copies between the device and host memory are made while the device
// computes, nil if they are done when Move returns.
func (s *Store) Background() *Background {
	if s.arena == nil || s.cfg.Device.Background == nil {
		return nil
	}
	b := *s.cfg.Device.Background
	b.StartBatch = func() {
		s.begun, s.open = s.begun+1, true
		s.cfg.Device.Background.StartBatch()
	}
	b.EndBatch = func() {
		s.open = false
		s.cfg.Device.Background.EndBatch()
	}
	b.Batches = func() []time.Duration {
		took := s.cfg.Device.Background.Batches()
		s.done += len(took)
		return took
	}
	return &b
}

// move notes that a copy uses a slot of the host, and waits if the processor is to do it.
func (s *Store) move(slot int32, other kv.Tier) {
	switch {
	case other != kv.Device:
		s.settle(slot)
	case s.open:
		s.moving[slot] = s.begun
	case s.cfg.Device.Background != nil:
		s.moving[slot] = endless
	}
}

// Move makes a copy; one between the device and host memory may be done later: what uses the blocks
// waits for it, and so does [Store.Settle]. If its source is damaged, the destination is not
// written to, and the error is [ErrDamaged].
func (s *Store) Move(m kv.Move) error {
	switch kv.Host {
	case m.From:
		s.move(m.FromSlot, m.To)
	case m.To:
		s.move(m.ToSlot, m.From)
	}
	if m.From == kv.Device && m.To == kv.Device {
		s.dst[0], s.src[0] = m.ToSlot, m.FromSlot
		s.cfg.Device.Copy(s.dst[:], s.src[:])
		return nil
	}
	data, err := s.read(m)
	if err != nil {
		return err
	}
	switch m.To {
	case kv.Device:
		s.cfg.Device.Write(m.ToSlot, 0, data)
	case kv.Host:
		if m.From != kv.Device { // otherwise the device writes it
			copy(s.host(m.ToSlot), data)
		}
	case kv.Disk:
		return s.file.write(m.ToSlot, entry{Hash: m.Hash, Parent: m.Parent}, data)
	}
	return nil
}

// read returns the source of a copy. On the way from device to host it is read
// into its place.
func (s *Store) read(m kv.Move) ([]byte, error) {
	switch m.From {
	case kv.Host:
		return s.host(m.FromSlot), nil
	case kv.Disk:
		return s.readTransit(m.FromSlot, m.Hash)
	}
	data := s.transit
	s.inTransit = parley.BlockHash{}
	if m.To == kv.Host {
		data = s.host(m.ToSlot)
	}
	s.cfg.Device.Read(data, m.FromSlot, 0)
	return data, nil
}

// readTransit reads a block of the disk into transit, if it is not there from the last time.
func (s *Store) readTransit(slot int32, name parley.BlockHash) ([]byte, error) {
	if s.inTransit == name && name != (parley.BlockHash{}) {
		return s.transit, nil
	}
	s.inTransit = parley.BlockHash{}
	if err := s.file.read(s.transit, slot, name); err != nil {
		return nil, err
	}
	s.inTransit = name
	return s.transit, nil
}

// ReadBlock copies bytes of the block of a name, from an offset on, out of a slot of a tier into dst.
// If the block is damaged, the error is [ErrDamaged].
func (s *Store) ReadBlock(dst []byte, from kv.Tier, slot int32, at int, name parley.BlockHash) error {
	switch from {
	case kv.Host:
		s.settle(slot)
		copy(dst, s.host(slot)[at:])
	case kv.Disk:
		data, err := s.readTransit(slot, name)
		if err != nil {
			return err
		}
		copy(dst, data[at:])
	default:
		s.cfg.Device.Read(dst, slot, at)
	}
	return nil
}

// WriteBlock copies bytes that were read into a slot of the device, at the same offset.
func (s *Store) WriteBlock(slot int32, at int, src []byte) { s.cfg.Device.Write(slot, at, src) }

func (s *Store) host(slot int32) []byte {
	return s.arena[int64(slot)*s.cfg.BlockBytes:][:s.cfg.BlockBytes]
}
