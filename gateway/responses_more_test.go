package gateway

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/dialect"
)

const flatTool = `,"tools":[{"type":"function","name":"weather","description":"W","parameters":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false},"strict":true},{"type":"web_search"}]`

func TestResponseTools(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "I look."+weatherCall+"<|im_end|>", time.Second)}
		s := startKept(t, w, roomy)
		_, body := s.do("POST", "/v1/responses", responseBody(`"Hi"`, flatTool+`,"stream":true`))
		names, data := namedEvents(t, body)
		got := strings.Join(names, " ")
		for _, want := range []string{
			"response.output_item.done response.output_item.added response.function_call_arguments.delta",
			"response.function_call_arguments.delta response.function_call_arguments.done " +
				"response.output_item.done response.completed",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("no %q in %s", want, got)
			}
		}
		for _, e := range data {
			published.want(t, "ResponseStreamEvent", e)
		}
		o := parseObject(t, data[len(data)-1])
		if o.text("response", "output", "arguments") != `{"city": "Rom"}` || o.text("response", "output",
			"type") != "function_call" || o.text("response", "tools", "name") != "weather" {
			t.Errorf("got %v", o)
		}
		call, callID := o.text("response", "output", "id"), o.text("response", "output", "call_id")
		output := `{"type":"function_call_output","call_id":"` + callID + `","output":"sunny"}`
		s.respond(`[`+output+`]`, flatTool+`,"previous_response_id":"`+o.text("response", "id")+`"`)
		chained := w.askedText(1)
		message := strings.Replace(call, "fc_", "msg_", 1)
		message = message[:len(message)-1] + "0"
		s.respond(
			`[{"role":"user","content":"Hi"},{"type":"item_reference","id":"`+message+`"},{"id":"`+call+`"},`+output+
				`]`, flatTool)
		if referred := w.askedText(2); referred != chained || !strings.Contains(chained, "sunny") ||
			!strings.Contains(chained, "I look.") {
			t.Errorf("by reference:\n%q\nby chain:\n%q", referred, chained)
		}
		if status, o := s.call("POST", "/v1/responses", responseBody(`[{"type":"item_reference","id":"msg_nobody_0"}]`,
			"")); status != 400 || o.text("error", "code") != "item_not_found" {
			t.Errorf("%d %v", status, o)
		}
	})
}

func TestResponseThoughts(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		s := startKept(t, &worker{script: speak(t, "<think>Hm, well.</think>Yes<|im_end|>", time.Second)})
		s.gateway.models.All()[0].Tools.Thoughts = dialect.Thinking[0]
		_, body := s.do("POST", "/v1/responses", responseBody(`"Hi"`, `,"stream":true,"reasoning":{"effort":"low"}`))
		names, data := namedEvents(t, body)
		for _, e := range data {
			published.want(t, "ResponseStreamEvent", e)
		}
		want := "response.output_item.added response.content_part.added response.reasoning_text.delta"
		if got := strings.Join(names, " "); !strings.Contains(got, want) ||
			!strings.Contains(got,
				"response.reasoning_text.done response.content_part.done response.output_item.done "+
					"response.output_item.added") {
			t.Errorf("got %s", got)
		}
		output := parseObject(t, data[len(data)-1]).at("response", "output").([]any)
		if thought := object(output[0].(map[string]any)); thought.text("type") != "reasoning" ||
			thought.text("content", "text") != "Hm, well." || len(output) != 2 {
			t.Errorf("got %v", output)
		}
	})
}

func TestBackground(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three four<|im_end|>", time.Second)}
		s := startKept(t, w)
		_, body := s.do("POST", "/v1/responses", responseBody(`"Hi"`, `,"background":true`))
		published.want(t, "Response", body)
		o := parseObject(t, body)
		if o.text("status") != "queued" || o["background"] != true {
			t.Errorf("got %v", o)
		}
		path := "/v1/responses/" + o.text("id")
		time.Sleep(2500 * time.Millisecond)
		if _, o := s.call("GET", path, ""); o.text("status") != "in_progress" {
			t.Errorf("after a while: %v", o)
		}
		s.wantMetric("parley_requests_in_flight", "1")
		_, live := s.do("GET", path+"?stream=true", "")
		names, data := namedEvents(t, live)
		if want := "response.created response.queued response.in_progress " +
			"response.output_item.added"; !strings.HasPrefix(strings.Join(names, " "), want) ||
			names[len(names)-1] != "response.completed" {
			t.Errorf("got %v", names)
		}
		for _, e := range data {
			published.want(t, "ResponseStreamEvent", e)
		}
		if _, o := s.call("GET", path, ""); o.text("status") != "completed" ||
			o.text("output", "content", "text") != "one two three four" {
			t.Errorf("at the end: %v", o)
		}
		s.settled(w)
	})
}

// TestBackgroundOutlivesItsClient leaves the stream of a background response.
func TestBackgroundOutlivesItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three four<|im_end|>", time.Second)}
		s := startKept(t, w)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		response := s.open(ctx, "POST", "/v1/responses", responseBody(`"Hi"`, `,"background":true,"stream":true`))
		id := ""
		lines := make([]byte, 4096)
		n, _ := response.Body.Read(lines)
		for block := range strings.SplitSeq(string(lines[:n]), "\n") {
			if data, ok := strings.CutPrefix(block, "data: "); ok && id == "" {
				id = parseObject(t, data).text("response", "id")
			}
		}
		<-ctx.Done()
		response.Body.Close()
		synctest.Wait()
		if w.active.Load() != 1 {
			t.Error("the response ended with its client")
		}
		time.Sleep(10 * time.Second)
		if _, o := s.call("GET", "/v1/responses/"+id, ""); o.text("output", "content", "text") != "one two three four" {
			t.Errorf("got %v", o)
		}
		s.settled(w)
	})
}

