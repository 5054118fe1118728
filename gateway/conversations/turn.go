package conversations

import (
	"context"

	"parley/gateway/answer"
	"parley/gateway/convo"
	"parley/gateway/exchange"
	"parley/gateway/history"
	"parley/gateway/job"
	"parley/gateway/models"
	"parley/gateway/openai"
)

// A turn is a question in a conversation while it is answered. The question is
// stored before it is answered, the answer while it grows and when it is
// complete; only then does the client hear the end.
type turn struct {
	api *API
	// x and job are the request in whose name it is answered.
	x            *exchange.Exchange
	job          *job.Job
	owner        convo.Owner
	conversation convo.Conversation
	model        *models.Model
	request      *openai.TurnRequest
	question
	view
	modelReply
	// told is what the model said.
	told transcript
	// cancel ends the answer while it is written here.
	cancel context.CancelCauseFunc
}

// A question is what a turn answers.
type question struct {
	// id names the answer. parent is the message that it answers, and asked what
	// that says.
	id            convo.AnswerID
	parent, asked string
}

// A modelReply is what the model gives for a turn, once it was asked, until stop.
type modelReply struct {
	answer *answer.Answer
	stop   func()
}

// A view is what the model is shown of a conversation.
type view struct {
	// first is set if nothing was answered before.
	first bool
	// note says what the model was not shown, nil if it was shown everything.
	note *openai.ContextNote
}

// newTurn finds the conversation that a call names, and the model that answers.
func (a *API) newTurn(x *exchange.Exchange, j *job.Job, request *openai.TurnRequest) (*turn, error) {
	t := &turn{
		api:     a,
		x:       x,
		job:     j,
		owner:   history.OwnerOf(x.Identity),
		request: request,
	}
	var err error
	if t.conversation, err = a.Store.Conversation(x.Request.Context(), t.owner, x.Values["id"]); err != nil {
		return nil, NotFound(x, err)
	}
	request.Session = openai.ConversationSession(t.conversation.ID)
	if request.Model == "" {
		request.Model = t.conversation.Model
	}
	t.model, err = j.Model(request.Model)
	return t, err
}
