package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/batch"
	"parley/gateway/convo"
	"parley/gateway/openai"
)

// startWithBatches serves w with a store of files and batches in dir.
func startWithBatches(t *testing.T, w parley.Worker, dir string) *server {
	t.Helper()
	store, err := batch.Open(dir, batch.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { store.Close() })
	s := start(t, w, func(c *Config) { c.Batches = store })
	t.Cleanup(func() { s.gateway.Close(t.Context()) })
	return s
}

// form returns a body with the parts, each a name and a text; the one called file
// is a file.
func form(parts ...string) (contentType, body string) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(parts); i += 2 {
		if parts[i] == "file" {
			part, _ := w.CreateFormFile("file", `C:\dir/input.jsonl`)
			io.WriteString(part, parts[i+1])
		} else {
			w.WriteField(parts[i], parts[i+1])
		}
	}
	w.Close()
	return w.FormDataContentType(), b.String()
}

func (s *server) upload(parts ...string) (int, string) {
	s.t.Helper()
	contentType, body := form(parts...)
	response, text := s.do("POST", "/v1/files", body, "Content-Type", contentType)
	return response.StatusCode, text
}

// decode reads an answer as T.
func decode[T any](t *testing.T, body string) (v T) {
	t.Helper()
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	return v
}

func TestFiles(t *testing.T) {
	published := loadSchema(t)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := startWithBatches(t, &worker{}, dir)
		status, body := s.upload("file", "line\n", "purpose", "batch", "expires_after[anchor]", "created_at",
			"expires_after[seconds]", "3600")
		published.want(t, "OpenAIFile", body)
		f := decode[openai.File](t, body)
		if status != 200 || f.Bytes != 5 || f.Filename != "input.jsonl" || f.ExpiresAt != f.CreatedAt+3600 {
			t.Errorf("%d: %s", status, body)
		}
		_, other := s.upload("purpose", "batch", "file", "")
		_, body = s.do("GET", "/v1/files?limit=1&order=asc", "")
		published.want(t, "ListFilesResponse", body)
		if list := decode[openai.FileList](t, body); len(list.Data) != 1 || !list.HasMore {
			t.Errorf("%s", body)
		}
		_, body = s.do("GET", "/v1/files/"+f.ID, "")
		published.want(t, "OpenAIFile", body)
		response, body := s.do("GET", "/v1/files/"+f.ID+"/content", "")
		if body != "line\n" || response.Header.Get("Content-Disposition") != "attachment; filename=input.jsonl" {
			t.Errorf("%q %v", body, response.Header)
		}
		_, body = s.do("DELETE", "/v1/files/"+f.ID, "")
		published.want(t, "DeleteFileResponse", body)
		for _, path := range []string{"/v1/files/" + f.ID, "/v1/files/" + f.ID + "/content", "/v1/batches/x"} {
			if response, body := s.do("GET", path, ""); response.StatusCode != 404 ||
				!strings.Contains(body, "No such ") {
				t.Errorf("%s gives %d: %s", path, response.StatusCode, body)
			}
		}
		if decode[openai.File](t, other).Bytes != 0 {
			t.Error(other)
		}
		s.wantMetric(`parley_http_requests_total{code="200",route="/v1/files/{id}/content"}`, "1")
	})
}

func TestUploadRefusals(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := startWithBatches(t, &worker{}, dir)
		many := []string{"file", "x"}
		for i := range 20 {
			many = append(many, fmt.Sprint(i), "x")
		}
		for _, c := range []struct {
			parts []string
			want  string
		}{
			{[]string{"purpose", "batch"}, `"param":"file"`},
			{[]string{"file", "x"}, `"param":"purpose"`},
			{[]string{"file", "x", "purpose", "fun"}, `Supported values are: 'batch', 'user_data'`},
			{[]string{"file", "x", "file", "y", "purpose", "batch"}, `there are two`},
			{[]string{"file", "x", "purpose", strings.Repeat("x", 2000)}, `more than 1024 bytes`},
			{[]string{"file", "x", "purpose", "batch", "expires_after[anchor]", "created_at", "expires_after[seconds]",
				"1"}, `"param":"expires_after[seconds]"`},
			{many, `more than 16 parts`},
		} {
			if status, body := s.upload(c.parts...); status != 400 || !strings.Contains(body, c.want) {
				t.Errorf("%.60q gives %d: %s", c.parts, status, body)
			}
		}
		contentType, body := form("file", strings.Repeat("x", 5000), "purpose", "batch")
		for kind, text := range map[string]string{"application/json": "{}", "multipart/form-data": "x",
			contentType: body[:len(body)/2]} {
			if response, answer := s.do("POST", "/v1/files", text, "Content-Type", kind); response.StatusCode != 400 {
				t.Errorf("%s gives %d: %s", kind, response.StatusCode, answer)
			}
		}
		response, _ := s.do("POST", "/v1/files", body, "Content-Type", contentType, "Origin", "https://evil.example",
			"Sec-Fetch-Site", "cross-site")
		if response.StatusCode != 403 {
			t.Errorf("a page of another site gets %d", response.StatusCode)
		}
		if left, _ := os.ReadDir(filepath.Join(dir, "files")); len(left) != 0 {
			t.Errorf("%d files are left", len(left))
		}
		none := start(t, &worker{})
		if status, body := none.upload("file", "x", "purpose", "batch"); status != 503 {
			t.Errorf("a server without a directory gives %d: %s", status, body)
		}
	})
}

