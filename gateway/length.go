package gateway

import (
	"strconv"
	"strings"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/openai"
	"parley/token"
)

// Texts are refused by their bytes before they are screened and made tokens of:
// where not even the longest tokens of the vocabulary make few enough of them, the
// tokens need not be counted. So what is done for a text that cannot fit is no more
// than reading it, and the memory that tokenizing takes is bounded by the context.

// sinkContexts is how many contexts long a prompt may be that may outgrow the
// context (attention_sink_tokens).
const sinkContexts = 64

// bytesPerToken is how many bytes of text one token stands for at most: as many as
// the longest token has or, where a normalizer shortens or drops text, as many as
// were measured for the texts that normalizers shorten most. It is 0 if some text
// has no tokens at all, so that nothing can be said.
func bytesPerToken(t *token.Tokenizer) int {
	longest := 1
	for id := range parley.Token(t.Size()) {
		text, _ := t.Text(id)
		longest = max(longest, len(text))
	}
	probes := shortenedTexts
	for _, id := range t.Special().EOS { // it may take the space around it
		if text, ok := t.Text(id); ok {
			probes = append(probes[:len(probes):len(probes)], strings.Repeat(" ", 64*longest)+text)
		}
	}
	most := longest
	for _, p := range probes {
		text := strings.Repeat(p, 64*longest/len(p)+1)
		ids, err := t.Encode(text, token.Options{ParseSpecial: true})
		if err != nil {
			continue // text that is refused takes no tokens
		}
		if len(ids) == 0 {
			return 0
		}
		most = max(most, len(text)/len(ids)+1)
	}
	return most
}

// shortenedTexts are repeated to find how much shorter a tokenizer makes a text:
// space that is trimmed or collapsed, characters that are composed, replaced by
// compatible ones, removed, or unknown and joined.
var shortenedTexts = []string{
	" ", "\n", "\t", "\u00a0", "\u3000", "\u200b", "\ufe0f", "a", "A", "\uff21", "\U0001d400", "e\u0301",
	"\u1112\u1161\u11ab",
	"\u03b1\u0313\u0300\u0345", "\U00013000", "\U000e0001", "\U0010fffd", "\x01", "\ufffd", "\u4e00", "\u0e01", "-",
	"=",
}

// leastTokens is how many tokens a text has at least, by its bytes alone.
func (m *model) leastTokens(bytes int) int {
	if bytes <= m.ContextTokens { // a token has at least a byte, so this cannot matter
		return 0
	}
	per := m.bytesPerToken()
	if per == 0 {
		return 0
	}
	return bytes / per
}

// checkBytes refuses text of which the bytes alone say that it cannot fit.
func (m *model) checkBytes(param string, bytes, sinks int) error {
	room := m.ContextTokens
	if sinks > 0 {
		room *= sinkContexts
	}
	if least := m.leastTokens(bytes); least > room {
		return openai.BytesTooLong(param, room, bytes, least)
	}
	return nil
}

// checkChat refuses a conversation by its bytes. It counts what every template
// shows: not what an assistant said, of which thoughts may be left out, nor space
// around a message.
func (m *model) checkChat(request *openai.ChatRequest) error {
	bytes := 0
	for i := range request.Messages {
		if said := &request.Messages[i]; said.Role != "assistant" {
			bytes += len(strings.TrimSpace(said.Content))
		}
	}
	return m.checkBytes("messages", bytes, request.Sinks)
}

// checkPrompts refuses plain prompts, and what stands behind their gap, by their
// bytes.
func (m *model) checkPrompts(prompts []openai.Prompt, gap *openai.Gap, sinks int) error {
	if gap != nil {
		prompts = append(prompts[:len(prompts):len(prompts)], gap.After)
	}
	for i := range prompts {
		if err := m.checkBytes(prompts[i].Param, len(prompts[i].Text), sinks); err != nil {
			return err
		}
	}
	return nil
}

// capped returns the prompt of a conversation that is longer than the tier of its
// caller allows, made shorter as the tier's policy says: without its oldest turns,
// or not at all. A summary needs a stored conversation, so where one would be made
// the turns are left out. A header says how many messages are.
func (c *call) capped(m *model, request *openai.ChatRequest, prompt []parley.Token) ([]parley.Token, error) {
	tier := c.tier()
	if c.beside || tier.Tokens == 0 || len(prompt) <= tier.Tokens {
		return prompt, nil
	}
	policy := tier.Policy
	if policy == convo.Summarise {
		policy = convo.Drop
	}
	fit, err := m.fit(c, policy, request, 0)
	if err != nil || len(fit.Out) == 0 {
		return prompt, err
	}
	request.Messages = without(request.Messages, fit.Out)
	if c.ResponseWriter != nil {
		c.Header().Set(droppedHeader, strconv.Itoa(len(fit.Out)))
	}
	prompt, _, err = m.renderChat(request, c.gateway.config.Now())
	return prompt, err
}

// droppedHeader says how many messages the model was not shown.
const droppedHeader = "X-Parley-Dropped-Messages"

// cappedPlain refuses a plain prompt that is longer than the tier of its caller
// allows: there is nothing in it that could be left out.
func (c *call) cappedPlain(param string, tokens int) error {
	if tier := c.tier(); tier.Tokens > 0 && tokens > tier.Tokens {
		return openai.ContextTooLong(param, tier.Tokens, tokens, 0)
	}
	return nil
}
