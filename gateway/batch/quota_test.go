package batch

import (
	"io"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/openai"
)

// must returns v, if there is no error.
func must[T any](v T, err error) func(t *testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// keep uploads a text as a file.
func keep(s *OwnerStore, text string) (openai.File, error) {
	u, err := s.NewUpload()
	if err != nil {
		return openai.File{}, err
	}
	if _, err := io.Copy(u, strings.NewReader(text)); err != nil {
		_ = u.Drop()
		return openai.File{}, err
	}
	return u.Keep("f", openai.FilePurpose, 0, time.Now())
}

// TestQuotasAreOfAnOrganisation has one tenant use up all it may keep: another
// one's first file and batch are taken, and what is deleted makes room.
func TestQuotasAreOfAnOrganisation(t *testing.T) {
	dir := t.TempDir()
	s := must(Open(dir, Limits{Files: 2, TotalBytes: 100, Batches: 1}))(t)
	refused := func(err error, says string) {
		t.Helper()
		if parley.CodeOf(err) != parley.QuotaExceeded || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want that it says %q", err, says)
		}
	}
	x, y := s.Of(convo.Owner{Tenant: "x", User: "u"}), s.Of(convo.Owner{Tenant: "y"})
	first := must(keep(x, "one"))(t)
	must(keep(s.Of(convo.Owner{Tenant: "x", User: "v"}), "two"))(t)
	_, err := keep(x, "three")
	refused(err, "Your organisation may store 2 files, and 2 are stored. Delete some with DELETE /v1/files/{id}.")
	mine := must(keep(y, strings.Repeat("y", 90)))(t)
	_, err = keep(y, strings.Repeat("y", 11))
	refused(err, "Your organisation may store 100 bytes of files, and 90 are stored.")
	ask := func(s *OwnerStore, file string) error {
		_, err := s.Create(&openai.BatchRequest{InputFileID: file, Endpoint: "/v1/chat/completions"}, "", time.Now())
		return err
	}
	must(0, ask(x, first.ID))(t)
	refused(ask(x, first.ID), "may store 1 batches")
	must(0, ask(y, mine.ID))(t)
	wide := x.Within(Quota{Files: 5, UserFiles: 1})
	_, err = keep(wide, "three")
	refused(err, "You may store 1 files, and 1 are stored")
	must(keep(s.Of(convo.Owner{Tenant: "x", User: "v"}).Within(Quota{Files: 5}), "three"))(t)
	before, _ := x.Usage()
	must(0, s.Close())(t)
	s = must(Open(dir, Limits{}))(t)
	defer s.Close()
	if after, user := s.Of(convo.Owner{Tenant: "x", User: "u"}).Usage(); after != before ||
		after != (Usage{3, 11, 1}) || user != (Usage{1, 3, 1}) {
		t.Errorf("before a restart %+v, after it %+v, of the user %+v", before, after, user)
	}
}

// TestQuotasOfManyUploads takes files and batches from many clients at the same time:
// together they have no more than one of them could have had.
func TestQuotasOfManyUploads(t *testing.T) {
	s := must(Open(t.TempDir(), Limits{}))(t)
	defer s.Close()
	first := must(keep(s.Of(convo.Owner{Tenant: "x", User: "u"}), "0123456789"))(t)
	for _, c := range []struct {
		what  string
		quota Quota
		room  int
		write func(*OwnerStore) error
	}{
		{"files", Quota{Files: 4}, 3, func(x *OwnerStore) error { _, err := keep(x, "0123456789"); return err }},
		{"bytes", Quota{Bytes: 75}, 3, func(x *OwnerStore) error { _, err := keep(x, "0123456789"); return err }},
		{"batches", Quota{UserBatches: 5}, 5, func(x *OwnerStore) error {
			_, err := x.Create(&openai.BatchRequest{InputFileID: first.ID, Endpoint: "/v1/chat/completions"}, "",
				time.Now())
			return err
		}},
	} {
		var taken atomic.Int64
		var clients sync.WaitGroup
		for range 16 {
			clients.Go(func() {
				switch err := c.write(s.Of(convo.Owner{Tenant: "x", User: "u"}).Within(c.quota)); {
				case err == nil:
					taken.Add(1)
				case parley.CodeOf(err) != parley.QuotaExceeded:
					t.Errorf("%s: %v", c.what, err)
				}
			})
		}
		clients.Wait()
		if int(taken.Load()) > c.room || c.what != "bytes" && int(taken.Load()) < c.room {
			t.Errorf("%s: %d were taken, and there is room for %d", c.what, taken.Load(), c.room)
		}
	}
}

// TestFilesLeaveRoomOnTheDisk takes no file when the disk is nearly full, nor the rest
// of one that fills it.
func TestFilesLeaveRoomOnTheDisk(t *testing.T) {
	s := must(Open(t.TempDir(), Limits{}))(t)
	defer s.Close()
	free := int64(diskReserve + 12<<20)
	s.free = func(string) int64 { return free }
	x := s.Of(convo.Owner{Tenant: "x"})
	must(keep(x, "small"))(t)
	u := must(x.NewUpload())(t)
	must(u.Write(make([]byte, 7<<20)))(t)
	free = diskReserve
	if _, err := u.Write(make([]byte, 2<<20)); parley.CodeOf(err) != parley.Unavailable {
		t.Errorf("a file that fills the disk: %v", err)
	}
	must(0, u.Drop())(t)
	free--
	if _, err := keep(x, "small"); parley.CodeOf(err) != parley.Unavailable ||
		!strings.Contains(err.Error(), "disk has") {
		t.Errorf("on a full disk: %v", err)
	}
}
