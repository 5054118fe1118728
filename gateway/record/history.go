package record

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"time"

	"parley"
	"parley/gateway/admin"
	"parley/gateway/db"

	"github.com/prometheus/client_golang/prometheus"
)

// Operations are what operators are shown: an hour of readings of the metrics, 30 days of
// their trend, and the latest requests that have ended. It is the edge around packages
// admin and trend: it has the lock and reads the counters.
type Operations struct {
	registry   *prometheus.Registry
	now        func() time.Time
	log        *slog.Logger
	fleet      *admin.Fleet
	objectives parley.Objectives
	store      *TrendStore

	// saving is held while periods move from the trend to the store, so that no reader
	// misses them or counts them twice.
	saving   sync.RWMutex
	mu       sync.Mutex
	readings *admin.History
	trend    admin.Trend // all of it, or what is not stored yet
	recent   *admin.Recent
}

func newOperations(c *Config) *Operations {
	return &Operations{
		registry:   c.Registry,
		now:        c.Now,
		log:        c.Log,
		fleet:      c.Fleet,
		objectives: c.Objectives,
		store:      c.Trend,
		readings:   admin.NewHistory(),
		recent:     admin.NewRecent(),
	}
}

// freshFor is how long a reading is as good as a new one.
const freshFor = 900 * time.Millisecond

// storeEvery is how often the trend is stored, storeWait how long that may take.
const (
	storeEvery = time.Minute
	storeWait  = 5 * time.Second
)

// Observe reads the counters every few seconds until ctx ends, so that there is
// a history to look back on, and stores it.
func (h *Operations) Observe(ctx context.Context) {
	tick := time.NewTicker(admin.Step)
	defer tick.Stop()
	stored := h.now()
	for {
		if err := h.read(); err != nil {
			h.log.Warn("metrics unreadable; admin page not updated", "error", err)
		}
		select {
		case <-ctx.Done():
			if err := h.readNow(); err != nil {
				h.log.Warn("last metrics unreadable", "error", err)
			}
			h.save(context.WithoutCancel(ctx))
			return
		case <-tick.C:
		}
		if now := h.now(); now.Sub(stored) >= storeEvery {
			stored = now
			h.save(ctx)
		}
	}
}

// read takes a reading unless there is a fresh one.
func (h *Operations) read() error {
	h.mu.Lock()
	latest := h.readings.Latest()
	h.mu.Unlock()
	if latest != nil && h.now().Sub(latest.At) < freshFor {
		return nil
	}
	return h.readNow()
}

// readNow takes a reading.
func (h *Operations) readNow() error {
	now := h.now()
	gathered, err := h.registry.Gather()
	if err != nil {
		return err
	}
	reading := admin.Read(gathered, now)
	h.withFleet(reading)
	h.mu.Lock()
	defer h.mu.Unlock()
	if happened, ok := h.readings.Add(reading); ok {
		h.trend.Add(reading.At, &happened)
	}
	return nil
}

// save hands the trend to its store. What cannot be stored is kept for the next time.
func (h *Operations) save(ctx context.Context) {
	if h.store == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, storeWait)
	defer cancel()
	h.saving.Lock()
	defer h.saving.Unlock()
	h.mu.Lock()
	periods := h.trend.Take()
	h.mu.Unlock()
	if err := h.store.Add(ctx, h.now(), periods); err != nil {
		h.log.Warn("history not stored", "error", err)
		h.mu.Lock()
		h.trend.Put(periods...)
		h.mu.Unlock()
	}
}

// Picture returns what the server does now.
func (h *Operations) Picture() (*admin.Picture, error) {
	if err := h.read(); err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readings.Now(h.objectives, h.recent.LimitedSince(h.now().Add(-admin.HeadlineWindow))...), nil
}

// A Past is what happened in some time until now.
type Past struct {
	From, Until time.Time
	Step        time.Duration
	Points      []admin.Point
	// Bounds are the upper bounds of the points' counts of first tokens, in seconds.
	Bounds []float64
}

// Past returns what happened in the last time of a length.
func (h *Operations) Past(ctx context.Context, length time.Duration) (*Past, error) {
	if err := h.read(); err != nil {
		return nil, err
	}
	resolution, now := admin.ResolutionFor(length), h.now()
	since := resolution.Begin(now.Add(-length))
	var all admin.Trend
	h.saving.RLock()
	defer h.saving.RUnlock()
	h.mu.Lock()
	all.Put(h.trend.Since(resolution, since)...)
	bounds := h.readings.TTFTBounds()
	h.mu.Unlock()
	if h.store != nil {
		stored, err := h.store.Since(ctx, resolution, since)
		if err != nil {
			return nil, err
		}
		all.Put(stored...)
	}
	return &Past{
		From:   now.Add(-length),
		Until:  now,
		Step:   resolution.Step,
		Points: admin.Points(all.Since(resolution, since), now, bounds),
		Bounds: bounds,
	}, nil
}

