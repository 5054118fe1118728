package lzma

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strings"
	"testing"
)

// plain is what the files in testdata were made from: text and random bytes, and both
// again at a distance that is longer than flate looks back.
func plain() []byte {
	var text bytes.Buffer
	for i := range 20_000 {
		text.WriteString(strings.Repeat("ab", i%7) + "\n")
	}
	x := uint32(1)
	for range 20_000 {
		x = x*1664525 + 1013904223
		text.WriteByte(byte(x >> 24))
	}
	text.Write(bytes.Clone(text.Bytes()))
	text.Write(bytes.Repeat([]byte{0}, 3000))
	return text.Bytes()
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return packed
}

// The files were written by xz with different properties: far.lzma with lc=4, pb=0,
// default.lzma with lc=3, pb=2 and places.lzma with lc=1, lp=3, pb=4.
var files = []string{"far.lzma", "default.lzma", "places.lzma"}

func TestDecode(t *testing.T) {
	want := plain()
	for _, name := range files {
		got, err := Decode(read(t, name), len(want)+1)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d, %v", name, len(got), len(want), err)
		}
		for _, limit := range []int{0, 1, 12345, len(want)} {
			if got, err := Decode(read(t, name), limit); err != nil || !bytes.Equal(got, want[:limit]) {
				t.Errorf("%s: %d of the first %d bytes, %v", name, len(got), limit, err)
			}
		}
	}
}

// TestSize gives the number of bytes in the header instead of an end marker.
func TestSize(t *testing.T) {
	want := plain()
	packed := read(t, "far.lzma")
	binary.LittleEndian.PutUint64(packed[5:], uint64(len(want)))
	if got, err := Decode(packed, 16<<20); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	binary.LittleEndian.PutUint64(packed[5:], uint64(len(want))+1)
	if _, err := Decode(packed, len(want)+1); !errors.Is(err, errShort) {
		t.Errorf("a file that has fewer bytes than its header says gives %v", err)
	}
}

func TestTruncated(t *testing.T) {
	want := plain()
	packed := read(t, "far.lzma")
	for n := 0; n < len(packed); n += 1 + n/50 {
		got, err := Decode(packed[:n], len(want)+1)
		if !errors.Is(err, errShort) {
			t.Errorf("%d of %d bytes give %v", n, len(packed), err)
		}
		// The last symbol may have been read from bytes that are missing.
		if kept := max(0, len(got)-300); !bytes.Equal(got[:kept], want[:kept]) {
			t.Errorf("%d of %d bytes give other bytes", n, len(packed))
		}
	}
}

func TestDamaged(t *testing.T) {
	packed := read(t, "far.lzma")
	for _, properties := range []byte{225, 255, 5 + 9*1, 8} {
		packed[0] = properties
		if _, err := Decode(packed, 10); err == nil {
			t.Errorf("properties %d are accepted", properties)
		}
	}
	packed = read(t, "far.lzma")
	packed[headerBytes] = 1
	if _, err := Decode(packed, 10); !errors.Is(err, errDamaged) {
		t.Errorf("a first byte that is not 0 gives %v", err)
	}
	far := append(read(t, "far.lzma")[:headerBytes], 0, 0xff, 0xff, 0xff, 0xfe, 0xff, 0xff, 0xff)
	if _, err := Decode(far, 1000); err == nil {
		t.Error("a match before the first byte is accepted")
	}
}

func FuzzDecode(f *testing.F) {
	for _, name := range files {
		f.Add(read(f, name), 1000)
	}
	f.Fuzz(func(t *testing.T, packed []byte, limit int) {
		limit = min(max(limit, 0), 1<<20)
		got, err := Decode(packed, limit)
		if len(got) > limit || cap(got) > max(limit, 1)*2 {
			t.Fatalf("%d bytes, room for %d, limit %d, %v", len(got), cap(got), limit, err)
		}
		if len(got) < 2 {
			return
		}
		if part, partErr := Decode(packed, len(got)/2); partErr != nil || !bytes.Equal(part, got[:len(part)]) {
			t.Fatalf("%d bytes of %d differ: %v", len(part), len(got), partErr)
		}
	})
}
