package gateway

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"sync"
	"time"

	"parley"
	"parley/gateway/openai"
)

// Context that is cached for one tenant answers another's question faster, if it
// is shared: who measures that learns what others ask. So each tenant has a salt
// of its own, which nobody can guess or choose, and only beginnings that the
// operator calls public are shared.

func randomKey() []byte {
	key := make([]byte, 32)
	rand.Read(key) // never fails: crypto/rand ends the process instead
	return key
}

// saltOf returns the salt of a tenant. It is the same every time, and so made
// once.
func (g *Gateway) saltOf(tenant string) (salt parley.Salt) {
	if known, ok := g.salts.Load(tenant); ok {
		return known.(parley.Salt)
	}
	defer func() { g.salts.Store(tenant, salt) }()
	mac := hmac.New(sha256.New, g.config.SaltKey)
	mac.Write([]byte("parley tenant salt 1\x00" + tenant))
	copy(salt[:], mac.Sum(nil))
	return salt
}

// purpose says what a call's answers are for: those that complete a text somebody
// is writing are for that alone.
func (c *call) purpose() parley.Purpose {
	switch c.route {
	case "/v1/completions", "/v1/fim/completions":
		return parley.ForComplete
	}
	return parley.ForChat
}

// publicPrompts are the tokens with which conversations begin whose system message
// is public. A template may write the date, so they are made anew each day.
type publicPrompts struct {
	texts []string

	mu     sync.Mutex
	day    string
	tokens [][]parley.Token
}

// publicTokens returns how many leading tokens of a prompt are public.
func (m *model) publicTokens(prompt []parley.Token) (n int) {
	if m.public == nil {
		return 0
	}
	for _, tokens := range m.public.of(m) {
		same := 0
		for same < len(tokens) && same < len(prompt) && tokens[same] == prompt[same] {
			same++
		}
		n = max(n, same)
	}
	return n
}

func (p *publicPrompts) of(m *model) [][]parley.Token {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := m.now()
	if day := now.Format(time.DateOnly); day != p.day {
		p.day, p.tokens = day, nil
		for _, text := range p.texts {
			if tokens := m.beginning(text, now); len(tokens) > 0 {
				p.tokens = append(p.tokens, tokens)
			}
		}
	}
	return p.tokens
}

// beginning returns what two conversations with this system message have in
// common, whatever is said in them; none if the template cannot say.
func (m *model) beginning(system string, now time.Time) []parley.Token {
	var said [2][]parley.Token
	for i, word := range []string{"a", "1"} {
		tokens, _, err := m.renderChat(&openai.ChatRequest{OpenTurn: true, Messages: []openai.Message{
			{Role: "system", Content: system, HasContent: true}, {Role: "user", Content: word, HasContent: true}}}, now)
		if err != nil {
			return nil
		}
		said[i] = tokens
	}
	n := 0
	for n < len(said[0]) && n < len(said[1]) && said[0][n] == said[1][n] {
		n++
	}
	return said[0][:n]
}
