package host

import (
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"parley"
	"parley/engine/kv"
	"parley/token"
	"parley/worker"
	"parley/worker/kvwire"
	"parley/worker/wire"
)

// Handler returns the server's routes.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for pattern, do := range map[string]handler{
		"POST /v1/completions":       s.completions,
		"POST /v1/chat/completions":  s.chat,
		"GET /v1/models":             s.models,
		"POST /tokenize":             s.tokenize,
		"POST /detokenize":           s.detokenize,
		"POST /sleep":                s.sleep,
		"POST /wake_up":              s.wake,
		"GET /is_sleeping":           s.isSleeping,
		"GET " + worker.AboutPath:    s.tellAbout,
		"GET " + worker.EventsPath:   s.streamEvents,
		"GET " + worker.SnapshotPath: s.giveSnapshot,
		"POST " + worker.ReusePath:   s.exchangeReuse,
		"GET " + wire.Path:           s.wire.Serve,
	} {
		mux.Handle(pattern, s.guarded(do))
	}
	mux.Handle("POST "+kvwire.Path, s.answered(s.giveBlocks))
	for pattern, do := range map[string]handler{
		"GET /health": s.health, "GET /ping": s.health, "GET /version": s.version, "GET /metrics": s.metrics,
	} {
		mux.Handle(pattern, s.public(do))
	}
	return mux
}

// NewHTTPServer returns a server for gateways: HTTP/1.1 for all routes, and
// HTTP/2, also in clear text, for all but our own wire.
func (s *Server) NewHTTPServer() *http.Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true)
	return &http.Server{
		Handler:           s.Handler(),
		Protocols:         protocols,
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       5 * time.Minute,
		HTTP2: &http.HTTP2Config{MaxConcurrentStreams: 4096, SendPingTimeout: 15 * time.Second,
			PingTimeout: 15 * time.Second},
	}
}

func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	if err := s.deviceErr(); err != nil {
		return parley.Errorf(parley.Unavailable, "this worker's device has failed, restart it: %v", err)
	}
	if a := s.about(); a.Draining {
		return parley.Errorf(parley.Unavailable, "this worker is draining")
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) version(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, map[string]string{"version": s.cfg.Version})
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) error {
	all := prometheus.Gatherers{s.registry}
	s.mu.Lock()
	if s.awake != nil && !s.changing {
		all = append(all, s.awake.registry)
	}
	s.mu.Unlock()
	promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(w, r)
	return nil
}

func (s *Server) models(w http.ResponseWriter, _ *http.Request) error {
	data := []any{}
	for _, m := range s.Models() {
		data = append(data, map[string]any{"id": m.ID, "object": "model", "created": s.started.Unix(),
			"owned_by": "parley", "root": m.ID, "parent": nil, "max_model_len": m.ContextTokens})
	}
	return writeJSON(w, map[string]any{"object": "list", "data": data})
}

func (s *Server) tellAbout(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, s.about())
}

func (s *Server) giveSnapshot(w http.ResponseWriter, r *http.Request) error {
	body, err := s.snapshot(r.Context())
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/octet-stream")
	w.Header().Set(worker.InstanceHeader, s.instance)
	_, _ = w.Write(body) // who left asks again
	return nil
}

// exchangeReuse has the cache learn from what others have observed. What is of another version is
// left out.
func (s *Server) exchangeReuse(w http.ResponseWriter, r *http.Request) error {
	var body worker.Reuse
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	var others []*kv.Reuse
	for _, data := range body.Others {
		if o := new(kv.Reuse); o.UnmarshalBinary(data) == nil {
			others = append(others, o)
		}
	}
	m, err := s.holdCache()
	if err != nil {
		return err
	}
	defer s.letGo(m)
	own, err := m.Engine.LearnFrom(r.Context(), others)
	if err != nil {
		return err
	}
	data, err := own.MarshalBinary()
	if err != nil {
		return err
	}
	return writeJSON(w, worker.Reuse{Own: data})
}

// giveBlocks gives blocks to another worker of the fleet.
func (s *Server) giveBlocks(w http.ResponseWriter, r *http.Request) error {
	for _, check := range []func(*http.Request) error{s.checkTicket, s.checkOpen, checkJSON} {
		if err := check(r); err != nil {
			return err
		}
	}
	m, err := s.holdCache()
	if err != nil {
		return err
	}
	defer s.letGo(m)
	return s.peer.Serve(w, r, s.owner(m))
}

func (s *Server) streamEvents(w http.ResponseWriter, r *http.Request) error {
	return s.journal.Serve(w, r, s.instance)
}

// sleep gives the memory back. As with vLLM the mode abort, which is the
// default, ends what runs and wait lets it finish; levels are all the same here.
func (s *Server) sleep(w http.ResponseWriter, r *http.Request) error {
	mode := r.URL.Query().Get("mode")
	if mode != "" && mode != "abort" && mode != "wait" {
		return parley.Invalid("mode", "%q is not abort or wait", mode)
	}
	if err := s.Sleep(mode == "wait"); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) wake(w http.ResponseWriter, _ *http.Request) error {
	if err := s.Wake(); err != nil {
		return err
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Server) isSleeping(w http.ResponseWriter, _ *http.Request) error {
	return writeJSON(w, map[string]bool{"is_sleeping": s.Sleeping()})
}

// tokenize turns a text, or a conversation, into ids.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Prompt     string    `json:"prompt"`
		Special    *bool     `json:"add_special_tokens"`
		Messages   []message `json:"messages"`
		Generation *bool     `json:"add_generation_prompt"`
		Strings    bool      `json:"return_token_strs"`
	}
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	m, err := s.hold()
	if err != nil {
		return err
	}
	defer s.letGo(m)
	var ids []parley.Token
	if body.Messages != nil {
		ids, err = m.renderChat(body.Messages, body.Generation == nil || *body.Generation)
	} else {
		ids, err = m.Tokenizer.Encode(body.Prompt,
			token.Options{ParseSpecial: true, AddSpecial: body.Special == nil || *body.Special})
	}
	if err != nil {
		return parley.Invalid("prompt", "the text cannot be tokenized: %v", err)
	}
	answer := map[string]any{"count": len(ids), "max_model_len": m.Models()[0].ContextTokens, "tokens": ids}
	if body.Strings {
		var texts []string
		for _, id := range ids {
			texts = append(texts, m.tokenText(id))
		}
		answer["token_strs"] = texts
	}
	return writeJSON(w, answer)
}

func (s *Server) detokenize(w http.ResponseWriter, r *http.Request) error {
	var body struct {
		Tokens []parley.Token `json:"tokens"`
	}
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	m, err := s.hold()
	if err != nil {
		return err
	}
	defer s.letGo(m)
	for i, id := range body.Tokens {
		if id < 0 || int(id) >= m.Tokenizer.Size() {
			return parley.Invalid("tokens", "token %d is %d: this model has tokens 0 to %d", i, id,
				m.Tokenizer.Size()-1)
		}
	}
	return writeJSON(w, map[string]string{"prompt": m.Tokenizer.Decode(body.Tokens, false)})
}

// tokenText returns the text of one token.
func (h *Host) tokenText(id parley.Token) string {
	return h.Tokenizer.Decode([]parley.Token{id}, false)
}
