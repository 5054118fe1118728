package convo

import (
	"strings"
	"time"
	"unicode"
)

const (
	titleRunes = 80
	titleWords = 7
)

// TitleOf is a title made of the first words of a question.
func TitleOf(asked string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(asked), "\n")
	words := strings.Fields(line)
	if len(words) > titleWords {
		return CleanTitle(strings.Join(words[:titleWords], " ")) + "…"
	}
	return CleanTitle(line)
}

// CleanTitle makes one short line of what a model gave as a title.
func CleanTitle(said string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(said), "\n")
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, line)
	line = strings.TrimFunc(strings.TrimPrefix(line, "Title:"), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("\"'“”*#.", r)
	})
	if runes := []rune(line); len(runes) > titleRunes {
		line = strings.TrimSpace(string(runes[:titleRunes])) + "…"
	}
	return line
}

// nameByQuestion gives a conversation without a title one made of the question before an answer.
func (t *transaction) nameByQuestion(owner Owner, answer *Message, now time.Time) error {
	c, err := t.lockConversation(owner, answer.Conversation)
	if err != nil || c.Title != "" {
		return err
	}
	question, err := t.message(c.ID, answer.Parent)
	if err != nil {
		return ignore(err, ErrNotFound)
	}
	title := TitleOf(question.Text)
	if _, err := t.exec(`UPDATE conversations SET title = $2 WHERE id = $1`, c.ID, title); err != nil {
		return err
	}
	return t.index(owner, c.ID, "", title, now)
}
