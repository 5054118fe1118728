package accounts

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley"
	"parley/gateway/db"
)

func TestUsers(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		before := generation(t, s)
		ann := create(t, s, "  Ann@Example.com ", "")
		same(t, "made", ann, User{
			ID:          ann.ID,
			Email:       "Ann@Example.com",
			Name:        "Ann",
			Grant:       Grant{Role: ServerAdmin, Organization: "acme"}, // as the first
			HasPassword: true,
			Created:     at(0),
		})
		same(t, "read", must(s.User(ctx, ann.ID))(t), ann)
		same(t, "found by another spelling", must(s.UserOf(ctx, "ANN@example.COM"))(t), ann)
		if now := generation(t, s); now.Accounts != 1 || now.Generation <= before.Generation {
			t.Errorf("the state is %+v after %+v", now, before)
		}
		_, err := s.Create(ctx, NewUser{Email: "ann@example.com", Grant: Grant{Organization: "b"}}, at(1))
		fails(t, err, ErrExists)
		bob := must(s.Create(ctx, NewUser{Email: "bob@example.com", Grant: Grant{
			Role:         ServerAdmin,
			Organization: "b",
			Tier:         "pro",
			Models:       []string{"polly"},
		}}, at(1)))(t)
		same(t, "all", must(s.Users(ctx, ""))(t), []User{ann, bob})
		same(t, "of b", must(s.Users(ctx, "b"))(t), []User{bob})
		name, tier, models := "Bobby", "", []string{}
		bob.Name, bob.Tier, bob.Models = name, tier, models
		same(t, "changed", must(s.Change(ctx, bob.ID, UserChange{Name: &name, Tier: &tier, Models: &models}))(t), bob)
		same(t, "changed, read", must(s.User(ctx, bob.ID))(t), bob)
		_, err = s.Change(ctx, "user_none", UserChange{Name: &name})
		fails(t, err, ErrNotFound)
		check(t, s.Delete(ctx, ann.ID))
		fails(t, s.Delete(ctx, ann.ID), ErrNotFound)
		_, err = s.User(ctx, ann.ID)
		fails(t, err, ErrNotFound)
	})
}

func TestBadUsers(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		for what, n := range map[string]NewUser{
			"no address":       {Grant: Grant{Organization: "acme"}},
			"a name, too":      {Email: "Ann <ann@example.com>", Grant: Grant{Organization: "acme"}},
			"no domain":        {Email: "ann", Grant: Grant{Organization: "acme"}},
			"no organisation":  {Email: "ann@example.com"},
			"another role":     {Email: "ann@example.com", Grant: Grant{Organization: "acme", Role: "root"}},
			"a name of breaks": {Email: "ann@example.com", Name: "a\nb", Grant: Grant{Organization: "acme"}},
			"a short password": {Email: "ann@example.com", Password: "12345", Grant: Grant{Organization: "acme"}},
			"a long password": {Email: "ann@example.com", Password: strings.Repeat("ab", 600),
				Grant: Grant{Organization: "acme"}},
			"its own address": {Email: "ann@example.com", Password: "Ann@example.com",
				Grant: Grant{Organization: "acme"}},
			"one letter": {Email: "ann@example.com", Password: "aaaaaaaaaaaa", Grant: Grant{Organization: "acme"}},
		} {
			if _, err := s.Create(t.Context(), n, at(0)); parley.CodeOf(err) != parley.InvalidRequest {
				t.Errorf("%s: %v", what, err)
			}
		}
	})
}

