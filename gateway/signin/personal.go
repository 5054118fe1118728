package signin

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"parley"
	"parley/gateway/accounts"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/openai"
	"parley/gateway/tenant"
)

// pageMax is how many conversations or files are listed at a time.
const pageMax = 100

func ownerOf(u *accounts.User) convo.Owner { return convo.Owner{Tenant: u.Organization, User: u.ID} }

// Export answers GET /account/export: all that is stored for the account, as a zip
// archive of JSON documents and the files that were uploaded.
func (h *Handlers) Export(x *exchange.Exchange) error {
	u, err := h.self(x)
	if err != nil {
		return err
	}
	first, err := h.profile(x, &u) // errors of the store before the first byte are readable
	if err != nil {
		return err
	}
	header := x.Header()
	header.Set("Content-Type", "application/zip")
	header.Set("Content-Disposition", `attachment; filename="parley-account.zip"`)
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	x.WriteHeader(http.StatusOK)
	out := zip.NewWriter(&steady{x})
	if err := first(out); err != nil {
		return err
	}
	if err := h.exportConversations(x.Request.Context(), out, &u); err != nil {
		return err
	}
	if err := h.exportFiles(out, &u); err != nil {
		return err
	}
	return out.Close()
}

// steady writes to a client for as long as it reads.
type steady struct{ x *exchange.Exchange }

func (s *steady) Write(p []byte) (int, error) {
	control := http.NewResponseController(s.x.Response)
	_ = control.SetWriteDeadline(time.Now().Add(s.x.Server.WriteWaitMax))
	return s.x.Write(p)
}

// profile reads the account, its sessions, keys and identities, and returns what writes
// them.
func (h *Handlers) profile(x *exchange.Exchange, u *accounts.User) (func(*zip.Writer) error, error) {
	ctx := x.Request.Context()
	sessions, err := h.store().Sessions(ctx, u.ID, h.Now())
	if err != nil {
		return nil, err
	}
	keys, err := h.ownKeys(x, u)
	if err != nil {
		return nil, err
	}
	identities, err := h.store().IdentitiesOf(ctx, u.ID)
	if err != nil {
		return nil, err
	}
	type identity struct {
		Issuer  string `json:"issuer"`
		Subject string `json:"subject"`
	}
	return func(out *zip.Writer) error {
		return addJSON(out, "account.json", map[string]any{
			"account":  UserShown(u),
			"sessions": listOf(sessions, func(s *accounts.Session) sessionEntry { return sessionShown(s, "") }).Data,
			"keys":     listOf(keys, func(k *tenant.Key) tenant.KeyDocument { return k.Document("") }).Data,
			"identities": listOf(identities, func(e *accounts.ExternalIdentity) identity {
				return identity{e.Issuer, e.Subject}
			}).Data,
		})
	}, nil
}

func addJSON(out *zip.Writer, name string, document any) error {
	file, err := out.Create(name)
	if err != nil {
		return err
	}
	text, err := json.MarshalIndent(document, "", "  ")
	if err != nil {
		return err
	}
	_, err = io.Copy(file, bytes.NewReader(append(text, '\n')))
	return err
}

func (h *Handlers) exportConversations(ctx context.Context, out *zip.Writer, u *accounts.User) error {
	if h.Convos == nil {
		return nil
	}
	owner := ownerOf(u)
	for page := (convo.Page{Limit: pageMax}); ; {
		some, err := h.Convos.Conversations(ctx, owner, convo.Filter{}, page)
		if err != nil {
			return err
		}
		for i := range some.Items {
			whole, err := h.Convos.Export(ctx, owner, some.Items[i].ID)
			if parley.CodeOf(err) == parley.NotFound {
				continue // deleted meanwhile
			}
			if err != nil {
				return err
			}
			if err := addJSON(out, "conversations/"+some.Items[i].ID+".json", whole); err != nil {
				return err
			}
		}
		if !some.More || len(some.Items) == 0 {
			return nil
		}
		page.After = some.Last
	}
}