func TestBatch(t *testing.T) {
	published := loadSchema(t)
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "A b", time.Second)}
		s := startWithBatches(t, w, dir)
		var lines strings.Builder
		for i := range 3 {
			lines.WriteString(fmt.Sprintf(
				`{"custom_id":"c%d","method":"POST","url":"/v1/chat/completions","body":%s}`+"\n", i, chatBody("")))
		}
		lines.WriteString(
			`{"custom_id":"bad","method":"POST","url":"/v1/chat/completions","body":{"model":"nope","messages":[{"role":"user","content":"x"}]}}`)
		_, body := s.upload("purpose", "batch", "file", lines.String())
		input := decode[openai.File](t, body)
		_, body = s.do("POST", "/v1/batches",
			`{"input_file_id":"`+input.ID+
				`","endpoint":"/v1/chat/completions","completion_window":"24h","metadata":{"k":"v"}}`)
		published.want(t, "Batch", body)
		id := decode[openai.Batch](t, body).ID
		time.Sleep(time.Minute)
		_, body = s.do("GET", "/v1/batches/"+id, "")
		published.want(t, "Batch", body)
		done := decode[openai.Batch](t, body)
		if done.Status != openai.BatchCompleted ||
			done.RequestCounts != (openai.BatchRequestCounts{Total: 4, Completed: 3, Failed: 1}) {
			t.Fatalf("%s", body)
		}
		_, output := s.do("GET", "/v1/files/"+done.OutputFileID+"/content", "")
		for line := range strings.Lines(output) {
			r := decode[openai.BatchResult](t, line)
			published.want(t, "CreateChatCompletionResponse", string(r.Response.Body))
			if r.Response.StatusCode != 200 || !strings.HasPrefix(r.Response.RequestID, "req_") ||
				!strings.Contains(line, `"error":null`) {
				t.Errorf("%s", line)
			}
		}
		_, failures := s.do("GET", "/v1/files/"+done.ErrorFileID+"/content", "")
		if r := decode[openai.BatchResult](t, failures); r.CustomID != "bad" || r.Response.StatusCode != 404 ||
			!strings.Contains(string(r.Response.Body), "model_not_found") {
			t.Errorf("%s", failures)
		}
		for _, r := range w.asked {
			if !r.Background {
				t.Errorf("%s is not in the background", r.ID)
			}
		}
		_, body = s.do("GET", "/v1/batches", "")
		published.want(t, "ListBatchesResponse", body)
		response, body := s.do("POST", "/v1/batches/"+id+"/cancel", "")
		if response.StatusCode != 409 || response.Header.Get("X-Should-Retry") != "false" ||
			!strings.Contains(body, "Cannot cancel a batch with status 'completed'") {
			t.Errorf("%d: %s", response.StatusCode, body)
		}
		s.wantMetric(`parley_ttft_seconds_count{objective="default"}`, "0")
		s.settled(w)
	})
}