func TestPasswords(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		create(t, s, "boss@example.com", ServerAdmin)
		ann := create(t, s, "ann@example.com", Member)
		none := must(s.Create(ctx, NewUser{Email: "no@example.com", Grant: Grant{Organization: "acme"}}, at(0)))(t)
		same(t, "signed in", must(s.CheckPassword(ctx, "ANN@example.com", secret))(t), ann)
		for _, pair := range [][2]string{{"ann@example.com", secret + "!"}, {"ann@example.com", ""},
			{"eve@example.com", secret}, {"no@example.com", ""}, {"\x00", secret}, {"", ""},
			{"ann@example.com", strings.Repeat("x", 1<<16)}} {
			_, err := s.CheckPassword(ctx, pair[0], pair[1])
			fails(t, err, ErrSignIn)
		}
		kept := must(s.OpenSession(ctx, Session{User: ann.ID, Scope: "chat", Expires: at(60)}, at(0)))(t)
		other := must(s.OpenSession(ctx, Session{User: ann.ID, Scope: "chat", Expires: at(60)}, at(0)))(t)
		refused(t, s.SetPassword(ctx, ann.ID, "short", kept), parley.InvalidRequest)
		check(t, s.SetPassword(ctx, ann.ID, "another long one", kept))
		must(s.SessionOf(ctx, kept))(t)
		_, err := s.SessionOf(ctx, other)
		fails(t, err, ErrNotFound)
		_, err = s.CheckPassword(ctx, "ann@example.com", secret)
		fails(t, err, ErrSignIn)
		must(s.CheckPassword(ctx, "ann@example.com", "another long one"))(t)
		disabled := true
		must(s.Change(ctx, ann.ID, UserChange{Disabled: &disabled}))(t)
		_, err = s.CheckPassword(ctx, "ann@example.com", "another long one")
		fails(t, err, ErrSignIn)
		_, err = s.SessionOf(ctx, kept)
		fails(t, err, ErrNotFound)
		fails(t, s.SetPassword(ctx, "user_none", "another long one", ""), ErrNotFound)
		if none.HasPassword {
			t.Error("an account without a password has one")
		}
		var stored string
		check(t, s.db.Read(ctx, func(tx *db.Tx) error {
			return tx.One(`SELECT password FROM accounts WHERE id = $1`, []any{ann.ID}, &stored)
		}))
		if !strings.HasPrefix(stored, "$argon2id$v=19$m=19456,t=2,p=1$") {
			t.Errorf("the hash is %.40s", stored)
		}
	})
}

// TestHashIsArgon2 checks a hash of the reference implementation's own tests.
func TestHashIsArgon2(t *testing.T) {
	const made = "$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"
	h := newHasher()
	if ok, err := h.matches(t.Context(), made, "password"); !ok || err != nil {
		t.Errorf("the reference's hash does not match: %v", err)
	}
	for _, broken := range []string{"x", "$argon2i$v=19$m=1,t=1,p=1$c29t$c29t", "$argon2id$v=19$m=a$b$c",
		"$argon2id$v=19$m=65536,t=0,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc"} {
		if ok, err := h.matches(t.Context(), broken, "password"); ok || err == nil {
			t.Errorf("%s is accepted", broken)
		}
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range hashesMax {
		h.places <- struct{}{}
	}
	if _, err := h.matches(gone, "", "password"); err == nil {
		t.Error("a caller that has left waits for a place")
	}
}

func TestSessions(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		ann, bob := create(t, s, "ann@example.com", Member), create(t, s, "bob@example.com", Member)
		open := func(u User, now int, agent string) string {
			return must(s.OpenSession(ctx, Session{
				User:    u.ID,
				Scope:   "chat",
				Agent:   agent,
				Method:  "password",
				Expires: at(now + 100),
			}, at(now)))(t)
		}
		first, second := open(ann, 0, "Fire\nfox"+strings.Repeat("é", 300)), open(ann, 10, "curl")
		of := open(bob, 10, "")
		if !IsCookie(first) || len(first) < 50 || first == second {
			t.Errorf("the cookies are %q and %q", first, second)
		}
		list := must(s.Sessions(ctx, ann.ID, at(20)))(t)
		if len(list) != 2 || list[0].Agent != "curl" || !strings.HasPrefix(list[1].Agent, "Firefoxéé") ||
			len(list[1].Agent) > agentLengthMax || list[0].Method != "password" {
			t.Fatalf("listed %+v", list)
		}
		if u := must(s.User(ctx, ann.ID))(t); !u.SignedIn.Equal(at(10)) {
			t.Errorf("last signed in at %s", u.SignedIn)
		}
		check(t, s.Seen(ctx, map[Digest]time.Time{CookieDigest(first): at(30), CookieDigest("gone"): at(30)}))
		check(t, s.Seen(ctx, map[Digest]time.Time{CookieDigest(first): at(25)})) // of a slower gateway
		if one := must(s.SessionOf(ctx, first))(t); !one.Seen.Equal(at(30)) || one.ID != list[1].ID {
			t.Errorf("seen at %s", one.Seen)
		}
		same(t, "expired", len(must(s.Sessions(ctx, ann.ID, at(105)))(t)), 1)
		fails(t, s.CloseSession(ctx, bob.ID, list[0].ID), ErrNotFound)
		before := generation(t, s)
		check(t, s.CloseSession(ctx, ann.ID, list[0].ID))
		if generation(t, s).Generation <= before.Generation {
			t.Error("other gateways do not learn that a session was closed")
		}
		_, err := s.SessionOf(ctx, second)
		fails(t, err, ErrNotFound)
		third := open(ann, 20, "")
		check(t, s.CloseSessions(ctx, ann.ID, third))
		_, err = s.SessionOf(ctx, first)
		fails(t, err, ErrNotFound)
		must(s.SessionOf(ctx, third))(t)
		must(s.SessionOf(ctx, of))(t)
		check(t, s.CloseCookie(ctx, third))
		_, err = s.SessionOf(ctx, third)
		fails(t, err, ErrNotFound)
		check(t, s.Delete(ctx, bob.ID))
		_, err = s.SessionOf(ctx, of)
		fails(t, err, ErrNotFound)
		_, err = s.OpenSession(ctx, Session{User: bob.ID, Expires: at(100)}, at(0))
		fails(t, err, ErrNotFound)
	})
}

