package tier

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"parley"
	"parley/engine/kv"
)

// A pool is a device of plain memory.
type pool [][]byte

func newPool(blocks, size int) pool {
	p := make(pool, blocks)
	for i := range p {
		p[i] = make([]byte, size)
	}
	return p
}

func (p pool) device() Device {
	return Device{
		Copy:  func(dst, src []int32) { copy(p[dst[0]], p[src[0]]) },
		Read:  func(dst []byte, block int32, at int) { copy(dst, p[block][at:]) },
		Write: func(block int32, at int, src []byte) { copy(p[block][at:], src) },
	}
}

func config(t *testing.T, p pool, host, disk int) Config {
	return Config{Device: p.device(), BlockBytes: int64(len(p[0])), HostBlocks: host, DiskBlocks: disk,
		Path: filepath.Join(t.TempDir(), "blocks")}
}

func mustOpen(t *testing.T, cfg Config) (*Store, []kv.DiskBlock) {
	t.Helper()
	s, found, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s, found
}

func name(i int) (h parley.BlockHash) {
	h[0], h[1], h[2] = byte(i), byte(i>>8), 1
	return h
}

// TestMoves does random copies between all tiers and keeps count of what each
// slot must hold.
func TestMoves(t *testing.T) {
	const size, slots = 5000, 4
	p := newPool(slots, size)
	s, _ := mustOpen(t, config(t, p, slots, slots))
	var want [kv.Tiers][slots]int // what was put there: 0 is nothing
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(block, content int) {
		for i := range p[block] {
			p[block][i] = byte(content + i*content)
		}
	}
	for i := range 2000 {
		block := rng.IntN(slots)
		fill(block, i+1)
		want[kv.Device][block] = i + 1
		m := kv.Move{From: kv.Tier(rng.IntN(kv.Tiers)), To: kv.Tier(rng.IntN(kv.Tiers)),
			FromSlot: int32(rng.IntN(slots)), ToSlot: int32(rng.IntN(slots))}
		content := want[m.From][m.FromSlot]
		if m.From == m.To && m.From != kv.Device || content == 0 {
			continue
		}
		m.Hash = name(content)
		if err := s.Move(m); err != nil {
			t.Fatalf("%+v: %v", m, err)
		}
		want[m.To][m.ToSlot] = content
		if m.To == kv.Device {
			got := bytes.Clone(p[m.ToSlot])
			fill(int(m.ToSlot), content)
			if !bytes.Equal(got, p[m.ToSlot]) {
				t.Fatalf("after %+v block %d does not hold content %d", m, m.ToSlot, content)
			}
		}
	}
}

// TestPartsOfBlocks reads blocks of all tiers in parts, in turns, and writes one so.
func TestPartsOfBlocks(t *testing.T) {
	const size, part = 5000, 700
	p := newPool(3, size)
	s, _ := mustOpen(t, config(t, p, 1, 2))
	tiers := []struct {
		tier kv.Tier
		slot int32
	}{{kv.Device, 0}, {kv.Host, 0}, {kv.Disk, 0}, {kv.Disk, 1}}
	want, got := make([][]byte, len(tiers)), make([][]byte, len(tiers))
	for i, at := range tiers {
		for k := range p[0] {
			p[0][k] = byte((i+2)*k + k>>8)
		}
		want[i], got[i] = bytes.Clone(p[0]), make([]byte, size)
		if err := s.Move(kv.Move{Hash: name(i), From: kv.Device, To: at.tier, ToSlot: at.slot}); err != nil {
			t.Fatal(err)
		}
	}
	copy(p[0], want[0])
	for at := 0; at < size; at += part {
		for i, from := range tiers {
			dst := got[i][at:min(at+part, size)]
			if err := s.ReadBlock(dst, from.tier, from.slot, at, name(i)); err != nil {
				t.Fatal(err)
			}
		}
		s.WriteBlock(2, at, got[1][at:min(at+part, size)])
	}
	for i, from := range tiers {
		if !bytes.Equal(got[i], want[i]) {
			t.Errorf("parts of the block in slot %d of tier %s are not the block", from.slot, from.tier)
		}
	}
	if !bytes.Equal(p[2], want[1]) {
		t.Error("a block that was written in parts is not the block")
	}
}

