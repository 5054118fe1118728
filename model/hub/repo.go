package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"regexp"
	"strings"
)

// A Repo is a repository at one commit.
type Repo struct {
	ID string `json:"id"`
	// Commit names the state that was listed. Files are downloaded from it, even if the
	// repository changes in the meantime.
	Commit string `json:"commit"`
	// License is its short name, empty if the repository names none.
	License string `json:"license,omitempty"`
	Files   []File `json:"files"`
}

// A File is what can be downloaded, and how it is known to be right.
type File struct {
	// Path is where it lies in the repository, and under the directory of a download.
	Path string `json:"path"`
	Size int64  `json:"size"`
	// SHA256 is the checksum of files in large file storage, GitSHA1 the object name of
	// the others, both as hex. ETag is what identifies the version of a plain URL.
	SHA256  string `json:"sha256,omitempty"`
	GitSHA1 string `json:"git_sha1,omitempty"`
	ETag    string `json:"etag,omitempty"`
	// URL is where it comes from.
	URL string `json:"url"`
}

const (
	// listBytesMax bounds what a listing may be: the largest real ones have 2 MB.
	listBytesMax = 32 << 20
	filesMax     = 10_000
	// FileBytesMax is more than any model file has.
	FileBytesMax = 4 << 40
)

var (
	repoID   = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,95}/[A-Za-z0-9][A-Za-z0-9._-]{0,95}$`)
	revision = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/-]{0,199}$`)
	commitID = regexp.MustCompile(`^[0-9a-f]{40}$`)
	sha256ID = regexp.MustCompile(`^[0-9a-f]{64}$`)
)

// IsRepoID reports whether the text can name a repository: ORGANISATION/NAME.
func IsRepoID(text string) bool { return repoID.MatchString(text) && !strings.Contains(text, "..") }

// listing is what the Hub says of a repository.
type listing struct {
	ID       string   `json:"id"`
	SHA      string   `json:"sha"`
	Tags     []string `json:"tags"`
	Siblings []struct {
		Name   string `json:"rfilename"`
		Size   *int64 `json:"size"`
		BlobID string `json:"blobId"`
		LFS    *struct {
			SHA256 string `json:"sha256"`
			Size   int64  `json:"size"`
		} `json:"lfs"`
	} `json:"siblings"`
}

// Repo lists a repository at a revision: a branch, a tag or a commit; empty is main.
func (c *Client) Repo(ctx context.Context, id, rev string) (*Repo, error) {
	rev = or(rev, "main")
	if !IsRepoID(id) {
		return nil, errorf(Refused, "%q is not the name of a repository, such as Qwen/Qwen3-0.6B-GGUF", id)
	}
	if !revision.MatchString(rev) || strings.Contains(rev, "..") {
		return nil, errorf(Refused, "%q is not a branch, tag or commit", rev)
	}
	p := c.prepared()
	var list listing
	address := fmt.Sprintf("%s/api/models/%s/revision/%s?blobs=true", p.Endpoint, id, url.PathEscape(rev))
	if err := p.getJSON(ctx, address, id, &list); err != nil {
		return nil, err
	}
	return p.read(&list, id)
}

// read checks a listing: what it says decides where bytes are written.
func (c *Client) read(list *listing, id string) (*Repo, error) {
	if !commitID.MatchString(list.SHA) {
		return nil, errorf(Refused, "%s: the server names the commit %q, which is not one", id, list.SHA)
	}
	if len(list.Siblings) > filesMax {
		return nil, errorf(Refused, "%s: the server lists %d files, more than %d", id, len(list.Siblings), filesMax)
	}
	repo := &Repo{ID: id, Commit: list.SHA}
	for _, tag := range list.Tags {
		if name, ok := strings.CutPrefix(tag, "license:"); ok {
			repo.License = name
		}
	}
	for _, s := range list.Siblings {
		address := c.Endpoint + "/" + id + "/resolve/" + list.SHA + "/" + escapePath(s.Name)
		f := File{Path: s.Name, GitSHA1: s.BlobID, URL: address}
		if s.Size != nil {
			f.Size = *s.Size
		}
		if s.LFS != nil {
			f.Size, f.SHA256, f.GitSHA1 = s.LFS.Size, s.LFS.SHA256, ""
		}
		if err := f.check(); err != nil {
			return nil, fmt.Errorf("%s: %w", id, err)
		}
		repo.Files = append(repo.Files, f)
	}
	return repo, nil
}

func escapePath(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = url.PathEscape(parts[i])
	}
	return strings.Join(parts, "/")
}