func TestBackgroundCancel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three four<|im_end|>", time.Second)}
		s := startKept(t, w)
		o := s.respond(`"Hi"`, `,"background":true`)
		path := "/v1/responses/" + o.text("id")
		time.Sleep(1500 * time.Millisecond)
		for range 2 {
			status, o := s.call("POST", path+"/cancel", "")
			if status != 200 || o.text("status") != "cancelled" || o.text("output", "content", "text") != "one" {
				t.Errorf("%d %v", status, o)
			}
		}
		s.settled(w)
		_, log := s.do("GET", path+"?stream=true", "")
		if names, _ := namedEvents(t, log); names[len(names)-1] != "response.failed" {
			t.Errorf("got %v", names)
		}
		whole := s.respond(`"Hi"`, "")
		if status, o := s.call("POST", "/v1/responses/"+whole.text("id")+"/cancel", ""); status != 400 {
			t.Errorf("a synchronous one: %d %v", status, o)
		}
		if status, _ := s.call("POST", "/v1/responses",
			responseBody(`"Hi"`, `,"background":true,"store":false`)); status != 400 {
			t.Errorf("without a store: %d", status)
		}
	})
}

// TestBackgroundFails shows a panic of the worker as a failure of the response.
func TestBackgroundFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := startKept(t, &worker{script: func(*parley.Request) []say {
			return []say{{after: time.Second, panic: "secret"}}
		}})
		o := s.respond(`"Hi"`, `,"background":true`)
		time.Sleep(2 * time.Second)
		_, o = s.call("GET", "/v1/responses/"+o.text("id"), "")
		if o.text("status") != "failed" || o.text("error", "code") != "server_error" ||
			strings.Contains(o.text("error", "message"), "secret") {
			t.Errorf("got %v", o)
		}
		s.wantLog("secret", "level=ERROR")
	})
}

// TestCloseStopsBackground ends the server before the answer is complete.
func TestCloseStopsBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three four<|im_end|>", time.Second)}
		s := startKept(t, w)
		o := s.respond(`"Hi"`, `,"background":true`)
		ctx, cancel := context.WithTimeout(t.Context(), 2500*time.Millisecond)
		defer cancel()
		s.gateway.Close(ctx)
		if w.active.Load() != 0 {
			t.Error("something still runs")
		}
		_, o = s.call("GET", "/v1/responses/"+o.text("id"), "")
		if o.text("status") != "failed" || o.text("output", "content", "text") != "one two" ||
			!strings.Contains(o.text("error", "message"), "stopped") {
			t.Errorf("got %v", o)
		}
	})
}

// TestResponseOfDeadProcess stores what a process left that died in mid-answer.
func TestResponseOfDeadProcess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "one two three four<|im_end|>", time.Second)}
		dying := &mute{}
		s := startKept(t, w, func(c *Config) { dying.Store = c.Store; c.writes = dying })
		o := s.respond(`"Hi"`, `,"background":true`)
		time.Sleep(2500 * time.Millisecond)
		dying.dead.Store(true)
		fresh := start(t, w, func(c *Config) { c.Store = dying.Store.(*convo.Store) })
		time.Sleep(time.Minute)
		path := "/v1/responses/" + o.text("id")
		_, o = fresh.call("GET", path, "")
		if o.text("status") != "failed" || !strings.HasPrefix(o.text("output", "content", "text"), "one") ||
			o.text("output", "status") != "incomplete" {
			t.Errorf("got %v", o)
		}
		_, log := fresh.do("GET", path+"?stream=true", "")
		if names, _ := namedEvents(t, log); names[len(names)-1] != "response.failed" {
			t.Errorf("got %v", names)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		fresh.gateway.Close(ctx)
	})
}

func TestResponseInConversation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &worker{script: speak(t, "Yes<|im_end|>", 0)}
		s := startKept(t, w)
		c, err := s.gateway.config.Store.CreateConversation(t.Context(), convo.Owner{Tenant: localTenant},
			convo.NewConversation{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		o := s.respond(`"One"`, `,"conversation":"`+c.ID+`"`)
		if o.text("conversation", "id") != c.ID {
			t.Errorf("got %v", o)
		}
		s.respond(`"Two"`, `,"conversation":{"id":"`+c.ID+`"}`)
		if got := w.askedText(1); !strings.Contains(got,
			"user\nOne<|im_end|>\n<|im_start|>assistant\nYes<|im_end|>\n<|im_start|>user\nTwo") {
			t.Errorf("the prompt is %q", got)
		}
		if status, o := s.call("POST", "/v1/responses",
			responseBody(`"x"`, `,"conversation":"conv_nobody"`)); status != 404 {
			t.Errorf("%d %v", status, o)
		}
	})
}

func TestResponsesWithoutStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "Yes<|im_end|>", 0)})
		o := s.respond(`"Hi"`, "")
		if o["store"] != false || o.text("output", "content", "text") != "Yes" {
			t.Errorf("got %v", o)
		}
		for _, c := range []struct {
			method, path, body string
			status             int
		}{
			{"GET", "/v1/responses/" + o.text("id"), "", 404},
			{"POST", "/v1/responses", responseBody(`"x"`, `,"previous_response_id":"r"`), 400},
			{"POST", "/v1/responses", responseBody(`"x"`, `,"conversation":"r"`), 404},
			{"POST", "/v1/responses", responseBody(`"x"`, `,"background":true`), 400},
		} {
			if status, o := s.call(c.method, c.path, c.body); status != c.status {
				t.Errorf("%s %s gives %d: %v", c.method, c.path, status, o)
			}
		}
	})
}
