package fleet

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"net/http"
	"time"

	"parley"
)

// An Admin shows the fleet to operators and does what they ask. It checks no
// credentials: the gateway does that before it calls the handler.
//
//	GET  /fleet/workers                 who is there, and how they are
//	POST /fleet/workers/{name}/drain    no new work; ?within=30s moves the rest then
//	POST /fleet/workers/{name}/resume   work again
//	POST /fleet/workers/{name}/sleep    give its memory back, when it has nothing to do; ?within as for drain
//	POST /fleet/workers/{name}/wake     take it again
type Admin struct {
	Fleet *Fleet
	// Token lets its bearer operate the fleet; empty lets no token do so.
	Token string
}

// MayOperate reports whether a secret is the operate token.
func (a Admin) MayOperate(secret string) bool {
	want, shown := sha256.Sum256([]byte(a.Token)), sha256.Sum256([]byte(secret))
	return a.Token != "" && subtle.ConstantTimeCompare(want[:], shown[:]) == 1
}

// Handler returns what answers the paths under /fleet/workers.
func (a Admin) Handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /fleet/workers", func(w http.ResponseWriter, _ *http.Request) {
		reply(w, http.StatusOK, map[string]any{"object": "list", "data": a.Fleet.Standings()})
	})
	for verb, do := range map[string]func(string, time.Duration) error{
		"drain": a.Fleet.Drain, "sleep": a.Fleet.Sleep,
		"resume": func(name string, _ time.Duration) error { return a.Fleet.Resume(name) },
		"wake":   func(name string, _ time.Duration) error { return a.Fleet.Wake(name) },
	} {
		mux.HandleFunc("POST /fleet/workers/{name}/"+verb, a.tell(do))
	}
	return mux
}

// tell has something done to a worker, and shows all then.
func (a *Admin) tell(do func(name string, within time.Duration) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		within := time.Duration(-1)
		if text := r.URL.Query().Get("within"); text != "" {
			var err error
			if within, err = time.ParseDuration(text); err != nil || within < 0 {
				refuse(w, http.StatusBadRequest, "within must be a duration such as 30s.")
				return
			}
		}
		a.done(w, do(r.PathValue("name"), within))
	}
}

func (a *Admin) done(w http.ResponseWriter, err error) {
	switch {
	case parley.CodeOf(err) == parley.NotFound:
		refuse(w, http.StatusNotFound, err.Error())
		return
	case err != nil:
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	reply(w, http.StatusOK, map[string]any{"object": "list", "data": a.Fleet.Standings()})
}

func reply(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client has hung up
}

func refuse(w http.ResponseWriter, status int, message string) {
	reply(w, status, map[string]any{"error": map[string]string{"message": message}})
}
