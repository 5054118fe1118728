package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// A member is who shows a key to a server.
type member struct {
	name, key string
	outsider
}

func (m *member) call(t *testing.T, method, path, body string) (int, string) {
	t.Helper()
	return m.ask(t, method, path, body, "Authorization", "Bearer "+m.key)
}

// makes is call for what must succeed, and returns the id of what was made.
func (m *member) makes(t *testing.T, path, body string) string {
	t.Helper()
	status, text := m.call(t, "POST", path, body)
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(text), &made); status != 200 || err != nil || made.ID == "" {
		t.Fatalf("%s: %s: %d %s", m.name, path, status, text)
	}
	return made.ID
}

// TestSecurityTwoOrganisations has alice store a secret in every way there is. Another
// user of her organisation, one of another organisation and the operator find none of
// it, by name, by list or by search, and change none of it; nor does the cache tell
// them that the question was asked before.
func TestSecurityTwoOrganisations(t *testing.T) {
	const secret = "the safe opens with 4711"
	data := t.TempDir()
	key := func(name, organization string, more ...string) string {
		return makeKey(t, append([]string{name, "--org", organization, "--user", name, "--tier", "enterprise", "--data",
			data}, more...)...)
	}
	keys := map[string]string{"alice": key("alice", "a"), "adam": key("adam", "a"), "bob": key("bob", "b"),
		"operator": makeKey(t, "operator", "--admin", "--data", data)}
	s := startServerIn(t, data, "--model", "polly-mini")
	as := func(name string) *member { return &member{name, keys[name], outsider{name, s.url}} }
	alice := as("alice")
	said := fmt.Sprintf(`{"role":"user","content":"%s. %s"}`, secret, strings.Repeat("It stands in the hall. ", 10))
	conversation := alice.makes(t, "/v1/conversations", `{"items":[`+said+`]}`)
	response := alice.makes(t, "/v1/responses",
		`{"model":"polly-mini","max_output_tokens":4,"temperature":0,"input":[`+said+`]}`)
	chat := `{"model":"polly-mini","max_tokens":4,"temperature":0,"messages":[` + said + `]}`
	alice.makes(t, "/v1/chat/completions", chat)
	if cached := cachedTokens(t, alice, chat); cached == 0 {
		t.Fatal("the cache does not know alice's own question, so the test shows nothing")
	}
	file := uploadBatch(t, alice, secret)
	batch := alice.makes(t, "/v1/batches",
		`{"input_file_id":"`+file+`","endpoint":"/v1/chat/completions","completion_window":"24h"}`)
	for _, name := range []string{"adam", "bob", "operator"} {
		other := as(name)
		for path, methods := range map[string]string{
			"/v1/conversations/" + conversation:               "GET POST DELETE",
			"/v1/conversations/" + conversation + "/items":    "GET POST",
			"/v1/conversations/" + conversation + "/messages": "POST",
			"/v1/conversations/" + conversation + "/export":   "GET",
			"/v1/conversations/" + conversation + "/tree":     "GET",
			"/v1/responses/" + response:                       "GET DELETE",
			"/v1/responses/" + response + "/input_items":      "GET",
			"/v1/responses/" + response + "/cancel":           "POST",
			"/v1/files/" + file:                               "GET DELETE",
			"/v1/files/" + file + "/content":                  "GET",
			"/v1/batches/" + batch:                            "GET",
			"/v1/batches/" + batch + "/cancel":                "POST",
		} {
			for method := range strings.SplitSeq(methods, " ") {
				body := `{"model":"polly-mini","content":"x","title":"x","items":[{"role":"user","content":"x"}]}`
				if strings.Contains(path, "/v1/conversations/") && !strings.HasSuffix(path, "messages") {
					body = strings.Replace(body, `"model":"polly-mini","content":"x",`, "", 1)
				}
				if status, text := other.call(t, method, path, body); status != 404 && status != 400 ||
					strings.Contains(text, "4711") {
					t.Errorf("%s: %s %s: %d %.300s", name, method, path, status, text)
				}
			}
		}
		for _, path := range []string{"/v1/conversations", "/v1/conversations?q=safe", "/v1/files", "/v1/batches"} {
			if status, text := other.call(t, "GET", path, ""); status != 200 ||
				strings.Contains(text, conversation) || strings.Contains(text, file) || strings.Contains(text, batch) {
				t.Errorf("%s: %s: %d %.300s", name, path, status, text)
			}
		}
		for _, body := range []string{
			`{"model":"polly-mini","input":"What?","previous_response_id":"` + response + `"}`,
			`{"model":"polly-mini","input":"What?","conversation":"` + conversation + `"}`,
		} {
			if status, text := other.call(t, "POST", "/v1/responses", body); status != 404 && status != 400 {
				t.Errorf("%s continues what alice said: %d %.300s", name, status, text)
			}
		}
		if cached := cachedTokens(t, other, chat); cached != 0 {
			t.Errorf("%s learns from %d cached tokens that alice asked the same", name, cached)
		}
	}
	if status, text := alice.call(t, "GET", "/v1/conversations/"+conversation+"/items", ""); status != 200 ||
		!strings.Contains(text, secret) || strings.Contains(text, `"x"`) {
		t.Errorf("alice's own conversation: %d %s", status, text)
	}
	for _, path := range []string{"/v1/responses/" + response, "/v1/files/" + file, "/v1/batches/" + batch} {
		if status, text := alice.call(t, "GET", path, ""); status != 200 {
			t.Errorf("alice's own %s: %d %s", path, status, text)
		}
	}
}

// cachedTokens asks and returns how many tokens of the question the cache had.
func cachedTokens(t *testing.T, m *member, body string) int {
	t.Helper()
	_, text := m.call(t, "POST", "/v1/chat/completions", body)
	var answer struct {
		Usage *struct {
			Details struct {
				Cached int `json:"cached_tokens"`
			} `json:"prompt_tokens_details"`
		}
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil || answer.Usage == nil {
		t.Fatalf("%s: %v: %s", m.name, err, text)
	}
	return answer.Usage.Details.Cached
}

// uploadBatch uploads a file of one request, and returns its id.
func uploadBatch(t *testing.T, m *member, question string) string {
	t.Helper()
	line := fmt.Sprintf(`{"custom_id":"1","method":"POST","url":"/v1/chat/completions","body":{"model":"polly-mini",`+
		`"max_tokens":2,"messages":[{"role":"user","content":%q}]}}`, question)
	form := "--b\r\nContent-Disposition: form-data; name=\"purpose\"\r\n\r\nbatch\r\n" +
		"--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"f.jsonl\"\r\n\r\n" + line + "\r\n--b--\r\n"
	status, text := m.ask(t, "POST", "/v1/files", form, "Authorization", "Bearer "+m.key, "Content-Type",
		"multipart/form-data; boundary=b")
	var made struct{ ID string }
	if err := json.Unmarshal([]byte(text), &made); status != 200 || err != nil {
		t.Fatalf("%s: %d %s", m.name, status, text)
	}
	return made.ID
}
