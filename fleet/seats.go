package fleet

import (
	"fmt"
	"slices"

	"parley"
	"parley/route"
)

// seated reports whether a member has the seats of these models, and no others.
func (m *member) seated(models []parley.Model) bool {
	return !slices.ContainsFunc(m.seats, func(s seat) bool { return !has(models, s.model) }) &&
		!slices.ContainsFunc(models, func(x parley.Model) bool { _, ok := m.seat(x.ID); return !ok })
}

// turn has a member that says it has other models than before change seats: it
// was started again with them, or has loaded one. The lock is held.
func (f *Fleet) turn(m *member) {
	models := m.health.condition.Models
	if len(models) == 0 || m.seated(models) {
		return
	}
	f.cfg.Log.Warn("worker models changed", "worker", m.Name, "models", namesOfModels(models), "ours",
		slices.ContainsFunc(models, f.serves), "answering", len(m.attempts))
	if err := f.reseat(m, models); err != nil {
		f.cfg.Log.Error("worker model could not be added", "worker", m.Name, "error", err)
	}
}

// reseat gives a member the seats of these models, and takes all others from it:
// their answers move. The lock is held.
func (f *Fleet) reseat(m *member, models []parley.Model) error {
	mute := m.Source.Events && m.SourceOf == nil && len(models) > 1
	if mute { // whose blocks its events tell of is not known
		m.mute()
	}
	m.seats = slices.DeleteFunc(m.seats, func(s seat) bool {
		if has(models, s.model) && !mute {
			return false
		}
		f.vacate(m, s)
		return true
	})
	for l := range m.attempts {
		if !has(models, l.query.Model) {
			l.abort(errUnseated)
		}
	}
	for _, model := range models {
		if err := f.seatFor(m, model.ID); err != nil {
			return err
		}
	}
	return nil
}

// seatFor gives a member the seat of a model, if it has none. The lock is held.
func (f *Fleet) seatFor(m *member, model string) error {
	if _, ok := m.seat(model); ok {
		return nil
	}
	source := m.Source
	if m.SourceOf != nil {
		source = m.SourceOf(model)
	}
	id, err := f.router.Join(route.Member{
		Name:           m.Name,
		Model:          model,
		Pool:           m.Pool,
		BlockTokens:    m.BlockTokens,
		CapacityTokens: m.CapacityTokens,
		Source:         source,
	})
	if err != nil {
		return fmt.Errorf("fleet: worker %s: %w", m.Name, err)
	}
	m.seats = append(m.seats, seat{model, id})
	return nil
}

// vacate gives a seat up. What is under way from it is no longer counted: others
// may have its number. The lock is held.
func (f *Fleet) vacate(m *member, s seat) {
	f.router.Leave(s.id)
	for l := range m.attempts {
		l.unseated = l.unseated || l.query.Model == s.model
	}
}

// unseat takes all seats from a member. The lock is held.
func (f *Fleet) unseat(m *member) {
	for _, s := range m.seats {
		f.vacate(m, s)
	}
	m.seats = nil
}