// Requests returns a page of the latest requests that have ended, as [admin.Recent.Page].
func (h *Operations) Requests(f *admin.Filter, after string, limit int) *admin.RequestPage {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recent.Page(f, after, limit)
}

// Find returns a request that has ended, by its id or its client's name for it; nil if
// it is not among the latest.
func (h *Operations) Find(id string) *admin.RequestRecord {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.recent.Find(id)
}

// remember keeps what became of a request.
func (h *Operations) remember(l *admin.RequestRecord) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.recent.Add(l)
}

// withFleet adds the workers of other processes to a reading. They know better
// who is there than the counters of this process.
func (h *Operations) withFleet(reading *admin.Reading) {
	if h.fleet == nil {
		return
	}
	engines := reading.Workers
	reading.Fleet = true
	reading.Workers = h.fleet.Workers()
	for i := range reading.Workers {
		for _, e := range engines {
			if w := &reading.Workers[i]; strings.HasPrefix(w.Name, "local/") && w.Model == e.Model {
				name, pool, state := w.Name, w.Pool, w.State
				*w = e
				w.Name, w.Pool, w.State = name, pool, state
			}
		}
	}
}

//go:embed migrations
var migrations embed.FS

// A TrendStore keeps the periods of charts in the server's database, so that they go back
// further than the last start. The number of rows is bounded: one for each period,
// whatever the number of gateways that add to it. It is safe for concurrent use.
type TrendStore struct{ db *db.DB }

// OpenTrend brings the tables up to date.
func OpenTrend(ctx context.Context, d *db.DB) (*TrendStore, error) {
	files, err := fs.Sub(migrations, "migrations")
	if err != nil {
		return nil, err
	}
	if err := d.Migrate(ctx, db.Schema{Versions: "trend_migrations", Migrations: files}); err != nil {
		return nil, fmt.Errorf("history of charts: %w", err)
	}
	return &TrendStore{d}, nil
}

// Add adds periods to those that are stored, and removes what is too old at a time.
func (s *TrendStore) Add(ctx context.Context, now time.Time, periods []admin.Period) error {
	return s.db.Write(ctx, func(t *db.Tx) error {
		if err := t.Serialize("trend"); err != nil {
			return err
		}
		for i := range periods {
			if err := add(t, &periods[i]); err != nil {
				return err
			}
		}
		for _, resolution := range admin.Resolutions {
			if _, err := t.Exec(`DELETE FROM trend WHERE step = $1 AND at < $2`, seconds(resolution.Step),
				resolution.Oldest(now).Unix()); err != nil {
				return err
			}
		}
		return nil
	})
}

// add adds one period to the row of its time.
func add(t *db.Tx, period *admin.Period) error {
	var stored string
	sum := period.Sample
	err := t.One(`SELECT sample FROM trend WHERE step = $1 AND at = $2`,
		[]any{seconds(period.Step), period.At.Unix()}, &stored)
	switch {
	case errors.Is(err, db.ErrNoRow):
	case err != nil:
		return err
	default:
		var before admin.Sample
		if err := json.Unmarshal([]byte(stored), &before); err != nil {
			return unreadable(period, err)
		}
		sum.Add(&before)
	}
	text, err := json.Marshal(&sum)
	if err != nil {
		return err
	}
	_, err = t.Exec(`INSERT INTO trend (step, at, sample) VALUES ($1, $2, $3)
		ON CONFLICT (step, at) DO UPDATE SET sample = excluded.sample`,
		seconds(period.Step), period.At.Unix(), string(text))
	return err
}

// Since returns the stored periods of a resolution that begin at a time or later, oldest first.
func (s *TrendStore) Since(
	ctx context.Context, of admin.Resolution, since time.Time,
) (periods []admin.Period, err error) {
	return periods, s.db.Read(ctx, func(t *db.Tx) (err error) {
		periods, err = db.All(t, scan, `SELECT step, at, sample FROM trend WHERE step = $1 AND at >= $2 ORDER BY at`,
			seconds(of.Step), since.Unix())
		return err
	})
}

func scan(r db.Row, period *admin.Period) error {
	var step, at int64
	var text string
	if err := r.Scan(&step, &at, &text); err != nil {
		return err
	}
	period.Step, period.At = time.Duration(step)*time.Second, time.Unix(at, 0).UTC()
	if err := json.Unmarshal([]byte(text), &period.Sample); err != nil {
		return unreadable(period, err)
	}
	return nil
}

func unreadable(period *admin.Period, err error) error {
	return fmt.Errorf("the stored history of %s, %v long, cannot be read: %w", period.At.Format(time.RFC3339),
		period.Step, err)
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
