package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/gateway/batch"
	"parley/internal/testkit"
)

// A published description says what each route answers.
type published struct {
	schema
	// operations are found by method and path, as GET /files/{file_id}.
	operations map[string]operation
}

// An operation has the schemas of an answer that is whole, and of one event of an
// answer that is streamed; nil where none is published.
type operation struct{ whole, event map[string]any }

var publishedDescription = sync.OnceValues(func() (*published, error) {
	raw, err := os.ReadFile(filepath.Join(testkit.Root(), "..", "shared", "data", "openai-openapi.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // it is not part of the repository
	}
	if err != nil {
		return nil, err
	}
	var doc struct {
		Paths map[string]map[string]struct {
			Responses map[string]struct {
				Content map[string]struct{ Schema map[string]any }
			}
		}
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		return nil, err
	}
	p := &published{schema{doc.Components.Schemas}, map[string]operation{}}
	for path, methods := range doc.Paths {
		if strings.Contains(path, "?") {
			continue // variants of other routes
		}
		for method, o := range methods {
			content := o.Responses["200"].Content
			p.operations[strings.ToUpper(method)+" "+path] = operation{content["application/json"].Schema,
				content["text/event-stream"].Schema}
		}
	}
	// What the description leaves out: calls of custom tools in the chunks of chats,
	// streams of text completions, in which chunks look like whole answers, and of a
	// response that is taken up again.
	chunk, _ := object(doc.Components.Schemas).at("ChatCompletionMessageToolCallChunk", "properties",
		"type").(map[string]any)
	chunk["enum"] = []any{"function", "custom"}
	p.stream("POST /completions", "CreateCompletionResponse")
	p.stream("GET /responses/{response_id}", "ResponseStreamEvent")
	return p, nil
})

func (p *published) stream(name, schema string) {
	o := p.operations[name]
	o.event = map[string]any{"$ref": "/" + schema}
	p.operations[name] = o
}

// find returns the operation of a request by its name, or "" if none is
// published. A path without braces goes before one with them.
func (p *published) find(method, path string) string {
	path, ok := strings.CutPrefix(path, "/v1")
	if !ok {
		return ""
	}
	if strings.HasPrefix(path, "/models/") {
		path = "/models/x" // names of models may have slashes
	}
	if name := method + " " + path; p.has(name) {
		return name
	}
	for name := range p.operations {
		of, pattern, _ := strings.Cut(name, " ")
		if _, ok := match(pattern, path); ok && of == method {
			return name
		}
	}
	return ""
}

func (p *published) has(name string) bool { _, ok := p.operations[name]; return ok }

// A proof is a transport that holds every answer of a published route to its
// description, and every refusal to that of errors.
type proof struct {
	t     *testing.T
	inner http.RoundTripper
	// seen has the names of operations that were answered well.
	seen map[string]bool
	mu   sync.Mutex
}

// RoundTrip sends a request. The answer is checked when it was read to its end.
func (p *proof) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := p.inner.RoundTrip(r)
	if err != nil || response.StatusCode == http.StatusSwitchingProtocols || response.Body == nil {
		return response, err
	}
	description, err := publishedDescription()
	if description == nil {
		return response, err
	}
	// Where both interfaces have a route, this header asks for Anthropic's shape.
	if name := description.find(r.Method, r.URL.Path); name != "" && r.Header.Get("Anthropic-Version") == "" {
		response.Body = &proofRead{ReadCloser: response.Body, check: func(body []byte) {
			if err := p.check(description, name, response, body); err != nil {
				p.t.Errorf("%s %s gives %d: %v", r.Method, r.URL.Path, response.StatusCode, err)
			}
		}}
	}
	return response, nil
}

// A proofRead hands on a body and calls check with all of it at its end.
type proofRead struct {
	io.ReadCloser
	body  bytes.Buffer
	check func([]byte)
}

// Read reads on.
func (r *proofRead) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	r.body.Write(p[:n])
	if err == io.EOF && r.check != nil {
		r.check(r.body.Bytes())
		r.check = nil
	}
	return n, err
}

func (p *proof) check(d *published, name string, response *http.Response, body []byte) error {
	kind := response.Header.Get("Content-Type")
	o := d.operations[name]
	switch {
	case response.StatusCode >= 400:
		return d.checkBody(map[string]any{"$ref": "/ErrorResponse"}, body)
	case strings.HasPrefix(kind, "text/event-stream"):
		name += " streamed"
		for data := range events(body) {
			rule := o.event
			if bytes.HasPrefix(data, []byte(`{"error":`)) {
				rule = map[string]any{"$ref": "/ErrorResponse"}
			}
			if err := d.checkBody(rule, data); err != nil {
				return err
			}
		}
	case strings.HasPrefix(kind, "application/json"):
		if err := d.checkBody(o.whole, body); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.seen[name] = true
	p.mu.Unlock()
	return nil
}

func (d *published) checkBody(rule map[string]any, body []byte) error {
	var v any
	if err := json.Unmarshal(body, &v); err != nil {
		return fmt.Errorf("%w in %s", err, body)
	}
	if answer, ok := v.(map[string]any); ok {
		complete(answer)
	}
	if rule == nil { // a route of which the shape is not published
		return nil
	}
	if err := d.schema.check("body", rule, v); err != nil {
		return fmt.Errorf("%w in %s", err, body)
	}
	return nil
}

// complete puts something in the place of what is right and not in the
// description: the nulls of a streamed completion, which is described as if it
// were whole, those of an echoed text's first token, and embeddings in base64.
func complete(answer map[string]any) {
	list := func(of map[string]any, name string) []any { l, _ := of[name].([]any); return l }
	if answer["object"] == "text_completion" && answer["usage"] == nil {
		delete(answer, "usage")
	}
	for _, c := range list(answer, "choices") {
		choice := c.(map[string]any)
		if answer["object"] == "text_completion" && choice["finish_reason"] == nil {
			choice["finish_reason"] = "stop"
		}
		logprobs, _ := choice["logprobs"].(map[string]any)
		for name, none := range map[string]any{"token_logprobs": 0.0, "top_logprobs": map[string]any{}} {
			if l := list(logprobs, name); len(l) > 0 && l[0] == nil {
				l[0] = none
			}
		}
	}
	for _, d := range list(answer, "data") {
		if embedding, ok := d.(map[string]any); ok && embedding["object"] == "embedding" &&
			reflect.TypeOf(embedding["embedding"]).Kind() == reflect.String {
			embedding["embedding"] = []any{}
		}
	}
}

// events returns the data of a stream's events.
func events(body []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for line := range bytes.Lines(body) {
			data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data: "))
			if ok && string(data) != "[DONE]" && !yield(data) {
				return
			}
		}
	}
}

