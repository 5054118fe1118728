package gateway

import (
	"context"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/convo"
)

func untitled(c *Config) { c.NoTitles = true }

// converse makes a conversation and returns its path.
func (s *server) converse(extra string) string {
	s.t.Helper()
	status, o := s.call("POST", "/v1/conversations", `{"metadata":{"a":"b"}`+extra+`}`)
	if status != 200 || !strings.HasPrefix(o.text("id"), "conv_") {
		s.t.Fatalf("%d %v", status, o)
	}
	return "/v1/conversations/" + o.text("id")
}

// tell says something in a conversation and wants an answer.
func (s *server) tell(path, content, extra string, headers ...string) object {
	s.t.Helper()
	status, o := s.call("POST", path+"/messages", `{"model":"`+modelID+`","content":"`+content+`"`+extra+`}`,
		headers...)
	if status != 200 {
		s.t.Fatalf("%d %v", status, o)
	}
	return o
}

// spoken lists the texts of the current branch.
func (s *server) spoken(path string) (texts []string) {
	s.t.Helper()
	_, o := s.call("GET", path+"/items?order=asc&limit=100", "")
	for _, item := range o["data"].([]any) {
		texts = append(texts, object(item.(map[string]any)).text("content", "text"))
	}
	return texts
}

func wantTexts(t *testing.T, got []string, want ...string) {
	t.Helper()
	if strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestConversationShapes(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		s := startKept(t, &worker{})
		_, body := s.do("POST", "/v1/conversations",
			`{"metadata":{"a":"b"},"items":[{"role":"user","content":"Hi"},{"role":"assistant","content":"Ho"}]}`)
		published.want(t, "ConversationResource", body)
		o := parseObject(t, body)
		if o["message_count"] != 2.0 || o.text("context_policy") != "drop" || o.text("owner") != "local" ||
			o.text("conversation_id") != o.text("id") {
			t.Errorf("got %s", body)
		}
		path := "/v1/conversations/" + o.text("id")
		_, body = s.do("POST", path+"/items",
			`{"items":[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"},{"role":"system","content":"S"}]}`)
		published.want(t, "ConversationItemList", body)
		_, body = s.do("GET", path+"/items", "")
		published.want(t, "ConversationItemList", body)
		item := parseObject(t, body).text("data", "id")
		_, body = s.do("GET", path+"/items/"+item, "")
		published.want(t, "ConversationItem", body)
		wantTexts(t, s.spoken(path), "Hi", "Ho", "", "", "S")
		_, body = s.do("DELETE", path+"/items/"+item, "")
		published.want(t, "ConversationResource", body)
		if status, _ := s.call("GET", path+"/items/"+item, ""); status != 404 {
			t.Errorf("a deleted item gives %d", status)
		}
		_, body = s.do("POST", path, `{"metadata":{"c":"d"},"title":"Mine","pinned":true,"context_policy":"refuse"}`)
		published.want(t, "ConversationResource", body)
		if o := parseObject(t, body); o.text("title") != "Mine" || o["pinned"] != true ||
			o.text("metadata", "c") != "d" || o.text("context_policy") != "refuse" {
			t.Errorf("got %s", body)
		}
		_, body = s.do("DELETE", path, "")
		published.want(t, "DeletedConversationResource", body)
		if status, o := s.call("GET", path, ""); status != 404 ||
			!strings.Contains(o.text("error", "message"), "Conversation with id") {
			t.Errorf("a deleted conversation gives %d %v", status, o)
		}
		if status, o := s.call("POST", path+"/restore", ""); status != 200 || o.text("title") != "Mine" {
			t.Errorf("%d %v", status, o)
		}
	})
}

