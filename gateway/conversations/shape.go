package conversations

import (
	"parley"
	"parley/gateway/answer"
	"parley/gateway/exchange"
	"parley/gateway/openai"
	"parley/gateway/shape"
)

// A turnShape makes chat answers that say where in the conversation they
// stand.
type turnShape struct {
	*shape.Chat
	turn *turn
}

// shapeFor shapes the turn's answer for a call, which may be another than the
// one that asked.
func (t *turn) shapeFor(x *exchange.Exchange, request *openai.TurnRequest) turnShape {
	return turnShape{shape.NewChat(x, t.model, &request.Generation), t}
}

func (s turnShape) place() openai.TurnPlace {
	return openai.TurnPlace{ConversationID: s.turn.conversation.ID, MessageID: s.turn.id.Message,
		QuestionID: s.turn.parent, Context: s.turn.note}
}

func (s turnShape) placed(inner any) any {
	return openai.TurnChunk{ChatChunk: inner.(openai.ChatChunk), TurnPlace: s.place()}
}

func (s turnShape) Opening(choice int) any     { return s.placed(s.Chat.Opening(choice)) }
func (s turnShape) Content(p answer.Piece) any { return s.Chat.Content(p) }
func (s turnShape) Closing(choice int, finish parley.Finish, timings *openai.Timings) any {
	return s.placed(s.Chat.Closing(choice, finish, timings))
}
func (s turnShape) Usage(u openai.Usage, timings *openai.Timings) any {
	return s.placed(s.Chat.Usage(u, timings))
}

func (s turnShape) whole(choices []answer.CollectedChoice, u parley.Usage) openai.TurnResponse {
	return openai.TurnResponse{ChatResponse: *s.Chat.Whole(choices, u), TurnPlace: s.place()}
}
