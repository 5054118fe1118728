package gateway

import (
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	"parley"
	"parley/gateway/batch"
	"parley/gateway/history"
	"parley/gateway/openai"
)

// Bounds of an upload's parts beside the file.
const (
	uploadPartsMax     = 16
	uploadFieldMax     = 1 << 10
	uploadNameBytesMax = 255
	// uploadWaitMax bounds how long nothing may come of an upload, and how long it may
	// take beside what its bytes need at uploadRateMin a second.
	uploadWaitMax = 60 * time.Second
	uploadRateMin = 64 << 10
	filesPage     = 10_000
)

// fileStore returns where the files and batches of the call's owner are kept.
func (g *Gateway) fileStore(c *call) (*batch.OwnerStore, error) {
	if g.config.Batches == nil {
		return nil, parley.Errorf(parley.Unavailable,
			"This server stores no files: it has no data directory, or another process uses it.")
	}
	return g.config.Batches.Of(history.OwnerOf(c.Identity)).Within(c.fileQuota()), nil
}

// uploadFile answers POST /v1/files.
func (g *Gateway) uploadFile(c *call) error {
	store, err := g.fileStore(c)
	if err != nil {
		return err
	}
	if err := c.sameSite(); err != nil {
		return err
	}
	control := http.NewResponseController(c.Response)
	end := time.Now().Add(uploadTime(c.Request.ContentLength, store.FileBytesMax()))
	body := &patient{Reader: c.Request.Body, extend: func() {
		_ = control.SetReadDeadline(earlier(time.Now().Add(uploadWaitMax), end)) // not every connection has one
	}}
	form, upload, err := readUpload(c.Request.Header.Get("Content-Type"), body, store)
	if err != nil {
		return err // under the deadline, as the server reads on before it answers
	}
	_ = control.SetReadDeadline(time.Time{})
	seconds, err := form.check()
	if err != nil {
		return errors.Join(err, upload.Drop())
	}
	file, err := upload.Keep(form.name, form.purpose, seconds, g.config.Now())
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, file)
}

// uploadTime is how long an upload of a length may take, which is -1 if it is not
// known, and of which no more than most is read.
func uploadTime(length, most int64) time.Duration {
	if length < 0 || length > most {
		length = most
	}
	return uploadWaitMax + time.Duration(length)*time.Second/uploadRateMin
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// A patient reader moves a deadline on before every read.
type patient struct {
	io.Reader
	extend func()
}

// Read reads what comes within the deadline.
func (p *patient) Read(b []byte) (int, error) {
	p.extend()
	return p.Reader.Read(b)
}

// An uploadForm is what an upload says beside the file.
type uploadForm struct {
	name, purpose   string
	anchor, seconds string
}

// check returns for how many seconds the file is kept, 0 for the default.
func (f *uploadForm) check() (seconds int, err error) {
	switch {
	case slices.Contains(openai.FilePurposes, f.purpose):
		return openai.ParseUploadExpiry(f.anchor, f.seconds)
	case f.purpose == "":
		return 0, parley.Invalid("purpose", "Missing required parameter: 'purpose'.")
	}
	return 0, parley.Invalid("purpose", "Invalid 'purpose': '%.64s'. Supported values are: '%s'.", f.purpose,
		strings.Join(openai.FilePurposes, "', '"))
}

// readUpload reads a form of which one part is a file, which goes to the store
// as it comes. The caller keeps the upload or drops it.
func readUpload(contentType string, body io.Reader,
	store *batch.OwnerStore) (form *uploadForm, upload *batch.Upload, err error) {
	kind, params, err := mime.ParseMediaType(contentType)
	if err != nil || kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, nil, parley.Invalid("",
			"The body must be a form, declared with the header 'Content-Type: multipart/form-data'.")
	}
	defer func() {
		if err != nil && upload != nil {
			err, upload = errors.Join(err, upload.Drop()), nil
		}
	}()
	form = &uploadForm{}
	parts := multipart.NewReader(body, params["boundary"])
	for n := 0; ; n++ {
		part, err := parts.NextPart()
		switch {
		case errors.Is(err, io.EOF) && upload == nil:
			return nil, nil, parley.Invalid("file", "Missing required parameter: 'file'.")
		case errors.Is(err, io.EOF):
			return form, upload, nil
		case err != nil:
			return nil, upload, badForm(err)
		case n == uploadPartsMax:
			return nil, upload, parley.Invalid("", "The form has more than %d parts.", uploadPartsMax)
		case part.FormName() != "file":
			err = form.read(part)
		case upload != nil:
			err = parley.Invalid("file", "Invalid 'file': there are two.")
		default:
			if upload, err = store.NewUpload(); err == nil {
				form.name = safeName(part.FileName())
				_, err = io.Copy(upload, formErrors{part})
			}
		}
		if err != nil {
			return nil, upload, err
		}
	}
}

