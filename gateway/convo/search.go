package convo

import (
	"context"
	"fmt"
	"time"

	"parley/gateway/db"
)

// index lets search find text as what the conversation's message says, or as
// its title if message is empty.
func (t *transaction) index(owner Owner, conversation, message, text string, created time.Time) error {
	return t.indexWords(owner, conversation, message, wordsOf(text), created)
}

// indexWords is index for words that were found before.
func (t *transaction) indexWords(owner Owner, conversation, message, words string, created time.Time) error {
	if words == "" {
		_, err := t.exec(`DELETE FROM documents WHERE conversation = $1 AND message = $2`, conversation, message)
		return err
	}
	_, err := t.exec(`INSERT INTO documents (conversation, message, created, words) VALUES ($1, $2, $3, $4)
		ON CONFLICT (conversation, message) DO UPDATE SET words = excluded.words`, conversation, message,
		db.Stamp(created), ownerWord(owner)+" "+words)
	return err
}

// ownerWord is added to everything an owner writes, so that the index itself
// passes over what others wrote. It saves time; what is shown does not rest on it.
func ownerWord(owner Owner) string { return "o" + fingerprintOf(owner.Tenant, owner.User) }

// Search finds titles and messages that hold every word of the query, the
// latest first. A word also finds those it begins; case and accents do not
// matter.
func (d *Store) Search(ctx context.Context, owner Owner, query string, page Page) (list List[Hit], err error) {
	words, err := queryWords(query)
	if err := checked(owner, err); err != nil {
		return list, err
	}
	s, err := page.scan()
	if err != nil {
		return list, err
	}
	text := `SELECT d.conversation, d.message, c.title, d.created, d.n, coalesce(m.text, c.title)
		FROM documents d JOIN conversations c ON c.id = d.conversation
		LEFT JOIN messages m ON m.conversation = d.conversation AND m.id = d.message
		WHERE ` + d.matches + ` AND c.tenant = $2 AND c.user_id = $3 AND c.deleted = 0 AND c.temporary = 0`
	args := []any{d.matchQuery(ownerWord(owner), words), owner.Tenant, owner.User, s.limit + 1}
	if s.cursor != "" {
		at, err := parsePageCursor(s.cursor)
		if err != nil {
			return list, err
		}
		args = append(args, at.number)
		text += fmt.Sprintf(` AND d.n %s $5`, s.compare)
	}
	scanHit := func(r db.Row, h *Hit) error { return h.scan(r, words) }
	err = d.read(ctx, func(t *transaction) error {
		rows, err := all(t, scanHit, text+` ORDER BY d.n `+s.order+` LIMIT $4`, args...)
		list = listOf(s, rows, func(h *Hit) string { return pageCursor{number: h.n}.encode() })
		return err
	})
	return list, err
}

func (h *Hit) scan(r db.Row, words []string) error {
	var created int64
	var text string
	if err := r.Scan(&h.Conversation, &h.Message, &h.Title, &created, &h.n, &text); err != nil {
		return err
	}
	h.Created, h.Snippet = db.Unstamp(created), snippetOf(text, words)
	return nil
}
