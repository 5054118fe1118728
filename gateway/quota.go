package gateway

import (
	"context"

	"parley/gateway/batch"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/ops"
)

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

// countEndUser counts a request for the user whom its body names.
func (c *call) countEndUser(body []byte) error { return c.job.CountEndUser(c.Request.Context(), body) }

// quotas returns how a caller's organisation and its user stand with their quotas.
func (g *Gateway) quotas(ctx context.Context, x *exchange.Exchange) (organization, user ops.QuotaDocument, err error) {
	organization.Limit, user.Limit = x.Identity.Quota, x.Identity.UserQuota
	if g.runs != nil {
		all, own, err := g.config.Store.Usage(ctx, history.OwnerOf(x.Identity))
		if err != nil {
			return organization, user, err
		}
		organization.Used.StoreBytes, organization.Used.Conversations = all.Bytes, all.Conversations
		user.Used.StoreBytes, user.Used.Conversations = own.Bytes, own.Conversations
	}
	if g.config.Batches != nil {
		all, own := g.config.Batches.Of(history.OwnerOf(x.Identity)).Usage()
		used := &organization.Used
		used.FileBytes, used.Files, used.Batches = all.Bytes, all.Files, all.Batches
		used = &user.Used
		used.FileBytes, used.Files, used.Batches = own.Bytes, own.Files, own.Batches
	}
	return organization, user, nil
}
