package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

const (
	partSuffix  = ".part"
	stateSuffix = ".part.json"
	// saveEvery is how much work a crash of the process may lose.
	saveEvery = time.Second
)

// A state says how far a partial file has come. Done[i] bytes of range i are on disk.
type state struct {
	Size   int64   `json:"size"`
	Sum    string  `json:"sum"`
	Stride int64   `json:"stride"`
	Done   []int64 `json:"done"`
}

// identity is what must be equal for pieces to belong to one file.
func (f *File) identity() string { return or(f.SHA256, or(f.GitSHA1, f.ETag)) }

func newState(f *File, stride int64) *state {
	return &state{f.Size, f.identity(), stride, make([]int64, (f.Size+stride-1)/stride)}
}

// readState returns the state of a partial file that was left behind, if it is of this
// file and can be right.
func readState(path string, f *File) (*state, error) {
	text, err := os.ReadFile(path + stateSuffix)
	if err != nil {
		return nil, err
	}
	var s state
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	info, err := os.Stat(path + partSuffix)
	if err != nil {
		return nil, err
	}
	if s.Size != f.Size || s.Sum != f.identity() || s.Sum == "" || info.Size() != f.Size || s.Stride <= 0 ||
		int64(len(s.Done)) != (s.Size+s.Stride-1)/s.Stride {
		return nil, errors.New("another file")
	}
	for i := range s.Done {
		if s.Done[i] < 0 || s.Done[i] > s.length(i) {
			return nil, errors.New("a range is longer than it can be")
		}
	}
	return &s, nil
}

// length returns how many bytes range i has.
func (s *state) length(i int) int64 { return min(s.Stride, s.Size-int64(i)*s.Stride) }

func (s *state) done() (sum int64) {
	for i := range s.Done {
		sum += atomic.LoadInt64(&s.Done[i])
	}
	return sum
}

// A partial is a file that is being downloaded.
type partial struct {
	client *Client
	of     *File
	path   string
	file   *os.File
	state  *state
	report func(int64)
	saving sync.Mutex
	saved  time.Time
}

// download brings a partial file to its full size. resumed reports whether some of it
// was there before.
func (c *Client) download(ctx context.Context, path string, f *File, report func(int64)) (resumed bool, err error) {
	s, err := readState(path, f)
	if resumed = err == nil; !resumed {
		s = newState(f, c.RangeBytes)
	}
	file, err := os.OpenFile(path+partSuffix, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return resumed, err
	}
	p := &partial{
		client: c,
		of:     f,
		path:   path,
		file:   file,
		state:  s,
		report: report,
	}
	defer func() { err = errors.Join(err, p.save(), file.Close()) }()
	if err := file.Truncate(f.Size); err != nil {
		return resumed, err
	}
	had := s.done()
	resumed = had > 0
	report(had)
	err = p.ranges(ctx)
	if errors.Is(err, errNoRanges) {
		report(-s.done())
		p.state = newState(f, max(f.Size, 1))
		err = c.attempt(ctx, f.Path, p.whole)
	}
	return resumed, err
}

// errNoRanges says that the server sends whole files alone.
var errNoRanges = errors.New("the server does not send ranges")

