package batch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/openai"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ann, bob = convo.Owner{Tenant: "ann"}, convo.Owner{Tenant: "bob"}

const annsKey = "key_ann"

const endpoint = "/v1/completions"

// input returns a file of n requests, called 0, 1, 2…, with a blank line.
func input(n int) string {
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"custom_id":"%d","method":"POST","url":"%s","body":{"prompt":"%d"}}`+"\n", i, endpoint, i)
	}
	return strings.Replace(b.String(), "\n", "\n\n", 1)
}

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func upload(t *testing.T, s *Store, text, purpose string) openai.File {
	t.Helper()
	u, err := s.Of(ann).NewUpload()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(u, text); err != nil {
		t.Fatal(err)
	}
	f, err := u.Keep("input.jsonl", purpose, 0, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func create(t *testing.T, s *Store, text string) string {
	t.Helper()
	f := upload(t, s, text, openai.FilePurpose)
	b, err := s.Of(ann).Create(&openai.BatchRequest{InputFileID: f.ID, Endpoint: endpoint,
		Metadata: map[string]string{"a": "b"}}, annsKey, time.Now())
	if err != nil || b.Status != openai.BatchValidating || b.ExpiresAt-b.CreatedAt != 86400 {
		t.Fatalf("%+v %v", b, err)
	}
	return b.ID
}

// echo answers a request with its own body after a second, those whose number
// ends in 7 with an error.
func echo(ctx context.Context, _ string, body []byte) (openai.BatchResponse, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return openai.BatchResponse{}, ctx.Err()
	}
	status := 200
	if bytes.Contains(body, []byte(`7"`)) {
		status = 400
	}
	return openai.BatchResponse{StatusCode: status, RequestID: "req_1", Body: body}, nil
}

type answerFunc func(context.Context, string, []byte) (openai.BatchResponse, error)

