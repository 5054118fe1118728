package gateway

import (
	"slices"

	"parley"
)

// claim says in whose name a request is computed, whatever its client said: in
// which class, at whose cost, and with whom it shares cached context. Models that
// the operator made public share theirs with all.
func (c *call) claim(m *model, job *parley.Request) {
	job.Class, job.Tenant = c.identity.Tier, c.identity.Organization
	job.Background, job.Purpose = c.background, c.purpose()
	job.Salt, job.Public = c.gateway.saltOf(job.Tenant), m.publicTokens(job.Prompt)
	if c.gateway.shares.isPublicModel(m) {
		job.Salt = parley.Salt{}
	}
}

func (s *shares) isPublicModel(m *model) bool { return slices.Contains(s.config.PublicModels, m.ID) }

func (s *shares) isPublicPrompt(opening string) bool {
	return opening != "" && slices.Contains(s.config.PublicPrompts, opening)
}
