package convo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"parley"
)

// An Archive is a conversation with all its branches, as it leaves the server
// and comes back. Its JSON is the format of exports.
type Archive struct {
	// Format is always "parley.conversation".
	Format string `json:"format"`
	// Version is ArchiveVersion in what is written now.
	Version      int                  `json:"version"`
	Conversation ArchivedConversation `json:"conversation"`
	// Messages stand after their parents.
	Messages []ArchivedMessage `json:"messages"`
}

// ArchiveVersion is the version of the format that is written. All up to it
// are read.
const ArchiveVersion = 1

const archiveFormat = "parley.conversation"

// An ArchivedConversation is what an archive says of the conversation itself.
type ArchivedConversation struct {
	Title    string            `json:"title"`
	Model    string            `json:"model,omitempty"`
	Pinned   bool              `json:"pinned,omitempty"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Policy   Policy            `json:"context_policy,omitempty"`
	Leaf     string            `json:"leaf,omitempty"`
	Created  time.Time         `json:"created"`
	Updated  time.Time         `json:"updated"`
}

// An ArchivedMessage is one message of an archive.
type ArchivedMessage struct {
	ID           string          `json:"id"`
	Parent       string          `json:"parent,omitempty"`
	Kind         string          `json:"type,omitempty"`
	Role         string          `json:"role,omitempty"`
	Content      json.RawMessage `json:"content"`
	Status       Status          `json:"status"`
	Model        string          `json:"model,omitempty"`
	InputTokens  int             `json:"input_tokens,omitempty"`
	CachedTokens int             `json:"cached_tokens,omitempty"`
	OutputTokens int             `json:"output_tokens,omitempty"`
	CostMicros   int64           `json:"cost_micros,omitempty"`
	Finish       parley.Finish   `json:"finish_reason,omitempty"`
	ErrorCode    parley.Code     `json:"error_code,omitempty"`
	ErrorText    string          `json:"error,omitempty"`
	QueuedMicros int64           `json:"queued_us,omitempty"`
	PromptMicros int64           `json:"prefill_us,omitempty"`
	DecodeMicros int64           `json:"decode_us,omitempty"`
	Created      time.Time       `json:"created"`
	Completed    time.Time       `json:"completed,omitzero"`
}

// archiveMessage exports m; an answer in progress is exported as it is.
func archiveMessage(m *Message) ArchivedMessage {
	a := ArchivedMessage{
		ID:           m.ID,
		Parent:       m.Parent,
		Kind:         m.Kind,
		Role:         m.Role,
		Content:      m.Content,
		Status:       m.Status,
		Model:        m.Model,
		InputTokens:  m.Usage.PromptTokens,
		CachedTokens: m.Usage.CachedTokens,
		OutputTokens: m.Usage.OutputTokens,
		CostMicros:   m.CostMicros,
		Finish:       m.Finish,
		QueuedMicros: m.Usage.Queued.Microseconds(),
		PromptMicros: m.Usage.Prefill.Microseconds(),
		DecodeMicros: m.Usage.Decode.Microseconds(),
		Created:      m.Created,
		Completed:    m.Completed,
	}
	if m.Err != nil {
		a.ErrorCode, a.ErrorText = m.Err.Code, m.Err.Message
	}
	if !a.Status.Ended() {
		a.Status = Incomplete
	}
	return a
}

// message is the inverse of archiveMessage.
func (a *ArchivedMessage) message() Message {
	m := Message{
		ID:      a.ID,
		Parent:  a.Parent,
		Kind:    a.Kind,
		Role:    a.Role,
		Content: a.Content,
		Text:    PlainText(a.Content),
		Status:  a.Status,
		Created: a.Created,
	}
	m.Result = Result{
		Model: a.Model,
		Usage: parley.Usage{
			PromptTokens: a.InputTokens,
			CachedTokens: a.CachedTokens,
			OutputTokens: a.OutputTokens,
			Queued:       micros(a.QueuedMicros),
			Prefill:      micros(a.PromptMicros),
			Decode:       micros(a.DecodeMicros),
		},
		CostMicros: a.CostMicros,
		Finish:     a.Finish,
		Completed:  a.Completed,
	}
	if a.ErrorCode != "" {
		m.Err = &parley.Error{Code: a.ErrorCode, Message: a.ErrorText}
	}
	return m
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// ParseArchive reads what WriteJSON wrote, and checks all of it.
func ParseArchive(data []byte) (*Archive, error) {
	if len(data) > ArchiveBytesMax {
		return nil, parley.Errorf(parley.TooLarge, "An archive may have at most %d bytes, not %d.", ArchiveBytesMax,
			len(data))
	}
	var a Archive
	if err := json.Unmarshal(data, &a); err != nil {
		return nil, parley.Invalid("archive", "This is not a conversation that Parley exported. Choose a JSON file "+
			"from Export in the menu of a chat.")
	}
	if a.Format != archiveFormat {
		return nil, parley.Invalid("archive", "This is not a conversation that Parley exported: its format is %q, "+
			"not %q.", a.Format, archiveFormat)
	}
	if a.Version < 1 || a.Version > ArchiveVersion {
		return nil, parley.Invalid("archive",
			"The archive has version %d, and this server reads versions up to %d: import it into a newer one.",
			a.Version, ArchiveVersion)
	}
	if err := a.check(); err != nil {
		return nil, err
	}
	return &a, nil
}

// check wants an archive that can be stored as it is.
func (a *Archive) check() error {
	c := &a.Conversation
	fresh := NewConversation{Model: c.Model, Title: c.Title, Metadata: c.Metadata, Policy: c.Policy}
	if err := fresh.check(); err != nil {
		return err
	}
	if len(a.Messages) > MessagesMax {
		return parley.Invalid("messages", "An archive may have at most %d messages, not %d.", MessagesMax,
			len(a.Messages))
	}
	if err := checkTimes(c.Created, c.Updated); err != nil {
		return err
	}
	size := 0
	for i := range a.Messages {
		if err := a.Messages[i].check(); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		size += len(a.Messages[i].Content)
	}
	if size > ConversationBytesMax {
		return ErrFull
	}
	forest, err := NewForest(a.nodes())
	if err != nil {
		return err
	}
	if (c.Leaf == "") != (len(a.Messages) == 0) || c.Leaf != "" && !forest.has(c.Leaf) {
		return parley.Invalid("archive", "The archive's current leaf %q is not one of its messages.", c.Leaf)
	}
	return nil
}

func (a *ArchivedMessage) check() error {
	m := NewMessage{
		ID:      a.ID,
		Kind:    a.Kind,
		Role:    a.Role,
		Content: a.Content,
		Model:   a.Model,
	}
	if err := m.check(); err != nil {
		return err
	}
	if err := checkEnded(a.Status); err != nil {
		return err
	}
	if err := checkNames("finish_reason", string(a.Finish), "error_code", string(a.ErrorCode)); err != nil {
		return err
	}
	for _, n := range []int64{int64(a.InputTokens), int64(a.CachedTokens), int64(a.OutputTokens), a.CostMicros,
		a.QueuedMicros, a.PromptMicros, a.DecodeMicros} {
		if n < 0 || n > 1<<53 {
			return parley.Invalid("messages", "Counts of tokens, cost and time must be 0 or more.")
		}
	}
	return checkTimes(a.Created, a.Completed)
}

// checkTimes wants times that are unset or from 1970 on: both databases keep
// microseconds since then.
func checkTimes(times ...time.Time) error {
	for _, t := range times {
		if !t.IsZero() && t.Year() < 1970 {
			return parley.Invalid("created", "Times must be from 1970 on, not %v.", t)
		}
	}
	return nil
}

func (a *Archive) nodes() []Node {
	nodes := make([]Node, len(a.Messages))
	for i := range a.Messages {
		m := &a.Messages[i]
		nodes[i] = Node{
			ID:     m.ID,
			Parent: m.Parent,
			Seq:    int64(i + 1),
			Role:   m.Role,
			Status: m.Status,
		}
	}
	return nodes
}

// WriteJSON writes the archive in the format that ParseArchive reads.
func (a *Archive) WriteJSON(to io.Writer) error {
	encoder := json.NewEncoder(to)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(a)
}

// WriteMarkdown writes what a reader wants of the current branch: the title,
// and who said what.
func (a *Archive) WriteMarkdown(to io.Writer) error {
	forest, err := NewForest(a.nodes())
	if err != nil {
		return err
	}
	var page bytes.Buffer
	title := strings.TrimSpace(oneLine(a.Conversation.Title))
	if title == "" {
		title = "Conversation"
	}
	fmt.Fprintf(&page, "# %s\n", title)
	for _, id := range forest.Path(a.Conversation.Leaf) {
		writeSpoken(&page, &a.Messages[forest.at[id]])
	}
	_, err = page.WriteTo(to)
	return err
}

func writeSpoken(page *bytes.Buffer, m *ArchivedMessage) {
	text := strings.TrimSpace(PlainText(m.Content))
	if text == "" && m.Status == Completed {
		return
	}
	speaker := m.Role
	if speaker == "" {
		speaker = m.Kind
	}
	fmt.Fprintf(page, "\n## %s\n", capitalised(speaker))
	if text != "" {
		fmt.Fprintf(page, "\n%s\n", text)
	}
	if m.Status != Completed {
		fmt.Fprintf(page, "\n*(%s)*\n", m.Status)
	}
}

func capitalised(word string) string {
	if word == "" {
		return "Message"
	}
	return strings.ToUpper(word[:1]) + strings.ReplaceAll(word[1:], "_", " ")
}