// run works batches off until stop is called, which waits.
func run(s *Store, answer answerFunc) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	r := &Runner{Store: s,
		Answer: func(ctx context.Context, by Author, endpoint string, body []byte) (openai.BatchResponse, error) {
			if by != (Author{ann, annsKey}) {
				return openai.BatchResponse{}, fmt.Errorf("answered for %v", by)
			}
			return answer(ctx, endpoint, body)
		}, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
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

// results reads the lines of a result file by custom id, each of which is there
// once.
func results(t *testing.T, s *Store, id string) map[string]openai.BatchResult {
	t.Helper()
	found := map[string]openai.BatchResult{}
	if id == "" {
		return found
	}
	r, f, err := s.Of(ann).Read(id)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	text, err := io.ReadAll(r)
	if err != nil || int64(len(text)) != f.Bytes || f.Purpose != openai.OutputPurpose {
		t.Fatalf("%v: %d bytes of %+v", err, len(text), f)
	}
	for line := range strings.Lines(string(text)) {
		var result openai.BatchResult
		if err := json.Unmarshal([]byte(line), &result); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if _, twice := found[result.CustomID]; twice {
			t.Errorf("%s has two results", result.CustomID)
		}
		found[result.CustomID] = result
	}
	return found
}

func mustBatch(t *testing.T, s *Store, id string) openai.Batch {
	t.Helper()
	b, err := s.Of(ann).Batch(id)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// checkAnswers makes sure that each of n requests has its own answer.
func checkAnswers(t *testing.T, s *Store, b openai.Batch, n int) {
	t.Helper()
	output, failures := results(t, s, b.OutputFileID), results(t, s, b.ErrorFileID)
	if len(output)+len(failures) != n ||
		b.RequestCounts != (openai.BatchRequestCounts{Total: n, Completed: len(output), Failed: len(failures)}) {
		t.Errorf("%d answers and %d failures for %d requests: %+v", len(output), len(failures), n, b.RequestCounts)
	}
	for id, r := range output {
		if want := `{"prompt":"` + id + `"}`; string(r.Response.Body) != want || r.Response.StatusCode != 200 ||
			strings.HasSuffix(id, "7") {
			t.Errorf("%s is answered %+v", id, r.Response)
		}
	}
	for id, r := range failures {
		if r.Response == nil || r.Response.StatusCode != 400 || !strings.HasSuffix(id, "7") {
			t.Errorf("%s failed with %+v", id, r)
		}
	}
}

func TestBatchIsAnswered(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		defer s.Close()
		var now, most atomic.Int64
		stop := run(s, func(ctx context.Context, at string, body []byte) (openai.BatchResponse, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			if at != endpoint {
				t.Errorf("asked %s", at)
			}
			return echo(ctx, at, body)
		})
		id := create(t, s, input(100))
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		if b := mustBatch(t, s, id); b.Status != openai.BatchInProgress || b.RequestCounts.Total != 100 ||
			b.RequestCounts.Completed+b.RequestCounts.Failed != requestsAtOnce {
			t.Errorf("under way: %+v", b)
		}
		if err := s.Of(ann).Delete(mustBatch(t, s, id).InputFileID); parley.CodeOf(err) != parley.Conflict {
			t.Errorf("the input can be deleted meanwhile: %v", err)
		}
		time.Sleep(time.Minute)
		b := mustBatch(t, s, id)
		if b.Status != openai.BatchCompleted || b.CompletedAt == 0 || b.FinalizingAt == 0 || b.InProgressAt == 0 ||
			b.Metadata["a"] != "b" {
			t.Errorf("%+v", b)
		}
		checkAnswers(t, s, b, 100)
		if most.Load() != requestsAtOnce {
			t.Errorf("%d at once", most.Load())
		}
		stop()
		if left, _ := filepath.Glob(filepath.Join(dir, "batches", "*")); len(left) != 1 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// TestRestarts ends the process again and again, at random times and with torn
// writes, until all is answered.
func TestRestarts(t *testing.T) {
	for seed := range uint64(10) {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			rng := rand.New(rand.NewPCG(seed, 1))
			s := open(t, dir)
			id := create(t, s, input(60))
			starts := 0
			for ; !mustBatch(t, s, id).Status.Over(); starts++ {
				if starts > 100 {
					t.Fatalf("it never ends: %+v", mustBatch(t, s, id))
				}
				stop := run(s, func(ctx context.Context, at string, body []byte) (openai.BatchResponse, error) {
					time.Sleep(time.Duration(body[len(body)-3]%10) * 97 * time.Millisecond)
					return echo(ctx, at, body)
				})
				time.Sleep(time.Duration(rng.IntN(2500)) * time.Millisecond)
				stop()
				s.Close()
				tear(t, rng, filepath.Join(dir, "batches", id+".output"))
				tear(t, rng, filepath.Join(dir, "batches", id+".errors"))
				s = open(t, dir)
			}
			defer s.Close()
			if starts < 3 {
				t.Errorf("%d starts test too little", starts)
			}
			checkAnswers(t, s, mustBatch(t, s, id), 60)
		})
	}
}

// tear does to a file what a crash may do to its end: cut it, add half a line or
// zeros.
func tear(t *testing.T, rng *rand.Rand, path string) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	switch rng.IntN(4) {
	case 0:
		text = text[:len(text)-rng.IntN(len(text)+1)]
	case 1:
		text = append(text, `{"id":"batch_req_x","custom_id":"1`...)
	case 2:
		text = append(text, make([]byte, 100)...)
	}
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestRestartWhileFinalizing puts a complete batch back to where a crash could
// have left it, with and without its published files.
func TestRestartWhileFinalizing(t *testing.T) {
	for _, kept := range []bool{true, false} {
		dir := t.TempDir()
		synctest.Test(t, func(t *testing.T) {
			s := open(t, dir)
			id := create(t, s, input(20))
			stop := run(s, echo)
			time.Sleep(time.Minute)
			stop()
			before := mustBatch(t, s, id)
			rec := s.batches[id]
			for kind, file := range map[string]string{"output": before.OutputFileID, "errors": before.ErrorFileID} {
				if err := os.Link(s.path("files", file+".data"), s.path("batches", id+"."+kind)); err != nil {
					t.Fatal(err)
				}
				if !kept {
					if err := os.Remove(s.path("files", file+".json")); err != nil {
						t.Fatal(err)
					}
				}
			}
			rec.Status, rec.OutputFileID, rec.ErrorFileID = openai.BatchFinalizing, "", ""
			if err := s.describe("batches", id, rec); err != nil {
				t.Fatal(err)
			}
			s.Close()
			s = open(t, dir)
			defer s.Close()
			stop = run(s, func(context.Context, string, []byte) (openai.BatchResponse, error) {
				t.Error("asked again")
				return openai.BatchResponse{}, nil
			})
			time.Sleep(time.Minute)
			stop()
			after := mustBatch(t, s, id)
			if after.Status != openai.BatchCompleted || after.OutputFileID != before.OutputFileID || len(s.files) != 3 {
				t.Errorf("%+v, %d files", after, len(s.files))
			}
			checkAnswers(t, s, after, 20)
		})
	}
}

func TestCancel(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		defer s.Close()
		stop := run(s, echo)
		id := create(t, s, input(100))
		time.Sleep(2500 * time.Millisecond)
		b, err := s.Of(ann).Cancel(id, time.Now())
		if err != nil || b.Status != openai.BatchCancelling || b.CancellingAt == 0 {
			t.Errorf("%+v %v", b, err)
		}
		time.Sleep(time.Second)
		b = mustBatch(t, s, id)
		if b.Status != openai.BatchCancelled || b.CancelledAt == 0 {
			t.Errorf("%+v", b)
		}
		if n := len(results(t, s, b.OutputFileID)) + len(results(t, s, b.ErrorFileID)); n != 2*requestsAtOnce {
			t.Errorf("%d results are kept, want %d", n, 2*requestsAtOnce)
		}
		if again, err := s.Of(ann).Cancel(id, time.Now()); err != nil || again.Status != openai.BatchCancelled {
			t.Errorf("%+v %v", again, err)
		}
		stop()
		// One that was cancelled before anybody began has no results.
		id = create(t, s, input(5))
		if _, err := s.Of(ann).Cancel(id, time.Now()); err != nil {
			t.Fatal(err)
		}
		stop = run(s, echo)
		time.Sleep(time.Second)
		if b := mustBatch(t, s, id); b.Status != openai.BatchCancelled || b.OutputFileID != "" {
			t.Errorf("%+v", b)
		}
		stop()
	})
}

