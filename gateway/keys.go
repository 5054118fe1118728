package gateway

import (
	"net/http"
	"strconv"
	"time"

	"parley"
	"parley/gateway/tenant"
)

// The admin interface for keys and organisations; docs/keys.md describes it. All
// of it needs the admin right, or no keys at all.

const keysPath, adminKeysPath, projectsPath = "/v1/organization/api_keys", "/v1/organization/admin_api_keys",
	"/v1/organization/projects"

// listProjectKeys answers GET /v1/organization/projects/{project}/api_keys.
func (g *Gateway) listProjectKeys(c *call) error {
	return g.listKeys(c, tenant.KeyFilter{Organization: c.values["project"]})
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
	if d.Blocked {
		k.Access = "inactive"
	}
	actor := &projectActor{ID: d.Owner.ID, Name: d.Owner.Name, CreatedAt: d.CreatedAt, Role: d.Owner.Role}
	if k.Owner.User = actor; d.User == nil {
		k.Owner.User, k.Owner.ServiceAccount = nil, actor
	}
	return k
}

const keysPage = 100

func (g *Gateway) listKeys(c *call, f tenant.KeyFilter) error {
	query := c.request.URL.Query()
	f.After, f.Limit = query.Get("after"), keysPage
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > keysPage {
			return parley.Invalid("limit", "Invalid 'limit': it must be 1 to %d.", keysPage)
		}
		f.Limit = n
	}
	wanted := f.Limit
	f.Limit++
	keys, err := g.config.Keys.Store().Keys(c.request.Context(), f)
	if err != nil {
		return err
	}
	list := keyPage{Object: "list", Data: []any{}, HasMore: len(keys) > wanted}
	keys = keys[:min(wanted, len(keys))]
	shown := make([]tenant.KeyDocument, len(keys))
	for i := range keys {
		shown[i] = keys[i].Document("")
	}
	if err := g.addBudgets(c.request.Context(), shown); err != nil {
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
	return c.reply(http.StatusOK, list)
}

func (g *Gateway) createKey(c *call, admin bool) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	request, err := tenant.ParseKeyRequest(body)
	if err != nil {
		return err
	}
	now := g.config.Now()
	fresh, err := request.NewKey(now)
	if err != nil {
		return err
	}
	fresh.Admin = fresh.Admin || admin
	k, secret, err := g.config.Keys.Store().CreateKey(c.request.Context(), fresh, now)
	if err != nil {
		return err
	}
	c.changes(k.ID, nil, k.Document(""))
	return g.changedKey(c, k.Document(secret))
}

// changed answers a change, once this gateway goes by it.
func (g *Gateway) changed(c *call, answer any) error {
	if err := g.config.Keys.Refresh(c.request.Context()); err != nil {
		return err
	}
	return c.reply(http.StatusOK, answer)
}

func (g *Gateway) showKey(c *call) error {
	k, err := g.config.Keys.Store().Key(c.request.Context(), c.values["key"])
	if err != nil {
		return err
	}
	d := k.Document("")
	if err := g.addBudget(c.request.Context(), &d); err != nil {
		return err
	}
	return c.reply(http.StatusOK, d)
}

// showProjectKey shows a key under its project, and only there.
func (g *Gateway) showProjectKey(c *call) error {
	k, err := g.config.Keys.Store().Key(c.request.Context(), c.values["key"])
	if err != nil {
		return err
	}
	if k.Organization != c.values["project"] {
		return tenant.ErrNotFound
	}
	d := k.Document("")
	if err := g.addBudget(c.request.Context(), &d); err != nil {
		return err
	}
	return c.reply(http.StatusOK, projectKeyOf(d))
}

func (g *Gateway) changeKey(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	request, err := tenant.ParseKeyRequest(body)
	if err != nil {
		return err
	}
	change, err := request.Change(g.config.Now())
	if err != nil {
		return err
	}
	before, err := g.config.Keys.Store().Key(c.request.Context(), c.values["key"])
	if err != nil {
		return err
	}
	k, err := g.config.Keys.Store().ChangeKey(c.request.Context(), c.values["key"], change)
	if err != nil {
		return err
	}
	c.changes(k.ID, before.Document(""), k.Document(""))
	return g.changedKey(c, k.Document(""))
}

func (g *Gateway) rotateKey(c *call) error {
	var grace time.Duration
	if c.request.ContentLength != 0 {
		body, err := c.body()
		if err != nil {
			return err
		}
		if grace, err = tenant.ParseRotation(body); err != nil {
			return err
		}
	}
	before, err := g.config.Keys.Store().Key(c.request.Context(), c.values["key"])
	if err != nil {
		return err
	}
	k, secret, err := g.config.Keys.Store().RotateKey(c.request.Context(), c.values["key"], grace, g.config.Now())
	if err != nil {
		return err
	}
	c.changes(k.ID, before.Document(""), k.Document(""))
	return g.changedKey(c, k.Document(secret))
}

