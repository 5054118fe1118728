package gateway

import (
	"net/http"
	"strconv"

	"parley"
	"parley/gateway/tenant"
)

// The admin interface for keys and organisations; docs/keys.md describes it. All
// of it needs the admin right, or no keys at all.

const keysPath, adminKeysPath, projectsPath = "/v1/organization/api_keys", "/v1/organization/admin_api_keys", "/v1/organization/projects"

func (g *Gateway) addKeyRoutes() {
	if g.config.Keys == nil {
		return
	}
	add := func(method, path string, e endpoint) {
		g.routes.add(method, path, false, func(c *call) error {
			if err := c.mustAdmin(); err != nil {
				return err
			}
			return e(c)
		})
	}
	for _, path := range []string{keysPath, adminKeysPath} {
		admins := path == adminKeysPath
		add("GET", path, func(c *call) error { return g.listKeys(c, tenant.KeyFilter{Admins: admins}) })
		add("POST", path, func(c *call) error { return g.createKey(c, admins) })
		add("GET", path+"/{key}", g.showKey)
		add("POST", path+"/{key}", g.changeKey)
		add("DELETE", path+"/{key}", g.deleteKey)
		add("POST", path+"/{key}/rotate", g.rotateKey)
	}
	add("GET", projectsPath, g.listOrganizations)
	add("POST", projectsPath, g.createOrganization)
	add("GET", projectsPath+"/{project}", g.showOrganization)
	add("POST", projectsPath+"/{project}", g.changeOrganization)
	add("DELETE", projectsPath+"/{project}", g.deleteOrganization)
	add("GET", projectsPath+"/{project}/api_keys", func(c *call) error {
		return g.listKeys(c, tenant.KeyFilter{Organization: c.values["project"]})
	})
	add("GET", projectsPath+"/{project}/users", g.listUsers)
	add("POST", projectsPath+"/{project}/users/{user}", g.changeUser)
}

// A keyList is a page of keys.
type keyList struct {
	Object  string               `json:"object"`
	Data    []tenant.KeyDocument `json:"data"`
	FirstID *string              `json:"first_id"`
	LastID  *string              `json:"last_id"`
	HasMore bool                 `json:"has_more"`
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
	list := keyList{Object: "list", Data: []tenant.KeyDocument{}, HasMore: len(keys) > wanted}
	for i := range keys[:min(wanted, len(keys))] {
		list.Data = append(list.Data, keys[i].Document(""))
	}
	if n := len(list.Data); n > 0 {
		list.FirstID, list.LastID = &list.Data[0].ID, &list.Data[n-1].ID
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
	return g.changed(c, k.Document(secret))
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
	return c.reply(http.StatusOK, k.Document(""))
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
	k, err := g.config.Keys.Store().ChangeKey(c.request.Context(), c.values["key"], change)
	if err != nil {
		return err
	}
	return g.changed(c, k.Document(""))
}

func (g *Gateway) rotateKey(c *call) error {
	k, secret, err := g.config.Keys.Store().RotateKey(c.request.Context(), c.values["key"])
	if err != nil {
		return err
	}
	return g.changed(c, k.Document(secret))
}

// A deletion says that something is gone.
type deletion struct {
	Object  string `json:"object"`
	ID      string `json:"id"`
	Deleted bool   `json:"deleted"`
}

func (g *Gateway) deleteKey(c *call) error {
	id := c.values["key"]
	if err := g.config.Keys.Store().DeleteKey(c.request.Context(), id); err != nil {
		return err
	}
	return g.changed(c, deletion{"organization.api_key.deleted", id, true})
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
	}{Object: "list", Data: []tenant.OrganizationDocument{}}
	for i := range all {
		list.Data = append(list.Data, all[i].Document())
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
	return g.changed(c, o.Document())
}

func (g *Gateway) showOrganization(c *call) error {
	o, err := g.config.Keys.Store().Organization(c.request.Context(), c.values["project"])
	if err != nil {
		return err
	}
	return c.reply(http.StatusOK, o.Document())
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
	o, err := g.config.Keys.Store().ChangeOrganization(c.request.Context(), c.values["project"], change)
	if err != nil {
		return err
	}
	return g.changed(c, o.Document())
}

func (g *Gateway) deleteOrganization(c *call) error {
	id := c.values["project"]
	if err := g.config.Keys.Store().DeleteOrganization(c.request.Context(), id); err != nil {
		return err
	}
	return g.changed(c, deletion{"organization.project.deleted", id, true})
}

// A userDocument is a user as clients see one.
type userDocument struct {
	Object  string `json:"object"`
	ID      string `json:"id"`
	Project string `json:"project"`
	AddedAt int64  `json:"added_at"`
	Blocked bool   `json:"blocked"`
}

func (g *Gateway) listUsers(c *call) error {
	users, err := g.config.Keys.Store().Users(c.request.Context(), c.values["project"])
	if err != nil {
		return err
	}
	list := struct {
		Object string         `json:"object"`
		Data   []userDocument `json:"data"`
	}{"list", []userDocument{}}
	for _, u := range users {
		list.Data = append(list.Data, userDocument{"organization.project.user", u.ID, u.Organization, u.Created.Unix(), u.Blocked})
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
	return g.changed(c, userDocument{Object: "organization.project.user", ID: user, Project: project, Blocked: request.Blocked.Value})
}