func TestExpiry(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		defer s.Close()
		stop := run(s, func(ctx context.Context, at string, body []byte) (openai.BatchResponse, error) {
			time.Sleep(10 * time.Hour)
			return echo(ctx, at, body)
		})
		id := create(t, s, input(60))
		time.Sleep(31 * time.Hour)
		b := mustBatch(t, s, id)
		if b.Status != openai.BatchExpired || b.ExpiredAt == 0 ||
			b.RequestCounts.Completed+b.RequestCounts.Failed != 60 {
			t.Errorf("%+v", b)
		}
		late := 0
		for _, r := range results(t, s, b.ErrorFileID) {
			if r.Error != nil && r.Error.Code == "batch_expired" && r.Response == nil {
				late++
			}
		}
		if late != 60-2*requestsAtOnce {
			t.Errorf("%d are late", late)
		}
		time.Sleep(40 * 24 * time.Hour)
		stop()
		if len(s.files) != 0 || len(s.batches) != 0 || len(s.used) != 0 {
			t.Errorf("after 40 days: %d files, %d batches, %v", len(s.files), len(s.batches), s.used)
		}
	})
}

func TestTurnedAway(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, dir)
		defer s.Close()
		var asked atomic.Int64
		stop := run(s, func(ctx context.Context, at string, body []byte) (openai.BatchResponse, error) {
			if asked.Add(1) < 4 {
				return openai.BatchResponse{StatusCode: 503, Body: []byte("{}")}, nil
			}
			return echo(ctx, at, body)
		})
		id := create(t, s, input(1))
		time.Sleep(time.Minute)
		if b := mustBatch(t, s, id); b.RequestCounts.Completed != 1 || asked.Load() != 4 {
			t.Errorf("asked %d times: %+v", asked.Load(), b)
		}
		stop()
	})
}

