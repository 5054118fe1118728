package gateway

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/gateway/anthropic"
	"parley/gateway/native"
	"parley/gateway/ollama"
	"parley/gateway/openai"
	"parley/gateway/tenant"
	"parley/internal/testkit"
)

var rewriteAPI = flag.Bool("rewrite", false, "write the description of the API again; review the difference")

// An apiEntry says what reads the body of an operation and what it answers.
type apiEntry struct {
	// parser names the function that reads the body, after its package unless that is
	// openai; answer is a value of the type of the answer. Both may be missing.
	parser string
	answer any
}

// TestOpenAPI compares the description of the API with the route table, the parsers and the
// types of answers: none of them has a route or a member that the description lacks.
func TestOpenAPI(t *testing.T) {
	s, _ := startGuarded(t, &worker{}, newStoreName(t), withEverything,
		func(c *Config) { c.ModelAPI = c.Pages })
	d := &apiDescription{t: t, schemas: apiSchema{}, sources: map[string]*sourceReader{}}
	document := d.document(s.gateway.routes.all())
	want, err := json.MarshalIndent(document, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	path := filepath.Join(testkit.Root(), "gateway", "apidoc", "openapi.json")
	if *rewriteAPI {
		if err := errors.Join(os.WriteFile(path, want, 0o644),
			os.WriteFile(path+".gz", testkit.Gzip(t, want), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from the code (%v): run go test ./gateway -run TestOpenAPI -rewrite", path, err)
	}
	chat := d.sources["openai"].request("ParseChat")["properties"].(apiSchema)
	for _, name := range []string{"model", "messages", "temperature", "max_completion_tokens", "tools", "stop",
		"logit_bias",
		"response_format", "stream_options", "seed", "guided_json", "reasoning_effort"} {
		if chat[name] == nil {
			t.Errorf("the description lacks %s, which chat completions read", name)
		}
	}
}

// apiDescription makes a description of the API.
type apiDescription struct {
	t       *testing.T
	schemas apiSchema
	sources map[string]*sourceReader
}

// isPageFile reports whether a route serves a page or a file of one.
func isPageFile(path string) bool {
	return slices.Contains([]string{"/", "/admin", "/assets/{file}", "/c/{id}", "/icon.svg", "/licenses.txt",
		"/theme.js",
		"/manifest.webmanifest", "/docs"}, path)
}

func (d *apiDescription) document(routes []*route) apiSchema {
	paths := apiSchema{}
	for _, r := range routes {
		if isPageFile(r.name) {
			continue
		}
		path := r.name
		if path == modelsPrefix {
			path += "{model}"
		}
		item := apiSchema{}
		for method := range r.methods {
			if method != upgrade {
				item[strings.ToLower(method)] = d.operation(method, path, r)
			}
		}
		paths[path] = item
	}
	return apiSchema{
		"openapi": "3.1.0",
		"info":    apiSchema{"title": "Parley", "version": "1", "description": apiText},
		"servers": []any{apiSchema{"url": "/"}},
		"paths":   paths,
		"components": apiSchema{"schemas": d.schemas, "securitySchemes": apiSchema{
			"key": apiSchema{"type": "http", "scheme": "bearer",
				"description": "A key of parley keys create, or the local token."}}},
	}
}

// apiText introduces the description.
const apiText = "The API of a Parley server. Fields that a parser does not know are ignored; fields of other servers " +
	"that would change an answer are refused by name."

var notWord = regexp.MustCompile(`\W+`)

var pathParameter = regexp.MustCompile(`\{(\w+)\}`)

func (d *apiDescription) operation(method, path string, r *route) apiSchema {
	name := method + " " + strings.Replace(path, adminOrganizationPrefix, organizationPrefix, 1)
	entry := apiBodies[name]
	_, summary, ok := strings.Cut(apiSummaries, "\n"+name+": ")
	if summary, _, _ = strings.Cut(summary, "\n"); !ok {
		d.t.Errorf("%s %s has no line in apiSummaries", method, path)
	}
	op := apiSchema{"summary": summary, "tags": []string{tagOf(path)}, "x-access": r.access.String(),
		"operationId": strings.ToLower(method) + strings.Trim(notWord.ReplaceAllString(path, "_"), "_")}
	op["security"] = []any{}
	if !r.access.isOpen() {
		op["security"] = []any{apiSchema{"key": []string{}}}
	}
	var parameters []any
	for _, name := range pathParameter.FindAllStringSubmatch(path, -1) {
		parameters = append(parameters,
			apiSchema{"name": name[1], "in": "path", "required": true, "schema": apiSchema{"type": "string"}})
	}
	if parameters != nil {
		op["parameters"] = parameters
	}
	if body, ok := typedBodies[name]; ok {
		op["requestBody"] = apiSchema{"required": true, "content": content(d.typed(reflect.TypeOf(body)))}
	} else if entry.parser != "" {
		op["requestBody"] = apiSchema{"required": true, "content": content(d.request(entry.parser))}
	}
	answered := apiSchema{"description": "The answer."}
	if several, ok := entry.answer.(oneOfTypes); ok {
		var list []any
		for _, one := range several {
			list = append(list, d.typed(reflect.TypeOf(one)))
		}
		answered["content"] = content(apiSchema{"anyOf": list})
	} else if entry.answer != nil {
		answered["content"] = content(d.typed(reflect.TypeOf(entry.answer)))
	}
	failure := any(openai.ErrorBody{})
	switch {
	case strings.HasPrefix(path, "/api/"):
		failure = ollama.ErrorBody{}
	case strings.HasPrefix(path, "/v1/messages"):
		failure = openai.MessageError{}
	}
	op["responses"] = apiSchema{"200": answered,
		"default": apiSchema{"description": "A failure.", "content": content(d.typed(reflect.TypeOf(failure)))}}
	return op
}

func content(s apiSchema) apiSchema { return apiSchema{"application/json": apiSchema{"schema": s}} }

func tagOf(path string) string {
	switch parts := strings.Split(path, "/"); {
	case strings.HasPrefix(path, "/api/"):
		return "Ollama"
	case strings.HasPrefix(path, "/v1/organization/"), strings.HasPrefix(path, "/admin/"), parts[1] == "fleet",
		parts[1] == "debug", parts[1] == "metrics":
		return "Operation"
	case strings.HasPrefix(path, "/v1/conversations"), strings.HasPrefix(path, "/v1/responses"),
		strings.HasPrefix(path, "/v1/files"), strings.HasPrefix(path, "/v1/batches"):
		return "Stored"
	case parts[1] == "v1":
		return "Inference"
	}
	return "Server"
}

// request describes what a parser reads, under its name.
func (d *apiDescription) request(parser string) apiSchema {
	folder, function, found := strings.Cut(parser, ".")
	if !found {
		folder, function = "openai", parser
	}
	if d.sources[folder] == nil {
		d.sources[folder] = readSources(d.t, "gateway/"+folder)
	}
	name := folder + "." + strings.TrimPrefix(strings.TrimPrefix(function, "Parse"), "parse") + "Body"
	if d.schemas[name] == nil {
		if folder == "native" && function == "parseGap" {
			d.schemas[name] = d.sources[folder].gap()
		} else if typed, ok := nativeBodies[function]; ok && folder == "native" {
			return d.typed(reflect.TypeOf(typed))
		} else {
			d.schemas[name] = d.sources[folder].request(function)
		}
	}
	return apiSchema{"$ref": "#/components/schemas/" + name}
}

// typedBodies are the types that the bodies of operations are decoded into.
var typedBodies = map[string]any{
	"POST /api/copy":                                    ollama.Copy{},
	"POST /v1/organization/api_keys":                    tenant.KeyRequest{},
	"POST /v1/organization/api_keys/{key}":              tenant.KeyRequest{},
	"POST /v1/organization/api_keys/{key}/rotate":       tenant.Rotation{},
	"POST /v1/organization/admin_api_keys":              tenant.KeyRequest{},
	"POST /v1/organization/admin_api_keys/{key}":        tenant.KeyRequest{},
	"POST /v1/organization/admin_api_keys/{key}/rotate": tenant.Rotation{},
	"POST /v1/organization/projects":                    tenant.OrganizationRequest{},
	"POST /v1/organization/projects/{project}":          tenant.OrganizationRequest{},
}

// nativeBodies are the types that parsers of gateway/native decode.
var nativeBodies = map[string]any{"parseTokenize": native.TokenizeRequest{},
	"parseDetokenize": native.DetokenizeRequest{},
	"parseScore":      native.ScoreRequest{}}

// gap describes the body of POST /infill, whose names stand in lists.
func (r *sourceReader) gap() apiSchema {
	object := newObject()
	for _, list := range []string{"sameFields", "hintFields"} {
		for _, name := range r.texts(r.values[list]) {
			object["properties"].(apiSchema)[name] = apiSchema{}
		}
	}
	for name, value := range r.values {
		if strings.HasSuffix(name, "Field") {
			for _, field := range r.names(value, nil) {
				object["properties"].(apiSchema)[field] = apiSchema{}
			}
		}
	}
	return object
}

// typed describes a type of Go as its JSON.
func (d *apiDescription) typed(t reflect.Type) apiSchema {
	if strings.HasPrefix(t.Name(), "Maybe[") {
		value, _ := t.FieldByName("Value")
		return d.typed(value.Type)
	}
	if t.Implements(reflect.TypeFor[json.Marshaler]()) && t != reflect.TypeFor[time.Time]() {
		return apiSchema{} // any JSON
	}
	isText := reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	if isText && t != reflect.TypeFor[time.Time]() {
		return apiSchema{"type": "string"}
	}
	switch t.Kind() {
	case reflect.Pointer:
		return apiSchema{"anyOf": []any{d.typed(t.Elem()), apiSchema{"type": "null"}}}
	case reflect.Slice: // which may be nil
		return apiSchema{"type": []string{"array", "null"}, "items": d.typed(t.Elem())}
	case reflect.Array:
		return apiSchema{"type": "array", "items": d.typed(t.Elem())}
	case reflect.Map:
		return apiSchema{"type": "object", "additionalProperties": d.typed(t.Elem())}
	case reflect.String:
		return apiSchema{"type": "string"}
	case reflect.Bool:
		return apiSchema{"type": "boolean"}
	case reflect.Float32, reflect.Float64:
		return apiSchema{"type": "number"}
	case reflect.Interface:
		return apiSchema{}
	case reflect.Struct:
		return d.object(t)
	}
	return apiSchema{"type": "integer"}
}

func (d *apiDescription) object(t reflect.Type) apiSchema {
	if t == reflect.TypeFor[time.Time]() {
		return apiSchema{"type": "string", "format": "date-time"}
	}
	name := notWord.ReplaceAllString(strings.ReplaceAll(t.String(), "parley/gateway/", ""), ".")
	name = strings.Trim(name, ".")
	if d.schemas[name] == nil {
		s := newObject()
		d.schemas[name] = s
		d.fields(t, s)
	}
	return apiSchema{"$ref": "#/components/schemas/" + name}
}

func (d *apiDescription) fields(t reflect.Type, s apiSchema) {
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		inner := f.Type
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		switch {
		case f.Anonymous && name == "" && inner.Kind() == reflect.Struct:
			d.fields(inner, s)
			continue
		case !f.IsExported() || name == "-":
			continue
		case name == "":
			name = f.Name
		}
		s["properties"].(apiSchema)[name] = d.typed(f.Type)
		if !strings.Contains(options, "omit") && f.Type.Kind() != reflect.Pointer {
			require(s, name)
		}
	}
}

// apiSummaries says what operations do: a method, a path and a sentence in each line.
const apiSummaries = `
GET /account: Show the signed-in account
POST /account: Change the name of the signed-in account
DELETE /account: Delete the signed-in account and all its data
POST /account/first: Create the first account of a server without keys, which is a server admin
POST /account/password: Change the password; other sessions end
GET /account/export: Download all data of the account, as a zip archive
GET /account/sessions: List the browsers in which the account is signed in
DELETE /account/sessions: Sign out everywhere
DELETE /account/sessions/{session}: End one session
GET /account/identities: List the identities at issuers that sign in to the account
POST /account/identities: Begin to connect an identity at the issuer with the account
DELETE /account/identities: Disconnect an identity from the account
GET /account/passkeys: List the passkeys of the account
POST /account/passkeys: Register a passkey
POST /account/passkeys/challenge: Ask for a challenge to register a passkey with
POST /account/passkeys/{passkey}: Rename a passkey
DELETE /account/passkeys/{passkey}: Remove a passkey
GET /account/keys: List the API keys of the account
POST /account/keys: Create an API key of the account
POST /account/keys/{key}/rotate: Give a key of the account a new secret
DELETE /account/keys/{key}: Delete a key of the account
POST /invitation: Show what an invitation is for
POST /invitation/accept: Accept an invitation: choose a name and a password, and sign in
GET /v1/organization/users: List people
POST /v1/organization/users: Create an account with a password
GET /v1/organization/users/{user}: Show an account
POST /v1/organization/users/{user}: Change an account: name, role, tier, models, disabled
DELETE /v1/organization/users/{user}: Delete an account and all its data
POST /v1/organization/users/{user}/reset: Create a link for choosing a new password
POST /v1/organization/users/{user}/sign_out: End all sessions of an account
GET /v1/organization/invites: List invitations
POST /v1/organization/invites: Invite a person
DELETE /v1/organization/invites/{invite}: Withdraw an invitation
GET /v1/organization/groups: List what members of the issuer's groups get
POST /v1/organization/groups: Set what members of a group get at each sign-in
DELETE /v1/organization/groups: Remove a group
POST /v1/chat/completions: Answer a conversation, whole or as a stream
POST /v1/completions: Continue plain text or tokens
POST /v1/fim/completions: Fill in the middle between two texts
POST /v1/embeddings: Turn texts into vectors
POST /v1/rerank: Rank documents by relevance to a query
POST /rerank: Rank documents by relevance to a query
POST /v1/score: Score the similarity of texts
POST /score: Score the similarity of texts
POST /v1/messages: Answer a conversation in Anthropic's API
POST /v1/messages/count_tokens: Count the tokens of a conversation
POST /v1/moderations: Check texts against the safety policy
GET /v1/models: List the models that the caller may use; in Anthropic's shape with anthropic-version
GET /v1/models/{model}: Describe a model
POST /v1/responses: Create a response
POST /v1/responses/input_tokens: Count the tokens of a response's input
POST /v1/responses/compact: Shorten a conversation to a summary
GET /v1/responses/{id}: Show a response, or resume its stream
DELETE /v1/responses/{id}: Delete a response
POST /v1/responses/{id}/cancel: End a response in the background
GET /v1/responses/{id}/input_items: List the input of a response
POST /v1/files: Store a file of requests, as multipart/form-data
GET /v1/files: List files
GET /v1/files/{id}: Describe a file
DELETE /v1/files/{id}: Delete a file
GET /v1/files/{id}/content: Read a file
POST /v1/batches: Create a batch from a file of requests
GET /v1/batches: List batches
GET /v1/batches/{id}: Describe a batch
POST /v1/batches/{id}/cancel: End a batch
POST /v1/conversations: Create a conversation
GET /v1/conversations: List or search conversations
POST /v1/conversations/import: Import an exported conversation
GET /v1/conversations/{id}: Describe a conversation
POST /v1/conversations/{id}: Change a conversation
DELETE /v1/conversations/{id}: Delete a conversation
POST /v1/conversations/{id}/restore: Restore a deleted conversation
GET /v1/conversations/{id}/export: Export a conversation
GET /v1/conversations/{id}/tree: Show all branches of a conversation
POST /v1/conversations/{id}/items: Add items to a conversation
GET /v1/conversations/{id}/items: List the items of a conversation
GET /v1/conversations/{id}/items/{item}: Show an item
DELETE /v1/conversations/{id}/items/{item}: Delete an item
POST /v1/conversations/{id}/messages: Add a message and have it answered
POST /v1/conversations/{id}/messages/{item}/resume: Resume an answer that was cut off
POST /v1/conversations/{id}/messages/{item}/cancel: End an answer
GET /v1/conversations/{id}/messages/{item}/stream: Follow an answer in the background
GET /v1/queue: List the caller's queued requests
GET /v1/queue/{id}: Show the position of a queued request
GET /v1/organization/usage/completions: Show token usage
GET /v1/organization/costs: Show costs
GET /v1/organization/me: Show the caller, its limits and what is left
GET /v1/organization/audit_logs: List what operators changed
GET /v1/organization/api_keys: List keys
POST /v1/organization/api_keys: Create a key
GET /v1/organization/api_keys/{key}: Describe a key
POST /v1/organization/api_keys/{key}: Change a key
DELETE /v1/organization/api_keys/{key}: Delete a key
POST /v1/organization/api_keys/{key}/rotate: Replace the secret of a key
POST /v1/organization/api_keys/{key}/restore: Restore a key that was deleted
GET /v1/organization/admin_api_keys: List keys with the admin right
POST /v1/organization/admin_api_keys: Create a key with the admin right
GET /v1/organization/admin_api_keys/{key}: Describe a key with the admin right
POST /v1/organization/admin_api_keys/{key}: Change a key with the admin right
DELETE /v1/organization/admin_api_keys/{key}: Delete a key with the admin right
POST /v1/organization/admin_api_keys/{key}/rotate: Replace the secret of a key with the admin right
POST /v1/organization/admin_api_keys/{key}/restore: Restore a key with the admin right that was deleted
GET /v1/organization/projects: List organisations
POST /v1/organization/projects: Create an organisation
GET /v1/organization/projects/{project}: Describe an organisation
POST /v1/organization/projects/{project}: Change an organisation
DELETE /v1/organization/projects/{project}: Delete an organisation
POST /v1/organization/projects/{project}/archive: Archive an organisation
GET /v1/organization/projects/{project}/api_keys: List the keys of an organisation
GET /v1/organization/projects/{project}/api_keys/{key}: Describe a key of an organisation
DELETE /v1/organization/projects/{project}/api_keys/{key}: Delete a key of an organisation
GET /v1/organization/projects/{project}/users: List the users of an organisation
POST /v1/organization/projects/{project}/users/{user}: Block or unblock a user
GET /admin/api/now: Show the current state of the server
GET /admin/api/about: Show which features the server has
GET /admin/api/server: Describe the process, its models and its settings
GET /admin/api/history: Show the history of the server
GET /admin/api/plan: Show the measurements that capacity plans need
GET /admin/api/live: Stream the state of the server
GET /admin/api/alerts: List budget alerts
GET /admin/api/requests: List recent requests
GET /admin/api/requests/{id}: Show the record of a request
GET /admin/api/safety/events: List the findings of the safety policy
GET /admin/api/findings: List prompts that stopped hitting the cache
GET /admin/api/models: List the models of the folder, downloads and the catalogue
POST /admin/api/models: Download a model into the folder
DELETE /admin/api/models/{name}: Remove a model from the folder
POST /admin/api/models/{name}/load: Load a model
POST /admin/api/models/{name}/unload: Unload a model
GET /admin/api/scale: List what autoscalers report
POST /admin/api/workers/drain: Drain a worker
POST /admin/api/workers/resume: Resume a drained worker
POST /admin/api/workers/sleep: Put a worker to sleep
POST /admin/api/workers/wake: Wake a worker
GET /admin/session: Show the session of the admin page
POST /admin/session: Sign in to the admin page
DELETE /admin/session: Sign out of the admin page
GET /session: Show the session of the chat page
POST /session: Sign in to the chat page
DELETE /session: Sign out of the chat page
POST /session/issuer: Begin a sign-in at the issuer of OpenID Connect
GET /session/callback: Complete a sign-in at the issuer
POST /session/passkey: Ask for a challenge to sign in with a passkey
GET /metrics: Show Prometheus metrics
GET /debug/pprof/: List profiles of the program
GET /debug/pprof/{name}: Read a profile of the program
GET /fleet/workers: List workers
GET /fleet/findings: List prompts that stopped hitting the cache
GET /fleet/metrics: Show Prometheus metrics to autoscalers
GET /fleet/scale: List what autoscalers report
POST /fleet/scale: Report what an autoscaler wants
POST /fleet/register: Register a worker
DELETE /fleet/register: Remove the registration of a worker
POST /fleet/workers/{name}/drain: Drain a worker
POST /fleet/workers/{name}/resume: Resume a drained worker
POST /fleet/workers/{name}/sleep: Put a worker to sleep
POST /fleet/workers/{name}/wake: Wake a worker
GET /healthz: Report that the process is alive
GET /readyz: Report whether new requests can be answered
GET /health: Report whether new requests can be answered
GET /ping: Report whether new requests can be answered
POST /ping: Report whether new requests can be answered
GET /version: Show the version of the program
GET /openapi.json: Describe this API
GET /props: Show the properties of a model in llama.cpp's shape
POST /tokenize: Turn a text or a conversation into tokens
POST /detokenize: Turn tokens into a text
POST /apply-template: Render a conversation with the model's template
POST /infill: Fill in the middle, in llama.cpp's format
POST /api/chat: Answer a conversation in Ollama's API
POST /api/generate: Answer a prompt in Ollama's API
POST /api/embed: Turn texts into vectors in Ollama's API
POST /api/embeddings: Turn a text into a vector in Ollama's API
GET /api/tags: List models in Ollama's API
GET /api/ps: List loaded models in Ollama's API
POST /api/show: Describe a model in Ollama's API
GET /api/version: Show the version of Ollama's API
POST /api/pull: Download a model, with progress
DELETE /api/delete: Remove a model from the folder
POST /api/copy: Give a model a second name
`

// apiBodies says what operations read and answer.
var apiBodies = map[string]apiEntry{
	"POST /v1/chat/completions":              {"ParseChat", openai.ChatResponse{}},
	"POST /v1/completions":                   {"ParseCompletion", openai.CompletionResponse{}},
	"POST /v1/fim/completions":               {"ParseFIM", openai.ChatResponse{}},
	"POST /v1/embeddings":                    {"ParseEmbedding", openai.EmbeddingList{}},
	"POST /v1/rerank":                        {"ParseRerank", openai.Ranking{}},
	"POST /rerank":                           {"ParseRerank", openai.Ranking{}},
	"POST /v1/score":                         {"native.parseScore", native.ScoreList{}},
	"POST /score":                            {"native.parseScore", native.ScoreList{}},
	"POST /v1/messages":                      {"ParseMessages", openai.ReplyMessage{}},
	"POST /v1/messages/count_tokens":         {"ParseCountTokens", openai.TokenCount{}},
	"POST /v1/moderations":                   {"ParseModeration", openai.Moderation{}},
	"GET /v1/models":                         {"", oneOfTypes{openai.ModelList{}, anthropic.ModelList{}}},
	"GET /v1/models/{model}":                 {"", oneOfTypes{openai.Model{}, anthropic.Model{}}},
	"POST /v1/responses":                     {"ParseResponse", openai.Response{}},
	"POST /v1/responses/input_tokens":        {"ParseResponse", openai.InputTokens{}},
	"POST /v1/responses/compact":             {"ParseResponse", openai.Compaction{}},
	"GET /v1/responses/{id}":                 {"", openai.Response{}},
	"DELETE /v1/responses/{id}":              {"", openai.DeletedResponse{}},
	"POST /v1/responses/{id}/cancel":         {"", openai.Response{}},
	"POST /v1/files":                         {"", openai.File{}},
	"GET /v1/files":                          {"", openai.FileList{}},
	"GET /v1/files/{id}":                     {"", openai.File{}},
	"DELETE /v1/files/{id}":                  {"", openai.Deletion{}},
	"POST /v1/batches":                       {"ParseBatch", openai.Batch{}},
	"GET /v1/batches":                        {"", openai.BatchList{}},
	"GET /v1/batches/{id}":                   {"", openai.Batch{}},
	"POST /v1/batches/{id}/cancel":           {"", openai.Batch{}},
	"POST /v1/conversations":                 {"ParseConversation", openai.Conversation{}},
	"GET /v1/conversations/{id}":             {"", openai.Conversation{}},
	"POST /v1/conversations/{id}":            {"ParseConversation", openai.Conversation{}},
	"DELETE /v1/conversations/{id}":          {"", openai.DeletedConversation{}},
	"POST /v1/conversations/{id}/restore":    {"", openai.Conversation{}},
	"POST /v1/conversations/{id}/messages":   {"ParseTurn", openai.TurnResponse{}},
	"GET /v1/organization/usage/completions": {"", openai.UsagePage{}},
	"GET /v1/organization/costs":             {"", openai.UsagePage{}},
	"GET /healthz":                           {"", health{}},
	"GET /readyz":                            {"", health{}},
	"GET /health":                            {"", health{}},
	"GET /ping":                              {"", health{}},
	"POST /ping":                             {"", health{}},
	"GET /version":                           {"", native.Build{}},
	"GET /props":                             {"", native.Props{}},
	"POST /tokenize":                         {"native.parseTokenize", native.Tokens{}},
	"POST /detokenize":                       {"native.parseDetokenize", native.Detokenization{}},
	"POST /apply-template":                   {"ParseChat", native.RenderedPrompt{}},
	"POST /infill":                           {"native.parseGap", native.Gap{}},
	"POST /api/chat":                         {"ollama.ParseChat", ollama.Line{}},
	"POST /api/generate":                     {"ollama.ParseGenerate", ollama.Line{}},
	"POST /api/embed":                        {"ollama.parseEmbed", ollama.Embeddings{}},
	"POST /api/embeddings":                   {"ollama.parseEmbed", ollama.Embedding{}},
	"GET /api/tags":                          {"", ollama.List[ollama.Model]{}},
	"GET /api/ps":                            {"", ollama.List[ollama.LoadedModel]{}},
	"POST /api/show":                         {"ollama.ParseSubject", ollama.Show{}},
	"GET /api/version":                       {"", ollama.Version{}},
	"POST /api/pull":                         {"ollama.ParseSubject", ollama.PullLine{}},
	"DELETE /api/delete":                     {"ollama.ParseSubject", nil},
}

// oneOfTypes are answers of which a request gets one.
type oneOfTypes []any
