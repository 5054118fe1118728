package tenant

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"parley"
	"parley/internal/testkit"
	"parley/limit"
)

// Conform checks that the stores which open gives keep the contract of Store.
// Each part of it gets a store of its own.
func Conform(t *testing.T, open func(t *testing.T) *Store) {
	for _, part := range []struct {
		name string
		test func(*testing.T, *Store)
	}{
		{"keys", conformKeys}, {"listing", conformListing}, {"changes", conformChanges}, {"rotation", conformRotation},
		{"tenants", conformOrganizations}, {"users", conformUsers}, {"set aside", conformSetAside},
		{"bad input", conformBadInput}, {"secrets", conformSecrets}, {"generations", conformGenerations},
	} {
		t.Run(part.name, func(t *testing.T) { part.test(t, open(t)) })
	}
}

func TestStoresConform(t *testing.T) {
	onBoth(t, func(t *testing.T, _ string) {
		Conform(t, func(t *testing.T) *Store {
			if strings.Contains(t.Name(), "PostgreSQL") {
				return opened(t, testkit.PostgresDSN(t))
			}
			return opened(t, sqliteDSN(t))
		})
	})
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func conformKeys(t *testing.T, s *Store) {
	pro := parley.Pro
	made, secret := create(t, s,
		NewKey{Name: "läptop", Organization: "acme", User: "ann", Tier: &pro, Models: []string{"polly"}, Admin: true,
			Limits: limit.Limits{RequestsPerMinute: 5, MonthlyBudget: 2_500_000}, Expires: at(60)}, at(0))
	want := Key{ID: made.ID, Prefix: secret[:11], Name: "läptop", Organization: "acme", User: "ann", Tier: &pro,
		Models: []string{"polly"}, Admin: true,
		Limits: limit.Limits{RequestsPerMinute: 5, MonthlyBudget: 2_500_000}, Created: at(0), Expires: at(60)}
	same(t, "made", made, want)
	same(t, "read", must(s.Key(t.Context(), made.ID))(t), want)
	if !strings.HasPrefix(secret, "pk-") || len(secret) != secretLength {
		t.Errorf("the secret has another shape: %d letters", len(secret))
	}
	check(t, s.Used(t.Context(), map[string]time.Time{made.ID: at(7), "key_gone": at(7)}))
	check(t, s.Used(t.Context(), map[string]time.Time{made.ID: at(3)})) // of a slower gateway
	want.LastUsed = at(7)
	same(t, "used", must(s.Key(t.Context(), made.ID))(t), want)

	plain, _ := create(t, s, NewKey{}, at(1))
	same(t, "plain", plain, Key{ID: plain.ID, Prefix: plain.Prefix, Organization: LocalOrganization, Created: at(1)})
	same(t, "plain, read", must(s.Key(t.Context(), plain.ID))(t), plain)
	check(t, s.DeleteKey(t.Context(), plain.ID))
	fails(t, s.DeleteKey(t.Context(), plain.ID), ErrNotFound)
	for _, id := range []string{"key_none", "", "\x00", "\xff", plain.ID} {
		_, err := s.Key(t.Context(), id)
		fails(t, err, ErrNotFound)
		_, err = s.ChangeKey(t.Context(), id, KeyChange{})
		fails(t, err, ErrNotFound)
		_, _, err = s.RotateKey(t.Context(), id, 0, time.Now())
		fails(t, err, ErrNotFound)
	}
}

func conformListing(t *testing.T, s *Store) {
	var ids []string
	for i := range 5 {
		k, _ := create(t, s, NewKey{Organization: []string{"acme", "other"}[i%2], Admin: i == 2}, at(i))
		ids = append(ids, k.ID)
	}
	list := func(f KeyFilter) (got []string) {
		t.Helper()
		for _, k := range must(s.Keys(t.Context(), f))(t) {
			got = append(got, k.ID)
		}
		return got
	}
	same(t, "all", list(KeyFilter{}), ids)
	same(t, "of one", list(KeyFilter{Organization: "other"}), []string{ids[1], ids[3]})
	same(t, "of nobody", list(KeyFilter{Organization: "nobody"}), []string(nil))
	same(t, "admins", list(KeyFilter{Admins: true}), []string{ids[2]})
	same(t, "a page", list(KeyFilter{Limit: 2}), ids[:2])
	same(t, "the next", list(KeyFilter{Limit: 2, After: ids[1]}), ids[2:4])
	_, err := s.Keys(t.Context(), KeyFilter{After: "key_none"})
	fails(t, err, ErrNotFound)
}

func conformChanges(t *testing.T, s *Store) {
	k, _ := create(t, s, NewKey{Name: "a", Organization: "acme"}, at(0))
	pro := parley.Pro
	tier, models, blocked, name, expires := &pro, []string{"polly"}, true, "b", at(99)
	limits := limit.Limits{ConcurrentRequests: 3}
	got := must(s.ChangeKey(t.Context(), k.ID,
		KeyChange{Name: &name, Tier: &tier, Models: &models, Blocked: &blocked, Expires: &expires, Limits: &limits}))(t)
	k.Name, k.Tier, k.Models, k.Blocked, k.Expires, k.Limits = name, tier, models, true, expires, limits
	same(t, "changed", got, k)
	same(t, "read", must(s.Key(t.Context(), k.ID))(t), k)
	models = nil
	k.Models = nil
	must(s.ChangeKey(t.Context(), k.ID, KeyChange{Models: &models}))(t)
	same(t, "any model", must(s.Key(t.Context(), k.ID))(t), k)
	bad := "a\nb"
	_, err := s.ChangeKey(t.Context(), k.ID, KeyChange{Name: &bad})
	refused(t, err, parley.InvalidRequest)
	same(t, "after a bad change", must(s.Key(t.Context(), k.ID))(t), k)
}

func conformRotation(t *testing.T, s *Store) {
	k, old := create(t, s, NewKey{Organization: "acme"}, at(0))
	rotated, fresh, err := s.RotateKey(t.Context(), k.ID, 0, time.Now())
	check(t, err)
	if rotated.ID != k.ID || rotated.Prefix == k.Prefix || fresh == old {
		t.Errorf("rotated to %+v", rotated)
	}
	_, _, err = s.find(t.Context(), k.Prefix)
	fails(t, err, ErrNotFound)
	r, _, err := s.find(t.Context(), rotated.Prefix)
	check(t, err)
	if r.digest != digestOf(fresh) || r.key.ID != k.ID || r.organization.ID != "acme" {
		t.Errorf("found %+v", r)
	}
	conformGrace(t, s, &k, fresh)
}

// conformGrace rotates with a grace: the old secret holds until its time, also over
// another rotation, and ends at once when it is taken back.
func conformGrace(t *testing.T, s *Store, k *Key, old string) {
	now := time.Now().Truncate(time.Microsecond)
	_, second, err := s.RotateKey(t.Context(), k.ID, time.Hour, now)
	check(t, err)
	_, _, err = s.RotateKey(t.Context(), k.ID, 2*time.Hour, now)
	check(t, err)
	for secret, until := range map[string]time.Time{old: now.Add(time.Hour), second: now.Add(2 * time.Hour)} {
		r, _, err := s.find(t.Context(), secret[:prefixLength])
		check(t, err)
		if r.digest != digestOf(secret) || r.key.ID != k.ID || r.organization.ID != "acme" ||
			!r.key.Expires.Equal(until) {
			t.Errorf("an old secret is found as %+v, want it until %v", r, until)
		}
	}
	_, _, err = s.RotateKey(t.Context(), k.ID, GraceMax+1, now)
	refused(t, err, parley.InvalidRequest)
	_, _, err = s.RotateKey(t.Context(), k.ID, 0, now)
	check(t, err)
	for _, secret := range []string{old, second} {
		_, _, err := s.find(t.Context(), secret[:prefixLength])
		fails(t, err, ErrNotFound)
	}
	_, third, err := s.RotateKey(t.Context(), k.ID, time.Hour, now)
	check(t, err)
	_, _, err = s.RotateKey(t.Context(), k.ID, time.Hour, now)
	check(t, err)
	check(t, s.DeleteKey(t.Context(), k.ID))
	_, _, err = s.find(t.Context(), third[:prefixLength])
	fails(t, err, ErrNotFound)
}

func conformOrganizations(t *testing.T, s *Store) {
	made := must(s.CreateOrganization(t.Context(),
		Organization{ID: "acme", Tier: parley.Pro, Models: []string{"polly"}}, at(0)))(t)
	same(t, "read", must(s.Organization(t.Context(), "acme"))(t), made)
	_, err := s.CreateOrganization(t.Context(), Organization{ID: "acme"}, at(1))
	fails(t, err, ErrExists)
	tier, blocked := parley.Enterprise, true
	made.Tier, made.Blocked = tier, true
	same(t, "changed",
		must(s.ChangeOrganization(t.Context(), "acme", OrganizationChange{Tier: &tier, Blocked: &blocked}))(t), made)
	k, _ := create(t, s, NewKey{Organization: "acme"}, at(2))
	same(t, "kept its tier", must(s.Organization(t.Context(), "acme"))(t), made)
	if by := must(s.Key(t.Context(), k.ID))(t).BlockedBy; by != "organization" {
		t.Errorf("a key of a blocked organisation is blocked by %q", by)
	}
	fails(t, s.DeleteOrganization(t.Context(), "acme"), ErrInUse)
	check(t, s.SetAsideKey(t.Context(), k.ID, at(3)))
	check(t, s.DeleteOrganization(t.Context(), "acme"))
	_, err = s.Organization(t.Context(), "acme")
	fails(t, err, ErrNotFound)
	fails(t, s.DeleteOrganization(t.Context(), LocalOrganization), ErrInUse)
	list := must(s.Organizations(t.Context()))(t)
	same(t, "what is there from the start", list, []Organization{{ID: LocalOrganization, Tier: parley.Enterprise}})
}

// conformSetAside deletes a key such that it comes back with its secret, within its time.
func conformSetAside(t *testing.T, s *Store) {
	now := at(0)
	k, secret := create(t, s, NewKey{Organization: "acme", Name: "site"}, now)
	check(t, s.SetAsideKey(t.Context(), k.ID, now))
	fails(t, s.SetAsideKey(t.Context(), k.ID, now), ErrNotFound)
	_, _, err := s.find(t.Context(), secret[:prefixLength])
	fails(t, err, ErrNotFound)
	_, err = s.findID(t.Context(), k.ID)
	fails(t, err, ErrNotFound)
	if left := must(s.Keys(t.Context(), KeyFilter{}))(t); len(left) != 0 {
		t.Errorf("a deleted key is listed: %+v", left)
	}
	if n := must(s.State(t.Context()))(t).Keys; n != 0 {
		t.Errorf("%d keys are counted", n)
	}
	same(t, "restored", must(s.RestoreKey(t.Context(), k.ID, now.Add(RestoreMax-1)))(t), k)
	r, _, err := s.find(t.Context(), secret[:prefixLength])
	check(t, err)
	same(t, "found again", r.key, k)
	_, err = s.RestoreKey(t.Context(), k.ID, now)
	fails(t, err, ErrNotFound)
	check(t, s.SetAsideKey(t.Context(), k.ID, now))
	_, err = s.RestoreKey(t.Context(), k.ID, now.Add(RestoreMax))
	fails(t, err, ErrNotFound)
	other, _ := create(t, s, NewKey{Organization: "acme"}, now)
	check(t, s.SetAsideKey(t.Context(), other.ID, now.Add(RestoreMax)))
	_, err = s.RestoreKey(t.Context(), k.ID, now)
	fails(t, err, ErrNotFound) // the second deletion made the first final
	k.Deleted, other.Deleted = now, now.Add(RestoreMax)
	listed := must(s.Keys(t.Context(), KeyFilter{Deleted: true}))(t)
	slices.SortFunc(listed, func(a, b Key) int { return a.Deleted.Compare(b.Deleted) })
	same(t, "deleted keys keep their names", listed, []Key{k, other})
}

func conformUsers(t *testing.T, s *Store) {
	create(t, s, NewKey{Organization: "acme", User: "bob"}, at(0))
	create(t, s, NewKey{Organization: "acme", User: "ann"}, at(1))
	create(t, s, NewKey{Organization: "acme", User: "ann"}, at(2))
	check(t, s.BlockUser(t.Context(), "acme", "bob", true))
	fails(t, s.BlockUser(t.Context(), "other", "bob", true), ErrNotFound)
	same(t, "users", must(s.Users(t.Context(), "acme"))(t),
		[]User{{"acme", "ann", false, at(1)}, {"acme", "bob", true, at(0)}})
}

func conformBadInput(t *testing.T, s *Store) {
	for _, n := range []NewKey{
		{Name: "a\nb"}, {Name: strings.Repeat("n", 129)}, {Name: "\xff"}, {Organization: "a b"},
		{Organization: strings.Repeat("o", 65)},
		{User: "-"}, {User: "a/b"}, {Models: []string{""}}, {Models: make([]string, 300)}, {Expires: at(0)},
		{Limits: limit.Limits{RequestsPerSecond: -1}},
	} {
		_, _, err := s.CreateKey(t.Context(), n, at(0))
		refused(t, err, parley.InvalidRequest)
	}
	if keys := must(s.Keys(t.Context(), KeyFilter{}))(t); len(keys) != 0 {
		t.Errorf("%d keys were made", len(keys))
	}
}

func conformSecrets(t *testing.T, s *Store) {
	first := must(s.Secret(t.Context(), "salt"))(t)
	same(t, "asked again", must(s.Secret(t.Context(), "salt"))(t), first)
	if other := must(s.Secret(t.Context(), "other"))(t); len(first) != 32 || string(other) == string(first) {
		t.Errorf("%d bytes", len(first))
	}
}

func conformGenerations(t *testing.T, s *Store) {
	before := must(s.State(t.Context()))(t)
	grows := func(what string, do func()) {
		t.Helper()
		do()
		after := must(s.State(t.Context()))(t)
		if after.Generation <= before.Generation {
			t.Errorf("after %s the generation is %d, before %d", what, after.Generation, before.Generation)
		}
		before = after
	}
	var k Key
	grows("a new key", func() { k, _ = create(t, s, NewKey{Organization: "acme", User: "ann"}, at(0)) })
	if before.Keys != 1 {
		t.Errorf("%d keys", before.Keys)
	}
	grows("a change", func() { must(s.ChangeKey(t.Context(), k.ID, KeyChange{}))(t) })
	grows("a rotation", func() { _, _, err := s.RotateKey(t.Context(), k.ID, 0, time.Now()); check(t, err) })
	grows("a blocked user", func() { check(t, s.BlockUser(t.Context(), "acme", "ann", true)) })
	grows("a changed tenant", func() { must(s.ChangeOrganization(t.Context(), "acme", OrganizationChange{}))(t) })
	grows("a deletion", func() { check(t, s.DeleteKey(t.Context(), k.ID)) })
	check(t, s.Used(t.Context(), map[string]time.Time{k.ID: at(1)}))
	same(t, "noting use", must(s.State(t.Context()))(t), before)
}