func TestConversationListAndSearch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startKept(t, &worker{script: speak(t, "Rome, of course<|im_end|>", 0)}, untitled)
		pinned := s.converse(`,"title":"Pinned","pinned":true`)
		time.Sleep(time.Second)
		asked := s.converse(`,"title":"Italy"`)
		s.tell(asked, "capital", "")
		_, o := s.call("GET", "/v1/conversations", "")
		if len(o["data"].([]any)) != 2 || o.text("data", "title") != "Pinned" {
			t.Errorf("got %v", o)
		}
		_, o = s.call("GET", "/v1/conversations?pinned=true", "")
		if len(o["data"].([]any)) != 1 || "/v1/conversations/"+o.text("data", "id") != pinned {
			t.Errorf("got %v", o)
		}
		_, o = s.call("GET", "/v1/conversations?limit=1", "")
		_, next := s.call("GET", "/v1/conversations?limit=1&after="+o.text("last_id"), "")
		if o["has_more"] != true || o.text("data", "title") != "Italy" || next.text("data", "title") != "Pinned" {
			t.Errorf("got %v and %v", o, next)
		}
		_, o = s.call("GET", "/v1/conversations?q=rome", "")
		if len(o["data"].([]any)) != 1 || o.text("data", "title") != "Italy" || o.text("data", "message_id") == "" {
			t.Errorf("got %v", o)
		}
		_, o = s.call("GET", "/v1/conversations?q=rome&group=conversation", "")
		if hit := o["data"].([]any)[0].(map[string]any); hit["matches"] != 1.0 || hit["title"] != "Italy" {
			t.Errorf("got %v", o)
		}
		for _, bad := range []string{"group=day", "group=conversation&after=x"} {
			if status, o := s.call("GET", "/v1/conversations?q=rome&"+bad, ""); status != 400 {
				t.Errorf("%s: %d %v", bad, status, o)
			}
		}
	})
}

func TestTurn(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Yes<|im_end|>", time.Second)}
		s := startKept(t, w, untitled)
		path := s.converse(`,"items":[{"role":"system","content":"Be brief."}]`)
		response, body := s.do("POST", path+"/messages", `{"model":"`+modelID+`","content":"One"}`)
		if response.StatusCode != 200 {
			t.Fatal(body)
		}
		published.want(t, "CreateChatCompletionResponse", body)
		o := parseObject(t, body)
		if o.text("choices", "message", "content") != "Yes" || "/v1/conversations/"+o.text("conversation_id") != path {
			t.Errorf("got %s", body)
		}
		_, body = s.do("POST", path+"/messages",
			`{"content":[{"type":"input_text","text":"Two"}],"model":"`+modelID+
				`","stream":true,"stream_options":{"include_usage":true}}`)
		events := streamedEvents(body)
		for _, e := range events {
			published.want(t, "CreateChatCompletionStreamResponse", e)
		}
		if streamedText(body) != "Yes" || !strings.HasSuffix(body, "data: [DONE]\n\n") || parseObject(t,
			events[0]).text("message_id") == "" || !strings.Contains(events[len(events)-1], `"prompt_tokens"`) {
			t.Errorf("got %s", body)
		}
		want := "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nOne<|im_end|>\n" +
			"<|im_start|>assistant\nYes<|im_end|>\n<|im_start|>user\nTwo<|im_end|>\n<|im_start|>assistant\n"
		if w.askedText(1) != want {
			t.Errorf("the prompt is %q", w.askedText(1))
		}
		wantTexts(t, s.spoken(path), "Be brief.", "One", "Yes", "Two", "Yes")
		_, body = s.do("GET", path+"/items/"+o.text("message_id"), "")
		published.want(t, "ConversationItem", body)
		if item := parseObject(t, body); item.text("parent_id") != o.text("question_id") ||
			item.at("usage", "prompt_tokens") == nil || item.text("model") != modelID {
			t.Errorf("got %s", body)
		}
		s.settled(w)
	})
}

