package tenant

import (
	"testing"
	"time"

	"parley"
	"parley/gateway/accounts"
)

// TestAccountsOnTwoGateways signs in at one gateway and ends that at another.
func TestAccountsOnTwoGateways(t *testing.T) {
	onBoth(t, func(t *testing.T, dsn string) {
		ctx, a, b := t.Context(), ringOf(t, dsn), ringOf(t, dsn)
		people := a.Store().Accounts()
		if !a.Empty() {
			t.Error("a new store is not empty")
		}
		check(t, a.Store().EnsureOrganization(ctx, "acme", at(0)))
		check(t, a.Store().EnsureOrganization(ctx, "acme", at(0)))
		ann := must(people.Create(ctx, accounts.NewUser{Email: "ann@example.com", Grant: accounts.Grant{
			Organization: "acme",
			Role:         accounts.ServerAdmin,
			Tier:         "pro",
			Models:       []string{"polly"},
		}}, at(0)))(t)
		check(t, b.Refresh(ctx))
		if b.Empty() || !b.HasAccounts() {
			t.Error("the other gateway does not know of the account")
		}
		open := func(scope Scope) string {
			return must(people.OpenSession(ctx, accounts.Session{User: ann.ID, Scope: string(scope),
				Expires: time.Now().Add(time.Hour)}, time.Now()))(t)
		}
		chat, admin := open(ScopeChat), open(ScopeAdmin)
		who := must(b.IdentifySession(ctx, chat, ScopeChat))(t)
		if who.Organization != "acme" || who.User != ann.ID || !who.SignedIn() || who.Admin || !who.OrgAdmin ||
			who.Tier != parley.Pro || !who.MayUse("polly") || who.MayUse("other") {
			t.Errorf("identified as %+v", who)
		}
		if who := must(b.IdentifySession(ctx, admin, ScopeAdmin))(t); !who.Admin {
			t.Error("a server admin is not an admin on the admin page")
		}
		_, err := b.IdentifySession(ctx, chat, ScopeAdmin)
		refused(t, err, parley.Unauthenticated)
		check(t, people.CloseCookie(ctx, chat))
		check(t, b.Refresh(ctx))
		_, err = b.IdentifySession(ctx, chat, ScopeChat)
		refused(t, err, parley.Unauthenticated)
		must(b.IdentifySession(ctx, admin, ScopeAdmin))(t)

		blocked := true
		must(a.Store().ChangeOrganization(ctx, "acme", OrganizationChange{Blocked: &blocked}))(t)
		check(t, b.Refresh(ctx))
		_, err = b.IdentifySession(ctx, admin, ScopeAdmin)
		fails(t, err, errAccountDisabled)
		_, err = b.OfKey(ctx, ann.ID)
		fails(t, err, errAccountDisabled)
		_, err = b.OfKey(ctx, ann.ID[:len(ann.ID)-1]+"0")
		fails(t, err, errAccountDeleted)
	})
}

// TestAccountSessionsAreSeen notes when a session was used, and lets it expire.
func TestAccountSessionsAreSeen(t *testing.T) {
	k := ringOf(t, sqliteDSN(t))
	ctx, now := t.Context(), at(1000)
	k.now = func() time.Time { return now }
	people := k.Store().Accounts()
	ann := must(people.Create(ctx, accounts.NewUser{Email: "ann@example.com",
		Grant: accounts.Grant{Organization: LocalOrganization}}, at(0)))(t)
	cookie := must(people.OpenSession(ctx, accounts.Session{User: ann.ID, Scope: "chat", Expires: at(2000)}, at(0)))(t)
	must(k.IdentifySession(ctx, cookie, ScopeChat))(t)
	k.noteUsed(ctx)
	if one := must(people.SessionOf(ctx, cookie))(t); !one.Seen.Equal(at(1000)) {
		t.Errorf("seen at %s", one.Seen)
	}
	now = at(2000)
	_, err := k.IdentifySession(ctx, cookie, ScopeChat)
	refused(t, err, parley.Unauthenticated)
}
