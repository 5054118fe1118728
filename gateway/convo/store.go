package convo

import (
	"context"
	"encoding/json"
	"time"
)

// A Store keeps conversations and responses. It is safe for concurrent use, by
// several processes at once.
//
// Ending ctx ends the call; what it had not committed is undone. To keep an
// answer whose client has left, give a context that outlives the client.
type Store interface {
	// CreateConversation makes an empty conversation. A key that the owner used
	// before gives the conversation made then.
	CreateConversation(ctx context.Context, owner Owner, c NewConversation, now time.Time) (Conversation, error)
	// Conversation returns one conversation.
	Conversation(ctx context.Context, owner Owner, id string) (Conversation, error)
	// Conversations lists the owner's, last changed first unless the page says
	// otherwise. Temporary ones are not listed.
	Conversations(ctx context.Context, owner Owner, filter Filter, page Page) (List[Conversation], error)
	// ChangeConversation renames, pins and so on: whatever change names.
	ChangeConversation(ctx context.Context, owner Owner, id string, change Change, now time.Time) (Conversation, error)
	// DeleteConversation hides the conversation and all in it. It can be undone
	// until Purge has removed it.
	DeleteConversation(ctx context.Context, owner Owner, id string, now time.Time) error
	// UndeleteConversation brings a deleted conversation back as it was.
	UndeleteConversation(ctx context.Context, owner Owner, id string) (Conversation, error)
	// Search finds titles and messages that hold every word of the query, the
	// latest first. A word also finds those it begins; case and accents do not
	// matter.
	Search(ctx context.Context, owner Owner, query string, page Page) (List[Hit], error)
	// Export returns the whole conversation, all branches. What is in progress is
	// told as incomplete.
	Export(ctx context.Context, owner Owner, id string) (*Archive, error)
	// Import makes a new conversation of an archive, with new ids.
	Import(ctx context.Context, owner Owner, archive *Archive, now time.Time) (Conversation, error)

	// Messages lists the path that ends in leaf; an empty leaf means the current
	// one. The cursors of page are message ids.
	Messages(ctx context.Context, owner Owner, conversation, leaf string, page Page) (List[Message], error)
	// Message returns one message, of whatever branch.
	Message(ctx context.Context, owner Owner, conversation, id string) (Message, error)
	// Tree returns the shape of the conversation, all branches, ordered by Seq.
	Tree(ctx context.Context, owner Owner, conversation string) ([]Node, error)
	// AppendMessages adds completed messages, each the child of the one before,
	// the first the child of parent (empty: the current leaf; Root: none). The
	// last becomes the current leaf.
	AppendMessages(ctx context.Context, owner Owner, conversation, parent string, messages []NewMessage,
		now time.Time) ([]Message, error)
	// DeleteMessage removes one message; its children become its parent's.
	DeleteMessage(ctx context.Context, owner Owner, conversation, id string, now time.Time) error
	// ChooseBranch makes the newest end of the branch through message the
	// current leaf, and returns it.
	ChooseBranch(ctx context.Context, owner Owner, conversation, message string, now time.Time) (leaf string, err error)
	// SaveSummary keeps what stands for all messages on the path up to upTo.
	SaveSummary(ctx context.Context, owner Owner, conversation, upTo string, s Summary, now time.Time) error
	// Summary returns what SaveSummary kept for that message.
	Summary(ctx context.Context, owner Owner, conversation, upTo string) (Summary, error)

	// BeginTurn writes the question and an empty answer that is in progress, and
	// makes the answer the current leaf. A key used before in the conversation
	// gives the turn begun then, as it is now; so does the answer's id.
	BeginTurn(ctx context.Context, owner Owner, conversation string, t NewTurn, now time.Time) (Turn, error)
	// Checkpoint keeps what there is of an answer so far. ErrTaken says that the
	// answer is not this process's to write any more.
	Checkpoint(ctx context.Context, owner Owner, answer AnswerID, content json.RawMessage) error
	// FinishTurn ends an answer. Ending it again changes nothing.
	FinishTurn(ctx context.Context, owner Owner, answer AnswerID, outcome Outcome, now time.Time) (Message, error)
	// ResumeTurn gives an answer that ended without completing, or whose process
	// is dead, to answer.Process, in progress and with what was kept of it.
	// ErrRunning says that another living process is writing it: what
	// answer.Process itself writes is for its caller to know.
	ResumeTurn(ctx context.Context, owner Owner, answer AnswerID, now time.Time) (Message, error)

	// CreateResponse stores a response with its input, before it is answered. A
	// key that the owner used before gives the response made then; so does its
	// id.
	CreateResponse(ctx context.Context, owner Owner, r NewResponse, now time.Time) (Response, error)
	// Response returns one response without its items.
	Response(ctx context.Context, owner Owner, id string) (Response, error)
	// ResponseItems lists the input or the output. The cursors of page are item ids.
	ResponseItems(ctx context.Context, owner Owner, id string, side Side, page Page) (List[Item], error)
	// Chain returns the items of the response and of all before it, oldest
	// first: each one's input, then its output.
	Chain(ctx context.Context, owner Owner, id string) ([]Item, error)
	// AppendEvents adds to the response's event log. Events that are there
	// already are passed over, so a batch may be sent again.
	AppendEvents(ctx context.Context, owner Owner, id string, batch EventBatch) (Progress, error)
	// Events returns up to limit events with numbers greater than after; -1 is
	// before the first.
	Events(ctx context.Context, owner Owner, id string, after int64, limit int) (EventPage, error)
	// FinishResponse ends a response, with its last events. Ending it again
	// changes nothing.
	FinishResponse(ctx context.Context, owner Owner, id string, outcome ResponseOutcome,
		now time.Time) (Response, error)
	// CancelResponse asks the server that computes the response to stop; see Progress.
	// One that has ended stays as it is.
	CancelResponse(ctx context.Context, owner Owner, id string) (Response, error)
	// ResumeResponse gives a response that a dead process left to process.
	// ErrRunning says that it has ended or that a living process computes it.
	ResumeResponse(ctx context.Context, owner Owner, id, process string, now time.Time) (Response, error)
	// DeleteResponse removes a response, its items and its events.
	DeleteResponse(ctx context.Context, owner Owner, id string) error

	// Beat says that process is alive until then. A process beats before its
	// first turn and again well before the time is over.
	Beat(ctx context.Context, process string, until time.Time) error
	// Recover marks what dead processes left in progress as incomplete, with
	// what was kept of it, and returns it.
	Recover(ctx context.Context, now time.Time) (Recovery, error)
	// Purge removes what keep no longer holds.
	Purge(ctx context.Context, now time.Time, keep Retention) error
	// Within returns the store as a caller with a quota sees it: what the quota has no
	// room for is refused with [parley.QuotaExceeded].
	Within(q Quota) Store
	// Usage returns what the owner's tenant stores, and what the owner does.
	Usage(ctx context.Context, owner Owner) (organization, user Usage, err error)
	// Ping returns nil if the database answers.
	Ping(ctx context.Context) error
	// Close ends all use of the database.
	Close() error
}