func TestSessionsAreBounded(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ann := create(t, s, "ann@example.com", Member)
		for i := range sessionsMax + 3 {
			must(s.OpenSession(t.Context(), Session{User: ann.ID, Expires: at(1000)}, at(i)))(t)
		}
		list := must(s.Sessions(t.Context(), ann.ID, at(100)))(t)
		if len(list) != sessionsMax || !list[len(list)-1].Created.Equal(at(3)) {
			t.Errorf("%d sessions, the oldest of %s", len(list), list[len(list)-1].Created)
		}
	})
}

func TestInvitations(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		create(t, s, "boss@example.com", ServerAdmin)
		grant := Grant{Role: OrgAdmin, Organization: "acme", Tier: "pro", Models: []string{"polly"}}
		made, token, err := s.Invite(ctx, Invitation{Email: "ann@example.com", Grant: grant, By: "user_x"}, at(0))
		check(t, err)
		same(t, "read", must(s.InvitationOf(ctx, token, at(1)))(t), made)
		same(t, "listed", must(s.Invitations(ctx, "acme", at(1)))(t), []Invitation{made})
		same(t, "of others", len(must(s.Invitations(ctx, "b", at(1)))(t)), 0)
		end := int(InvitationMax / time.Second)
		_, err = s.Accept(ctx, token, "Ann", secret, at(end))
		fails(t, err, ErrInvitation)
		_, err = s.Accept(ctx, "pi-nonsense", "Ann", secret, at(1))
		fails(t, err, ErrInvitation)
		_, err = s.Accept(ctx, token, "Ann", "short", at(1))
		refused(t, err, parley.InvalidRequest)
		ann := must(s.Accept(ctx, token, "Ann", secret, at(1)))(t)
		same(t, "accepted", ann, User{
			ID:          ann.ID,
			Email:       "ann@example.com",
			Name:        "Ann",
			Grant:       grant,
			HasPassword: true,
			Created:     at(1),
		})
		_, err = s.Accept(ctx, token, "Ann", secret, at(1))
		fails(t, err, ErrInvitation)
		_, _, err = s.Invite(ctx, Invitation{Email: "Ann@example.com", Grant: grant}, at(2))
		fails(t, err, ErrExists)

		cookie := must(s.OpenSession(ctx, Session{User: ann.ID, Expires: at(100)}, at(2)))(t)
		_, token, err = s.Invite(ctx, Invitation{User: ann.ID, Email: ann.Email, Grant: ann.Grant}, at(2))
		check(t, err)
		same(t, "chose anew", must(s.Accept(ctx, token, "", "another long one", at(3)))(t).ID, ann.ID)
		must(s.CheckPassword(ctx, ann.Email, "another long one"))(t)
		_, err = s.SessionOf(ctx, cookie)
		fails(t, err, ErrNotFound)

		bob, before, err := s.Invite(ctx, Invitation{Email: "bob@example.com", Grant: grant}, at(4))
		check(t, err)
		again, token, err := s.Invite(ctx, Invitation{Email: "bob@example.com", Grant: grant}, at(5))
		check(t, err)
		_, err = s.InvitationOf(ctx, before, at(5))
		fails(t, err, ErrInvitation)
		fails(t, s.DeleteInvitation(ctx, "b", again.ID), ErrNotFound)
		fails(t, s.DeleteInvitation(ctx, "", bob.ID), ErrNotFound)
		check(t, s.DeleteInvitation(ctx, "acme", again.ID))
		_, err = s.InvitationOf(ctx, token, at(5))
		fails(t, err, ErrInvitation)
	})
}

