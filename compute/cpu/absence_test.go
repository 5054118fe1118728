package cpu

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestAbsencesDoubleWhileTheyRecur(t *testing.T) {
	var a absence
	now := time.Hour
	for want := leastAway; want < mostAway; want *= 2 {
		a.extend(now)
		if a.length != want || a.over(now+want-1) || !a.over(now+want) {
			t.Fatalf("at %v: away for %v until %v, want %v", now, a.length, a.until, want)
		}
		now = a.until + a.length
	}
	for range 3 {
		a.extend(now)
		now = a.until
	}
	if a.length != mostAway {
		t.Errorf("away for %v, want no more than %v", a.length, mostAway)
	}
	now = a.until + 2*a.length
	if a.extend(now); a.length != leastAway {
		t.Errorf("after a long time without delay: away for %v, want %v", a.length, leastAway)
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
	p := newPoolWithClock(2, func() time.Duration { return time.Duration(clock.Add(int64(time.Microsecond))) })
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
	p.sendAway(p.now())
	if p.away != 3 {
		t.Errorf("%d of 3 workers are away", p.away)
	}
	p.close()
}
