package models

import (
	"sync"
	"time"

	"parley"
)

// publicPrompts are the tokens with which conversations begin whose system message
// is public. A template may write the date, so they are made anew each day.
type publicPrompts struct {
	texts []string
	now   func() time.Time
	// begin returns the tokens with which conversations of a system message begin.
	begin func(system string, now time.Time) []parley.Token

	mu     sync.Mutex
	day    string
	tokens [][]parley.Token
}

// all returns the public beginnings of today.
func (p *publicPrompts) all() [][]parley.Token {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if day := now.Format(time.DateOnly); day != p.day {
		p.day, p.tokens = day, nil
		for _, text := range p.texts {
			if tokens := p.begin(text, now); len(tokens) > 0 {
				p.tokens = append(p.tokens, tokens)
			}
		}
	}
	return p.tokens
}