// TestInvitationsAreUsedOnce has several requests use one link at the same time.
func TestInvitationsAreUsedOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		_, token, err := s.Invite(t.Context(),
			Invitation{Email: "ann@example.com", Grant: Grant{Organization: "a"}}, at(0))
		check(t, err)
		var group sync.WaitGroup
		results := make([]error, 4)
		for i := range results {
			group.Go(func() { _, results[i] = s.Accept(t.Context(), token, "Ann", secret, at(1)) })
		}
		group.Wait()
		accepted := 0
		for _, err := range results {
			if err == nil {
				accepted++
			} else {
				fails(t, err, ErrInvitation)
			}
		}
		if users := must(s.Users(t.Context(), ""))(t); accepted != 1 || len(users) != 1 {
			t.Errorf("%d requests were accepted, and %d accounts made", accepted, len(users))
		}
	})
}

func TestLastAdminStays(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx, member, disabled, enabled := t.Context(), Member, true, false
		ann, bob := create(t, s, "ann@example.com", ServerAdmin), create(t, s, "bob@example.com", ServerAdmin)
		must(s.Change(ctx, bob.ID, UserChange{Disabled: &disabled}))(t)
		_, err := s.Change(ctx, ann.ID, UserChange{Role: &member})
		fails(t, err, ErrLastAdmin)
		_, err = s.Change(ctx, ann.ID, UserChange{Disabled: &disabled})
		fails(t, err, ErrLastAdmin)
		fails(t, s.Delete(ctx, ann.ID), ErrLastAdmin)
		must(s.Change(ctx, bob.ID, UserChange{Disabled: &enabled}))(t)
		must(s.Change(ctx, ann.ID, UserChange{Role: &member}))(t)
		check(t, s.Delete(ctx, ann.ID))
	})
}

