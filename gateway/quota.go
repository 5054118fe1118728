package gateway

import (
	"context"
	"crypto/sha256"
	"encoding/hex"

	"parley/gateway/batch"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/limit"
	"parley/gateway/openai"
	"parley/gateway/ops"
	"parley/gateway/runs"
	"parley/gateway/tenant"
)

// runStoreFor is what a run of a call begins in: within its quota.
func (c *call) runStoreFor() runs.Store {
	if q := history.QuotaOf(&c.Identity); q != (convo.Quota{}) {
		return c.gateway.config.Store.Within(q)
	}
	return c.gateway.runs.Store
}

// fileQuota is what a call's organisation and user may keep of files and batches.
func (c *call) fileQuota() batch.Quota {
	q, user := &c.Identity.Quota, &c.Identity.UserQuota
	return batch.Quota{
		Files:       q.Files,
		Bytes:       q.FileBytes,
		Batches:     q.Batches,
		UserFiles:   user.Files,
		UserBytes:   user.FileBytes,
		UserBatches: user.Batches,
	}
}

// quotas returns how a caller's organisation and its user stand with their quotas.
func (g *Gateway) quotas(ctx context.Context, x *exchange.Exchange) (organization, user ops.QuotaDocument, err error) {
	organization.Limit, user.Limit = x.Identity.Quota, x.Identity.UserQuota
	if g.runs != nil {
		all, own, err := g.config.Store.Usage(ctx, history.OwnerOf(&x.Identity))
		if err != nil {
			return organization, user, err
		}
		organization.Used.StoreBytes, organization.Used.Conversations = all.Bytes, all.Conversations
		user.Used.StoreBytes, user.Used.Conversations = own.Bytes, own.Conversations
	}
	if g.config.Batches != nil {
		all, own := g.config.Batches.Of(history.OwnerOf(&x.Identity)).Usage()
		used := &organization.Used
		used.FileBytes, used.Files, used.Batches = all.Bytes, all.Files, all.Batches
		used = &user.Used
		used.FileBytes, used.Files, used.Batches = own.Bytes, own.Files, own.Batches
	}
	return organization, user, nil
}

// userAccount is the account of a user, for all its keys of one tier.
func userAccount(who *tenant.Identity) string {
	return who.Organization + "//" + who.User + ":" + who.Tier.String()
}

// countEndUser counts a request for the user whom the caller names as its own in the
// body, where the operator limits those. Nothing is known of such a user but a name,
// of which a digest is kept.
func (c *call) countEndUser(body []byte) error {
	limits := c.Identity.EndUserLimits
	if limits == (limit.Limits{}) || c.light || c.Record.Background {
		return nil
	}
	name := openai.EndUser(body)
	if name == "" {
		return nil
	}
	sum := sha256.Sum256([]byte(name))
	account := limit.Account{Name: c.Identity.Organization + "//end-user:" + hex.EncodeToString(sum[:12]),
		Limits: limits}
	s := &slot{book: c.gateway.limits, next: c.slot, hold: limit.Hold{
		ID:       c.Record.ID + "-user",
		Group:    c.Identity.Organization,
		Accounts: []limit.Account{account},
		Use:      fullUse,
	}}
	if err := c.reserveHold(c.Request.Context(), &s.hold, ""); err != nil {
		return err
	}
	c.slot, c.accounts = s, append(c.accounts[:len(c.accounts):len(c.accounts)], account)
	return nil
}
