package exchange

import "parley"

// ErrStopping ends work that was not complete when the server had to stop.
var ErrStopping = parley.Errorf(parley.Unavailable, "The server was stopped before the answer was complete.")
