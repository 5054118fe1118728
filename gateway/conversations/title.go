package conversations

import (
	"context"
	"strings"
	"unicode"

	"parley"
	"parley/gateway/convo"
	"parley/gateway/job"
	"parley/gateway/models"
	"parley/gateway/runs"
)

const (
	titleTask    = "Write a title of at most six words for the conversation you are given. Answer with the title alone."
	titleTokens  = 24
	titleExcerpt = 600 // characters of the question and of the answer
)

// titleLater has the model write a title for a conversation after its first
// turn, when the client has its answer.
func (t *turn) titleLater() {
	a := t.api
	if a.NoTitles || t.conversation.Title != "" || !t.first {
		return
	}
	alone, next, end := a.Runs.Detach(t.x, t.job)
	ctx := alone.Request.Context()
	text := "User: " + excerpt(t.asked) + "\n\nAssistant: " + excerpt(t.told.said().Text.String())
	owner, id, m, asked := t.owner, t.conversation.ID, t.model, t.asked
	err := a.Runs.Go(func() {
		defer end(nil)
		if err := a.title(ctx, next, m, owner, id, asked, text); err != nil && ctx.Err() == nil {
			a.Log.Warn("title not written", "conversation", id, "error", err)
		}
	})
	if err != nil {
		end(err)
	}
}

// title names a conversation that began with what was asked, and of which text
// is an excerpt.
func (a *API) title(
	ctx context.Context, j *job.Job, m *models.Model, owner convo.Owner, id, asked, text string,
) error {
	var said string
	var err error
	if !m.Demo { // which would make one up
		said, _, err = j.Beside("title").Ask(ctx, m, titleTask, text, titleTokens)
	}
	// without room for one, the question names it
	if code := parley.CodeOf(err); err != nil && code != parley.RateLimited && code != parley.QuotaExceeded {
		return err
	}
	title := convo.CleanTitle(said)
	if len(strings.Fields(title)) < 2 || !concerns(title, text) { // the models that fit a laptop often have none
		title = convo.TitleOf(asked)
	}
	if title == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, runs.StoreWait)
	defer cancel()
	return a.setTitle(ctx, owner, id, title)
}

// nameByQuestion names a conversation whose first turn was not answered to its end.
func (t *turn) nameByQuestion() {
	a, title := t.api, convo.TitleOf(t.asked)
	if a.NoTitles || t.conversation.Title != "" || !t.first || title == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.x.Request.Context()), runs.StoreWait)
	defer cancel()
	if err := a.setTitle(ctx, t.owner, t.conversation.ID, title); err != nil {
		a.Log.Warn("no title was written", "conversation", t.conversation.ID, "error", err)
	}
}

// setTitle names a conversation that has no name.
func (a *API) setTitle(ctx context.Context, owner convo.Owner, id, title string) error {
	now, err := a.Store.Conversation(ctx, owner, id)
	if err != nil || now.Title != "" { // the user was faster
		return err
	}
	_, err = a.Store.ChangeConversation(ctx, owner, id, convo.Change{Title: &title}, a.Now())
	return err
}

// stemRunes is how long the beginning of a word must be to be no chance.
const stemRunes = 4

// concerns reports whether a title has anything to do with a text: a word of it,
// or the beginning of one, is there. Small models make titles up.
func concerns(title, text string) bool {
	text = strings.ToLower(text)
	for word := range strings.FieldsSeq(strings.ToLower(title)) {
		runes := []rune(strings.TrimFunc(word, func(r rune) bool {
			return !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}))
		if len(runes) >= stemRunes && strings.Contains(text, string(runes[:stemRunes])) {
			return true
		}
	}
	return false
}

func excerpt(text string) string {
	if runes := []rune(text); len(runes) > titleExcerpt {
		return string(runes[:titleExcerpt]) + "…"
	}
	return text
}