func TestBadInput(t *testing.T) {
	good := strings.TrimSpace(input(1))
	for name, c := range map[string]struct {
		text, code string
		line       int
	}{
		"empty":     {"\n \n", "empty_file", 0},
		"not JSON":  {good + "\n{", "invalid_json_line", 2},
		"no id":     {`{"method":"POST","url":"/v1/completions","body":{}}`, "missing_required_parameter", 1},
		"method":    {strings.Replace(good, "POST", "GET", 1), "invalid_value", 1},
		"endpoint":  {strings.Replace(good, endpoint, "/v1/embeddings", 1), "mismatched_endpoint", 1},
		"duplicate": {good + "\n" + good, "duplicate_custom_id", 2},
		"stream":    {strings.Replace(good, `"prompt"`, `"stream":true,"prompt"`, 1), "invalid_value", 1},
		"many":      {input(6), "too_many_tasks", 7},
		"long":      {`{"custom_id":"` + strings.Repeat("x", 2000) + `"}`, "line_too_long", 0},
	} {
		dir := t.TempDir()
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, err := Open(dir, Limits{Lines: 5, LineBytes: 1000})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				stop := run(s, echo)
				id := create(t, s, c.text)
				time.Sleep(time.Minute)
				stop()
				b := mustBatch(t, s, id)
				if b.Status != openai.BatchFailed || b.FailedAt == 0 || b.Errors == nil ||
					b.Errors.Data[0].Code != c.code || b.Errors.Data[0].Line != c.line {
					t.Errorf("%+v %+v", b, b.Errors)
				}
			})
		})
	}
}

