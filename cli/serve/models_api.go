package serve

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"slices"
	"sort"
	"strings"
	"sync"
	"time"

	"parley/cli/library"
	"parley/gateway/ollama"
	"parley/gateway/openai"
	"parley/internal/builtin"
	"parley/model/hub"
	"parley/model/store"
	"parley/worker/host"
)

// A modelsAPI shows and changes the model folder over HTTP. The gateway lets operators
// alone reach it.
type modelsAPI struct {
	models *modelFolder
	// ctx ends with the server, and with it the downloads.
	ctx context.Context

	mu    sync.Mutex
	pulls map[string]*pullState
}

// A pullState is a download that the server does.
type pullState struct {
	Source string `json:"source"`
	Name   string `json:"name,omitempty"`
	Done   int64  `json:"done_bytes"`
	Total  int64  `json:"total_bytes"`
	// State is running, done or failed; Error says why it failed.
	State string `json:"state"`
	Error string `json:"error,omitempty"`
}

// A FolderModel is a model as the interface shows it.
type FolderModel struct {
	host.TitleState
	Source  string `json:"source,omitempty"`
	License string `json:"license,omitempty"`
	Bytes   int64  `json:"bytes"`
	Builtin bool   `json:"builtin,omitempty"`
	Default bool   `json:"default,omitempty"`
}

// A FolderList is the answer of GET /admin/api/models.
type FolderList struct {
	Object string        `json:"object"`
	Data   []FolderModel `json:"data"`
	Pulls  []pullState   `json:"pulls"`
	// Available is the catalogue, with what fits.
	Available []library.Offer `json:"available"`
	Folder    string          `json:"folder"`
}

// api returns the handler of the model folder; nil if the server has none.
func (f *modelFolder) api(ctx context.Context) http.Handler {
	if f == nil {
		return nil
	}
	a := &modelsAPI{models: f, ctx: ctx, pulls: map[string]*pullState{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /admin/api/models", a.list)
	mux.HandleFunc("POST /admin/api/models", a.pull)
	mux.HandleFunc("DELETE /admin/api/models/{name}", a.remove)
	mux.HandleFunc("POST /admin/api/models/{name}/load", a.load)
	mux.HandleFunc("POST /admin/api/models/{name}/unload", a.unload)
	mux.HandleFunc("POST /api/pull", a.ollamaPull)
	mux.HandleFunc("DELETE /api/delete", a.ollamaDelete)
	mux.HandleFunc("POST /api/copy", a.ollamaCopy)
	return mux
}

func (a *modelsAPI) list(w http.ResponseWriter, _ *http.Request) {
	list := FolderList{
		Object:    "list",
		Data:      a.models.states(),
		Pulls:     []pullState{},
		Available: library.Offers(a.models.library.Budget()),
		Folder:    a.models.folder.Dir,
	}
	a.mu.Lock()
	for _, p := range a.pulls {
		list.Pulls = append(list.Pulls, *p)
	}
	a.mu.Unlock()
	sort.Slice(list.Pulls, func(i, j int) bool { return list.Pulls[i].Source < list.Pulls[j].Source })
	answerJSON(w, http.StatusOK, list)
}

// states shows all models of the server.
func (f *modelFolder) states() []FolderModel {
	f.mu.Lock()
	defer f.mu.Unlock()
	list := []FolderModel{}
	for _, s := range f.library.States() {
		m := f.known[s.Name].model
		list = append(list, FolderModel{TitleState: s, Source: m.Source, License: m.License, Bytes: m.Bytes})
	}
	for name, problem := range f.problems {
		list = append(list, FolderModel{TitleState: host.TitleState{Name: name, State: "unusable", Problem: problem}})
	}
	for _, p := range f.pinned {
		_, isBuiltin := builtin.Find(p.ID)
		s := host.TitleState{Name: p.ID, State: "loaded", ContextTokens: p.ContextTokens}
		list = append(list, FolderModel{TitleState: s, Builtin: isBuiltin})
	}
	first := f.models()[0].ID
	for i := range list {
		list[i].Default = list[i].Name == first
	}
	slices.SortStableFunc(list, func(a, b FolderModel) int { return strings.Compare(a.Name, b.Name) })
	return list
}

// pull begins a download. Files of the server's machine are not taken this way.
func (a *modelsAPI) pull(w http.ResponseWriter, r *http.Request) {
	var asked struct{ Source, Name string }
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<16)).Decode(&asked); err != nil {
		answerError(w, http.StatusBadRequest, errors.New(`send {"source": "qwen3:0.6b"}`))
		return
	}
	shown, err := a.begin(asked.Source, asked.Name)
	if err != nil {
		answerError(w, http.StatusBadRequest, err)
		return
	}
	answerJSON(w, http.StatusAccepted, shown)
}