func (h *Handlers) exportFiles(out *zip.Writer, u *accounts.User) error {
	return h.eachFile(u, func(f *openai.File) error {
		content, _, err := h.Batches.Of(ownerOf(u)).Read(f.ID)
		if err != nil {
			return err
		}
		defer content.Close()
		file, err := out.Create(fmt.Sprintf("files/%s-%s", f.ID, safeName(f.Filename)))
		if err != nil {
			return err
		}
		_, err = io.Copy(file, content)
		return err
	})
}

// safeName keeps a name that a client chose from being a path.
func safeName(name string) string {
	return strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || r < ' ' {
			return '_'
		}
		return r
	}, name)
}

// eachFile visits the files of an account.
func (h *Handlers) eachFile(u *accounts.User, visit func(*openai.File) error) error {
	if h.Batches == nil {
		return nil
	}
	files, err := h.allFiles(u)
	if err != nil {
		return err
	}
	for i := range files {
		if err := visit(&files[i]); err != nil {
			return err
		}
	}
	return nil
}

func (h *Handlers) allFiles(u *accounts.User) (all []openai.File, err error) {
	for page := (openai.Page{Limit: pageMax}); ; {
		some, err := h.Batches.Of(ownerOf(u)).Files(page)
		if err != nil {
			return nil, err
		}
		all = append(all, some.Data...)
		if !some.HasMore || len(some.Data) == 0 {
			return all, nil
		}
		page.After = some.Data[len(some.Data)-1].ID
	}
}

// DeleteAccount answers DELETE /account: the caller's account goes with all that it has
// stored. What it has used stays in the ledger, under its id alone.
func (h *Handlers) DeleteAccount(x *exchange.Exchange) error {
	u, err := h.self(x)
	if err != nil {
		return err
	}
	var given struct {
		Password string `json:"current_password"`
		Email    string `json:"email"`
	}
	if err := read(x, &given); err != nil {
		return err
	}
	if given.Email != u.Email {
		return parley.Invalid("email", "Type your email address, %s, to delete your account.", u.Email)
	}
	if err := h.confirm(x, &u, given.Password); err != nil {
		return err
	}
	if err := h.erase(x.Request.Context(), &u); err != nil {
		return err
	}
	x.Changes(u.ID, nil, nil)
	h.Cookies.set(x, tenant.ScopeChat, "", -1)
	return h.changed(x, deletion{"account.deleted", u.ID, true})
}

// erase removes an account and what it has stored. It is disabled first, so that nothing
// is added meanwhile, and removed last, so that erasing can be tried again.
func (h *Handlers) erase(ctx context.Context, u *accounts.User) error {
	disabled := true
	if _, err := h.store().Change(ctx, u.ID, accounts.UserChange{Disabled: &disabled}); err != nil {
		return err
	}
	if err := h.Keys.Refresh(ctx); err != nil {
		return err
	}
	for {
		keys, err := h.Keys.Store().Keys(ctx, tenant.KeyFilter{User: u.ID, Limit: pageMax})
		if err != nil {
			return err
		}
		if len(keys) == 0 {
			break
		}
		for i := range keys {
			if err := h.Keys.Store().DeleteKey(ctx, keys[i].ID); err != nil {
				return err
			}
		}
	}
	if err := h.eachFile(u, func(f *openai.File) error { return h.Batches.Of(ownerOf(u)).Delete(f.ID) }); err != nil {
		return err
	}
	if h.Batches != nil {
		if err := h.Batches.Of(ownerOf(u)).Erase(h.Now()); err != nil {
			return err
		}
	}
	if h.Convos != nil {
		if err := h.Convos.Erase(ctx, ownerOf(u)); err != nil {
			return err
		}
	}
	return h.store().Delete(ctx, u.ID)
}
