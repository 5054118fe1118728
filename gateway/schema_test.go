package gateway

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/internal/testkit"
)

// A schema checks values against the published description of the interface:
// types, required members, enumerations and references. It is written here
// because the description uses little of JSON Schema and nothing else needs it.
type schema struct {
	components map[string]any
}

func loadSchema(t *testing.T) *schema {
	raw, err := os.ReadFile(testkit.SharedData(t, "openai-openapi.json"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(raw, &doc); err != nil {
		t.Fatal(err)
	}
	return &schema{doc.Components.Schemas}
}

// check returns what is wrong with v at path, if anything.
func (s *schema) check(path string, rule map[string]any, v any) error {
	if ref, ok := rule["$ref"].(string); ok {
		if v == nil && rule["nullable"] == true {
			return nil
		}
		name := ref[strings.LastIndexByte(ref, '/')+1:]
		target, ok := s.components[name].(map[string]any)
		if !ok {
			return fmt.Errorf("%s: no schema %s", path, name)
		}
		return s.check(path, target, v)
	}
	if v == nil && rule["nullable"] == true {
		return nil
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if options, ok := rule[word].([]any); ok {
			return s.checkAny(path, options, v)
		}
	}
	if parts, ok := rule["allOf"].([]any); ok {
		for _, part := range parts {
			if err := s.check(path, part.(map[string]any), v); err != nil {
				return err
			}
		}
		return nil
	}
	if allowed, ok := rule["enum"].([]any); ok && !slices.Contains(allowed, v) {
		return fmt.Errorf("%s: %v is none of %v", path, v, allowed)
	}
	return s.checkType(path, rule, v)
}

func (s *schema) checkAny(path string, options []any, v any) error {
	var err error
	for _, option := range options {
		if err = s.check(path, option.(map[string]any), v); err == nil {
			return nil
		}
	}
	return err
}

func (s *schema) checkType(path string, rule map[string]any, v any) error {
	kind, _ := rule["type"].(string)
	if kind == "" && rule["properties"] != nil {
		kind = "object"
	}
	ok := true
	switch kind {
	case "object":
		return s.checkObject(path, rule, v)
	case "array":
		return s.checkArray(path, rule, v)
	case "string":
		_, ok = v.(string)
	case "number":
		_, ok = v.(float64)
	case "integer":
		n, number := v.(float64)
		ok = number && n == float64(int64(n))
	case "boolean":
		_, ok = v.(bool)
	case "null":
		ok = v == nil
	}
	if !ok {
		return fmt.Errorf("%s: %v is no %s", path, v, kind)
	}
	return nil
}

func (s *schema) checkObject(path string, rule map[string]any, v any) error {
	object, ok := v.(map[string]any)
	if !ok {
		return fmt.Errorf("%s: %v is no object", path, v)
	}
	required, _ := rule["required"].([]any)
	for _, name := range required {
		if _, ok := object[name.(string)]; !ok {
			return fmt.Errorf("%s: %s is missing", path, name)
		}
	}
	properties, _ := rule["properties"].(map[string]any)
	for name, member := range object {
		if property, ok := properties[name].(map[string]any); ok {
			if err := s.check(path+"."+name, property, member); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *schema) checkArray(path string, rule map[string]any, v any) error {
	array, ok := v.([]any)
	if !ok {
		return fmt.Errorf("%s: %v is no array", path, v)
	}
	items, _ := rule["items"].(map[string]any)
	for i, element := range array {
		if err := s.check(fmt.Sprintf("%s[%d]", path, i), items, element); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) want(t *testing.T, name, body string) {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if err := s.check(name, map[string]any{"$ref": "/" + name}, v); err != nil {
		t.Errorf("%v\nin %s", err, body)
	}
}

func TestAnswersFollowTheSchema(t *testing.T) {
	published := loadSchema(t)
	synctest.Test(t, func(t *testing.T) {
		s := start(t, &worker{script: speak(t, "A 😀 b<|im_end|>", time.Second)})
		for _, extra := range []string{"", `,"n":2,"logprobs":true,"top_logprobs":2,"service_tier":"auto"`} {
			_, body := s.chat(extra)
			published.want(t, "CreateChatCompletionResponse", body)
			_, body = s.chat(extra + `,"stream":true,"stream_options":{"include_usage":true}`)
			events := streamedEvents(body)
			if len(events) < 5 {
				t.Errorf("%d events: %s", len(events), body)
			}
			for _, e := range events {
				published.want(t, "CreateChatCompletionStreamResponse", e)
			}
		}
		calling := start(t, &worker{script: speak(t, "Hm "+weatherCall+"\n"+weatherCall, time.Second)}, roomy)
		for _, extra := range []string{"", `,"n":2,"logprobs":true,"tool_choice":"required"`} {
			_, body := calling.chat(weatherTool + extra)
			published.want(t, "CreateChatCompletionResponse", body)
			_, body = calling.chat(weatherTool + extra + `,"stream":true,"stream_options":{"include_usage":true}`)
			for _, e := range streamedEvents(body) {
				published.want(t, "CreateChatCompletionStreamResponse", e)
			}
		}
		_, body := s.complete(`,"prompt":["a","b"],"n":2,"logprobs":3`)
		published.want(t, "CreateCompletionResponse", body)
		_, body = s.do("GET", "/v1/models", "")
		published.want(t, "ListModelsResponse", body)
		_, body = s.do("GET", "/v1/models/"+modelID, "")
		published.want(t, "Model", body)
		for _, path := range []string{"/nope", "/v1/completions", "/v1/models/nope"} {
			_, body = s.do("GET", path, "")
			published.want(t, "ErrorResponse", body)
		}
	})
}

// TestSchemaCanFail makes sure the check above means something.
func TestSchemaCanFail(t *testing.T) {
	published := loadSchema(t)
	for name, body := range map[string]string{
		"ErrorResponse":                      `{"error":{"message":"x","type":"y","param":null}}`,
		"ListModelsResponse":                 `{"object":"list","data":[{"id":1,"object":"model","created":0,"owned_by":"x"}]}`,
		"CreateChatCompletionStreamResponse": `{"id":"a","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{}}]}`,
	} {
		var v any
		if err := json.Unmarshal([]byte(body), &v); err != nil {
			t.Fatal(err)
		}
		if published.check(name, map[string]any{"$ref": "/" + name}, v) == nil {
			t.Errorf("%s accepts %s", name, body)
		}
	}
}
