package tenant

import (
	"testing"
	"time"
)

// TestSessions opens sessions on both stores, and has them end by time, by number, by
// sign-out and with their key, at every gateway.
func TestSessions(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		s, rings := opened(t, dsn), []*Keyring{ringOf(t, dsn), ringOf(t, dsn)}
		_, local, err := localSession(t, s)
		check(t, err)
		holds(t, rings, local, ScopeAdmin, true)
		k, secret := create(t, s, NewKey{Organization: "acme", Admin: true}, time.Now())
		holds(t, rings, local, ScopeAdmin, false)
		first, expires, err := s.OpenSession(t.Context(), secret, ScopeAdmin, time.Now())
		check(t, err)
		holds(t, rings, first, ScopeAdmin, true)
		holds(t, rings, first, ScopeChat, false)
		holds(t, rings, secret, ScopeAdmin, false)
		fails(t, func() error { _, err := rings[0].Identify(t.Context(), first); return err }(), errUnknown)
		if who, err := rings[0].IdentifySession(t.Context(), first, ScopeAdmin); err != nil || !who.Admin ||
			who.Key != k.ID || who.Organization != "acme" {
			t.Errorf("%+v, %v", who, err)
		}
		rings[0].now = func() time.Time { return expires }
		holds(t, rings[:1], first, ScopeAdmin, false)
		rings[0].now = time.Now
		for i := range sessionsMax {
			check(t, func() error {
				_, _, err := s.OpenSession(t.Context(), secret, ScopeAdmin,
					time.Now().Add(time.Duration(i+1)*time.Second))
				return err
			}())
		}
		last, _, err := s.OpenSession(t.Context(), secret, ScopeChat, time.Now())
		check(t, err)
		holds(t, rings, last, ScopeChat, true)
		if who, _ := rings[0].IdentifySession(t.Context(), last, ScopeChat); who.Admin {
			t.Error("a session of the chat has the admin right")
		}
		check(t, s.CloseSession(t.Context(), last))
		holds(t, rings, last, ScopeChat, false)
		holds(t, rings, first, ScopeAdmin, false) // there were too many after it
	})
}

func localSession(t *testing.T, s *Store) (expires time.Time, cookie string, err error) {
	cookie, expires, err = s.OpenLocalSession(t.Context(), ScopeAdmin, time.Now())
	return expires, cookie, err
}

// holds waits until all rings say the same of a session.
func holds(t *testing.T, rings []*Keyring, cookie string, scope Scope, want bool) {
	t.Helper()
	for _, ring := range rings {
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
			_, err := ring.IdentifySession(t.Context(), cookie, scope)
			if (err == nil) == want {
				break
			}
			if time.Now().After(end) {
				t.Fatalf("a session holds: %v, want %v", err, want)
			}
		}
	}
}