func TestLimits(t *testing.T) {
	s, err := Open(t.TempDir(), Limits{FileBytes: 10, TotalBytes: 15, Files: 2, Batches: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	upload(t, s, "12345678", openai.FilePurpose)
	u, err := s.Of(ann).NewUpload()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := u.Write(make([]byte, 11)); parley.CodeOf(err) != parley.TooLarge {
		t.Errorf("a large file gives %v", err)
	}
	if _, err := u.Write(make([]byte, 8)); parley.CodeOf(err) != parley.QuotaExceeded {
		t.Errorf("a full store gives %v", err)
	}
	if _, err := s.Of(ann).NewUpload(); parley.CodeOf(err) != parley.QuotaExceeded {
		t.Errorf("a third file gives %v", err)
	}
	if err := u.Drop(); err != nil || s.used[ann].Bytes != 8 {
		t.Errorf("%v, %+v", err, s.used[ann])
	}
	create(t, s, "x")
	if _, err := s.Of(ann).Create(&openai.BatchRequest{InputFileID: slices.Collect(maps.Keys(s.files))[0]}, annsKey,
		time.Now()); parley.CodeOf(err) != parley.QuotaExceeded {
		t.Errorf("a second batch gives %v", err)
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	var ids []string
	for i := range 5 {
		u, err := s.Of(ann).NewUpload()
		if err != nil {
			t.Fatal(err)
		}
		f, err := u.Keep(fmt.Sprint(i), openai.FilePurpose, 7200, time.Unix(int64(100+i), 0))
		if err != nil || f.ExpiresAt != f.CreatedAt+7200 {
			t.Fatal(f, err)
		}
		ids = append(ids, f.ID)
	}
	list, err := s.Of(ann).Files(openai.Page{Limit: 2, After: ids[4]})
	if err != nil || len(list.Data) != 2 || list.FirstID != ids[3] || list.LastID != ids[2] || !list.HasMore {
		t.Errorf("%+v %v", list, err)
	}
	list, err = s.Of(ann).Files(openai.Page{Limit: 9, After: ids[2], Ascending: true, Purpose: openai.FilePurpose})
	if err != nil || len(list.Data) != 2 || list.FirstID != ids[3] || list.HasMore {
		t.Errorf("%+v %v", list, err)
	}
	if _, err := s.Of(ann).Files(openai.Page{Limit: 9, After: "file-x"}); parley.CodeOf(err) != parley.NotFound {
		t.Error(err)
	}
	if err := errors.Join(s.Of(ann).Delete(ids[0]), os.WriteFile(s.path("files", "file-x.data"), nil, 0o600),
		os.WriteFile(s.path("files", ids[1]+".json.part"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := s.Of(ann).Delete(ids[0]); parley.CodeOf(err) != parley.NotFound {
		t.Error(err)
	}
	if _, err := Open(dir, Limits{}); !errors.Is(err, ErrInUse) {
		t.Errorf("a second process gets %v", err)
	}
	s.Close()
	s = open(t, dir)
	defer s.Close()
	left, err := os.ReadDir(s.path("files"))
	if err != nil || len(s.files) != 4 || len(left) != 8 {
		t.Errorf("%d files are known, and there are %d: %v", len(s.files), len(left), err)
	}
}

func FuzzValidate(f *testing.F) {
	for _, text := range []string{"", input(3), "{}", strings.Repeat("\n", 100), input(2) + input(1),
		strings.Repeat("x", 300)} {
		f.Add([]byte(text))
	}
	limits := &Limits{Lines: 4, LineBytes: 200}
	f.Fuzz(func(t *testing.T, text []byte) {
		total, faults, err := validate(bytes.NewReader(text), endpoint, limits)
		if err != nil || total > limits.Lines || len(faults) > errorsMax+1 || total == 0 && len(faults) == 0 {
			t.Errorf("%d requests, %d faults, %v", total, len(faults), err)
		}
	})
}

func FuzzRecovered(f *testing.F) {
	f.Add([]byte(`{"id":"a","custom_id":"1","response":null,"error":null}` + "\n" + `{"id":`))
	f.Add([]byte("\x00\x00\n{}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var got []string
		take := func(r *openai.BatchResult) bool {
			got = append(got, r.CustomID)
			return true
		}
		whole, err := recovered(bytes.NewReader(text), take)
		if err != nil || whole > int64(len(text)) || whole > 0 && text[whole-1] != '\n' {
			t.Fatalf("%d of %d bytes, %v", whole, len(text), err)
		}
		first := got
		got = nil
		again, err := recovered(bytes.NewReader(text[:whole]), take)
		if err != nil || again != whole || !slices.Equal(first, got) {
			t.Errorf("what was recovered is not recovered again: %d of %d, %q and %q", again, whole, first, got)
		}
	})
}

// TestOwners shows that what one owner has is not there for another, in whatever
// way it is asked for, also after a restart.
func TestOwners(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	f := upload(t, s, input(1), openai.FilePurpose)
	id := create(t, s, input(2))
	for range 2 {
		his := s.Of(bob)
		_, fileErr := his.File(f.ID)
		_, _, readErr := his.Read(f.ID)
		_, batchErr := his.Batch(id)
		_, cancelErr := his.Cancel(id, time.Now())
		for what, err := range map[string]error{"file": fileErr, "content": readErr, "delete": his.Delete(f.ID),
			"batch": batchErr, "cancel": cancelErr} {
			if parley.CodeOf(err) != parley.NotFound {
				t.Errorf("%s: %v", what, err)
			}
		}
		if _, err := his.Create(&openai.BatchRequest{InputFileID: f.ID, Endpoint: endpoint}, "",
			time.Now()); parley.CodeOf(err) != parley.InvalidRequest {
			t.Errorf("another's file is an input: %v", err)
		}
		files, _ := his.Files(openai.Page{Limit: 10})
		batches, _ := his.Batches(openai.Page{Limit: 10})
		if len(files.Data)+len(batches.Data) != 0 {
			t.Errorf("listed: %v %v", files, batches)
		}
		if mine, err := s.Of(ann).File(f.ID); err != nil || mine.ID != f.ID ||
			mustBatch(t, s, id).Status != openai.BatchValidating {
			t.Errorf("%v, %v", mine, err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = open(t, dir)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}
