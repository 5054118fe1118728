package openai

import "time"

// How long a prompt stays in memory for a client that says it will come again.
const (
	retainDefault  = 5 * time.Minute
	retainExtended = 24 * time.Hour
	retainMax      = 24 * time.Hour
)

// readCache takes the hints that more requests with the same beginning follow.
// They change how long the prompt is kept, never the answer.
func (g *Generation) readCache(f *fields) {
	key, user, policy, life := "", "", "", ""
	f.text("prompt_cache_key", &key)
	f.text("user", &user)
	switch {
	case key != "":
		g.Retain, g.Session = retainDefault, "prompt_cache_key "+key
	case user != "":
		g.Session = "user " + user
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
	f.oneOf("prompt_cache_retention", &policy, "in_memory", "in-memory", "24h")
	if policy == "24h" {
		g.Retain = retainExtended
	}
}

// ConversationSession returns the session of a conversation.
func ConversationSession(id string) string { return "conversation " + id }
