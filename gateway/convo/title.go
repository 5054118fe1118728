package convo

import (
	"strings"
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
