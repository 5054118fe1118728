package kvstore

import (
	"context"
	"sync"

	"parley/engine"
	"parley/worker/kvwire"
)

// A Backing is a store behind one engine. It is safe for concurrent use.
type Backing struct {
	store  *Store
	engine *engine.Engine
	format kvwire.Format
	digest string
	known  names
	stop   context.CancelFunc
	work   sync.WaitGroup
}