// begin starts a download, unless it runs, and returns how far it is. An empty name is the
// one of the source.
func (a *modelsAPI) begin(from, name string) (pullState, error) {
	source, err := store.ParseSource(from, func(string) bool { return false })
	if err == nil && name != "" {
		err = store.CheckName(name)
	}
	if err != nil {
		return pullState{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.pulls[from]
	if p == nil || p.State != "running" {
		p = &pullState{Source: from, State: "running"}
		a.pulls[from] = p
		a.models.pulling.Go(func() { a.download(source, name, p) })
	}
	return *p, nil
}

// download brings a model into the folder. It ends with the server, and continues when it
// is asked for again.
func (a *modelsAPI) download(source store.Source, name string, p *pullState) {
	note := func(change func()) {
		a.mu.Lock()
		defer a.mu.Unlock()
		change()
	}
	puller := &store.Puller{
		Store:    a.models.folder,
		Client:   hub.FromEnv(os.LookupEnv),
		Check:    library.CheckModel,
		Begin:    func(name string, _ int, bytes int64) { note(func() { p.Name, p.Total = name, bytes }) },
		Progress: func(done, total int64) { note(func() { p.Done, p.Total = done, total }) },
	}
	m, err := puller.Pull(a.ctx, source, name)
	if err == nil {
		err = a.models.sync()
	}
	note(func() {
		p.State, p.Name = "done", m.Name
		if err != nil {
			p.State, p.Error = "failed", err.Error()
		}
	})
}

func (a *modelsAPI) remove(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if err := a.drop(name); err != nil {
		answerError(w, statusOf(err), err)
		return
	}
	answerJSON(w, http.StatusOK, map[string]any{"name": name, "deleted": true})
}

// drop removes a model from the folder, and stops offering it.
func (a *modelsAPI) drop(name string) error {
	if err := a.models.folder.Remove(name); err != nil {
		return err
	}
	return a.models.sync()
}

func (a *modelsAPI) load(w http.ResponseWriter, r *http.Request) {
	a.answer(w, a.models.library.Load(r.Context(), r.PathValue("name")))
}

func (a *modelsAPI) unload(w http.ResponseWriter, r *http.Request) {
	a.answer(w, a.models.library.Unload(r.PathValue("name")))
}

// answer shows the models after a change.
func (a *modelsAPI) answer(w http.ResponseWriter, err error) {
	if err != nil {
		answerError(w, statusOf(err), err)
		return
	}
	answerJSON(w, http.StatusOK, map[string]any{"object": "list", "data": a.models.states()})
}

func statusOf(err error) int {
	if errors.Is(err, store.ErrUnknown) {
		return http.StatusNotFound
	}
	return openai.Describe(err, "").Status
}

func answerError(w http.ResponseWriter, status int, err error) {
	detail := openai.ErrorDetail{Message: err.Error(), Type: "invalid_request_error"}
	answerJSON(w, status, openai.ErrorBody{Error: detail})
}

func answerJSON(w http.ResponseWriter, status int, value any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(value) // the client has left
}

// pullReportEvery is how often a client is told how far a download is.
const pullReportEvery = 200 * time.Millisecond

// ollamaPull answers POST /api/pull: it begins a download, or joins the one that runs, and
// reports how far it is. The download continues if the client hangs up.
func (a *modelsAPI) ollamaPull(w http.ResponseWriter, r *http.Request) {
	asked, err := readBody(r, ollama.ParseSubject)
	if err != nil {
		answerText(w, http.StatusBadRequest, err)
		return
	}
	state, err := a.begin(asked.Model, "")
	if err != nil {
		answerText(w, http.StatusBadRequest, err)
		return
	}
	send := func(any) {}
	if asked.Stream {
		w.Header().Set("Content-Type", "application/x-ndjson")
		lines, flush := json.NewEncoder(w), http.NewResponseController(w)
		send = func(line any) {
			_ = flush.SetWriteDeadline(time.Now().Add(time.Minute)) // not every connection has one
			_ = lines.Encode(line)                                  // a hang-up is seen by the context
			_ = flush.Flush()
		}
	}
	send(ollama.PullLine{Status: "pulling manifest"})
	state, ok := a.follow(r, state, func(s pullState) {
		if s.Total > 0 {
			send(ollama.PullLine{Status: "pulling " + s.Name, Digest: s.Name, Total: s.Total, Completed: s.Done})
		}
	})
	switch {
	case !ok:
		return
	case state.State == "failed" && asked.Stream:
		send(ollama.ErrorBody{Error: state.Error})
	case state.State == "failed":
		answerJSON(w, http.StatusInternalServerError, ollama.ErrorBody{Error: state.Error})
	case asked.Stream:
		send(ollama.PullLine{Status: "verifying sha256 digest"})
		send(ollama.PullLine{Status: "stored as " + state.Name})
		send(ollama.PullLine{Status: ollama.Success})
	default:
		answerJSON(w, http.StatusOK, ollama.PullLine{Status: ollama.Success})
	}
}

// follow calls report whenever a download has come further, until it has ended. It reports
// false if the client hangs up before.
func (a *modelsAPI) follow(r *http.Request, state pullState, report func(pullState)) (pullState, bool) {
	tick := time.NewTicker(pullReportEvery)
	defer tick.Stop()
	for state.State == "running" {
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return state, false
		}
		a.mu.Lock()
		now := *a.pulls[state.Source]
		a.mu.Unlock()
		if now.Done != state.Done || now.Total != state.Total {
			report(now)
		}
		state = now
	}
	return state, true
}

func (a *modelsAPI) ollamaDelete(w http.ResponseWriter, r *http.Request) {
	asked, err := readBody(r, ollama.ParseSubject)
	if err == nil {
		err = a.drop(asked.Model)
	}
	if err != nil {
		answerText(w, statusOf(err), err)
	}
}

func (a *modelsAPI) ollamaCopy(w http.ResponseWriter, r *http.Request) {
	asked, err := readBody(r, ollama.ParseCopy)
	if err == nil {
		_, err = a.models.folder.Copy(asked.Source, asked.Destination)
	}
	switch {
	case errors.Is(err, store.ErrUnknown):
		answerText(w, http.StatusNotFound, err)
		return
	case err != nil:
		answerText(w, http.StatusBadRequest, err)
		return
	}
	if err := a.models.sync(); err != nil {
		answerText(w, statusOf(err), err)
	}
}

// readBody parses the body of a request, of which the gateway has bounded the size.
func readBody[T any](r *http.Request, parse func([]byte) (T, error)) (T, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		var none T
		return none, err
	}
	return parse(body)
}

// answerText sends an error as Ollama's clients read it.
func answerText(w http.ResponseWriter, status int, err error) {
	answerJSON(w, status, ollama.ErrorBody{Error: err.Error()})
}
