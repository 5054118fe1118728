package ollama

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"parley"
	"parley/gateway/answer"
	"parley/gateway/dialect"
	"parley/gateway/exchange"
	"parley/gateway/job"
	"parley/gateway/models"
	"parley/gateway/openai"
)

// An API answers the routes of Ollama's API. What they answer is computed, limited, screened
// and billed as on all other routes; shapes alone differ.
type API struct {
	Models *models.Set
	Now    func() time.Time
	// Folder changes the model folder, on the same paths; nil if there is none.
	Folder http.Handler
	// Keyless reports whether the server has no keys, so that every program that reaches it
	// may decide which models are in memory.
	Keyless func() bool
}

// find returns a model by the name that clients of Ollama's API have for it.
func (a *API) find(x *exchange.Exchange, name string) (*models.Model, error) {
	m, err := a.Models.Find(x.Identity, name)
	if plain := Untagged(name); err != nil && plain != name {
		m, err = a.Models.Find(x.Identity, plain)
	}
	return m, err
}

// ShowVersion answers GET /api/version.
func (a *API) ShowVersion(x *exchange.Exchange) error {
	return x.Reply(http.StatusOK, Version{Version: APIVersion})
}

// Chat answers POST /api/chat.
func (a *API) Chat(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, ParseChat)
	if err != nil {
		return err
	}
	return a.answer(x, &request.Common, &Lines{IsChat: true}, request.Request,
		func(m *models.Model) (*answer.Answer, func(), error) {
			return j.Converse(x.Request.Context(), m, request.Request)
		})
}

// Generate answers POST /api/generate.
func (a *API) Generate(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, ParseGenerate)
	if err != nil {
		return err
	}
	form := &Lines{}
	return a.answer(x, &request.Common, form, request.Request,
		func(m *models.Model) (said *answer.Answer, stop func(), err error) {
			switch {
			case request.Plain != nil:
				return complete(x, j, m, request.Plain, nil)
			case len(request.Context) > 0:
				said, stop, err = follow(x, j, m, request)
			default:
				said, stop, err = j.Converse(x.Request.Context(), m, request.Request)
			}
			if err == nil && m.Gauge == nil { // whose tokens are known
				prompt := said.Prompts[0].Tokens
				form.Context = func(text string) []parley.Token {
					if x.Record.Model() != m.ID {
						return nil // another model answered, whose tokens are others
					}
					return m.After(prompt, text)
				}
			}
			return said, stop, err
		})
}

// follow starts the answer to a turn that follows tokens of earlier ones.
func follow(x *exchange.Exchange, j *job.Job, m *models.Model, request *Generate) (*answer.Answer, func(), error) {
	if err := m.CheckChat(request.Request); err != nil {
		return nil, nil, err
	}
	turn, thinking, err := m.Render(request.Request)
	if err != nil {
		return nil, nil, err
	}
	plain := &openai.CompletionRequest{Generation: request.Request.Generation, BestOf: 1, Prompts: []openai.Prompt{
		{Tokens: m.Follow(request.Context, turn), IsTokens: true, Param: "context"}}}
	if plain.MaxTokens == 0 {
		plain.MaxTokens = m.ContextTokens
	}
	return complete(x, j, m, plain, m.Tools.Readers(request.Request, thinking))
}

// complete starts the answer to a plain prompt, which is read by what reads makes, if not
// nil.
func complete(x *exchange.Exchange, j *job.Job, m *models.Model, request *openai.CompletionRequest,
	reads func() *dialect.Reader) (*answer.Answer, func(), error) {
	query, err := j.Complete(x.Request.Context(), m, request)
	if err != nil {
		return nil, nil, err
	}
	query.ReadBy(reads)
	return j.Answer(x.Request.Context(), query)
}

// answer answers a request with what start begins: whole or in lines.
func (a *API) answer(x *exchange.Exchange, asked *Common, form *Lines, chat *openai.ChatRequest,
	start func(*models.Model) (*answer.Answer, func(), error)) error {
	m, err := a.find(x, asked.Model)
	if err != nil {
		return err
	}
	x.Record.SetModel(m.ID)
	form.Started, form.Now = x.Record.Started, a.Now
	form.Model = func() string {
		if answers := x.Record.Model(); answers != m.ID {
			return answers
		}
		return asked.Model
	}
	switch {
	case asked.Idle:
		return a.idle(x, m, asked, form)
	case asked.Thinks && m.Tools.Thoughts == nil && m.Gauge == nil: // what a service can do is not known
		return parley.Invalid("think", "%q does not support thinking: leave out 'think'.", asked.Model)
	}
	if asked.Stream {
		x.Hooks.Detach()
	}
	said, stop, err := start(m)
	if err != nil {
		return Rename(err)
	}
	x.Bytes.Release() // what is left of the body fits the context
	if chat != nil && chat.Logprobs {
		form.Logprob = m.TokenLogprob
	}
	end := func() {
		stop()
		a.keepAlive(x, m, asked)
	}
	if asked.Stream {
		return x.Hooks.Rest(func() error {
			defer end()
			return x.StreamAnswer(said, form, true)
		})
	}
	defer end()
	choices, err := said.Collect(x.Request.Context())
	if err != nil {
		return Rename(err)
	}
	return x.Reply(http.StatusOK, form.Whole(&choices[0], said.Usage))
}

// mayLoad reports whether the caller may decide which models are in memory: one with the
// admin right, and every program of this machine while there are no keys.
func (a *API) mayLoad(x *exchange.Exchange) bool { return a.Keyless() || x.Identity.Admin }

