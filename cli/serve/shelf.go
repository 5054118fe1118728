package serve

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sort"
	"sync"
	"time"

	"parley/cli/settings"
	"parley/gateway"
	"parley/gateway/models"
	"parley/model/store"
	"parley/model/weights"
	"parley/worker/host"

	"github.com/prometheus/client_golang/prometheus"
)

// A shelf keeps what a server offers in step with the model folder. Models that were
// named by --model, or are built in, are pinned: they stay loaded.
type shelf struct {
	settings *settings.Settings
	folder   *store.Store
	library  *host.Library
	device   host.Device
	pinned   []models.Config
	log      *slog.Logger

	// pulling are the downloads that the server does.
	pulling sync.WaitGroup

	mu    sync.Mutex
	known map[string]shelfEntry
	// problems say why models of the folder are not offered.
	problems map[string]string
	// serve changes what the gateway serves; nil until there is one.
	serve func([]models.Config) error
}

// A shelfEntry is a model of the folder that is offered.
type shelfEntry struct {
	model store.Model
	title *host.Title
}

// folderEvery is how often the folder is looked at. A look is one listing of a directory.
const folderEvery = time.Second

// reserveShare is the part of the free memory that models of the folder leave to others.
const reserveShare = 0.1

// openShelf returns the models of the folder for a server, nil if it serves others: the
// ones that --model names, or the ones of a fleet.
func openShelf(s *settings.Settings, b *backend, registry prometheus.Registerer, log *slog.Logger) (*shelf, error) {
	if len(s.Models) > 0 || !s.Computes() || len(s.AllPools()) > 0 {
		return nil, nil
	}
	device, _, err := host.ChooseDevice(s.Device)
	if err != nil {
		return nil, err
	}
	budget, free := b.freeBytes, host.AvailableBytes
	if device.GPU {
		budget, free = device.FreeBytes, nil
	}
	sh := &shelf{
		settings: s,
		folder:   s.ModelFolder(),
		device:   device,
		pinned:   b.served,
		log:      log,
		known:    map[string]shelfEntry{},
		problems: map[string]string{},
		library: host.NewLibrary(host.LibraryConfig{
			Budget:    int64((1 - reserveShare) * float64(budget)),
			KeepAlive: s.KeepAlive,
			Free:      free,
			Registry:  registry,
			Log:       log,
		}),
	}
	if err := registry.Register(sh.library); err != nil {
		return nil, err
	}
	err = sh.sync()
	b.served = sh.models()
	return sh, err
}

// models lists what is offered, the default first: the model that came last, or the
// first built-in one.
func (sh *shelf) models() []models.Config {
	var list []models.Config
	var newest time.Time
	for _, e := range sh.known {
		t := e.title
		if e.model.Added.After(newest) {
			newest = e.model.Added
		}
		list = append(list, models.Config{
			ID:            t.Name,
			Worker:        t,
			Tokenizer:     t.Tokenizer,
			Template:      t.Template,
			ContextTokens: t.ContextTokens,
			Created:       e.model.Added,
			About:         aboutOf(t.Name, &t.Summary, e.model.License),
		})
	}
	sort.Slice(list, func(i, j int) bool {
		a, b := &list[i], &list[j]
		if byAge := b.Created.Compare(a.Created); byAge != 0 && (a.Created.Equal(newest) || b.Created.Equal(newest)) {
			return byAge < 0
		}
		return a.ID < b.ID
	})
	list = append(list, sh.pinned...)
	for i := range list {
		list[i].Default = i == 0
	}
	return list
}

// sync offers what is in the folder, and nothing else.
func (sh *shelf) sync() error {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	models, err := sh.folder.List()
	if err != nil {
		return err
	}
	changed := false
	for name, e := range sh.known {
		if !slices.ContainsFunc(models, func(m store.Model) bool { return sameModel(m, e.model) }) {
			delete(sh.known, name)
			sh.library.Remove(name)
			sh.log.Info("model removed", "model", name)
			changed = true
		}
	}
	sh.problems = sh.problemsOf(models)
	for _, m := range models {
		if _, ok := sh.known[m.Name]; !ok && sh.problems[m.Name] == "" {
			changed = sh.add(m) || changed
		}
	}
	if changed && sh.serve != nil {
		return sh.serve(sh.models())
	}
	return nil
}

func sameModel(a, b store.Model) bool {
	return a.Name == b.Name && a.Path == b.Path && a.Added.Equal(b.Added) && a.Bytes == b.Bytes
}

// problemsOf keeps what is known of models that cannot be offered while they are there.
func (sh *shelf) problemsOf(there []store.Model) map[string]string {
	kept := map[string]string{}
	for _, m := range there {
		if text, ok := sh.problems[m.Name]; ok {
			kept[m.Name] = text
		}
		if slices.ContainsFunc(sh.pinned, func(p models.Config) bool { return p.ID == m.Name }) {
			kept[m.Name] = "a built-in model has this name"
		}
	}
	return kept
}

// add offers a model, and reports whether it can.
func (sh *shelf) add(m store.Model) bool {
	cfg := sh.settings.HostConfig(m.Name, sh.log)
	cfg.Device = sh.device
	title, err := sh.library.Add(cfg, func() (*weights.Checkpoint, error) { return weights.Open(m.Path) })
	if err != nil {
		sh.problems[m.Name] = err.Error()
		sh.log.Warn("model not offered", "model", m.Name, "error", err)
		return false
	}
	sh.known[m.Name] = shelfEntry{m, title}
	sh.log.Info("model added", "model", m.Name, "memory_bytes", m.Bytes)
	return true
}

// run follows the folder until ctx ends.
func (sh *shelf) run(ctx context.Context) {
	var running sync.WaitGroup
	running.Go(func() { sh.library.Run(ctx) })
	defer running.Wait()
	tick := time.NewTicker(folderEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := sh.sync(); err != nil {
			sh.log.Error("model folder unreadable", "error", err)
		}
	}
}

// close ends what the shelf does; the server must have ended.
func (sh *shelf) close() error {
	if sh == nil {
		return nil
	}
	sh.pulling.Wait()
	return sh.library.Close()
}

// follow gives the gateway what is offered whenever that changes. The caller must call
// stop.
func (sh *shelf) follow(ctx context.Context, front *gateway.Gateway) (stop func()) {
	if sh == nil {
		return func() {}
	}
	sh.mu.Lock()
	sh.serve = front.SetModels
	sh.mu.Unlock()
	return inBackground(ctx, sh.run)
}

// demoNote says how to get a real model, where there is none.
func demoNote(served []models.Config) string {
	if len(served) == 0 || served[0].ID != "polly" {
		return ""
	}
	return fmt.Sprintf("Polly is a tiny demo model. Add a real one: parley pull %s\n", suggestedModel)
}

// suggestedModel is the first real model that is suggested.
const suggestedModel = "qwen3:0.6b"