// TestDamage flips every kind of byte of the file: what is read afterwards is
// what was written, or is reported damaged.
func TestDamage(t *testing.T) {
	const size, slots = 300, 5
	p := newPool(2, size)
	cfg := config(t, p, 0, slots)
	for at := int64(0); at < pageBytes+slots*entryBytes+3*pageBytes; at += 37 {
		s, _ := mustOpen(t, cfg)
		for slot := range int32(slots) {
			for i := range p[0] {
				p[0][i] = byte(int(slot) + i)
			}
			if err := s.Move(kv.Move{Hash: name(int(slot)), From: kv.Device, To: kv.Disk, ToSlot: slot}); err != nil {
				t.Fatal(err)
			}
		}
		s.Close()
		flip(t, cfg.Path, at)
		s, found := mustOpen(t, cfg)
		if at >= pageBytes+slots*entryBytes && len(found) != slots {
			t.Errorf("byte %d: %d blocks are left of %d", at, len(found), slots)
		}
		for _, f := range found {
			err := s.Move(kv.Move{Hash: f.Hash, From: kv.Disk, To: kv.Device, FromSlot: f.Slot, ToSlot: 1})
			if err != nil && !errors.Is(err, ErrDamaged) {
				t.Fatal(err)
			}
			if err == nil && (p[1][7] != byte(f.Slot+7) || f.Hash != name(int(f.Slot))) {
				t.Errorf("byte %d: a damaged block was read as if it were whole", at)
			}
		}
		s.Close()
		os.Remove(cfg.Path)
	}
}

func flip(t *testing.T, path string, at int64) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	data[at] ^= 0x40
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAnotherFingerprintBeginsAnew(t *testing.T) {
	p := newPool(1, 64)
	cfg := config(t, p, 0, 3)
	s, _ := mustOpen(t, cfg)
	if err := s.Move(kv.Move{Hash: name(1), From: kv.Device, To: kv.Disk}); err != nil {
		t.Fatal(err)
	}
	s.Close()
	for what, change := range map[string]func(c *Config){
		"weights":    func(c *Config) { c.Fingerprint[5] = 1 },
		"block size": func(c *Config) { c.BlockBytes = 32 },
		"size":       func(c *Config) { c.DiskBlocks = 4 },
	} {
		other := cfg
		change(&other)
		s, found := mustOpen(t, other)
		if len(found) > 0 {
			t.Errorf("with another %s, %d blocks were found", what, len(found))
		}
		s.Close()
		s, _ = mustOpen(t, cfg)
		if err := s.Move(kv.Move{Hash: name(1), From: kv.Device, To: kv.Disk}); err != nil {
			t.Fatal(err)
		}
		s.Close()
		if s, found = mustOpen(t, cfg); len(found) != 1 {
			t.Errorf("%d blocks were found, want the one that was written", len(found))
		}
		s.Close()
	}
}

func TestOneProcessAtATime(t *testing.T) {
	cfg := config(t, newPool(1, 64), 0, 3)
	mustOpen(t, cfg)
	if s, _, err := Open(cfg); err == nil {
		s.Close()
		t.Error("the file was opened twice")
	}
}

func TestTooLargeForTheDisk(t *testing.T) {
	cfg := config(t, newPool(1, 64), 0, 3)
	cfg.BlockBytes, cfg.DiskBlocks = 1<<30, 1<<30
	if _, _, err := Open(cfg); err == nil {
		t.Error("an exbibyte was taken")
	}
}