// keepAlive keeps a model in memory for as long as a request asks, if its caller may decide
// that.
func (a *API) keepAlive(x *exchange.Exchange, m *models.Model, asked *Common) {
	if asked.KeepAlive != nil && a.mayLoad(x) {
		m.KeepAlive(*asked.KeepAlive)
	}
}

// idle answers a request that only loads or unloads a model.
func (a *API) idle(x *exchange.Exchange, m *models.Model, asked *Common, form *Lines) error {
	unload := asked.KeepAlive != nil && *asked.KeepAlive == 0
	switch {
	case unload && !a.mayLoad(x):
		return parley.Errorf(parley.Forbidden,
			"Unloading a model needs a key with the admin right. Create one with: parley keys create --admin")
	case unload && !m.CanUnload():
		return parley.Invalid("keep_alive",
			"The model `%s` stays in memory: it is built in, named by --model, or served by a worker.", m.ID)
	case !unload:
		if err := m.Load(x.Request.Context()); err != nil {
			return err
		}
	}
	a.keepAlive(x, m, asked)
	if unload {
		return x.Reply(http.StatusOK, form.Idle("unload"))
	}
	return x.Reply(http.StatusOK, form.Idle("load"))
}

// Embed answers POST /api/embed.
func (a *API) Embed(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, ParseEmbed)
	if err != nil {
		return err
	}
	vectors, err := a.embed(x, j, request)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, Embeddings{
		Model:           request.Model,
		Embeddings:      vectors,
		TotalDuration:   int64(a.Now().Sub(x.Record.Started)),
		LoadDuration:    int64(x.Record.Usage().Queued),
		PromptEvalCount: x.Record.PromptTokens(),
	})
}

// EmbedOne answers POST /api/embeddings, which is older and takes one text.
func (a *API) EmbedOne(x *exchange.Exchange, j *job.Job) error {
	request, err := exchange.Read(x, ParseEmbedOne)
	if err != nil {
		return err
	}
	vectors, err := a.embed(x, j, request)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, Embedding{Embedding: append(vectors, []float32{})[0]})
}

// embed returns the vectors of the inputs of a request.
func (a *API) embed(x *exchange.Exchange, j *job.Job, request *Embed) (vectors []any, err error) {
	m, err := a.find(x, request.Model)
	if err != nil {
		return nil, err
	}
	defer a.keepAlive(x, m, &request.Common)
	vectors = []any{}
	if request.Request == nil {
		return vectors, nil
	}
	if request.Truncate {
		for i := range request.Request.Inputs {
			if err := m.Truncate(&request.Request.Inputs[i]); err != nil {
				return nil, err
			}
		}
	}
	query, err := j.Inputs(x.Request.Context(), m, "input", request.Request.Inputs)
	if err != nil {
		return nil, Rename(err)
	}
	x.Bytes.Release() // what is left of the body are tokens
	vectors = make([]any, len(request.Request.Inputs))
	return vectors, j.Embed(x.Request.Context(), query, func(input int, vector []float32) error {
		if err := request.Request.CheckWidth(len(vector)); err != nil {
			return err
		}
		vectors[input] = request.Request.Shape(input, vector).Embedding
		return nil
	})
}

// ListModels answers GET /api/tags.
func (a *API) ListModels(x *exchange.Exchange) error {
	list := List[Model]{Models: []Model{}}
	for _, name := range a.Models.Names(x.Identity) {
		m, err := a.Models.Find(x.Identity, name)
		if err != nil {
			return err
		}
		list.Models = append(list.Models, (&Shown{ID: name, Model: m}).Entry())
	}
	return x.Reply(http.StatusOK, list)
}

// ListLoaded answers GET /api/ps.
func (a *API) ListLoaded(x *exchange.Exchange) error {
	list := List[LoadedModel]{Models: []LoadedModel{}}
	for _, m := range a.Models.All() {
		entry, loaded := (&Shown{ID: m.ID, Model: m}).Loaded(a.Now())
		if loaded && x.Identity.MayUse(m.ID) {
			list.Models = append(list.Models, entry)
		}
	}
	return x.Reply(http.StatusOK, list)
}

// ShowModel answers POST /api/show.
func (a *API) ShowModel(x *exchange.Exchange) error {
	asked, err := exchange.Read(x, ParseSubject)
	if err != nil {
		return err
	}
	m, err := a.find(x, asked.Model)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, (&Shown{ID: asked.Model, Model: m}).Show())
}

// ChangeModels answers POST /api/pull and DELETE /api/delete by the model folder. The audit
// log names the model.
func (a *API) ChangeModels(x *exchange.Exchange) error {
	return a.change(x, func(body []byte) error {
		asked, err := ParseSubject(body)
		x.Changes(exchange.WithoutSecrets(asked.Model), nil, nil)
		return err
	})
}

// CopyModel answers POST /api/copy by the model folder.
func (a *API) CopyModel(x *exchange.Exchange) error {
	return a.change(x, func(body []byte) error {
		asked, err := ParseCopy(body)
		x.Changes(asked.Destination, nil, map[string]string{"source": asked.Source})
		return err
	})
}

func (a *API) change(x *exchange.Exchange, note func(body []byte) error) error {
	body, err := x.Body()
	if err != nil {
		return err
	}
	if a.Folder == nil {
		return parley.Errorf(parley.NotFound,
			"This server has no model folder: it serves what --model or its workers name.")
	}
	if err := note(body); err != nil {
		return err
	}
	x.Request.Body = io.NopCloser(bytes.NewReader(body))
	a.Folder.ServeHTTP(x.Response, x.Request)
	return nil
}
