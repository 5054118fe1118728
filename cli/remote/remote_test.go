package remote

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/gateway/openai"
	"parley/internal/load"
)

// serverThat returns a client of a server with one handler.
func serverThat(t *testing.T, answer http.HandlerFunc) *Client {
	t.Helper()
	t.Setenv("PARLEY_API_KEY", "secret")
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c, err := New(server.URL + "/v1/")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestAddresses(t *testing.T) {
	for address, root := range map[string]string{
		"http://h:1":          "http://h:1",
		"http://h:1/v1":       "http://h:1",
		"https://h/parley/v1": "https://h/parley",
		"h:1":                 "",
		"ftp://h":             "",
		"http://u:p@h":        "",
		"http://h?a=b":        "",
	} {
		c, err := New(address)
		if (err != nil) != (root == "") || err == nil && c.Root != root {
			t.Errorf("%s: %+v, %v", address, c, err)
		}
	}
}

// TestAsk streams an answer: progress first, then a thought, then text in two pieces.
func TestAsk(t *testing.T) {
	var body, key string
	c := serverThat(t, func(w http.ResponseWriter, r *http.Request) {
		text, _ := io.ReadAll(r.Body)
		body, key = string(text), r.Header.Get("Authorization")
		for _, event := range []string{
			`{"prompt_progress":{"total":10,"processed":4}}`,
			`{"model":"polly","choices":[{"delta":{"reasoning_content":"hm"}}]}`,
			`{"choices":[{"delta":{"content":"Par"}}]}`,
			`{"choices":[{"delta":{"content":"is"},"finish_reason":"stop"}]}`,
			`{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`,
			`[DONE]`,
		} {
			_, _ = io.WriteString(w, "data: "+event+"\n\n") // the client sees what is missing
		}
	})
	var heard []string
	r, err := c.Ask(t.Context(), Question{Model: "polly", Progress: true}, Handlers{
		Text: func(text string, thought bool) error {
			if thought {
				text = "(" + text + ")"
			}
			heard = append(heard, text)
			return nil
		},
		Progress: func(p openai.Progress) { heard = append(heard, "wait") },
	})
	if err != nil || r.Text != "Paris" || r.Finish != "stop" || r.Model != "polly" || r.Usage.TotalTokens != 5 {
		t.Errorf("%+v, %v", r, err)
	}
	if got := strings.Join(heard, " "); got != "wait (hm) Par is" {
		t.Errorf("heard %q", got)
	}
	if !strings.Contains(body, `"include_usage":true`) || key != "Bearer secret" {
		t.Errorf("sent %s with %q", body, key)
	}
}

// TestFailures gives each failure the error that commands explain.
func TestFailures(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		body   string
		fleet  bool
		want   error
		says   string
	}{
		"no key":   {status: 401, body: `{"error":{"message":"No key."}}`, want: ErrWantsKey, says: "No key: set "},
		"no fleet": {status: 404, body: `{"error":{"message":"Unknown request URL: x"}}`, fleet: true, want: ErrNoFleet},
		"operator": {status: 401, body: `{"error":{"message":"No."}}`, fleet: true, says: "PARLEY_FLEET_OPERATE_TOKEN"},
		"other":    {status: 500, body: `{"error":{"message":"Oops."}}`, says: "the server answered 500: Oops."},
		"cut":      {status: 200, body: "data: {\"choices\":[{\"delta\":{\"content\":\"a\"}}]}\n\n", want: ErrCut},
		"mid":      {status: 200, body: "data: {\"error\":{\"message\":\"Lost.\"}}\n\n", says: "server failed: Lost."},
	} {
		client := serverThat(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.body) // the client sees what is missing
		})
		client.OfFleet = c.fleet
		_, err := client.Ask(t.Context(), Question{}, Handlers{Text: func(string, bool) error { return nil }})
		if err == nil || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	c, err := New(gone.URL)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Models(t.Context()); !errors.Is(err, load.ErrNoServer) ||
		!strings.Contains(StartHint(err).Error(), "parley serve") {
		t.Error(err)
	}
}

// TestLocalToken finds the token of a server at an address, until it is removed.
func TestLocalToken(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	token := NewLocalToken()
	_, remove, err := KeepToken(server.Listener.Addr(), token)
	if err != nil {
		t.Fatal(err)
	}
	if got := LocalTokenOf(server.URL); got != token {
		t.Errorf("found %q, want %q", got, token)
	}
	if got, want := PageLink(server.URL, "/admin"), server.URL+"/admin?token="+token; got != want {
		t.Errorf("link %q, want %q", got, want)
	}
	if got := LocalTokenOf("http://192.0.2.1:" + server.URL[strings.LastIndexByte(server.URL, ':')+1:]); got != "" {
		t.Errorf("the token is shown to another machine: %q", got)
	}
	remove()
	if got := LocalTokenOf(server.URL); got != "" {
		t.Errorf("%q is left", got)
	}
}
