package kvstore

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	bucketLatency = 25 * time.Millisecond
	// bucketStreams is how many requests to a bucket one read or renewal has under way.
	bucketStreams = 16
	// bucketStall bounds the wait for the head of an answer where nothing else does.
	bucketStall = 10 * time.Second
	regionGuess = "us-east-1"
)

// A bucket is one of an S3-compatible service. When its objects expire is the bucket's own
// affair: a lifecycle rule.
type bucket struct {
	client *http.Client
	signer signer
	root   url.URL // of the objects
	label  string
}

// openBucket opens s3://[ID:SECRET@]BUCKET[/PREFIX][?endpoint=URL&region=REGION&style=path|virtual].
// Without an endpoint it is Amazon's.
func openBucket(u *url.URL, getenv func(string) string) (place, error) {
	q := u.Query()
	for key := range q {
		if key != "endpoint" && key != "region" && key != "style" {
			return nil, fmt.Errorf("%q is not a parameter of a bucket: use endpoint, region or style", key)
		}
	}
	if u.Host == "" {
		return nil, errors.New("it names no bucket: write s3://bucket/prefix?endpoint=https://host:9000")
	}
	b := &bucket{label: "s3 " + u.Host}
	b.signer = signer{
		id:      getenv("AWS_ACCESS_KEY_ID"),
		secret:  getenv("AWS_SECRET_ACCESS_KEY"),
		session: getenv("AWS_SESSION_TOKEN"),
		region:  cmp.Or(q.Get("region"), getenv("AWS_REGION"), getenv("AWS_DEFAULT_REGION"), regionGuess),
	}
	if secret, ok := u.User.Password(); ok {
		b.signer.id, b.signer.secret, b.signer.session = u.User.Username(), secret, ""
	}
	if b.signer.id == "" || b.signer.secret == "" {
		return nil, errors.New("there are no credentials for the bucket: set AWS_ACCESS_KEY_ID and " +
			"AWS_SECRET_ACCESS_KEY, or write s3://ID:SECRET@bucket into a file for --kv-store-url-file")
	}
	if err := b.locate(u, cmp.Or(q.Get("endpoint"), "https://s3."+b.signer.region+".amazonaws.com"),
		cmp.Or(q.Get("style"), style(q.Get("endpoint")))); err != nil {
		return nil, err
	}
	b.client = &http.Client{
		Transport: &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: dialMax}).DialContext,
			TLSHandshakeTimeout:   dialMax,
			ResponseHeaderTimeout: bucketStall,
			MaxIdleConnsPerHost:   2 * bucketStreams,
			IdleConnTimeout:       time.Minute,
			DisableCompression:    true,
			ReadBufferSize:        64 << 10,
			WriteBufferSize:       64 << 10,
		},
		// A redirect leads to another region or server, for which the signature is not good.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return b, nil
}

// style returns how a bucket is named where the URL does not say: in the host at Amazon, in the
// path elsewhere.
func style(endpoint string) string {
	if endpoint == "" {
		return "virtual"
	}
	return "path"
}

// locate sets the URL of the objects.
func (b *bucket) locate(u *url.URL, endpoint, style string) error {
	root, err := url.Parse(endpoint)
	if err != nil || root.Scheme != "http" && root.Scheme != "https" || root.Host == "" || root.RawQuery != "" {
		return fmt.Errorf("the endpoint %q is not a URL such as https://host:9000", endpoint)
	}
	root.Path = strings.TrimRight(root.Path, "/")
	switch style {
	case "path":
		root.Path += "/" + u.Host
	case "virtual":
		root.Host = u.Host + "." + root.Host
	default:
		return fmt.Errorf("%q is not a style of a bucket: use path or virtual", style)
	}
	if prefix := strings.Trim(u.Path, "/"); prefix != "" {
		root.Path += "/" + prefix
	}
	b.root = *root
	return nil
}

func (b *bucket) name() string           { return b.label }
func (b *bucket) latency() time.Duration { return bucketLatency }
func (b *bucket) close() error           { b.client.CloseIdleConnections(); return nil }

