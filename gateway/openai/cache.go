package openai

import (
	"cmp"
	"time"
)

// How long a prompt stays in memory for a client that says it will come again.
const (
	retainDefault  = 5 * time.Minute
	retainExtended = 24 * time.Hour
	retainMax      = 24 * time.Hour
)

// saltBytesMax bounds cache_salt.
const saltBytesMax = 1024

// readCache takes the hints that more requests with the same beginning follow.
// They change how long the prompt is kept, never the answer.
func (g *Generation) readCache(f *fields) {
	key, user, identifier, policy, life := "", "", "", "", ""
	f.text("prompt_cache_key", &key)
	f.text("user", &user)
	f.text("safety_identifier", &identifier)
	if g.readSession(cmp.Or(identifier, user)); key != "" {
		g.Retain, g.Session = retainDefault, "prompt_cache_key "+key
	}
	f.object("prompt_cache_options", func(options *fields) {
		options.with("ttl", func(v value) (err error) {
			if life, err = v.text(); err != nil {
				return err
			}
			d, err := time.ParseDuration(life)
			if err != nil || d < 0 || d > retainMax {
				return v.invalid("invalid_value", "'%s'. Expected a time from 0s to %s, such as '30m'.", shorten(life),
					retainMax)
			}
			g.Retain = max(g.Retain, d)
			return nil
		})
	})
	for _, name := range []string{"cache_salt", "extra_key"} {
		f.with(name, func(v value) (err error) {
			g.CacheSalt, err = v.text()
			if err == nil && (g.CacheSalt == "" || len(g.CacheSalt) > saltBytesMax) {
				err = v.invalid("invalid_value", "a text of %d bytes. Expected 1 to %d.", len(g.CacheSalt),
					saltBytesMax)
			}
			return err
		})
	}
	f.oneOf("prompt_cache_retention", &policy, "in_memory", "in-memory", "24h")
	if policy == "24h" {
		g.Retain = retainExtended
	}
}

// readSession makes the requests of a user, whom the client names, a session.
func (g *Generation) readSession(user string) {
	if user != "" {
		g.Session = "user " + user
	}
}

// ConversationSession returns the session of a conversation.
func ConversationSession(id string) string { return "conversation " + id }