// read takes a part that is a short text. Unknown ones are ignored.
func (f *uploadForm) read(part *multipart.Part) error {
	text, err := io.ReadAll(io.LimitReader(part, uploadFieldMax+1))
	if err != nil {
		return badForm(err)
	}
	if len(text) > uploadFieldMax {
		return parley.Invalid(part.FormName(), "Invalid '%.64s': more than %d bytes.", part.FormName(), uploadFieldMax)
	}
	switch part.FormName() {
	case "purpose":
		f.purpose = string(text)
	case "expires_after[anchor]":
		f.anchor = string(text)
	case "expires_after[seconds]":
		f.seconds = string(text)
	}
	return nil
}

// formErrors makes errors of reading a form the client's own.
type formErrors struct{ io.Reader }

// Read reads the part.
func (f formErrors) Read(b []byte) (int, error) {
	n, err := f.Reader.Read(b)
	if err != nil && !errors.Is(err, io.EOF) {
		err = badForm(err)
	}
	return n, err
}

func badForm(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return parley.Invalid("",
			"The upload was too slow: no data for %v, or fewer than %d bytes a second.",
			uploadWaitMax, uploadRateMin)
	}
	return parley.Invalid("", "The form cannot be read: %v.", err)
}

// safeName returns the last part of a file's name, made fit for showing.
func safeName(name string) string {
	name = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, path.Base(strings.ReplaceAll(name, `\`, "/")))
	if len(name) > uploadNameBytesMax {
		name = strings.ToValidUTF8(name[:uploadNameBytesMax], "")
	}
	if name == "." || name == "/" || name == "" {
		return "file"
	}
	return name
}

// listFiles answers GET /v1/files.
func (g *Gateway) listFiles(c *call) error {
	store, err := g.fileStore(c)
	if err != nil {
		return err
	}
	page, err := openai.ParsePage(c.Request.URL.Query(), filesPage, filesPage)
	if err != nil {
		return err
	}
	list, err := store.Files(page)
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, list)
}

// showFile answers GET /v1/files/{id}.
func (g *Gateway) showFile(c *call) error {
	store, err := g.fileStore(c)
	if err != nil {
		return err
	}
	file, err := store.File(c.Values["id"])
	if err != nil {
		return err
	}
	return c.Reply(http.StatusOK, file)
}

// deleteFile answers DELETE /v1/files/{id}.
func (g *Gateway) deleteFile(c *call) error {
	store, err := g.fileStore(c)
	if err != nil {
		return err
	}
	if err := store.Delete(c.Values["id"]); err != nil {
		return err
	}
	return c.Reply(http.StatusOK, openai.Deletion{ID: c.Values["id"], Object: "file", Deleted: true})
}

// readFile answers GET /v1/files/{id}/content, also with a part of it.
func (g *Gateway) readFile(c *call) error {
	store, err := g.fileStore(c)
	if err != nil {
		return err
	}
	content, file, err := store.Read(c.Values["id"])
	if err != nil {
		return err
	}
	defer content.Close()
	c.Header().Set("Content-Type", "application/octet-stream")
	c.Header().Set("Content-Disposition",
		mime.FormatMediaType("attachment", map[string]string{"filename": file.Filename}))
	c.Header().Set("X-Content-Type-Options", "nosniff")
	http.ServeContent(c.Response, c.Request, "", time.Unix(file.CreatedAt, 0), content)
	return nil
}

// sameSite refuses a call that a web page of another site makes, for bodies
// that browsers send without asking.
func (c *call) sameSite() error {
	protection := http.NewCrossOriginProtection()
	if origin := c.Request.Header.Get("Origin"); origin != "" && c.gateway.originAllowed(origin) {
		return nil
	}
	if err := protection.Check(c.Request); err != nil {
		return parley.Errorf(parley.Forbidden, "Pages of other sites may not do this.")
	}
	return nil
}