// do sends a request for one object. The caller closes the body of the answer.
func (b *bucket) do(ctx context.Context, method, key string, body []byte) (*http.Response, error) {
	u := b.root
	u.Path += "/" + key
	u.RawPath = escapePath(u.Path)
	r, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	b.signer.sign(r, sha256.Sum256(body), time.Now())
	return b.client.Do(r)
}

// ask sends a request that is answered by its status alone.
func (b *bucket) ask(ctx context.Context, method, key string, body []byte) (there bool, err error) {
	resp, err := b.do(ctx, method, key, body)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode/100 == 2 {
		_, _ = io.CopyN(io.Discard, resp.Body, 4<<10) // so that the connection can be used again
		return true, nil
	}
	return false, missing(method, resp)
}

// missing returns nil if an answer says that there is no such object, otherwise what is wrong.
func missing(method string, resp *http.Response) error {
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<10))
	status := resp.StatusCode
	other := bytes.Contains(text, []byte("<Code>")) && !bytes.Contains(text, []byte("<Code>NoSuchKey</Code>"))
	if status == http.StatusNotFound && method != http.MethodPut && !other {
		return nil
	}
	err := fmt.Errorf("status %d: %s", status, strings.Join(strings.Fields(string(text)), " "))
	switch {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return &fault{errRefused, err}
	case status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable:
		return &fault{errBusy, err}
	case status == http.StatusInsufficientStorage:
		return &fault{errFull, err}
	case status/100 == 3:
		return &fault{errFailing, fmt.Errorf("%w: it leads to another place, %s; name the bucket's endpoint and region",
			err, cmp.Or(resp.Header.Get("X-Amz-Bucket-Region"), resp.Header.Get("Location")))}
	}
	return &fault{errFailing, err}
}

func (b *bucket) read(ctx context.Context, keys []string, into []byte) (n int, err error) {
	size := len(into) / len(keys)
	there, errs := make([]bool, len(keys)), make([]error, len(keys))
	b.each(len(keys), func(i int) bool {
		there[i], errs[i] = b.get(ctx, keys[i], into[i*size:(i+1)*size])
		return there[i]
	})
	for n < len(keys) && there[n] {
		n++
	}
	if n < len(keys) {
		return n, errs[n]
	}
	return n, nil
}

// get reads one object of exactly the size of the room.
func (b *bucket) get(ctx context.Context, key string, room []byte) (there bool, err error) {
	resp, err := b.do(ctx, http.MethodGet, key, nil)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return false, missing(http.MethodGet, resp)
	}
	if n := resp.ContentLength; n >= 0 && n != int64(len(room)) {
		return false, &fault{errDamaged, fmt.Errorf("%d bytes, and not %d", n, len(room))}
	}
	if _, err := io.ReadFull(resp.Body, room); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return false, &fault{errCutOff, err}
		}
		return false, err
	}
	if n, _ := resp.Body.Read(make([]byte, 1)); n > 0 {
		return false, &fault{errDamaged, fmt.Errorf("more than %d bytes", len(room))}
	}
	return true, nil
}

func (b *bucket) renew(ctx context.Context, keys []string) (there []bool, err error) {
	there = make([]bool, len(keys))
	errs := make([]error, len(keys))
	b.each(len(keys), func(i int) bool {
		there[i], errs[i] = b.ask(ctx, http.MethodHead, keys[i], nil)
		return errs[i] == nil
	})
	return there, errors.Join(errs...)
}

// each calls do for the numbers below n, some at a time and the least first. After one that
// returns false no further one begins.
func (b *bucket) each(n int, do func(i int) bool) {
	var mu sync.Mutex
	next := 0
	take := func() (i int, ok bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next <= n
	}
	var all sync.WaitGroup
	for range min(n, bucketStreams) {
		all.Go(func() {
			for i, ok := take(); ok; i, ok = take() {
				if !do(i) {
					mu.Lock()
					next = n
					mu.Unlock()
				}
			}
		})
	}
	all.Wait()
}

func (b *bucket) write(ctx context.Context, key string, value []byte) error {
	_, err := b.ask(ctx, http.MethodPut, key, value)
	return err
}

func (b *bucket) remove(ctx context.Context, key string) error {
	_, err := b.ask(ctx, http.MethodDelete, key, nil)
	return err
}
