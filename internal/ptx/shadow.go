package ptx

import "fmt"

const (
	manyLanes   = 63
	stampAsync  = 1 << 6
	stampStrong = 1 << 7
)

func newStamp(clock uint64, warp, lane int) stamp {
	return stamp(clock<<20 | uint64(warp)<<8 | uint64(lane))
}

func (s stamp) clock() uint64 { return uint64(s) >> 20 }
func (s stamp) warp() int     { return int(s>>8) & 0xfff }
func (s stamp) lane() int     { return int(s) & 63 }

func newShadow(b *block, warps int) *shadow {
	without := b.run.d.options.Without
	n := len(b.shared)
	words := (n + 3) / 4
	s := &shadow{b: b, warps: warps}
	if without&CheckUninitialised == 0 {
		s.written = make([]byte, n)
	}
	if without&CheckRaces == 0 {
		s.writes, s.reads, s.split = make([]stamp, words), make([]stamp, words*warps), make([]bool, words)
	}
	if without&CheckPending == 0 {
		s.pending, s.busy = make([]uint16, words), make([]uint16, words)
	}
	if s.written == nil && s.writes == nil && s.pending == nil {
		return nil
	}
	return s
}

func (s *shadow) reset() {
	clear(s.written)
	clear(s.pending)
	clear(s.busy)
	s.flight = 0
}

const ones = 0x0101010101010101

// check examines an access before it happens, and remembers it.
func (s *shadow) check(w *warp, lane, at int, a *access) {
	if s.flight > 0 && s.pending != nil {
		s.checkFlight(w, lane, at, a)
	}
	if s.written != nil {
		if a.write {
			s.markWritten(at, a.size)
		} else {
			s.checkWritten(w, lane, at, a.size)
		}
	}
	if s.writes != nil {
		flags := stamp(0)
		if a.strong {
			flags = stampStrong
		}
		s.order(w, lane, at, a.size, a.write, flags)
	}
}

func (s *shadow) markWritten(at, n int) {
	for i := range s.written[at : at+n] {
		s.written[at+i] = 1
	}
}

func (s *shadow) checkWritten(w *warp, lane, at, n int) {
	part := s.written[at : at+n]
	for len(part) >= 8 && le.Uint64(part) == ones {
		part = part[8:]
	}
	for i, v := range part {
		if v == 0 {
			w.faultAt(lane, uint64(at+n-len(part)+i), "read of shared memory that the block has not written")
		}
	}
}

// checkFlight refuses accesses to what asynchronous operations write, and
// writes to what they read.
func (s *shadow) checkFlight(w *warp, lane, at int, a *access) {
	for word := at / 4; word <= (at+a.size-1)/4; word++ {
		if s.pending[word] > 0 {
			w.faultAt(lane, uint64(at), "access to shared memory that a pending asynchronous copy writes")
		}
		if a.write && s.busy[word] > 0 {
			w.faultAt(lane, uint64(at), "write to shared memory that a pending asynchronous operation reads")
		}
	}
}

// order finds races of an access with former ones.
func (s *shadow) order(w *warp, lane, at, n int, write bool, flags stamp) {
	if n >= 4 && at&3 == 0 && n&3 == 0 {
		for word := at / 4; word < (at+n)/4; word++ {
			if !s.split[word] {
				s.orderCell(w, lane, word*4, &s.writes[word], s.reads[word*s.warps:][:s.warps], write, flags)
				continue
			}
			s.orderBytes(w, lane, word*4, 4, write, flags)
		}
		return
	}
	s.splitWords(at, n)
	s.orderBytes(w, lane, at, n, write, flags)
}

func (s *shadow) orderBytes(w *warp, lane, at, n int, write bool, flags stamp) {
	for i := at; i < at+n; i++ {
		s.orderCell(w, lane, i, &s.parts[i], s.readers[i*s.warps:][:s.warps], write, flags)
	}
}

// splitWords goes over to stamps by the byte for the words of a range.
func (s *shadow) splitWords(at, n int) {
	if s.parts == nil {
		s.parts = make([]stamp, 4*len(s.writes))
		s.readers = make([]stamp, 4*len(s.reads))
	}
	for word := at / 4; word <= (at+n-1)/4; word++ {
		if s.split[word] {
			continue
		}
		s.split[word] = true
		for i := word * 4; i < word*4+4; i++ {
			s.parts[i] = s.writes[word]
			copy(s.readers[i*s.warps:], s.reads[word*s.warps:][:s.warps])
		}
	}
}