// check refuses files that cannot be written where they say, or cannot be verified.
func (f *File) check() error {
	if err := CheckPath(f.Path); err != nil {
		return err
	}
	switch {
	case f.Size < 0 || f.Size > FileBytesMax:
		return errorf(Refused, "%s is said to have %d bytes, which cannot be", f.Path, f.Size)
	case f.SHA256 != "" && !sha256ID.MatchString(f.SHA256):
		return errorf(Refused, "%s has the checksum %q, which is not a SHA-256", f.Path, f.SHA256)
	case f.SHA256 == "" && f.GitSHA1 != "" && !commitID.MatchString(f.GitSHA1):
		return errorf(Refused, "%s has the object name %q, which is not a SHA-1", f.Path, f.GitSHA1)
	}
	return nil
}

// CheckPath refuses paths that could lie outside of a directory, hide there, or mean
// something else on another system.
func CheckPath(name string) error {
	bad := name == "" || len(name) > 255 || path.Clean(name) != name || path.IsAbs(name)
	for part := range strings.SplitSeq(name, "/") {
		bad = bad || part == "" || part == ".." || strings.HasSuffix(part, " ") || strings.HasSuffix(part, ".")
	}
	for _, r := range name {
		bad = bad || r < ' ' || r == 0x7f || strings.ContainsRune(`\:*?"<>|`, r)
	}
	if bad {
		return errorf(Refused, "the server offers a file named %q, which is not a safe name", name)
	}
	return nil
}

// getJSON reads one JSON document.
func (c *Client) getJSON(ctx context.Context, address, what string, into any) error {
	return c.attempt(ctx, what, func(ctx context.Context) (int64, error) {
		r, err := c.request(ctx, http.MethodGet, address)
		if err != nil {
			return 0, err
		}
		res, err := c.HTTP.Do(r)
		if err != nil {
			return 0, connectionError(err, what)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			return 0, c.statusError(res, what)
		}
		text, err := io.ReadAll(io.LimitReader(res.Body, listBytesMax+1))
		if err != nil {
			return 0, connectionError(err, what)
		}
		if len(text) > listBytesMax {
			return 0, errorf(Refused, "%s: the server's list has more than %d bytes", what, listBytesMax)
		}
		if err := json.Unmarshal(text, into); err != nil {
			return 0, errorf(Broken, "%s: the server's answer is not the list of a repository: %v", what, err)
		}
		return 0, nil
	})
}

// Stat asks a plain web server for a file: its size and version. The path is the last
// part of the address.
func (c *Client) Stat(ctx context.Context, address string) (File, error) {
	u, err := url.Parse(address)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return File{}, errorf(Refused, "%q is not the address of a file", address)
	}
	f := File{Path: path.Base(u.Path), URL: address}
	if err := CheckPath(f.Path); err != nil {
		return File{}, err
	}
	p := c.prepared()
	err = p.attempt(ctx, f.Path, func(ctx context.Context) (int64, error) { return 0, p.head(ctx, &f) })
	if err != nil {
		return File{}, err
	}
	return f, f.check()
}

func (c *Client) head(ctx context.Context, f *File) error {
	r, err := c.request(ctx, http.MethodHead, f.URL)
	if err != nil {
		return err
	}
	res, err := c.HTTP.Do(r)
	if err != nil {
		return connectionError(err, f.Path)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		return c.statusError(res, f.Path)
	}
	if res.ContentLength < 0 {
		return errorf(Broken, "%s: the server does not say how large the file is", f.Path)
	}
	f.Size, f.ETag = res.ContentLength, res.Header.Get("ETag")
	linked := res
	for linked.Request != nil && linked.Request.Response != nil {
		linked = linked.Request.Response
	}
	if tag := strings.Trim(linked.Header.Get("X-Linked-Etag"), `"`); sha256ID.MatchString(tag) {
		f.SHA256 = tag
	}
	return nil
}

// connectionError is a failure of the network, which may pass.
func connectionError(err error, what string) error {
	if e, ok := errors.AsType[*Error](err); ok { // a redirect that is refused
		return e
	}
	return &temporary{errorf(Broken, "%s: the connection failed: %v", what, withoutQuery(err)), 0}
}

// withoutQuery leaves the query out of the address in an error: those of blob storage
// hold signatures.
func withoutQuery(err error) error {
	if e, ok := errors.AsType[*url.Error](err); ok {
		if u, bad := url.Parse(e.URL); bad == nil {
			u.RawQuery, u.User = "", nil
			return &url.Error{Op: e.Op, URL: u.String(), Err: e.Err}
		}
	}
	return err
}
