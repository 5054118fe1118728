package convo

import "parley"

// What a caller may want to tell apart. All are returned as they are, so
// errors.Is finds them.
var (
	// ErrNotFound: there is nothing of that id, or it is not the owner's.
	ErrNotFound = parley.Errorf(parley.NotFound,
		"There is no such conversation, message or response, or it is not yours.")
	// ErrRunning: what was to be continued is still being written.
	ErrRunning = parley.Errorf(parley.Conflict,
		"An answer is still being written here: wait until it is complete, or stop it first.")
	// ErrComplete: there is nothing left to continue.
	ErrComplete = parley.Invalid("message", "This message is complete: there is nothing to resume.")
	// ErrKeyReused: the key came before with another question.
	ErrKeyReused = parley.Errorf(parley.Conflict,
		"This idempotency key was used before for another request: use a new key.")
	// ErrTaken: the answer or response belongs to another process now, or has
	// ended in another way.
	ErrTaken = parley.Errorf(parley.Unavailable, "This answer was taken over or ended elsewhere.")
	// ErrFull: the conversation or response holds as much as it may.
	ErrFull = parley.Errorf(parley.InvalidRequest, "This conversation or response is full: continue in a new one.")
	// ErrNotAlive: the process that should do the work has not said that it is
	// alive, so its work would be taken for abandoned.
	ErrNotAlive = parley.Errorf(parley.Unavailable,
		"This server could not renew its registration with the conversation store: try again.")
)
