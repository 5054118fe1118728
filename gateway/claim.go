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
	c.story.objective = c.gateway.objectives.Of(m.ID, job.Class, job.Purpose)
	job.Objective = c.gateway.objectives[c.story.objective].SLO
	job.Salt, job.Public = c.gateway.saltOf(c.cacheScope()), m.publicTokens(job.Prompt)
	if c.gateway.shares.isPublicModel(m) {
		job.Salt = parley.Salt{}
	}
}

// cacheScope names the callers with whom a call shares what is cached.
func (c *call) cacheScope() string { return c.gateway.config.CacheScope.of(&c.identity) }

func (s *shares) isPublicModel(m *model) bool { return slices.Contains(s.config.PublicModels, m.ID) }

func (s *shares) isPublicPrompt(opening string) bool {
	return opening != "" && slices.Contains(s.config.PublicPrompts, opening)
}