func (s *shadow) orderCell(w *warp, lane, at int, last *stamp, reads []stamp, write bool, flags stamp) {
	mine := newStamp(w.clock, w.index, lane) | flags
	if prev := *last; prev != mine && s.unordered(w, lane, prev, flags) {
		if !write || prev.warp() != w.index {
			s.race(w, lane, at, write, prev, "written")
		}
		w.conflict = true
	}
	if !write {
		own := &reads[w.index]
		if own.clock() == w.clock && own.lane() != lane {
			mine |= manyLanes
		}
		*own = mine
		return
	}
	for _, prev := range reads {
		if s.unordered(w, lane, prev, flags) {
			s.race(w, lane, at, write, prev, "read")
		}
	}
	*last = mine
}

// unordered reports whether nothing orders the access of prev before one that
// lane does now.
func (s *shadow) unordered(w *warp, lane int, prev, flags stamp) bool {
	if prev&flags&stampStrong != 0 {
		return false
	}
	if other := prev.warp(); other != w.index || prev&stampAsync != 0 {
		return prev.clock() > w.seen[other]
	}
	return prev.clock() == w.clock && prev.lane() != lane
}

func (s *shadow) race(w *warp, lane, at int, write bool, prev stamp, did string) {
	does := "reads"
	if write {
		does = "writes"
	}
	w.faultAt(lane, uint64(at), "race in shared memory: this thread %s what %s has %s without a barrier between",
		does, s.who(prev), did)
}

func (s *shadow) who(prev stamp) string {
	if prev&stampAsync != 0 {
		return fmt.Sprintf("an asynchronous copy of warp %d", prev.warp())
	}
	if prev.lane() == manyLanes {
		return fmt.Sprintf("warp %d", prev.warp())
	}
	return fmt.Sprintf("lane %d of warp %d", prev.lane(), prev.warp())
}

// startWrite examines and marks the destination of an asynchronous copy.
func (s *shadow) startWrite(w *warp, lane, at, n int, flags stamp) {
	if s == nil || n == 0 {
		return
	}
	if s.pending != nil {
		s.checkFlight(w, lane, at, &access{size: n, write: true})
		for word := at / 4; word <= (at+n-1)/4; word++ {
			s.pending[word]++
		}
		s.flight++
	}
	if s.writes != nil {
		w.conflict = false
		s.order(w, lane, at, n, true, flags)
		if w.conflict {
			w.faultAt(lane, uint64(at), "race in shared memory: a copy to what another lane of this warp has written")
		}
	}
}

// endWrite unmarks the destination when the copy has happened.
func (s *shadow) endWrite(at, n int) {
	if s == nil || n == 0 {
		return
	}
	if s.pending != nil {
		for word := at / 4; word <= (at+n-1)/4; word++ {
			s.pending[word]--
		}
		s.flight--
	}
	if s.written != nil {
		s.markWritten(at, n)
	}
}

// startRead examines and marks what an operation of the asynchronous proxy
// will read.
func (s *shadow) startRead(w *warp, lane, at, n int) {
	if s == nil || n == 0 {
		return
	}
	if s.pending != nil {
		s.checkFlight(w, lane, at, &access{size: n})
		for word := at / 4; word <= (at+n-1)/4; word++ {
			s.busy[word]++
		}
		s.flight++
	}
	if s.written != nil {
		s.checkWritten(w, lane, at, n)
	}
	if s.writes == nil {
		return
	}
	for word := at / 4; word <= (at+n-1)/4; word++ {
		s.checkProxy(w, lane, word*4, s.writes[word])
		if s.split[word] {
			for i := range 4 {
				s.checkProxy(w, lane, word*4+i, s.parts[word*4+i])
			}
		}
	}
}

// checkProxy requires that the last write is visible to the asynchronous proxy.
func (s *shadow) checkProxy(w *warp, lane, at int, prev stamp) {
	other := prev.warp()
	if prev&stampAsync != 0 || other != w.index {
		if prev.clock() > w.seen[other] {
			s.race(w, lane, at, false, prev, "written")
		}
	}
	if prev&stampAsync == 0 && prev.clock() > w.proxy[other] {
		w.faultAt(lane, uint64(at),
			"an asynchronous operation reads what %s has stored without fence.proxy.async between", s.who(prev))
	}
}

// endRead unmarks what was read, and remembers the read as one of this moment.
func (s *shadow) endRead(w *warp, at, n int) {
	if s == nil || n == 0 {
		return
	}
	if s.pending != nil {
		for word := at / 4; word <= (at+n-1)/4; word++ {
			s.busy[word]--
		}
		s.flight--
	}
	if s.writes == nil {
		return
	}
	mine := newStamp(w.clock, w.index, manyLanes)
	for word := at / 4; word <= (at+n-1)/4; word++ {
		s.reads[word*s.warps+w.index] = mine
		if s.split[word] {
			for i := word * 4; i < word*4+4; i++ {
				s.readers[i*s.warps+w.index] = mine
			}
		}
	}
}