// TestBatchGoesOnAfterDrain ends a server in the middle of a batch: nothing fails
// of it, and the next server completes it.
func TestBatchGoesOnAfterDrain(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "A", time.Second)}
		s := startWithBatches(t, w, dir)
		var lines strings.Builder
		for i := range 40 {
			lines.WriteString(
				fmt.Sprintf(
					`{"custom_id":"%d","method":"POST","url":"/v1/completions","body":{"model":"%s","prompt":"x"}}`+
						"\n", i, modelID))
		}
		_, body := s.upload("purpose", "batch", "file", lines.String())
		_, body = s.do("POST", "/v1/batches", `{"input_file_id":"`+decode[openai.File](t,
			body).ID+`","endpoint":"/v1/completions","completion_window":"24h"}`)
		id := decode[openai.Batch](t, body).ID
		time.Sleep(1500 * time.Millisecond)
		s.gateway.Drain()
		time.Sleep(10 * time.Second)
		s.gateway.Close(t.Context())
		s.gateway.config.Batches.Close()
		if n := w.active.Load(); n != 0 {
			t.Errorf("%d requests are still with the worker", n)
		}
		next := startWithBatches(t, w, dir)
		time.Sleep(time.Minute)
		_, body = next.do("GET", "/v1/batches/"+id, "")
		b := decode[openai.Batch](t, body)
		if b.RequestCounts != (openai.BatchRequestCounts{Total: 40, Completed: 40}) {
			t.Errorf("%s", body)
		}
		_, output := next.do("GET", "/v1/files/"+b.OutputFileID+"/content", "")
		if n := strings.Count(output, "\n"); n != 40 {
			t.Errorf("%d lines", n)
		}
	})
}

func FuzzUpload(f *testing.F) {
	store, err := batch.Open(f.TempDir(), batch.Limits{FileBytes: 1000})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { store.Close() })
	for _, parts := range [][]string{{"file", "x", "purpose", "batch"}, {"purpose", "batch"},
		{"file", strings.Repeat("x", 2000)}} {
		contentType, body := form(parts...)
		f.Add(contentType, []byte(body))
		f.Add(contentType, []byte(body[:len(body)/2]))
	}
	f.Add("multipart/form-data; boundary=", []byte("--\r\n"))
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		form, upload, err := readUpload(contentType, bytes.NewReader(body), store.Of(convo.Owner{Tenant: "t"}))
		if err != nil {
			if upload != nil || form != nil {
				t.Errorf("an upload is left behind by %v", err)
			}
			if status := openai.Describe(err, "").Status; status < 400 || status >= http.StatusInternalServerError {
				t.Errorf("status %d for %v", status, err)
			}
			return
		}
		if len(form.name) > uploadNameBytesMax || strings.ContainsAny(form.name, "/\\\n") {
			t.Errorf("the name is %q", form.name)
		}
		if err := upload.Drop(); err != nil {
			t.Error(err)
		}
	})
}

// TestFilesOfOthersAreNotFound puts files and a batch of another owner into the
// store: over HTTP they are not there.
func TestFilesOfOthersAreNotFound(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := startWithBatches(t, &worker{}, dir)
		_, mine := s.upload("file", "x", "purpose", "batch")
		theirs := s.gateway.config.Batches.Of(convo.Owner{Tenant: "other"})
		upload, err := theirs.NewUpload()
		if err != nil {
			t.Fatal(err)
		}
		f, err := upload.Keep("secret.jsonl", "batch", 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		b, err := theirs.Create(&openai.BatchRequest{InputFileID: f.ID, Endpoint: "/v1/completions"}, "", time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, call := range []string{"GET /v1/files/" + f.ID, "GET /v1/files/" + f.ID + "/content",
			"DELETE /v1/files/" + f.ID, "GET /v1/batches/" + b.ID, "POST /v1/batches/" + b.ID + "/cancel"} {
			method, path, _ := strings.Cut(call, " ")
			if response, body := s.do(method, path, ""); response.StatusCode != 404 ||
				strings.Contains(body, "secret") {
				t.Errorf("%s gives %d: %s", call, response.StatusCode, body)
			}
		}
		if response, body := s.do("POST", "/v1/batches",
			`{"input_file_id":"`+f.ID+
				`","endpoint":"/v1/completions","completion_window":"24h"}`); response.StatusCode != 400 {
			t.Errorf("another's file is taken as an input: %s", body)
		}
		_, files := s.do("GET", "/v1/files", "")
		_, batches := s.do("GET", "/v1/batches", "")
		if strings.Contains(files, f.ID) || strings.Contains(batches, b.ID) ||
			!strings.Contains(files, decode[openai.File](t, mine).ID) {
			t.Errorf("listed: %s %s", files, batches)
		}
	})
}
