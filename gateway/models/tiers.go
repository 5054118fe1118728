package models

import (
	"errors"
	"fmt"

	"parley"
	"parley/gateway/convo"
)

// A TierContext says what the conversations of a class of tenants may hold.
type TierContext struct {
	// Policy is what a new conversation has unless its user chooses another;
	// default [convo.Drop].
	Policy convo.Policy
	// Tokens bounds how much of a conversation the model is shown, and so how much
	// of it stays in memory for a session; 0 is all that fits the model's context.
	Tokens int
}

// TierContexts has an entry for each class.
type TierContexts [parley.Classes]TierContext

// freeTokens is as much context as coding agents are made for: the prompt of one alone can have 28,000 tokens.
const freeTokens = 1 << 17

// DefaultTierContexts caps sessions of the free class at what a coding agent needs, so that
// they cannot take the whole of a longer context. Other classes have no cap.
func DefaultTierContexts() TierContexts {
	return TierContexts{parley.Free: {convo.Drop, freeTokens}, parley.Pro: {convo.Drop, 0},
		parley.Enterprise: {convo.Drop, 0}}
}

// tierTokensLeast is the least that a cap leaves: a question and some history.
const tierTokensLeast = 64

// Validate says what is wrong with t.
func (t *TierContexts) Validate() error {
	var problems []error
	for class, c := range t {
		if c.Tokens != 0 && c.Tokens < tierTokensLeast {
			problems = append(problems,
				fmt.Errorf(
					"TierContexts: conversations of the class %s may have %d tokens: it must be 0 (no cap) or at "+
						"least %d", parley.Class(class), c.Tokens, tierTokensLeast))
		}
		switch c.Policy {
		case convo.Refuse, convo.Drop, convo.Summarise:
		default:
			problems = append(problems, fmt.Errorf("TierContexts: %q is not a policy", c.Policy))
		}
	}
	return errors.Join(problems...)
}

// Within returns the smaller of the model's room and the tier's cap.
func (t TierContext) Within(room int) int {
	if t.Tokens == 0 {
		return room
	}
	return min(t.Tokens, room)
}
