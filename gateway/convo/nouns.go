package convo

import (
	"encoding/json"
	"time"

	"parley"
)

// An Owner is whose conversations they are: a user within a tenant. Where
// there are no users, User is empty.
type Owner struct{ Tenant, User string }

// A Conversation is a tree of messages with a current leaf: the message that
// the next turn follows.
type Conversation struct {
	// ID begins with conv_.
	ID string
	// Model is the one that turns ask unless they name another. May be empty.
	Model string
	Title string
	// Pinned ones are what a list shows first, by Filter.
	Pinned bool
	// Temporary ones are neither listed nor found, and are purged soon.
	Temporary bool
	// Metadata is the caller's own: see the limits of CheckMetadata.
	Metadata map[string]string
	// Policy says what happens when the messages outgrow the model's context.
	Policy Policy
	// Leaf is the id of the current leaf; empty if there is no message.
	Leaf string
	Size
	Created time.Time
	// Updated is when a message came or something was changed last.
	Updated time.Time

	seq int64 // of the newest message ever
}

// A Size is how much a conversation has.
type Size struct {
	// Messages counts those of all branches, Bytes sums their contents.
	Messages int
	Bytes    int64
}

// A NewConversation is what a conversation is made of.
type NewConversation struct {
	// Key makes the call repeatable; empty: every call makes one.
	Key       string
	Model     string
	Title     string
	Pinned    bool
	Temporary bool
	Metadata  map[string]string
	// Policy is Refuse if empty.
	Policy Policy
	// Messages are what it begins with, each the child of the one before.
	Messages []NewMessage
}

// A Change names what is to be changed; nil fields stay as they are.
type Change struct {
	Title, Model *string
	Pinned       *bool
	Policy       *Policy
	// Metadata replaces all of it; nil keeps it.
	Metadata map[string]string
}

// A Filter chooses which conversations are listed.
type Filter struct {
	// Pinned, if not nil, lists only those that are, or only those that are not.
	Pinned *bool
}

// A Status says how far a message or response has come.
type Status string

// The statuses. Queued and InProgress run; the others have ended.
const (
	Queued     Status = "queued"
	InProgress Status = "in_progress"
	Completed  Status = "completed"
	// Incomplete: it ended early, by a limit or because its process died.
	Incomplete Status = "incomplete"
	Failed     Status = "failed"
	Cancelled  Status = "cancelled"
)

// Ended reports whether nothing more will come.
func (s Status) Ended() bool { return s != InProgress && s != Queued }

// A Message is one node of a conversation.
type Message struct {
	// ID is unique within the conversation. Those made here begin with msg_.
	ID           string
	Conversation string
	// Parent is the id of the message before; empty for a first one.
	Parent string
	// Seq numbers the messages of a conversation in the order they were made.
	Seq int64
	// Kind is the type of item: message, function_call and so on.
	Kind string
	// Role is who speaks; empty for kinds that have no role.
	Role string
	// Content is JSON in OpenAI's shapes. The store reads nothing in it but Text.
	Content json.RawMessage
	// Text is what PlainText finds in Content.
	Text   string
	Status Status
	Result
	Created time.Time
}

// A Result is what is known of a message that a model writes.
type Result struct {
	// Process is who writes it, or wrote it.
	Process string
	Model   string
	Usage   parley.Usage
	// CostMicros is the price in millionths of the unit that prices are in.
	CostMicros int64
	Finish     parley.Finish
	// Err says why the message failed.
	Err *parley.Error
	// Completed is when it ended; zero while it is in progress.
	Completed time.Time
}

// A NewMessage is what a message is made of.
type NewMessage struct {
	// ID is made if empty. It must not be in the conversation yet.
	ID string
	// Kind is "message" if empty.
	Kind    string
	Role    string
	Content json.RawMessage
	Model   string
}

// A Summary stands for the messages up to one of them.
type Summary struct {
	Content json.RawMessage
	Model   string
	Tokens  int
}

// Root as the parent of a message makes it a first one.
const Root = "root"

// A NewTurn is a question to be answered.
type NewTurn struct {
	// Key makes the call repeatable; empty: every call begins a turn.
	Key string
	// Parent is the message the question follows; empty: the current leaf;
	// Root: none. To edit a question, give its parent.
	Parent string
	// Question is nil to answer Parent again.
	Question *NewMessage
	// Model will write the answer.
	Model string
	// Process will write the answer. It must be alive: see Store.Heartbeat.
	Process string
	// Answer is the id of the answer to be; made if empty. With it the call can
	// be retried when it is not known whether it was stored.
	Answer string
}

// A Turn is a question and its answer.
type Turn struct {
	// Question is the zero Message if an earlier one is answered again.
	Question Message
	Answer   Message
	// Begun is false if the turn was begun by an earlier call with the same key,
	// for another answer. That may be complete, still be written, or wait for
	// ResumeTurn.
	Begun bool
}

// An AnswerID names an answer and the process that writes it.
type AnswerID struct{ Conversation, Message, Process string }

// ID returns what its process calls the turn's answer.
func (t *Turn) ID() AnswerID {
	return AnswerID{t.Answer.Conversation, t.Answer.ID, t.Answer.Process}
}

// An Outcome is how an answer ended.
type Outcome struct {
	// Status is one that has ended.
	Status Status
	// Content is the whole answer; nil keeps what the last checkpoint kept.
	Content json.RawMessage
	// Model is the one that answered, if not the one that was asked.
	Model      string
	Finish     parley.Finish
	Err        *parley.Error
	Usage      parley.Usage
	CostMicros int64
}

// A Hit is a title or message that was found.
type Hit struct {
	Conversation string
	// Message is empty if the title was found.
	Message string
	// Title is the conversation's.
	Title   string
	Snippet []SnippetPart
	Created time.Time
	// Matches is how many hits the conversation has, where they are grouped.
	Matches int

	n int64
}

// Recovery names what dead processes had left.
type Recovery struct {
	Answers   []RecoveredAnswer
	Responses []RecoveredResponse
}

// A RecoveredAnswer names one answer and whose it is.
type RecoveredAnswer struct {
	Owner                 Owner
	Conversation, Message string
}

// A RecoveredResponse names one response and whose it is.
type RecoveredResponse struct {
	Owner Owner
	ID    string
}

// A Retention says how long unused data is kept. Zero fields mean
// the defaults.
type Retention struct {
	// Deleted is how long a deletion can be undone; default 24 h.
	Deleted time.Duration
	// Temporary is how long a temporary conversation is kept after its last
	// change; default 24 h.
	Temporary time.Duration
	// Conversations is how long a conversation is kept after its last change, pinned or
	// not; 0 keeps it.
	Conversations time.Duration
	// Responses is how long a response that none follows is kept after it was
	// created or followed last; default 30 days.
	Responses time.Duration
}
