package history

import (
	"parley/gateway/convo"
	"parley/gateway/tenant"
)

// OwnerOf returns whose conversations, responses, files and batches a caller may see.
func OwnerOf(who *tenant.Identity) convo.Owner {
	return convo.Owner{Tenant: who.Organization, User: who.User}
}

// QuotaOf returns what a caller's organisation and user may keep of conversations.
func QuotaOf(who *tenant.Identity) convo.Quota {
	return convo.Quota{
		Bytes:             who.Quota.StoreBytes,
		Conversations:     who.Quota.Conversations,
		UserBytes:         who.UserQuota.StoreBytes,
		UserConversations: who.UserQuota.Conversations,
	}
}
