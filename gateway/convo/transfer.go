package convo

import (
	"context"
	"time"
)

// Export returns the whole conversation, all branches. What is in progress is
// told as incomplete.
func (d *Store) Export(ctx context.Context, owner Owner, id string) (a *Archive, err error) {
	if err := checked(owner); err != nil {
		return nil, err
	}
	err = d.read(ctx, func(t *transaction) error {
		c, err := t.conversation(owner, id)
		if err != nil {
			return err
		}
		messages, err := all(t, scanMessage,
			`SELECT `+messageColumns+` FROM messages m WHERE m.conversation = $1 ORDER BY m.seq`, id)
		if err != nil {
			return err
		}
		a = archiveOf(&c, messages)
		return nil
	})
	return a, err
}

func archiveOf(c *Conversation, messages []Message) *Archive {
	a := &Archive{Format: archiveFormat, Version: ArchiveVersion, Messages: make([]ArchivedMessage, len(messages)),
		Conversation: ArchivedConversation{
			Title:    c.Title,
			Model:    c.Model,
			Pinned:   c.Pinned,
			Metadata: c.Metadata,
			Policy:   c.Policy,
			Leaf:     c.Leaf,
			Created:  c.Created,
			Updated:  c.Updated,
		}}
	for i := range messages {
		a.Messages[i] = archiveMessage(&messages[i])
	}
	return a
}

// Import makes a new conversation of an archive, with new ids.
func (d *Store) Import(ctx context.Context, owner Owner, a *Archive, now time.Time) (c Conversation, err error) {
	if err := checked(owner, a.check()); err != nil {
		return c, err
	}
	from, named := &a.Conversation, map[string]string{}
	messages := make([]Message, len(a.Messages))
	for i := range a.Messages {
		messages[i] = imported(&a.Messages[i], named)
	}
	n := NewConversation{
		Title:    from.Title,
		Model:    from.Model,
		Pinned:   from.Pinned,
		Metadata: from.Metadata,
		Policy:   from.Policy,
	}
	return d.load(ctx, owner, n, messages, func(c *Conversation) { c.Leaf = named[from.Leaf] }, now)
}

// imported returns one message of an archive under a new id, which it notes in
// named.
func imported(a *ArchivedMessage, named map[string]string) Message {
	m := a.message()
	m.ID, m.Parent = NewMessageID(), named[a.Parent]
	named[a.ID] = m.ID
	if m.Kind == "" {
		m.Kind = "message"
	}
	return m
}
