package gateway

import (
	"net/http"

	"parley"
	"parley/gateway/exchange"
	"parley/gateway/openai"
	"parley/gateway/safety"
)

// moderationModel is what answers to POST /v1/moderations, whatever model the
// client named: clients name OpenAI's.
const moderationModel = "parley-safety"

// moderations answers POST /v1/moderations. It judges as the input screen does
// and takes no notice of policies: what follows is for the caller to say.
func (g *Gateway) moderations(c *call) error {
	request, err := exchange.Read(c.Exchange, openai.ParseModeration)
	if err != nil {
		return err
	}
	if err := checkModerated(request.Inputs); err != nil {
		return err
	}
	answer := openai.Moderation{ID: "modr-" + c.Suffix, Model: moderationModel}
	for _, text := range request.Inputs {
		verdict := g.safety.Screen.Judge(safety.Text{Body: text})
		answer.Results = append(answer.Results, moderationResult(&verdict))
	}
	return c.Reply(http.StatusOK, answer)
}

// moderatedBytesMax bounds the text of one request: judging a text takes many times
// its memory.
const moderatedBytesMax = 256 << 10

func checkModerated(inputs []string) error {
	bytes := 0
	for _, text := range inputs {
		bytes += len(text)
	}
	if bytes > moderatedBytesMax {
		return parley.Invalid("input",
			"Invalid 'input': it has %d bytes, and a request may have %d. Send it in parts.", bytes, moderatedBytesMax)
	}
	return nil
}

// moderationKinds are OpenAI's categories and which of ours must both be found
// for them.
var moderationKinds = map[string][2]safety.Category{
	"harassment":             {safety.Harassment, safety.Harassment},
	"harassment/threatening": {safety.Harassment, safety.Violence},
	"hate":                   {safety.Hate, safety.Hate}, "hate/threatening": {safety.Hate, safety.Violence},
	"illicit": {safety.Illicit, safety.Illicit}, "illicit/violent": {safety.Illicit, safety.Violence},
	"self-harm": {safety.SelfHarm, safety.SelfHarm}, "self-harm/intent": {safety.SelfHarm, safety.SelfHarm},
	"self-harm/instructions": {safety.SelfHarm, safety.Illicit},
	"sexual":                 {safety.Sexual, safety.Sexual},
	"sexual/minors":          {safety.SexualMinors, safety.SexualMinors},
	"violence":               {safety.Violence, safety.Violence},
	"violence/graphic":       {safety.Violence, safety.Violence},
	"injection":              {safety.Injection, safety.Injection}, "secrets": {safety.Secrets, safety.Secrets},
	"pii": {safety.PII, safety.PII},
}

// flaggedFrom is the score from which on a text is flagged. Personal data is
// told and does not flag: most of what people write has some.
const flaggedFrom = 0.5

func moderationResult(v *safety.Verdict) openai.ModerationResult {
	r := openai.ModerationResult{Is: map[string]bool{}, Scores: map[string]float32{}, Applied: map[string][]string{}}
	for name, of := range moderationKinds {
		score := min(v.Scores[of[0]], v.Scores[of[1]])
		r.Scores[name], r.Is[name], r.Applied[name] = score, score >= flaggedFrom, []string{"text"}
		r.Flagged = r.Flagged || score >= flaggedFrom && name != "pii"
	}
	return r
}
