package kvstore

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A Config says where blocks are kept, and how much that may cost.
type Config struct {
	// URL is the store: redis://, rediss://, redis-cluster:// (or valkey for redis) as go-redis
	// reads them, or s3://bucket/prefix?endpoint=URL&region=REGION.
	URL string
	// Bandwidth bounds what is written, in bytes a second; 0 means 32 MiB. Negative means that
	// nothing is written.
	Bandwidth int64
	// Keep is how long Redis keeps blocks that are not renewed; 0 means a day.
	Keep time.Duration
	// Wait bounds each lookup; 0 decides by cost which are made and how long they may take.
	Wait time.Duration
	// Log receives changes of the store's state; nil means none.
	Log *slog.Logger
}

const (
	bandwidthDefault = 32 << 20
	// windowBytes is how many bytes are read at once; readsMax how many reads are under way.
	windowBytes = 16 << 20
	readsMax    = 4
	// writeMax bounds the writing of one block, and the question what is there.
	writeMax = 30 * time.Second
)

// A Store is a store behind the engines of this process. It is safe for concurrent use.
type Store struct {
	cfg    Config
	place  place
	meters *meters
	held   atomic.Int64 // bytes of buffers
	reads  chan struct{}
	reader direction
	writer direction
	pace   pace

	mu    sync.Mutex
	shown readStats
}

// Open returns a store. It does not connect: a store that is not there is noticed when it is
// needed.
func Open(cfg Config) (*Store, error) {
	if cfg.Bandwidth == 0 {
		cfg.Bandwidth = bandwidthDefault
	}
	if cfg.Keep == 0 {
		cfg.Keep = keepDefault
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	p, err := openPlace(cfg.URL, cfg.Keep, os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("the store of keys and values: %w", err)
	}
	return newStore(cfg, p), nil
}

func newStore(cfg Config, p place) *Store {
	s := &Store{
		cfg:    cfg,
		place:  p,
		reads:  make(chan struct{}, readsMax),
		reader: newDirection("read", cfg.Log),
		writer: newDirection("write", cfg.Log),
		pace:   pace{rate: float64(cfg.Bandwidth)},
		shown:  readStats{latency: p.latency(), found: foundGuess},
	}
	s.meters = newMeters(func() float64 { return float64(s.held.Load()) }, &s.reader, &s.writer)
	return s
}

// Metrics are to be shown with those of the process.
func (s *Store) Metrics() []prometheus.Collector { return s.meters.all }

// Close lets go of connections. All tiers must be closed before.
func (s *Store) Close() error { return s.place.close() }