// TestKilled writes blocks in a child process, kills it in the middle, and
// finds every block that it had acknowledged.
func TestKilled(t *testing.T) {
	const size, slots = 4096 + 100, 64
	if path := os.Getenv("TIER_TEST_FILE"); path != "" {
		p := newPool(1, size)
		s, _, err := Open(Config{Device: p.device(), BlockBytes: size, DiskBlocks: slots, Path: path})
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; ; i++ {
			for j := range p[0] {
				p[0][j] = byte(i * j)
			}
			if err := s.Move(kv.Move{Hash: name(i % 256), From: kv.Device, To: kv.Disk,
				ToSlot: int32(i % slots)}); err != nil {
				t.Fatal(err)
			}
			fmt.Println(i)
		}
	}
	p := newPool(1, size)
	cfg := config(t, p, 0, slots)
	child := exec.Command(os.Args[0], "-test.run", "^TestKilled$")
	child.Env = append(os.Environ(), "TIER_TEST_FILE="+cfg.Path)
	out, err := child.StdoutPipe()
	if err != nil || child.Start() != nil {
		t.Fatal(err)
	}
	last := 0
	for last < 500 {
		if _, err := fmt.Fscan(out, &last); err != nil {
			t.Fatal(err)
		}
	}
	child.Process.Kill()
	for i := 0; ; last = i {
		if _, err := fmt.Fscan(out, &i); err != nil {
			break
		}
	}
	child.Wait()
	s, found := mustOpen(t, cfg)
	whole := 0
	for _, f := range found {
		if s.Move(kv.Move{Hash: f.Hash, From: kv.Disk, To: kv.Device, FromSlot: f.Slot}) == nil {
			whole++
		}
	}
	if whole < slots-1 { // the one that was being written may be lost
		t.Errorf("%d of %d blocks are whole after the kill", whole, slots)
	}
}

// FuzzOpen opens files with damaged heads and entries.
func FuzzOpen(f *testing.F) {
	l := layout{blockBytes: 100, slots: 3}
	f.Add(l.head())
	f.Add((&entry{Hash: name(1)}).encode(l.head(), 0))
	f.Add([]byte("PARLEYKV"))
	f.Fuzz(func(t *testing.T, data []byte) {
		p := newPool(1, 100)
		cfg := config(t, p, 0, 3)
		if err := os.WriteFile(cfg.Path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		s, found := mustOpen(t, cfg)
		for _, f := range found {
			if err := s.Move(kv.Move{Hash: f.Hash, From: kv.Disk, To: kv.Device, FromSlot: f.Slot}); err != nil &&
				!errors.Is(err, ErrDamaged) {
				t.Error(err)
			}
		}
	})
}

// BenchmarkRestore says how long a gigabyte takes from each tier.
func BenchmarkRestore(b *testing.B) {
	const size, slots = 1 << 20, 256
	p := newPool(slots, size)
	s, _, err := Open(Config{Device: p.device(), BlockBytes: size, HostBlocks: slots, DiskBlocks: slots,
		Path: filepath.Join(b.TempDir(), "blocks")})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	for _, from := range []kv.Tier{kv.Host, kv.Disk} {
		b.Run(from.String(), func(b *testing.B) {
			for i := range int32(slots) {
				if err := s.Move(kv.Move{Hash: name(int(i)), From: kv.Device, To: from, FromSlot: i,
					ToSlot: i}); err != nil {
					b.Fatal(err)
				}
			}
			restore := func(slot int32) {
				if err := s.Move(kv.Move{Hash: name(int(slot)), From: from, To: kv.Device, FromSlot: slot,
					ToSlot: slot}); err != nil {
					b.Fatal(err)
				}
			}
			for slot := range int32(slots) { // touch all memory once
				restore(slot)
			}
			b.SetBytes(size)
			for i := 0; b.Loop(); i++ {
				restore(int32(i % slots))
			}
			b.ReportMetric(float64(b.Elapsed().Milliseconds())/(float64(b.N)*size/1e9), "ms/GB")
		})
	}
}