// TestEveryPublishedRouteIsShown calls every route of ours that the description
// has, whole and as a stream, and holds the answers to it.
func TestEveryPublishedRouteIsShown(t *testing.T) {
	testkit.SharedData(t, "openai-openapi.json") // or skip
	description, err := publishedDescription()
	if err != nil {
		t.Fatal(err)
	}
	files := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		s := startKept(t, &worker{script: speak(t, "Hm "+weatherCall, 10*time.Millisecond)}, roomy, func(c *Config) {
			store, err := batch.Open(files, batch.Limits{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { store.Close() })
			c.Batches = store
		})
		s.showResponses()
		s.showConversations()
		s.showFiles()
		for _, stream := range []string{"", `,"stream":true,"stream_options":{"include_usage":true}`} {
			s.chat(weatherTool + stream)
			s.complete(`,"prompt":"a"` + stream)
		}
		embedding := start(t, &embedder{})
		embedding.proof.seen = s.proof.seen
		embedding.embed(`,"input":"a"`)
		s.showUsage()
		s.do("POST", "/v1/moderations", `{"input":"a"}`)
		s.do("GET", "/v1/models", "")
		s.do("GET", "/v1/models/"+modelID, "")
		wanted := map[string]bool{}
		for _, r := range append(slices.Collect(maps.Values(s.gateway.routes.plain)), s.gateway.routes.patterns...) {
			for method := range r.methods {
				if name := description.find(method, r.name); name != "" {
					wanted[name] = true
				}
			}
		}
		for name, o := range description.operations {
			if wanted[name] && o.event != nil {
				wanted[name+" streamed"] = true
			}
		}
		for _, name := range slices.Sorted(maps.Keys(wanted)) {
			if !s.proof.seen[name] {
				t.Errorf("nothing was shown of %s", name)
			}
		}
		if len(wanted) < 30 {
			t.Errorf("only %d operations are published: %v", len(wanted), wanted)
		}
	})
}

func (s *server) showResponses() {
	made := s.respond(`"Hi"`, flatTool)
	path := "/v1/responses/" + made.text("id")
	s.do("GET", path, "")
	s.do("GET", path+"/input_items", "")
	s.do("GET", path+"?stream=true", "")
	s.do("DELETE", path, "")
	s.do("POST", "/v1/responses", responseBody(`"Hi"`, `,"stream":true`+flatTool))
	s.do("POST", "/v1/responses/input_tokens", responseBody(`"Hi"`, ""))
	s.do("POST", "/v1/responses/compact", responseBody(`"Hi"`, ""))
	late := s.respond(`"Hi"`, `,"background":true`)
	s.do("POST", "/v1/responses/"+late.text("id")+"/cancel", "")
}

func (s *server) showConversations() {
	_, made := s.call("POST", "/v1/conversations", `{"items":[{"type":"message","role":"user","content":"Hi"}]}`)
	path := "/v1/conversations/" + made.text("id")
	s.do("GET", path, "")
	s.do("POST", path, `{"metadata":{"a":"b"}}`)
	_, list := s.call("POST", path+"/items", `{"items":[{"type":"message","role":"user","content":"Ho"}]}`)
	s.do("GET", path+"/items", "")
	s.do("GET", path+"/items/"+list.text("data", "id"), "")
	s.do("DELETE", path+"/items/"+list.text("data", "id"), "")
	s.do("DELETE", path, "")
}

func (s *server) showFiles() {
	_, body := s.upload("purpose", "batch", "file",
		`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":`+chatBody("")+`}`)
	file := parseObject(s.t, body).text("id")
	s.do("GET", "/v1/files", "")
	s.do("GET", "/v1/files/"+file, "")
	s.do("GET", "/v1/files/"+file+"/content", "")
	_, made := s.call("POST", "/v1/batches",
		`{"input_file_id":"`+file+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`)
	s.do("GET", "/v1/batches", "")
	s.do("GET", "/v1/batches/"+made.text("id"), "")
	s.do("POST", "/v1/batches/"+made.text("id")+"/cancel", "")
	time.Sleep(time.Minute)
	s.do("DELETE", "/v1/files/"+file, "")
}