// A deletion says that something is gone.
type deletion struct {
	Object  string `json:"object"`
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}

func (g *Gateway) deleteKey(c *call) error {
	id, store := c.values["key"], g.config.Keys.Store()
	k, err := store.Key(c.request.Context(), id)
	if err != nil {
		return err
	}
	gone := deletion{"organization.api_key.deleted", id, true}
	switch project, under := c.values["project"]; {
	case under && k.Organization != project:
		return tenant.ErrNotFound
	case under:
		gone.Object = "organization.project.api_key.deleted"
	case k.Admin:
		gone.Object = "organization.admin_api_key.deleted"
	}
	if err := store.DeleteKey(c.request.Context(), id); err != nil {
		return err
	}
	c.changes(id, k.Document(""), nil)
	return g.changed(c, gone)
}

func (g *Gateway) listOrganizations(c *call) error {
	all, err := g.config.Keys.Store().Organizations(c.request.Context())
	if err != nil {
		return err
	}
	list := struct {
		Object  string                        `json:"object"`
		Data    []tenant.OrganizationDocument `json:"data"`
		HasMore bool                          `json:"has_more"`
	}{Object: "list"}
	if list.Data, err = g.organizationsShown(c.request.Context(), all...); err != nil {
		return err
	}
	return c.reply(http.StatusOK, list)
}

func (g *Gateway) createOrganization(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	request, err := tenant.ParseOrganizationRequest(body)
	if err != nil {
		return err
	}
	fresh, err := request.Organization()
	if err != nil {
		return err
	}
	o, err := g.config.Keys.Store().CreateOrganization(c.request.Context(), fresh, g.config.Now())
	if err != nil {
		return err
	}
	c.changes(o.ID, nil, o.Document())
	return g.changedOrganization(c, o)
}

func (g *Gateway) showOrganization(c *call) error {
	o, err := g.config.Keys.Store().Organization(c.request.Context(), c.values["project"])
	if err != nil {
		return err
	}
	shown, err := g.organizationsShown(c.request.Context(), o)
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, shown[0])
}

func (g *Gateway) changeOrganization(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	request, err := tenant.ParseOrganizationRequest(body)
	if err != nil {
		return err
	}
	change, err := request.Change()
	if err != nil {
		return err
	}
	return g.applyOrganization(c, change)
}

// applyOrganization changes the organisation that a call names.
func (g *Gateway) applyOrganization(c *call, change tenant.OrganizationChange) error {
	store, id := g.config.Keys.Store(), c.values["project"]
	before, err := store.Organization(c.request.Context(), id)
	if err != nil {
		return err
	}
	o, err := store.ChangeOrganization(c.request.Context(), id, change)
	if err != nil {
		return err
	}
	c.changes(id, before.Document(), o.Document())
	return g.changedOrganization(c, o)
}

func (g *Gateway) archiveOrganization(c *call) error {
	blocked := true
	return g.applyOrganization(c, tenant.OrganizationChange{Blocked: &blocked})
}

func (g *Gateway) deleteOrganization(c *call) error {
	id := c.values["project"]
	before, err := g.config.Keys.Store().Organization(c.request.Context(), id)
	if err != nil {
		return err
	}
	if err := g.config.Keys.Store().DeleteOrganization(c.request.Context(), id); err != nil {
		return err
	}
	c.changes(id, before.Document(), nil)
	return g.changed(c, deletion{"organization.project.deleted", id, true})
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

func (g *Gateway) listUsers(c *call) error {
	users, err := g.config.Keys.Store().Users(c.request.Context(), c.values["project"])
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
	return c.reply(http.StatusOK, list)
}

// changeUser blocks a user, with all keys, or ends that.
func (g *Gateway) changeUser(c *call) error {
	body, err := c.body()
	if err != nil {
		return err
	}
	request, err := tenant.ParseKeyRequest(body)
	if err != nil {
		return err
	}
	if !request.Blocked.Set {
		return parley.Invalid("blocked", "Say {\"blocked\": true} or {\"blocked\": false}.")
	}
	project, user := c.values["project"], c.values["user"]
	if err := g.config.Keys.Store().BlockUser(c.request.Context(), project, user, request.Blocked.Value); err != nil {
		return err
	}
	c.changes(project+"/"+user, nil, map[string]bool{"blocked": request.Blocked.Value})
	return g.changed(c, userDocument{
		Object:  "organization.project.user",
		ID:      user,
		Project: project,
		Role:    "member",
		Blocked: request.Blocked.Value,
	})
}