func TestExternalIdentities(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		sign := func(e ExternalIdentity, terms Terms) (User, error) {
			if e.Issuer == "" {
				e.Issuer = "https://issuer.example"
			}
			terms.Home, terms.CreateUnknown = "home", true
			return s.SignInExternal(ctx, e, terms, at(5))
		}
		_, err := sign(ExternalIdentity{Subject: "1", Email: "ann@example.com"}, Terms{})
		refused(t, err, parley.Forbidden) // the server would have no admin
		admin, member, pro, models, none := ServerAdmin, Member, "pro", []string{"polly"}, ""
		ann := must(sign(ExternalIdentity{Subject: "1", Email: "ann@example.com", Name: "Ann"},
			Terms{Role: &admin, Tier: &pro}))(t)
		same(t, "made", ann, User{
			ID:      ann.ID,
			Email:   "ann@example.com",
			Name:    "Ann",
			Grant:   Grant{Role: ServerAdmin, Organization: "home", Tier: "pro"},
			Created: at(5),
		})
		ann.Models, ann.Tier = models, ""
		again := must(sign(ExternalIdentity{Subject: "1", Email: "new@example.com"},
			Terms{Organization: "home", Tier: &none, Models: &models}))(t)
		same(t, "again, with other groups", again, ann)
		_, err = sign(ExternalIdentity{Subject: "1"}, Terms{Organization: "acme"})
		refused(t, err, parley.Forbidden)
		again = must(sign(ExternalIdentity{Subject: "1"}, Terms{Role: &member}))(t)
		same(t, "the last admin", again.Role, ServerAdmin)

		bob := create(t, s, "bob@example.com", Member)
		// An equal email address never grants access to an existing account, even if the issuer verified it.
		for _, e := range []ExternalIdentity{
			{Subject: "2", Email: "Bob@example.com", EmailVerified: true},
			{Subject: "1", Issuer: "https://other.example", Email: "ann@example.com", EmailVerified: true},
			{Subject: "9", Email: "ann@example.com", EmailVerified: true},
		} {
			_, err = sign(e, Terms{})
			refused(t, err, parley.Forbidden)
		}
		connected := must(sign(ExternalIdentity{Subject: "2", Email: "other@example.com"}, Terms{Connect: bob.ID}))(t)
		same(t, "connected", connected, bob)
		same(t, "identities", must(s.IdentitiesOf(ctx, bob.ID))(t),
			[]ExternalIdentity{{Issuer: "https://issuer.example", Subject: "2"}})
		_, err = sign(ExternalIdentity{Subject: "1"}, Terms{Connect: bob.ID})
		refused(t, err, parley.Conflict)
		refused(t, s.Disconnect(ctx, ann.ID, ExternalIdentity{Issuer: "https://issuer.example", Subject: "1"}),
			parley.Conflict) // her only way
		check(t, s.Disconnect(ctx, bob.ID, ExternalIdentity{Issuer: "https://issuer.example", Subject: "2"}))
		must(sign(ExternalIdentity{Subject: "2"}, Terms{Connect: bob.ID}))(t)
		disabled := true
		must(s.Change(ctx, bob.ID, UserChange{Disabled: &disabled}))(t)
		_, err = sign(ExternalIdentity{Subject: "2", Email: "bob@example.com", EmailVerified: true}, Terms{})
		refused(t, err, parley.Forbidden)
		for _, e := range []ExternalIdentity{{Email: "eve@example.com"}, {Subject: "3"}} {
			if _, err := sign(e, Terms{}); err == nil {
				t.Errorf("%+v is accepted", e)
			}
		}
		_, err = s.SignInExternal(ctx, ExternalIdentity{Issuer: "i", Subject: "4", Email: "x@example.com"}, Terms{},
			at(5))
		refused(t, err, parley.Forbidden)
		_, token, err := s.Invite(ctx, Invitation{Email: "x@example.com",
			Grant: Grant{Role: OrgAdmin, Organization: "acme"}}, at(5))
		check(t, err)
		x := must(s.SignInExternal(ctx, ExternalIdentity{Issuer: "i", Subject: "4", Email: "x@work.example"},
			Terms{Invitation: token}, at(6)))(t)
		same(t, "invited", x.Grant, Grant{Role: OrgAdmin, Organization: "acme"})
		same(t, "the address", x.Email, "x@example.com")
		_, err = s.SignInExternal(ctx, ExternalIdentity{Issuer: "i", Subject: "5", Email: "y@example.com"},
			Terms{Invitation: token}, at(6))
		fails(t, err, ErrInvitation)
	})
}

// TestFlows: what is kept of a sign-in is found once, in time, for its purpose alone.
func TestFlows(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		begin := func() string { return must(s.BeginFlow(ctx, "a", []byte("kept"), at(0)))(t) }
		state := begin()
		_, err := s.EndFlow(ctx, "b", state, at(1))
		fails(t, err, ErrFlow)
		same(t, "kept", string(must(s.EndFlow(ctx, "a", state, at(1)))(t)), "kept")
		_, err = s.EndFlow(ctx, "a", state, at(1))
		fails(t, err, ErrFlow)
		_, err = s.EndFlow(ctx, "a", begin(), at(0).Add(FlowMax))
		fails(t, err, ErrFlow)
		_, err = s.EndFlow(ctx, "a", "guess", at(1))
		fails(t, err, ErrFlow)
	})
}

// TestFlowsEndOnce has many requests end one sign-in.
func TestFlowsEndOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		state := must(s.BeginFlow(t.Context(), "a", []byte("kept"), at(0)))(t)
		var group sync.WaitGroup
		var ended atomic.Int32
		for range 8 {
			group.Go(func() {
				if _, err := s.EndFlow(t.Context(), "a", state, at(1)); err == nil {
					ended.Add(1)
				}
			})
		}
		group.Wait()
		same(t, "ended", ended.Load(), int32(1))
	})
}

// TestAttempts: two gateways of one store count attempts together.
func TestAttempts(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		other := &Store{db: s.db, hasher: s.hasher}
		take := func(by *Store, seconds int) time.Duration {
			return must(by.TakeAttempt(t.Context(), "ann", 3, 10*time.Second, at(seconds)))(t)
		}
		var waits []time.Duration
		for i, by := range []*Store{s, other, s, other, s} {
			waits = append(waits, take(by, i/3))
		}
		same(t, "waits", waits, []time.Duration{0, 0, 0, 9 * time.Second, 9 * time.Second})
		same(t, "another name", must(s.TakeAttempt(t.Context(), "bob", 3, 10*time.Second, at(1)))(t), time.Duration(0))
		check(t, other.ReturnAttempt(t.Context(), "ann", 10*time.Second))
		same(t, "after one was returned", take(s, 1), time.Duration(0))
		same(t, "and again", take(s, 1), 9*time.Second)
		same(t, "later", take(s, 1000), time.Duration(0))
	})
}

