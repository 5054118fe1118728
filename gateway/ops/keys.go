package ops

import (
	"net/http"
	"strconv"

	"parley"
	"parley/gateway/exchange"
	"parley/gateway/tenant"
)

// The admin interface for keys and organisations; docs/keys.md describes it. All
// of it needs the admin right, or no keys at all.

// ListProjectKeys answers GET /v1/organization/projects/{project}/api_keys.
func (a *API) ListProjectKeys(x *exchange.Exchange) error {
	return a.ListKeys(x, tenant.KeyFilter{Organization: x.Values["project"]})
}

// A keyPage is a page of keys.
type keyPage struct {
	Object  string  `json:"object"`
	Data    []any   `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// A projectKey is a key as the interface shows it under its project.
type projectKey struct {
	tenant.KeyDocument
	Object string       `json:"object"`
	Access string       `json:"owner_project_access"`
	Owner  projectOwner `json:"owner"`
}

type projectOwner struct {
	Type           string        `json:"type"`
	User           *projectActor `json:"user,omitempty"`
	ServiceAccount *projectActor `json:"service_account,omitempty"`
}

type projectActor struct {
	ID        string `json:"id"`
	Email     string `json:"email"`
	Name      string `json:"name"`
	CreatedAt int64  `json:"created_at"`
	Role      string `json:"role"`
}

func projectKeyOf(d tenant.KeyDocument) projectKey {
	k := projectKey{KeyDocument: d, Object: "organization.project.api_key", Access: "active",
		Owner: projectOwner{Type: d.Owner.Type}}
	if d.Blocked || d.BlockedBy != "" {
		k.Access = "inactive"
	}
	actor := &projectActor{ID: d.Owner.ID, Name: d.Owner.Name, CreatedAt: d.CreatedAt, Role: d.Owner.Role}
	if k.Owner.User = actor; d.User == nil {
		k.Owner.User, k.Owner.ServiceAccount = nil, actor
	}
	return k
}

const keysPage = 100

// ListKeys answers GET on a list of keys, those that f selects.
func (a *API) ListKeys(x *exchange.Exchange, f tenant.KeyFilter) error {
	query := x.Request.URL.Query()
	f.After, f.Limit, f.Deleted = query.Get("after"), keysPage, query.Get("include_deleted") == "true"
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > keysPage {
			return parley.Invalid("limit", "Invalid 'limit': it must be 1 to %d.", keysPage)
		}
		f.Limit = n
	}
	wanted := f.Limit
	f.Limit++
	keys, err := a.Keys.Store().Keys(x.Request.Context(), f)
	if err != nil {
		return err
	}
	list := keyPage{Object: "list", Data: []any{}, HasMore: len(keys) > wanted}
	keys = keys[:min(wanted, len(keys))]
	shown := make([]tenant.KeyDocument, len(keys))
	for i := range keys {
		shown[i] = keys[i].Document("")
	}
	if err := a.addBudgets(x.Request.Context(), shown); err != nil {
		return err
	}
	for i := range shown {
		if f.Organization != "" {
			list.Data = append(list.Data, projectKeyOf(shown[i]))
		} else {
			list.Data = append(list.Data, shown[i])
		}
	}
	if n := len(keys); n > 0 {
		list.FirstID, list.LastID = &keys[0].ID, &keys[n-1].ID
	}
	return x.Reply(http.StatusOK, list)
}

// CreateKey answers POST on a list of keys; admin makes the key one of an admin.
func (a *API) CreateKey(x *exchange.Exchange, admin bool) error {
	request, err := exchange.Read(x, tenant.ParseKeyRequest)
	if err != nil {
		return err
	}
	now := a.Now()
	fresh, err := request.NewKey(now)
	if err != nil {
		return err
	}
	fresh.Admin = fresh.Admin || admin
	k, secret, err := a.Keys.Store().CreateKey(x.Request.Context(), fresh, now)
	if err != nil {
		return err
	}
	x.Changes(k.ID, nil, k.Document(""))
	return a.changedKey(x, k.Document(secret))
}

// changed answers a change, once this gateway goes by it.
func (a *API) changed(x *exchange.Exchange, answer any) error {
	if err := a.Keys.Refresh(x.Request.Context()); err != nil {
		return err
	}
	return x.Reply(http.StatusOK, answer)
}

// ShowKey answers GET on a key.
func (a *API) ShowKey(x *exchange.Exchange) error {
	k, err := a.Keys.Store().Key(x.Request.Context(), x.Values["key"])
	if err != nil {
		return err
	}
	d := k.Document("")
	if err := a.addBudget(x.Request.Context(), &d); err != nil {
		return err
	}
	return x.Reply(http.StatusOK, d)
}

// ShowProjectKey shows a key under its project, and only there.
func (a *API) ShowProjectKey(x *exchange.Exchange) error {
	k, err := a.Keys.Store().Key(x.Request.Context(), x.Values["key"])
	if err != nil {
		return err
	}
	if k.Organization != x.Values["project"] {
		return tenant.ErrNotFound
	}
	d := k.Document("")
	if err := a.addBudget(x.Request.Context(), &d); err != nil {
		return err
	}
	return x.Reply(http.StatusOK, projectKeyOf(d))
}

// ChangeKey answers POST on a key.
func (a *API) ChangeKey(x *exchange.Exchange) error {
	request, err := exchange.Read(x, tenant.ParseKeyRequest)
	if err != nil {
		return err
	}
	change, err := request.Change(a.Now())
	if err != nil {
		return err
	}
	if err := keepsAccess(change.Blocked, "block the key", x.Values["key"], x.Identity.Key); err != nil {
		return err
	}
	before, err := a.Keys.Store().Key(x.Request.Context(), x.Values["key"])
	if err != nil {
		return err
	}
	k, err := a.Keys.Store().ChangeKey(x.Request.Context(), x.Values["key"], change)
	if err != nil {
		return err
	}
	x.Changes(k.ID, before.Document(""), k.Document(""))
	return a.changedKey(x, k.Document(""))
}

// RotateKey answers POST on the rotation of a key.
func (a *API) RotateKey(x *exchange.Exchange) error {
	grace, err := exchange.ReadOptional(x, tenant.ParseRotation)
	if err != nil {
		return err
	}
	before, err := a.Keys.Store().Key(x.Request.Context(), x.Values["key"])
	if err != nil {
		return err
	}
	k, secret, err := a.Keys.Store().RotateKey(x.Request.Context(), x.Values["key"], grace, a.Now())
	if err != nil {
		return err
	}
	x.Changes(k.ID, before.Document(""), k.Document(""))
	return a.changedKey(x, k.Document(secret))
}

// A deletion says that something is gone.
type deletion struct {
	Object  string `json:"object"`
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}

// DeleteKey answers DELETE on a key, also under its project.
func (a *API) DeleteKey(x *exchange.Exchange) error {
	id, store := x.Values["key"], a.Keys.Store()
	k, err := store.Key(x.Request.Context(), id)
	if err != nil {
		return err
	}
	gone := deletion{"organization.api_key.deleted", id, true}
	switch project, under := x.Values["project"]; {
	case under && k.Organization != project:
		return tenant.ErrNotFound
	case under:
		gone.Object = "organization.project.api_key.deleted"
	case k.Admin:
		gone.Object = "organization.admin_api_key.deleted"
	}
	if err := store.SetAsideKey(x.Request.Context(), id, a.Now()); err != nil {
		return err
	}
	x.Changes(id, k.Document(""), nil)
	return a.changed(x, gone)
}

// RestoreKey answers POST on the restoration of a key that was deleted.
func (a *API) RestoreKey(x *exchange.Exchange) error {
	k, err := a.Keys.Store().RestoreKey(x.Request.Context(), x.Values["key"], a.Now())
	if err != nil {
		return err
	}
	x.Changes(k.ID, nil, k.Document(""))
	return a.changedKey(x, k.Document(""))
}

// keepsAccess refuses to block what the caller acts with: blocked says whether id is to be
// blocked, and own which one the caller's is.
func keepsAccess(blocked *bool, what, id, own string) error {
	if blocked == nil || !*blocked || own == "" || id != own {
		return nil
	}
	return parley.Errorf(parley.Conflict,
		"You cannot %s %q, because you are using it and would lock yourself out. Use another admin key or account.",
		what, id)
}

// ListOrganizations answers GET /v1/organization/projects.
func (a *API) ListOrganizations(x *exchange.Exchange) error {
	all, err := a.Keys.Store().Organizations(x.Request.Context())
	if err != nil {
		return err
	}
	list := struct {
		Object  string                        `json:"object"`
		Data    []tenant.OrganizationDocument `json:"data"`
		HasMore bool                          `json:"has_more"`
	}{Object: "list"}
	if list.Data, err = a.organizationsShown(x.Request.Context(), all...); err != nil {
		return err
	}
	return x.Reply(http.StatusOK, list)
}

// CreateOrganization answers POST /v1/organization/projects.
func (a *API) CreateOrganization(x *exchange.Exchange) error {
	request, err := exchange.Read(x, tenant.ParseOrganizationRequest)
	if err != nil {
		return err
	}
	fresh, err := request.Organization()
	if err != nil {
		return err
	}
	o, err := a.Keys.Store().CreateOrganization(x.Request.Context(), fresh, a.Now())
	if err != nil {
		return err
	}
	x.Changes(o.ID, nil, o.Document())
	return a.changedOrganization(x, o)
}

// ShowOrganization answers GET /v1/organization/projects/{project}.
func (a *API) ShowOrganization(x *exchange.Exchange) error {
	o, err := a.Keys.Store().Organization(x.Request.Context(), x.Values["project"])
	if err != nil {
		return err
	}
	shown, err := a.organizationsShown(x.Request.Context(), o)
	if err != nil {
		return err
	}
	return x.Reply(http.StatusOK, shown[0])
}

// ChangeOrganization answers POST /v1/organization/projects/{project}.
func (a *API) ChangeOrganization(x *exchange.Exchange) error {
	request, err := exchange.Read(x, tenant.ParseOrganizationRequest)
	if err != nil {
		return err
	}
	change, err := request.Change()
	if err != nil {
		return err
	}
	return a.applyOrganization(x, change)
}

// applyOrganization changes the organisation that a call names.
func (a *API) applyOrganization(x *exchange.Exchange, change tenant.OrganizationChange) error {
	store, id := a.Keys.Store(), x.Values["project"]
	if err := keepsAccess(change.Blocked, "block the organisation", id, x.Identity.Organization); err != nil {
		return err
	}
	before, err := store.Organization(x.Request.Context(), id)
	if err != nil {
		return err
	}
	o, err := store.ChangeOrganization(x.Request.Context(), id, change)
	if err != nil {
		return err
	}
	x.Changes(id, before.Document(), o.Document())
	return a.changedOrganization(x, o)
}

// ArchiveOrganization answers POST /v1/organization/projects/{project}/archive.
func (a *API) ArchiveOrganization(x *exchange.Exchange) error {
	blocked := true
	return a.applyOrganization(x, tenant.OrganizationChange{Blocked: &blocked})
}

// DeleteOrganization answers DELETE /v1/organization/projects/{project}.
func (a *API) DeleteOrganization(x *exchange.Exchange) error {
	id := x.Values["project"]
	before, err := a.Keys.Store().Organization(x.Request.Context(), id)
	if err != nil {
		return err
	}
	if err := a.Keys.Store().DeleteOrganization(x.Request.Context(), id); err != nil {
		return err
	}
	x.Changes(id, before.Document(), nil)
	return a.changed(x, deletion{"organization.project.deleted", id, true})
}

// A userDocument is a user as clients see one.
type userDocument struct {
	Object  string `json:"object"`
	ID      string `json:"id"`
	Project string `json:"project"`
	Role    string `json:"role"`
	AddedAt int64  `json:"added_at"`
	Blocked bool   `json:"blocked"`
}

// ListUsers answers GET /v1/organization/projects/{project}/users.
func (a *API) ListUsers(x *exchange.Exchange) error {
	users, err := a.Keys.Store().Users(x.Request.Context(), x.Values["project"])
	if err != nil {
		return err
	}
	list := struct {
		Object  string         `json:"object"`
		Data    []userDocument `json:"data"`
		HasMore bool           `json:"has_more"`
	}{Object: "list", Data: []userDocument{}}
	for _, u := range users {
		list.Data = append(list.Data,
			userDocument{"organization.project.user", u.ID, u.Organization, "member", u.Created.Unix(), u.Blocked})
	}
	return x.Reply(http.StatusOK, list)
}

// ChangeUser blocks a user, with all keys, or ends that.
func (a *API) ChangeUser(x *exchange.Exchange) error {
	request, err := exchange.Read(x, tenant.ParseKeyRequest)
	if err != nil {
		return err
	}
	if !request.Blocked.Set {
		return parley.Invalid("blocked", "Say {\"blocked\": true} or {\"blocked\": false}.")
	}
	project, user := x.Values["project"], x.Values["user"]
	own := x.Identity.Organization + "/" + x.Identity.User
	if err := keepsAccess(&request.Blocked.Value, "block the user", project+"/"+user, own); err != nil {
		return err
	}
	if err := a.Keys.Store().BlockUser(x.Request.Context(), project, user, request.Blocked.Value); err != nil {
		return err
	}
	x.Changes(project+"/"+user, nil, map[string]bool{"blocked": request.Blocked.Value})
	return a.changed(x, userDocument{
		Object:  "organization.project.user",
		ID:      user,
		Project: project,
		Role:    "member",
		Blocked: request.Blocked.Value,
	})
}
