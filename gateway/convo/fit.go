package convo

import "parley"

// A Policy says what happens when a conversation outgrows the model's context.
type Policy string

// The policies.
const (
	// Refuse: the turn fails, and the user decides.
	Refuse Policy = "refuse"
	// Drop: the oldest turns are not shown to the model.
	Drop Policy = "drop"
	// Summarise: the oldest turns are shown as a summary.
	Summarise Policy = "summarise"
)

func (p Policy) check() error {
	switch p {
	case "", Refuse, Drop, Summarise:
		return nil
	}
	return parley.Invalid("context_policy", "%q is not a context policy: use refuse, drop or summarise.", string(p))
}

// A MessageSize is one message of a path as its tokens are counted.
type MessageSize struct {
	Role   string
	Tokens int
}

// A Budget says how much of the context a prompt may take.
type Budget struct {
	// Tokens bounds the sum of the messages that are kept, and of the summary.
	Tokens int
	// SummaryTokens is set aside for the summary if one is needed.
	SummaryTokens int
}

// A Fit says which messages of a path go to the model.
type Fit struct {
	// Cut is the index of the first message after those that are left out; 0
	// keeps all. Instructions (system, developer) before it are kept as well.
	Cut int
	// Out are the indices before Cut that are left out.
	Out []int
	// Summarise says that a summary of Out is to be put in their place.
	Summarise bool
	// Tokens is the sum of what is kept, without the summary.
	Tokens int
}

// FitContext decides which messages of a path are kept under a policy. What
// is left out ends before a question, so that no answer stands without its
// question and no tool's result without its call; instructions and the last
// question with all that follows it are never left out.
//
// The cut moves in strides of a quarter of the budget, not with every turn. In
// between, prompts begin alike, and what was computed for one serves the next;
// a summary, kept under the id of the last message it stands for, serves too.
func FitContext(policy Policy, path []MessageSize, budget Budget) (Fit, error) {
	total := 0
	for _, m := range path {
		total += m.Tokens
	}
	if total <= budget.Tokens {
		return Fit{Tokens: total}, nil
	}
	if policy == Refuse || policy == "" {
		return Fit{},
			tooLong(
				"The conversation has %d tokens, and %d fit: begin a new one, shorten it, or let its oldest turns "+
					"be dropped or summarised.", total, budget.Tokens)
	}
	room := budget.Tokens
	if policy == Summarise {
		room -= budget.SummaryTokens
	}
	cut, tokens := chooseCut(path, total, room)
	if tokens > room {
		return Fit{}, tooLong("The last message and the instructions have %d tokens, and %d fit: shorten it.", tokens,
			room)
	}
	return Fit{Cut: cut, Out: leftOut(path, cut), Summarise: policy == Summarise, Tokens: tokens}, nil
}

func tooLong(format string, args ...any) error {
	err := parley.Errorf(parley.ContextTooLong, format, args...)
	err.Param = "messages"
	return err
}

// chooseCut returns the first cut that leaves out what is over the room,
// rounded up to a whole stride; else the first that leaves out enough; else the
// last there is. tokens is what stays of total.
func chooseCut(path []MessageSize, total, room int) (cut, tokens int) {
	stride, over, out := max(1, room/4), total-room, 0
	want := (over + stride - 1) / stride * stride
	tokens = total
	for i, m := range path {
		if m.Role == "user" && i > 0 {
			if out >= want {
				return i, total - out
			}
			if enough := total-tokens >= over; !enough {
				cut, tokens = i, total-out
			}
		}
		if !instructs(m.Role) {
			out += m.Tokens
		}
	}
	return cut, tokens
}

// instructs reports whether messages of the role hold for the whole
// conversation.
func instructs(role string) bool { return role == "system" || role == "developer" }

func leftOut(path []MessageSize, cut int) []int {
	var out []int
	for i, m := range path[:cut] {
		if !instructs(m.Role) {
			out = append(out, i)
		}
	}
	return out
}
