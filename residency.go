package parley

import "time"

// A Residency is the loading state of a model that is loaded on demand.
type Residency struct {
	// Loading says that the model is being loaded; Waiting, that requests wait for room to load it.
	Loading, Waiting bool
	// Loaded is when a load last ended; zero if none has.
	Loaded time.Time
}
