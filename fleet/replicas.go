package fleet

import (
	"fmt"
	"slices"

	"parley"
	"parley/route"
)

// servesExactly reports whether a member has replicas of these models, and of no others.
func (m *member) servesExactly(models []parley.Model) bool {
	return !slices.ContainsFunc(m.replicas, func(r replica) bool { return !has(models, r.model) }) &&
		!slices.ContainsFunc(models, func(x parley.Model) bool { _, ok := m.replica(x.ID); return !ok })
}

// checkModels has the replicas of a member follow the models that it reports: it may have been
// restarted with other ones, or have loaded one. The lock is held.
func (f *Fleet) checkModels(m *member) {
	models := m.health.condition.Models
	if len(models) == 0 || m.servesExactly(models) {
		return
	}
	f.cfg.Log.Warn("worker models changed", "worker", m.Name, "models", namesOfModels(models), "ours",
		slices.ContainsFunc(models, f.serves), "answering", len(m.attempts))
	if err := f.setModels(m, models); err != nil {
		f.cfg.Log.Error("worker model could not be added", "worker", m.Name, "error", err)
	}
}

// setModels gives a member a replica of each of these models and removes all others:
// their answers move. The lock is held.
func (f *Fleet) setModels(m *member, models []parley.Model) error {
	mute := m.Source.Events && m.SourceOf == nil && len(models) > 1
	if mute { // whose blocks its events tell of is not known
		m.mute()
	}
	m.replicas = slices.DeleteFunc(m.replicas, func(r replica) bool {
		if has(models, r.model) && !mute {
			return false
		}
		f.removeReplica(m, r)
		return true
	})
	for l := range m.attempts {
		if !has(models, l.query.Model) {
			l.abort(errModelRemoved)
		}
	}
	for _, model := range models {
		if err := f.addReplica(m, model.ID); err != nil {
			return err
		}
	}
	return nil
}

// addReplica gives a member a replica of a model, if it has none. The lock is held.
func (f *Fleet) addReplica(m *member, model string) error {
	if _, ok := m.replica(model); ok {
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
	m.replicas = append(m.replicas, replica{model, id})
	return nil
}

// removeReplica removes a replica from the router. Its attempts in flight are no longer counted: another
// replica may get its number. The lock is held.
func (f *Fleet) removeReplica(m *member, r replica) {
	f.router.Leave(r.id)
	for l := range m.attempts {
		l.removed = l.removed || l.query.Model == r.model
	}
}

// removeReplicas removes all replicas of a member. The lock is held.
func (f *Fleet) removeReplicas(m *member) {
	for _, r := range m.replicas {
		f.removeReplica(m, r)
	}
	m.replicas = nil
}