// ranges fetches what is missing, some ranges at a time. The first failure ends all.
func (p *partial) ranges(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int, len(p.state.Done))
	for i := range p.state.Done {
		next <- i
	}
	close(next)
	var running sync.WaitGroup
	for range min(p.client.Parallel, len(p.state.Done)) {
		running.Go(func() {
			for i := range next {
				if ctx.Err() != nil {
					return
				}
				try := func(ctx context.Context) (int64, error) { return p.fetchRange(ctx, i) }
				if err := p.client.attempt(ctx, p.of.Path, try); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// fetchRange asks for the rest of range i and writes what comes.
func (p *partial) fetchRange(ctx context.Context, i int) (int64, error) {
	s := p.state
	first := int64(i)*s.Stride + s.Done[i]
	last := int64(i)*s.Stride + s.length(i) - 1
	if first > last {
		return 0, nil
	}
	res, err := p.get(ctx, fmt.Sprintf("bytes=%d-%d", first, last))
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	switch res.StatusCode {
	case http.StatusPartialContent:
	case http.StatusOK:
		if len(s.Done) > 1 || first > 0 {
			return 0, errNoRanges
		}
		if err := p.checkWhole(res); err != nil {
			return 0, err
		}
		return p.copy(ctx, res.Body, &s.Done[i], 0, s.Size)
	case http.StatusRequestedRangeNotSatisfiable:
		return 0, errorf(Refused, "%s: the server's file is shorter than %d bytes", p.of.Path, s.Size)
	default:
		return 0, p.client.statusError(res, p.of.Path)
	}
	if want := fmt.Sprintf("bytes %d-%d/%d", first, last, s.Size); res.Header.Get("Content-Range") != want {
		sent := res.Header.Get("Content-Range")
		return 0, errorf(Refused, "%s: asked for %q, the server sent %q", p.of.Path, want, sent)
	}
	if err := p.checkVersion(res); err != nil {
		return 0, err
	}
	return p.copy(ctx, res.Body, &s.Done[i], first, last-first+1)
}

// checkVersion refuses pieces of another version of a file that is known by its ETag.
func (p *partial) checkVersion(res *http.Response) error {
	tag := res.Header.Get("ETag")
	if p.of.SHA256 == "" && p.of.GitSHA1 == "" && p.of.ETag != "" && tag != "" && tag != p.of.ETag {
		return errorf(Mismatch, "%s changed on the server while it was downloaded: run the command again", p.of.Path)
	}
	return nil
}

// checkWhole refuses a whole file that is not the one that was promised.
func (p *partial) checkWhole(res *http.Response) error {
	if res.ContentLength >= 0 && res.ContentLength != p.of.Size {
		return errorf(Mismatch, "%s: the server sends %d bytes where %d were promised",
			p.of.Path, res.ContentLength, p.of.Size)
	}
	return p.checkVersion(res)
}

// whole downloads the file as one stream, from its beginning.
func (p *partial) whole(ctx context.Context) (int64, error) {
	p.report(-p.state.Done[0])
	atomic.StoreInt64(&p.state.Done[0], 0)
	res, err := p.get(ctx, "")
	if err != nil {
		return 0, err
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return 0, p.client.statusError(res, p.of.Path)
	}
	if err := p.checkWhole(res); err != nil {
		return 0, err
	}
	_, err = p.copy(ctx, res.Body, &p.state.Done[0], 0, p.of.Size)
	return 0, err // a stream that cannot be continued has brought nothing that stays
}

// get sends one request. The body ends with an error when it brings nothing for
// as long as Stall.
func (p *partial) get(ctx context.Context, asked string) (*http.Response, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	r, err := p.client.request(ctx, http.MethodGet, p.of.URL)
	if err != nil {
		cancel(nil)
		return nil, err
	}
	if asked != "" {
		r.Header.Set("Range", asked)
	}
	res, err := p.client.HTTP.Do(r)
	if err != nil {
		cancel(nil)
		return nil, connectionError(err, p.of.Path)
	}
	res.Body = newStallGuard(res.Body, p.client.Stall, cancel)
	return res, nil
}

// copy writes the wanted bytes at an offset, counts them in done, and saves the state
// now and then. It returns how many came.
func (p *partial) copy(ctx context.Context, from io.Reader, done *int64, offset, want int64) (n int64, err error) {
	buffer := make([]byte, 256<<10)
	for n < want {
		k, err := from.Read(buffer[:min(int64(len(buffer)), want-n)])
		if k > 0 {
			if _, err := p.file.WriteAt(buffer[:k], offset+n); err != nil {
				return n, err
			}
			n += int64(k)
			atomic.AddInt64(done, int64(k))
			p.report(int64(k))
			if err := p.saveSometimes(); err != nil {
				return n, err
			}
		}
		if n == want {
			break
		}
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return n, connectionError(err, p.of.Path)
		}
	}
	return n, ctx.Err()
}

func (p *partial) saveSometimes() error {
	if !p.saving.TryLock() {
		return nil
	}
	defer p.saving.Unlock()
	if time.Since(p.saved) < saveEvery {
		return nil
	}
	return p.write()
}

func (p *partial) save() error {
	p.saving.Lock()
	defer p.saving.Unlock()
	return p.write()
}

// write stores the state. The counts are taken before the data is forced to the disk,
// so that the state never claims bytes that a crash could lose.
func (p *partial) write() error {
	s := *p.state
	s.Done = make([]int64, len(p.state.Done))
	for i := range s.Done {
		s.Done[i] = atomic.LoadInt64(&p.state.Done[i])
	}
	if err := p.file.Sync(); err != nil {
		return err
	}
	text, err := json.Marshal(&s)
	if err != nil {
		return err
	}
	temporary := p.path + stateSuffix + ".new"
	if err := os.WriteFile(temporary, text, 0o644); err != nil {
		return err
	}
	p.saved = time.Now()
	return os.Rename(temporary, p.path+stateSuffix)
}

// A stallGuard is a body that is cancelled when it brings nothing for too long.
type stallGuard struct {
	io.ReadCloser
	stall  time.Duration
	timer  *time.Timer
	cancel context.CancelCauseFunc
}

func newStallGuard(body io.ReadCloser, stall time.Duration, cancel context.CancelCauseFunc) *stallGuard {
	w := &stallGuard{ReadCloser: body, stall: stall, cancel: cancel}
	w.timer = time.AfterFunc(stall, func() { cancel(fmt.Errorf("nothing came for %s", stall)) })
	return w
}

// Read gives the body more time whenever something comes.
func (w *stallGuard) Read(p []byte) (int, error) {
	n, err := w.ReadCloser.Read(p)
	if n > 0 {
		w.timer.Reset(w.stall)
	}
	return n, err
}

// Close ends the request.
func (w *stallGuard) Close() error {
	w.timer.Stop()
	w.cancel(nil)
	return w.ReadCloser.Close()
}

// Head returns the first bytes of a file, as many as n or all of it.
func (c *Client) Head(ctx context.Context, f *File, n int64) (head []byte, err error) {
	p := &partial{client: c.prepared(), of: f}
	n = min(n, f.Size)
	err = p.client.attempt(ctx, f.Path, func(ctx context.Context) (int64, error) {
		res, err := p.get(ctx, fmt.Sprintf("bytes=0-%d", n-1))
		if err != nil {
			return 0, err
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusPartialContent && res.StatusCode != http.StatusOK {
			return 0, p.client.statusError(res, f.Path)
		}
		head = make([]byte, n)
		if _, err := io.ReadFull(res.Body, head); err != nil {
			return 0, connectionError(err, f.Path)
		}
		return n, nil
	})
	return head, err
}
