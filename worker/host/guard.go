package host

import (
	"crypto/sha256"
	"crypto/subtle"
	"mime"
	"net/http"
	"strings"
	"time"

	"parley"
	"parley/internal/local"
	"parley/worker/kvwire"
)

// Accept answers requests that show a credential, which a gateway has given out. It
// replaces the one before of the same gateway.
func (s *Server) Accept(gateway, credential string) {
	s.accepted.mu.Lock()
	defer s.accepted.mu.Unlock()
	if s.accepted.byGateway == nil {
		s.accepted.byGateway = map[string][sha256.Size]byte{}
	}
	s.accepted.byGateway[gateway] = sha256.Sum256([]byte(credential))
}

// accepts reports whether a bearer token is the worker's key or a credential.
func (s *Server) accepts(shown string) bool {
	if shown == "" {
		return false
	}
	got, key := sha256.Sum256([]byte(shown)), sha256.Sum256([]byte(s.cfg.Key))
	if s.cfg.Key != "" && subtle.ConstantTimeCompare(got[:], key[:]) == 1 {
		return true
	}
	s.accepted.mu.Lock()
	defer s.accepted.mu.Unlock()
	for _, want := range s.accepted.byGateway {
		if subtle.ConstantTimeCompare(got[:], want[:]) == 1 {
			return true
		}
	}
	return false
}

// admitsTicket reports whether a ticket for blocks was signed with the worker's key or a
// credential.
func (s *Server) admitsTicket(ticket string) bool {
	now := time.Now()
	if s.cfg.Key != "" && kvwire.Valid(ticket, sha256.Sum256([]byte(s.cfg.Key)), s.instance, now) {
		return true
	}
	s.accepted.mu.Lock()
	defer s.accepted.mu.Unlock()
	for _, key := range s.accepted.byGateway {
		if kvwire.Valid(ticket, key, s.instance, now) {
			return true
		}
	}
	return false
}

// checkTicket is checkCredentials for a worker that has a ticket instead of the key.
func (s *Server) checkTicket(r *http.Request) error {
	ticket, shown := strings.CutPrefix(r.Header.Get("Authorization"), kvwire.Scheme)
	if !shown || s.cfg.ClientCertificates && !hasCertificate(r) {
		return s.checkCredentials(r)
	}
	if (s.cfg.Key != "" || s.cfg.Registers) && !s.admitsTicket(ticket) {
		return parley.Errorf(parley.Unauthenticated, "the ticket for blocks is not valid here, or has expired")
	}
	return nil
}

// isOpen reports whether requests need neither key, credential nor certificate.
func (s *Server) isOpen() bool {
	return s.cfg.Key == "" && !s.cfg.Registers && !s.cfg.ClientCertificates
}

// hasCertificate reports whether TLS has verified a certificate of the client.
func hasCertificate(r *http.Request) bool { return r.TLS != nil && len(r.TLS.VerifiedChains) > 0 }

// guarded answers a request if its sender may use the worker, and a POST only if its
// body is JSON.
func (s *Server) guarded(do handler) http.Handler {
	return s.answered(func(w http.ResponseWriter, r *http.Request) error {
		if err := s.checkCredentials(r); err != nil {
			return err
		}
		if err := s.checkOpen(r); err != nil {
			return err
		}
		if err := checkJSON(r); r.Method == http.MethodPost && err != nil {
			return err
		}
		return do(w, r)
	})
}

// checkCredentials wants everything that the worker was told to: a certificate, and its
// key or the credential of a gateway.
func (s *Server) checkCredentials(r *http.Request) error {
	if s.cfg.ClientCertificates && !hasCertificate(r) {
		return parley.Errorf(parley.Unauthenticated,
			"this worker requires a client certificate signed by its --client-ca: set --worker-client-cert and "+
				"--worker-client-key on the gateway")
	}
	shown, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if (s.cfg.Key != "" || s.cfg.Registers) && !s.accepts(shown) {
		return parley.Errorf(parley.Unauthenticated, "this worker requires its key as a bearer token")
	}
	return nil
}

// public answers every client if the worker has a key: health and metrics are for load
// balancers and monitors.
func (s *Server) public(do handler) http.Handler {
	return s.answered(func(w http.ResponseWriter, r *http.Request) error {
		if err := s.checkOpen(r); err != nil {
			return err
		}
		return do(w, r)
	})
}

// checkOpen refuses what a worker that needs no key must not answer: requests from
// other machines and from web pages.
func (s *Server) checkOpen(r *http.Request) error {
	if !s.isOpen() {
		return nil
	}
	const remedy = "this worker has no key, so it only answers programs on its own machine"
	switch local.Check(r, nil) {
	case local.Remote, local.Forwarded:
		return parley.Errorf(parley.Forbidden, "%s: start it with --worker-key", remedy)
	case local.Host:
		return parley.Errorf(parley.Forbidden,
			"%s, under the names localhost and 127.0.0.1, not %.100q: start it with --worker-key", remedy, r.Host)
	case local.Origin:
		return parley.Errorf(parley.Forbidden, "%s, not web pages", remedy)
	}
	return nil
}

// checkJSON refuses a body that does not say it is JSON. Web pages can send other types
// to any server without its consent, and no client of this worker has a reason to.
func checkJSON(r *http.Request) error {
	given := r.Header.Get("Content-Type")
	if given == "" && r.ContentLength == 0 {
		return nil
	}
	if kind, _, err := mime.ParseMediaType(given); err != nil || kind != "application/json" {
		return parley.Errorf(parley.InvalidRequest, "the Content-Type is %.100q: send JSON, with application/json",
			given)
	}
	return nil
}
