package job

import (
	"math/rand/v2"

	"parley"
	"parley/gateway/infer"
	"parley/gateway/models"
	"parley/gateway/openai"
)

// request makes what the worker is asked for one prompt.
func (j *Job) request(m *models.Model, g *openai.Generation, prompt []parley.Token) *parley.Request {
	j.share.seeded = g.Seeded
	r := &parley.Request{
		ID:            j.Record.ID,
		Model:         m.ID,
		Prompt:        prompt,
		Choices:       g.Choices,
		Sampling:      g.Sampling,
		Stop:          g.Stop,
		SinkTokens:    g.Sinks,
		FinishGrammar: g.FinishJSON,
		Retain:        g.Retain,
		Logprobs:      g.Logprobs,
		TopLogprobs:   g.TopLogprobs,
	}
	if !g.Seeded {
		r.Sampling.Seed = rand.Uint64()
	}
	j.claim(m, r)
	if j.share.salt = g.CacheSalt; g.CacheSalt != "" {
		r.Salt, r.PublicTokens = j.server.Salts.within(j.server.Salts.Scope.of(j.Record.Who), g.CacheSalt), 0
	}
	if g.Session != "" { // clients of two tenants may choose the same name
		r.Session = r.Tenant + " " + g.Session
	}
	return r
}

// claim says in whose name a request is computed, whatever its client said: in
// which class, at whose cost, and with whom it shares cached context. Models that
// the operator made public share theirs with all.
func (j *Job) claim(m *models.Model, r *parley.Request) {
	s, who := j.server, j.Record.Who
	r.Class, r.Tenant = who.Tier, who.Organization
	r.Background, r.Purpose = j.Record.Background, purposeOf(j.Record.Route)
	objective := s.Objectives.Of(m.ID, r.Class, r.Purpose)
	j.Record.SetObjective(objective)
	r.Objective = s.Objectives[objective].SLO
	r.Salt, r.PublicTokens = s.Salts.of(s.Salts.Scope.of(who)), m.PublicTokens(r.Prompt)
	if s.Pipeline.IsPublicModel(m.ID) {
		r.Salt = parley.Salt{}
	}
}

// purposeOf says what the answers of a route are for: those that complete a text while
// it is written are for that alone.
func purposeOf(route string) parley.Purpose {
	switch route {
	case "/v1/completions", "/v1/fim/completions", "/infill":
		return parley.ForComplete
	}
	return parley.ForChat
}

// sharing says what of the job's answer may be shared, for an answer of a model.
func (j *Job) sharing(m *models.Model) infer.SharePolicy {
	p := infer.SharePolicy{
		Scope:      "tenant " + j.server.Salts.Scope.of(j.Record.Who),
		Repeatable: j.share.seeded,
		Vocabulary: m.VocabTokens,
		Private:    j.share.private,
		Fresh:      j.share.fresh,
	}
	switch {
	case j.share.salt != "":
		p.Scope += "\x00salt\x00" + j.share.salt
	case j.share.public || j.server.Pipeline.IsPublicModel(m.ID):
		p.Scope = ""
	}
	return p
}
