package chat

import "testing"

func FuzzConversation(f *testing.F) {
	f.Add([]byte(`{"schema":"parley-chat/1","messages":[{"role":"user","content":"x"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := parseConversation(data)
		if err != nil {
			return
		}
		c.retry()
		c.ask("again")
		if q := c.question(); q.Messages[len(q.Messages)-1].Content != "again" {
			t.Errorf("%+v", q)
		}
	})
}
