package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestAbsencesGrowInACrowd(t *testing.T) {
	var a straggler
	now := time.Hour
	for want := leastAway; want < mostAway; want *= awayGrowth {
		a.extend(now, true)
		if a.length != want || a.over(now+want-1) || !a.over(now+want) {
			t.Fatalf("at %v: away for %v until %v, want %v", now, a.length, a.until, want)
		}
		now, a.trial = a.until, true
	}
	for range 3 {
		a.extend(now, true)
		now, a.trial = a.until, true
	}
	if a.length != mostAway {
		t.Errorf("away for %v, want no more than %v", a.length, mostAway)
	}
	if a.extend(now, false); a.length != mostAway {
		t.Errorf("held up on trial, but not by a crowd: away for %v, want %v as before", a.length, mostAway)
	}
	if a.extend(now, true); a.length != leastAway {
		t.Errorf("after a trial that ended well: away for %v, want %v", a.length, leastAway)
	}
}

// heldUp is a task whose pieces wait, if a worker does them, until they may
// go on, and if the caller does, until a worker has one.
type heldUp struct {
	release chan struct{}
	held    atomic.Int32
	done    atomic.Int32
}

func (j *heldUp) run(worker, from, to int) {
	j.done.Add(int32(to - from))
	if worker > 0 {
		j.held.Add(1)
		<-j.release
		return
	}
	for j.held.Load() == 0 {
		runtime.Gosched()
	}
}

// doers counts who does the pieces of a task.
type doers struct{ caller, workers atomic.Int32 }

func (j *doers) run(worker, _, _ int) {
	if worker > 0 {
		j.workers.Add(1)
	} else {
		j.caller.Add(1)
	}
}

// TestPoolGoesOnWithoutWorkersThatAreHeldUp has the system take a worker away
// while it holds an item, on a clock that moves when it is looked at.
func TestPoolGoesOnWithoutWorkersThatAreHeldUp(t *testing.T) {
	var clock atomic.Int64
	p := newPoolWithClock(2, func() time.Duration {
		return time.Duration(clock.Add(int64(time.Microsecond)))
	}, func() int64 { return 0 })
	defer p.close()
	delay := func() {
		job := &heldUp{release: make(chan struct{})}
		go func() {
			for !p.waiting.Load() {
				runtime.Gosched()
			}
			clock.Add(int64(time.Second))
			close(job.release)
		}()
		p.do(job, 2, 1)
		if n := job.done.Load(); n != 2 {
			t.Fatalf("%d of 2 pieces were done", n)
		}
	}
	for range 3 {
		delay()
		if p.away != 1 {
			t.Fatalf("%d workers are away after one was held up", p.away)
		}
		job := &doers{}
		p.do(job, 50, 1)
		if job.workers.Load() != 0 {
			t.Error("a worker that is away did something")
		}
		clock.Add(int64(mostAway)) // it is back for the next task
	}
	delay()
}

// TestPoolClosesWhileWorkersAreAway is about the end of the test: nobody is left behind.
func TestPoolClosesWhileWorkersAreAway(t *testing.T) {
	p := newPool(4)
	for i := 1; i < 4; i++ {
		p.helpers[i].late = true
	}
	p.sendLateAway(p.now())
	if p.away != 3 {
		t.Errorf("%d of 3 workers are away", p.away)
	}
	p.close()
}

// TestPoolTriesWorkersThatComeBack lets them stay if no thread was taken off
// its core, and sends them away for longer if some were.
func TestPoolTriesWorkersThatComeBack(t *testing.T) {
	var clock atomic.Int64
	var switched int64
	p := newPoolWithClock(2, func() time.Duration {
		return time.Duration(clock.Load())
	}, func() int64 { return switched })
	defer p.close()
	h := &p.helpers[1]
	for _, crowd := range []bool{true, true, false} {
		length := h.absence.length
		if p.away == 0 {
			p.sendAway(h, p.now())
			length = h.absence.length
		}
		clock.Add(int64(length))
		p.review()
		if p.away != 0 || p.trials != 1 {
			t.Fatalf("%d away and %d on trial when the absence is over", p.away, p.trials)
		}
		clock.Add(int64(trialTime))
		if crowd {
			switched += int64(crowdSwitches * len(p.helpers))
		}
		p.review()
		if want := map[bool]int{true: 1}[crowd]; p.away != want || p.trials != 0 {
			t.Fatalf("crowd %v: %d away and %d on trial", crowd, p.away, p.trials)
		}
		if crowd && h.absence.length != awayGrowth*length {
			t.Fatalf("away for %v, after %v", h.absence.length, length)
		}
	}
}