func TestBranches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		w := &worker{script: func(r *parley.Request) []say {
			n++
			return speech(t, r, 0, "answer "+itoa(n)+"<|im_end|>")
		}}
		s := startKept(t, w, untitled)
		path := s.converse("")
		first := s.tell(path, "A", "")
		s.tell(path, "B", "")
		edited := s.tell(path, "A2", `,"edit":"`+first.text("question_id")+`"`)
		wantTexts(t, s.spoken(path), "A2", "answer 3")
		_, again := s.call("POST", path+"/messages",
			`{"model":"`+modelID+`","regenerate":"`+edited.text("message_id")+`"}`)
		wantTexts(t, s.spoken(path), "A2", "answer 4")
		if again.text("question_id") != edited.text("question_id") {
			t.Errorf("got %v", again)
		}
		if _, o := s.call("POST", path,
			`{"current_leaf":"`+first.text("question_id")+`"}`); o.text("current_leaf") == "" {
			t.Errorf("got %v", o)
		}
		wantTexts(t, s.spoken(path), "A", "answer 1", "B", "answer 2")
		s.tell(path, "C", `,"parent_id":"`+first.text("message_id")+`"`)
		wantTexts(t, s.spoken(path), "A", "answer 1", "C", "answer 5")
		_, tree := s.call("GET", path+"/tree", "")
		if len(tree["data"].([]any)) != 9 {
			t.Errorf("got %v", tree)
		}
		for body, status := range map[string]int{
			`{"content":"x","edit":"nobody"}`: 404, `{"content":"x","parent_id":"nobody"}`: 404, `{}`: 400,
			`{"content":"x","messages":[]}`:              400,
			`{"content":"x","edit":"a","parent_id":"b"}`: 400, `{"content":"x","regenerate":"a"}`: 400,
			`{"content":"x","n":2}`: 400,
		} {
			if got, o := s.call("POST", path+"/messages",
				strings.Replace(body, "{", `{"model":"`+modelID+`",`, 1)); got != status && body != "{}" {
				t.Errorf("%s gives %d: %v", body, got, o)
			}
		}
		_, markdown := s.do("GET", path+"/export?format=markdown", "")
		if want := "# Conversation\n\n## User\n\nA\n\n## Assistant\n\nanswer 1\n\n## User\n\nC\n\n## " +
			"Assistant\n\nanswer 5\n"; markdown != want {
			t.Errorf("got %s", markdown)
		}
		_, archive := s.do("GET", path+"/export", "")
		status, o := s.call("POST", "/v1/conversations/import", archive)
		if status != 200 || o["message_count"] != 9.0 {
			t.Fatalf("%d %v", status, o)
		}
		wantTexts(t, s.spoken("/v1/conversations/"+o.text("id")), "A", "answer 1", "C", "answer 5")
	})
}

func TestTurnTools(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "I look."+weatherCall+"<|im_end|>", 0)}
		s := startKept(t, w, untitled, roomy)
		path := s.converse("")
		o := s.tell(path, "Weather?", weatherTool)
		if o.text("choices", "finish_reason") != "tool_calls" {
			t.Fatalf("got %v", o)
		}
		_, item := s.call("GET", path+"/items/"+o.text("message_id"), "")
		id := item.text("tool_calls", "id")
		if item.text("content", "text") != "I look." || item.text("tool_calls", "function", "name") != "weather" {
			t.Errorf("got %v", item)
		}
		status, answer := s.call("POST", path+"/messages",
			`{"model":"`+modelID+`","tool_outputs":[{"tool_call_id":"`+id+`","output":"sunny"}]`+weatherTool+`}`)
		if status != 200 || !strings.Contains(w.askedText(1), "sunny") ||
			!strings.Contains(w.askedText(1), `{"city": "Rom"}`) {
			t.Errorf("%d %v, prompt %q", status, answer, w.askedText(1))
		}
	})
}

func TestTurnKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Yes<|im_end|>", time.Second)}
		s := startKept(t, w, untitled)
		path := s.converse("")
		first := s.tell(path, "Hi", "", "Idempotency-Key", "k")
		again := s.tell(path, "Hi", "", "Idempotency-Key", "k")
		if first.text("message_id") != again.text("message_id") ||
			again.text("choices", "message", "content") != "Yes" {
			t.Errorf("%v and %v", first, again)
		}
		_, streamed := s.do("POST", path+"/messages", `{"model":"`+modelID+`","content":"Hi","stream":true}`,
			"Idempotency-Key", "k")
		if streamedText(streamed) != "Yes" {
			t.Errorf("got %s", streamed)
		}
		wantTexts(t, s.spoken(path), "Hi", "Yes")
		w.request(t)
	})
}

// TestTurnBreaksOff loses its client, and goes on later.
func TestTurnBreaksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three<|im_end|>", time.Second)}
		s := startKept(t, w, untitled)
		path := s.converse("")
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		response := s.open(ctx, "POST", path+"/messages", `{"model":"`+modelID+`","content":"Hi","stream":true}`)
		if read, err := io.ReadAll(response.Body); err == nil {
			t.Fatalf("the stream ended by itself: %s", read)
		}
		s.settled(w)
		_, o := s.call("GET", path+"/items", "")
		item := object(o["data"].([]any)[0].(map[string]any))
		if item.text("status") != "incomplete" || item.text("content", "text") != "one two" {
			t.Fatalf("got %v", item)
		}
		w.script = speak(t, " and the rest<|im_end|>", time.Second)
		status, whole := s.call("POST", path+"/messages/"+item.text("id")+"/resume", `{"model":"`+modelID+`"}`)
		if status != 200 || whole.text("choices", "message", "content") != "one two and the rest" ||
			whole.text("message_id") != item.text("id") {
			t.Errorf("%d %v", status, whole)
		}
		if got := w.askedText(1); !strings.HasSuffix(got, "assistant\none two") {
			t.Errorf("the prompt is %q", got)
		}
		wantTexts(t, s.spoken(path), "Hi", "one two and the rest")
		if status, o := s.call("POST", path+"/messages/"+item.text("id")+"/resume", ""); status != 400 {
			t.Errorf("a complete one: %d %v", status, o)
		}
		if status, o := s.call("POST", path+"/messages/nobody/resume", `{"model":"`+modelID+`"}`); status != 404 {
			t.Errorf("nobody's: %d %v", status, o)
		}
	})
}

func TestTurnFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(*parley.Request) []say {
			return []say{{err: parley.Errorf(parley.Overloaded, "No room.")}}
		}}
		s := startKept(t, w, untitled)
		path := s.converse("")
		for _, extra := range []string{"", `,"stream":true`} {
			if status, o := s.call("POST", path+"/messages",
				`{"model":"`+modelID+`","content":"Hi"`+extra+`}`); status != 503 ||
				o.text("error", "message") != "No room." {
				t.Errorf("%d %v", status, o)
			}
		}
		_, o := s.call("GET", path+"/items", "")
		if item := object(o["data"].([]any)[0].(map[string]any)); item.text("status") != "incomplete" ||
			item.text("error", "message") != "No room." {
			t.Errorf("got %v", item)
		}
		if status, o := s.call("POST", path+"/messages", `{"model":"`+modelID+`","content":"`+strings.Repeat("word ",
			200)+`"}`); status != 400 || o.text("error", "code") != "context_length_exceeded" {
			t.Errorf("%d %v", status, o)
		}
	})
}

// TestFailedFirstTurns are named after their question, so that lists do not fill with chats of one name.
func TestFailedFirstTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(*parley.Request) []say {
			return []say{{err: parley.Errorf(parley.Overloaded, "No room.")}}
		}}
		s := startKept(t, w, roomy)
		path := s.converse("")
		for _, text := range []string{"Is there room for me?", "And now?"} {
			if status, o := s.call("POST", path+"/messages", `{"model":"`+modelID+`","content":"`+text+`"}`); status != 503 {
				t.Errorf("%d %v", status, o)
			}
			if _, o := s.call("GET", path, ""); o.text("title") != "Is there room for me?" {
				t.Errorf("after %q it is called %v", text, o)
			}
		}
	})
}

func TestContextPolicies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "ok<|im_end|>", 0)}
		s := startKept(t, w, untitled, func(c *Config) { c.Models[0].ContextTokens = 300 })
		for _, c := range []struct{ policy, left string }{{"refuse", ""}, {"drop", "drop"},
			{"summarise", "summarise"}} {
			path := s.converse(`,"context_policy":"` + c.policy + `"`)
			var last object
			status := 200
			for n := 0; n < 12 && status == 200 && last["context"] == nil; n++ {
				status, last = s.call("POST", path+"/messages",
					`{"model":"`+modelID+`","content":"`+strings.Repeat("long ", 12)+itoa(n)+`"}`)
			}
			if c.policy == "refuse" {
				if status != 400 || last.text("error", "code") != "context_length_exceeded" {
					t.Errorf("refuse: %d %v", status, last)
				}
				continue
			}
			if status != 200 || last.text("context", "policy") != c.left ||
				last.at("context", "left_out_messages").(float64) < 2 {
				t.Fatalf("%s: %d %v", c.policy, status, last)
			}
			_, item := s.call("GET", path+"/items/"+last.text("message_id"), "")
			if item.text("context", "policy") != c.left || item.text("content", "text") != "ok" {
				t.Errorf("stored: %v", item)
			}
			if c.policy == "summarise" {
				prompt := w.askedText(len(w.asked) - 1)
				if item.text("context", "summary_shown") != "ok" ||
					!strings.Contains(prompt, "Summary of the conversation before this:\nok") ||
					!strings.Contains(w.askedText(len(w.asked)-2), "Summarise the conversation") {
					t.Errorf("got %v and %q", item, prompt)
				}
			}
		}
	})
}

