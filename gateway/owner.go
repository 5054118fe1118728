package gateway

import (
	"parley"
	"parley/gateway/convo"
)

// localTenant owns everything that is kept while there are no keys to tell
// tenants apart.
const localTenant = "local"

// ownerOf says whose conversations, responses, files and batches a call may see.
// It is the only place that decides so.
func ownerOf(c *call) convo.Owner {
	if c.owner != nil {
		return *c.owner
	}
	return convo.Owner{Tenant: localTenant}
}

// localParty is who a call is answered for while there are no keys.
func localParty(c *call) (parley.Class, string) { return parley.Free, ownerOf(c).Tenant }

// classOf says which class the tenant of a call is of. Whoever runs the server
// for themselves has all of it.
func classOf(*call) parley.Class { return parley.Enterprise }
