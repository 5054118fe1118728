package gateway

import (
	"strings"

	"parley"
	"parley/gateway/infer"
	"parley/gateway/models"
)

// claim says in whose name a request is computed, whatever its client said: in
// which class, at whose cost, and with whom it shares cached context. Models that
// the operator made public share theirs with all.
func (c *call) claim(m *models.Model, job *parley.Request) {
	job.Class, job.Tenant = c.Identity.Tier, c.Identity.Organization
	job.Background, job.Purpose = c.Record.Background, c.purpose()
	objective := c.gateway.objectives.Of(m.ID, job.Class, job.Purpose)
	c.Record.SetObjective(objective)
	job.Objective = c.gateway.objectives[objective].SLO
	job.Salt, job.PublicTokens = c.gateway.saltOf(c.cacheScope()), m.PublicTokens(job.Prompt)
	if c.gateway.pipeline.IsPublicModel(m.ID) {
		job.Salt = parley.Salt{}
	}
}

// cacheScope names the callers with whom a call shares what is cached.
func (c *call) cacheScope() string { return c.gateway.config.CacheScope.of(&c.Identity) }

// sharing says what of a call's answer may be shared, for an answer of a model.
func (c *call) sharing(m *models.Model) infer.SharePolicy {
	p := infer.SharePolicy{Scope: "tenant " + c.cacheScope(), Repeatable: c.seeded, Vocabulary: m.VocabTokens}
	if c.public {
		p.Scope = ""
	}
	for _, directive := range c.Request.Header.Values("Cache-Control") {
		p.Private = p.Private || strings.Contains(directive, "no-store")
		p.Fresh = p.Fresh || strings.Contains(directive, "no-cache")
	}
	return p
}