func TestPasskeys(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		ann, bob := create(t, s, "ann@example.com", Member), create(t, s, "bob@example.com", Member)
		p := must(s.AddPasskey(ctx, Passkey{Credential: []byte{1}, User: ann.ID, Name: " phone ", Site: "example.com",
			PublicKey: []byte{2}}, at(1)))(t)
		_, err := s.AddPasskey(ctx, Passkey{Credential: []byte{1}, User: bob.ID, Site: "example.com",
			PublicKey: []byte{2}}, at(1))
		refused(t, err, parley.Conflict)
		same(t, "named", p.Name, "phone")
		same(t, "found", must(s.PasskeyOf(ctx, []byte{1}))(t), p)
		_, err = s.PasskeyOf(ctx, []byte{9})
		fails(t, err, ErrPasskey)
		same(t, "of a counter that does not count", must(s.UsePasskey(ctx, p.ID, 0, at(2)))(t).ID, ann.ID)
		must(s.UsePasskey(ctx, p.ID, 5, at(3)))(t)
		for _, signatures := range []uint32{5, 4, 0} {
			_, err = s.UsePasskey(ctx, p.ID, signatures, at(4))
			fails(t, err, ErrPasskey)
		}
		fails(t, s.RenamePasskey(ctx, bob.ID, p.ID, "mine"), ErrNotFound)
		check(t, s.RenamePasskey(ctx, ann.ID, p.ID, "key"))
		list := must(s.PasskeysOf(ctx, ann.ID))(t)
		if len(list) != 1 || list[0].Name != "key" || list[0].Signatures != 5 || !list[0].Used.Equal(at(3)) {
			t.Errorf("listed %+v", list)
		}
		fails(t, s.RemovePasskey(ctx, bob.ID, p.ID), ErrNotFound)
		check(t, s.RemovePasskey(ctx, ann.ID, p.ID))
		_, err = s.UsePasskey(ctx, p.ID, 6, at(5))
		fails(t, err, ErrPasskey)
		disabled := true
		q := must(s.AddPasskey(ctx, Passkey{Credential: []byte{3}, User: bob.ID, Site: "example.com",
			PublicKey: []byte{2}}, at(1)))(t)
		must(s.Change(ctx, bob.ID, UserChange{Disabled: &disabled}))(t)
		_, err = s.UsePasskey(ctx, q.ID, 1, at(5))
		fails(t, err, ErrPasskey)
	})
}

func TestGroups(t *testing.T) {
	onBoth(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		b := GroupRule{Name: "b", Grant: Grant{
			Role:         OrgAdmin,
			Organization: "acme",
			Tier:         "pro",
			Models:       []string{"polly"},
		}}
		a := GroupRule{Name: "cn=a,ou=/x", Grant: Grant{Tier: "free"}}
		same(t, "before b", must(s.SaveGroup(ctx, b))(t), GroupRule{})
		must(s.SaveGroup(ctx, a))(t)
		same(t, "all", must(s.Groups(ctx))(t), []GroupRule{b, a})
		other := GroupRule{Name: "b", Grant: Grant{Organization: "beta"}}
		same(t, "before the change", must(s.SaveGroup(ctx, other))(t), b)
		same(t, "deleted", must(s.DeleteGroup(ctx, a.Name))(t), a)
		same(t, "left", must(s.Groups(ctx))(t), []GroupRule{other})
		if _, err := s.DeleteGroup(ctx, a.Name); parley.CodeOf(err) != parley.NotFound {
			t.Errorf("deleted twice: %v", err)
		}
		for _, name := range []string{"", " b", "b ", "a\nb", strings.Repeat("x", 200)} {
			if _, err := s.SaveGroup(ctx, GroupRule{Name: name}); parley.CodeOf(err) != parley.InvalidRequest {
				t.Errorf("%q is a name: %v", name, err)
			}
		}
	})
}
