package batch

import (
	"context"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/gateway/convo"
	"parley/gateway/openai"
)

// createFor makes a batch of n requests for anybody.
func createFor(t *testing.T, s *Store, owner convo.Owner, n int) string {
	t.Helper()
	u, err := s.Of(owner).NewUpload()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(u, input(n)); err != nil {
		t.Fatal(err)
	}
	f, err := u.Keep("input.jsonl", openai.FilePurpose, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	b, err := s.Of(owner).Create(&openai.BatchRequest{InputFileID: f.ID, Endpoint: endpoint}, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return b.ID
}

// start works batches off, until stop is called.
func start(s *Store, answer func(context.Context, Author) openai.BatchResponse) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Runner{Store: s, Now: time.Now, Log: slog.New(slog.DiscardHandler),
		Answer: func(ctx context.Context, by Author, _ string, _ []byte) (openai.BatchResponse, error) {
			return answer(ctx, by), ctx.Err()
		}}
	done := make(chan struct{})
	go func() {
		r.Run(ctx)
		close(done)
	}()
	return func() {
		cancel()
		<-done
	}
}

// TestSlowBatchesHoldUpNobodyElse gives one tenant more slow batches than take
// turns; another's comes later and is done first.
func TestSlowBatchesHoldUpNobodyElse(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		defer s.Close()
		carl := convo.Owner{Tenant: "carl's"}
		stop := start(s, func(ctx context.Context, by Author) openai.BatchResponse {
			wait := time.Hour
			if by.Owner == carl {
				wait = time.Second
			}
			select {
			case <-time.After(wait):
			case <-ctx.Done():
			}
			return openai.BatchResponse{StatusCode: 200, Body: []byte("{}")}
		})
		var slow []string
		for range batchesAtOnce + 2 {
			slow = append(slow, createFor(t, s, ann, 2*requestsAtOnce))
		}
		time.Sleep(30 * time.Minute)
		quick := createFor(t, s, carl, requestsAtOnce)
		time.Sleep(31 * time.Minute)
		if b, err := s.Of(carl).Batch(quick); err != nil || b.Status != openai.BatchCompleted {
			t.Errorf("a place was free a minute ago: %+v, %v", b, err)
		}
		for _, id := range slow {
			if b := mustBatch(t, s, id); b.Status == openai.BatchCompleted {
				t.Errorf("%+v", b)
			}
		}
		stop()
	})
}

func TestWhatIsFinalIsNotAskedAgain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		defer s.Close()
		var asked atomic.Int64
		stop := start(s, func(context.Context, Author) openai.BatchResponse {
			asked.Add(1)
			return openai.BatchResponse{StatusCode: 429, Body: []byte(`{"error":{"code":"insufficient_quota"}}`),
				Final: true}
		})
		id := createFor(t, s, ann, 3)
		time.Sleep(time.Millisecond)
		b := mustBatch(t, s, id)
		if b.Status != openai.BatchCompleted || b.RequestCounts.Failed != 3 || asked.Load() != 3 {
			t.Errorf("asked %d times: %+v", asked.Load(), b)
		}
		for _, r := range results(t, s, b.ErrorFileID) {
			if r.Response == nil || r.Response.StatusCode != 429 {
				t.Errorf("%+v", r)
			}
		}
		stop()
	})
}

// TestPlacesGoRound takes all places, and lets tenants wait in an unfair order.
func TestPlacesGoRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newSlots(1)
		if err := p.take(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		var order []string
		leaving, leave := context.WithCancel(t.Context())
		for _, tenant := range []string{"a", "a", "gone", "b", "c"} {
			ctx := t.Context()
			if tenant == "gone" {
				ctx = leaving
			}
			go func() {
				if p.take(ctx, tenant) == nil {
					order = append(order, tenant)
					time.Sleep(time.Second)
					p.leave(tenant)
				}
			}()
			synctest.Wait()
		}
		leave()
		synctest.Wait()
		p.leave("a")
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := len(order); got != 4 || p.free != 1 || p.tenants.Len() != 0 || len(p.waiting) != 0 {
			t.Errorf("%v; %+v", order, p)
		}
		held := newSlots(2)
		for _, tenant := range []string{"a", "a"} {
			_ = held.take(t.Context(), tenant)
		}
		first := make(chan string, 2)
		for _, tenant := range []string{"a", "b"} {
			go func() {
				_ = held.take(t.Context(), tenant)
				first <- tenant
			}()
			synctest.Wait()
		}
		if held.leave("a"); <-first != "b" {
			t.Error("who has a place got another before who has none")
		}
		held.leave("a")
		<-first
	})
}
