package convo

import (
	"context"
	"fmt"
	"strings"
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
	args := []any{d.matchQuery([]string{ownerWord(owner)}, words), owner.Tenant, owner.User, s.limit + 1}
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

// groupHits is how many hits of one conversation SearchGrouped returns.
const groupHits = 3

// SearchGrouped finds what [Store.Search] finds, conversation by conversation: first those that have the words of the
// query themselves and not only words that begin so, then those found latest. Of each it returns at most groupHits, and
// how many there are. It has one page.
func (d *Store) SearchGrouped(ctx context.Context, owner Owner, query string, limit int) (list List[Hit], err error) {
	words, err := queryWords(query)
	if err := checked(owner, err); err != nil {
		return list, err
	}
	s, err := Page{Limit: limit}.scan()
	if err != nil {
		return list, err
	}
	text := `WITH found AS (
			SELECT d.conversation, d.message, c.title, d.created, d.n,
				CASE WHEN ` + strings.Replace(d.matches, "$1", "$5", 1) + ` THEN 1 ELSE 0 END AS whole
			FROM documents d JOIN conversations c ON c.id = d.conversation
			WHERE ` + d.matches + ` AND c.tenant = $2 AND c.user_id = $3 AND c.deleted = 0 AND c.temporary = 0
		), ranked AS (
			SELECT found.*, ROW_NUMBER() OVER (PARTITION BY conversation ORDER BY whole DESC, n DESC) AS place,
				COUNT(*) OVER (PARTITION BY conversation) AS matches,
				MAX(whole) OVER (PARTITION BY conversation) AS best,
				MAX(n) OVER (PARTITION BY conversation) AS latest
			FROM found
		)
		SELECT r.conversation, r.message, r.title, r.created, r.n, coalesce(m.text, r.title), r.matches
		FROM ranked r LEFT JOIN messages m ON m.conversation = r.conversation AND m.id = r.message
		WHERE r.place <= $6 ORDER BY r.best DESC, r.latest DESC, r.place LIMIT $4`
	mine := ownerWord(owner)
	scanHit := func(r db.Row, h *Hit) error { return h.scan(r, words, &h.Matches) }
	err = d.read(ctx, func(t *transaction) error {
		rows, err := all(t, scanHit, text, d.matchQuery([]string{mine}, words), owner.Tenant, owner.User, s.limit+1,
			d.matchQuery(append([]string{mine}, words...), nil), groupHits)
		list = listOf(s, rows, func(h *Hit) string { return pageCursor{number: h.n}.encode() })
		return err
	})
	return list, err
}

func (h *Hit) scan(r db.Row, words []string, more ...any) error {
	var created int64
	var text string
	into := append([]any{&h.Conversation, &h.Message, &h.Title, &created, &h.n, &text}, more...)
	if err := r.Scan(into...); err != nil {
		return err
	}
	h.Created, h.Snippet = db.Unstamp(created), snippetOf(text, words)
	return nil
}
