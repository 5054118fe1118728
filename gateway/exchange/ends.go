package exchange

import (
	"errors"

	"parley"
)

// ErrStopping ends work that was not complete when the server had to stop.
var ErrStopping = parley.Errorf(parley.Unavailable, "The server was stopped before the answer was complete.")

// ErrRevoked is in the chain of the cause with which revoked work ends.
var ErrRevoked = errors.New("the key was revoked while the answer was being written")