func TestTitles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say {
			if strings.Contains(tinyTokenizer().Decode(r.Prompt, false), "Write a title") {
				return speech(t, r, time.Second, "\"A Fine Greeting.\"\nand more<|im_end|>")
			}
			return speech(t, r, 0, "Yes<|im_end|>")
		}}
		s := startKept(t, w, roomy)
		path := s.converse("")
		s.tell(path, "Greet me, please.", "")
		time.Sleep(time.Minute)
		if _, o := s.call("GET", path, ""); o.text("title") != "A Fine Greeting" {
			t.Errorf("got %v", o)
		}
		s.tell(path, "Again", "")
		time.Sleep(time.Minute)
		if len(w.asked) != 3 {
			t.Errorf("the worker was asked %d times", len(w.asked))
		}
		s.settled(w)
	})
}

// TestOthersConversations shows that what is another's is not there at all.
func TestOthersConversations(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startKept(t, &worker{script: speak(t, "Yes<|im_end|>", 0)})
		store, other := s.gateway.config.Store, convo.Owner{Tenant: "other"}
		c, err := store.CreateConversation(t.Context(), other,
			convo.NewConversation{Messages: []convo.NewMessage{{ID: "m", Role: "user", Content: []byte(`"x"`)}}},
			time.Now())
		if err != nil {
			t.Fatal(err)
		}
		path := "/v1/conversations/" + c.ID
		for _, r := range []struct{ method, path, body string }{
			{"GET", path, ""}, {"POST", path, `{"title":"x"}`}, {"DELETE", path, ""}, {"POST", path + "/restore", ""},
			{"GET", path + "/export", ""}, {"GET", path + "/tree", ""},
			{"GET", path + "/items", ""}, {"POST", path + "/items", `{"items":[{"role":"user","content":"x"}]}`},
			{"GET", path + "/items/m", ""}, {"DELETE", path + "/items/m", ""},
			{"POST", path + "/messages", `{"model":"` + modelID + `","content":"x"}`},
			{"POST", path + "/messages/m/resume", `{"model":"` + modelID + `"}`},
			{"POST", "/v1/responses", responseBody(`"x"`, `,"conversation":"`+c.ID+`"`)},
			{"POST", path, `{"current_leaf":"m"}`},
		} {
			if status, o := s.call(r.method, r.path, r.body); status != 404 {
				t.Errorf("%s %s gives %d: %v", r.method, r.path, status, o)
			}
		}
		if _, o := s.call("GET", "/v1/conversations", ""); len(o["data"].([]any)) != 0 {
			t.Errorf("got %v", o)
		}
	})
}

func TestNoConversationsWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{})
		if status, o := s.call("POST", "/v1/conversations", "{}"); status != 503 ||
			!strings.Contains(o.text("error", "message"), "without a store") {
			t.Errorf("%d %v", status, o)
		}
	})
}

// TestTurnPanic loses the server's footing in the middle of an answer.
func TestTurnPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: func(r *parley.Request) []say {
			return []say{{delta: parley.Delta{Tokens: tokensOf(t, "A")}}, {after: time.Second, panic: "secret"}}
		}}
		s := startKept(t, w, untitled)
		path := s.converse("")
		if status, o := s.call("POST", path+"/messages", `{"model":"`+modelID+`","content":"Hi"}`); status != 500 ||
			strings.Contains(o.text("error", "message"), "secret") {
			t.Errorf("%d %v", status, o)
		}
		_, o := s.call("GET", path+"/items", "")
		if item := object(o["data"].([]any)[0].(map[string]any)); item.text("status") != "incomplete" ||
			item.text("content", "text") != "A" || strings.Contains(item.text("error", "message"), "secret") {
			t.Errorf("got %v", item)
		}
		s.settled(w)
	})
}

// TestStoreComesBack cannot store the outcome at first.
func TestStoreComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Yes<|im_end|>", time.Second)}
		away := &mute{away: parley.Errorf(parley.Unavailable, "The store is away.")}
		s := startKept(t, w, untitled, func(c *Config) { away.Store = c.Store; c.writes = away })
		away.dead.Store(false)
		go func() {
			time.Sleep(900 * time.Millisecond)
			away.dead.Store(true)
			time.Sleep(3 * time.Second)
			away.dead.Store(false)
		}()
		if o := s.respond(`"Hi"`, ""); o.text("status") != "completed" {
			t.Errorf("got %v", o)
		}
		s.settled(w)
	})
}

// TestTitleOfFewWords has a model that finds none.
func TestTitleOfFewWords(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startKept(t, &worker{script: speak(t, "No<|im_end|>", 0)}, roomy)
		path := s.converse("")
		s.tell(path, "Who are you?", "")
		time.Sleep(time.Minute)
		if _, o := s.call("GET", path, ""); o.text("title") != "Who are you?" {
			t.Errorf("got %v", o)
		}
	})
}
